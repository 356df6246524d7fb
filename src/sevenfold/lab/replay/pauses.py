"""What clearing after a pause saves: what was foretold, beside two replays that differ in nothing else."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from sevenfold.events import Answered, Event, Proposed, Veto
from sevenfold.lab.replay.run import Run, replay
from sevenfold.lab.replay.steps import Recording

EXPIRED = "the cache has expired"
"""What the planner says of a clearing that a pause brought about."""


class Saving(Struct, frozen=True):
    """One clearing after a pause, and what the request behind it cost less, in US dollars."""

    step: int
    foretold: float
    found: float

    @property
    def error(self) -> float:
        """How far off the forecast was, as a share of what was found."""
        return abs(self.foretold - self.found) / max(1e-9, abs(self.found))


def savings(recording: Recording, model: str, settings: Mapping[str, object] | None = None) -> list[Saving]:
    """Every clearing after a pause in a session, held against the same session with that clearing refused."""
    cleared = replay(recording, model, settings=settings)
    found = []
    for step, acted in cleared.cleared:
        if EXPIRED in acted.why and acted.usd is not None:
            without = replay(recording, model, settings=settings, listen=_Refusing(step), until=step + 1)
            found.append(Saving(step, -acted.usd, _usd(without, step) - _usd(cleared, step)))
    return found


class _Refusing(Struct, frozen=True):
    """Refuses to clear in one step."""

    step: int

    def __call__(self, step: int, event: Event) -> Veto | None:
        clears = isinstance(event, Proposed) and event.layer == "clear" and step == self.step
        return Veto("to see what it would have cost") if clears else None


def _usd(run: Run, step: int) -> float:
    return sum(answer.usd or 0.0 for place, answer in run.told(Answered) if place == step)
