"""Sessions in which anything may happen, in an order drawn by a seed: the same in every run, and never tidy."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from sevenfold.errors import SevenfoldError
from tests.recorded.form import digest
from tests.recorded.playing import BOUND, FREE, SCENARIOS, Scenario, options, output
from tests.recorded.rig import Mind, Rig

NUMBER = 12
STEPS = 36
MODELS = (BOUND, FREE, "claude-opus-5-5", "claude-haiku-4-5")
SYSTEMS = ("Be careful. " * 150, "Be quick. " * 150)
REQUESTS = (
    "Go on.",
    "No, use tabs instead, and never push without asking.",
    "Look at src/app.py again; port 8443 stays. " * 30,
    "Which tests fail?",
)
SWITCHES: Mapping[str, tuple[Any, ...]] = {
    "notes": (False, False, True),
    "provider_edits": (False, True),
    "size_clearing": (False, True),
    "gap_clearing": (False, True),
    "context_window": (24_000, 30_000, 60_000),
    "offload_characters": (50_000, 2_000),
}
SMALL = {
    "size_keep": 1,
    "gap_keep": 1,
    "size_trigger_tokens": 4_000,
    "size_target_tokens": 2_000,
    "size_least_tokens": 500,
    "preview_bytes": 300,
}


class Played:
    """One session, with what is drawn for it."""

    def __init__(self, rig: Rig, seed: int) -> None:
        self.rig = rig
        self.chance = Random(seed)
        thinks = self.chance.random() < 0.5
        rig.provider(Mind(thinks=thinks, calls=self.chance.choice((1, 1, 2))))
        self.settings = {name: self.chance.choice(values) for name, values in SWITCHES.items()} | SMALL
        self.model = self.chance.choice(MODELS[: 3 if thinks else 4])
        self.more: dict[str, Any] = {"thinking": {"type": "adaptive"}} if thinks else {}
        self.system = SYSTEMS[0]
        self.waiting: list[str] = []

    def given(self) -> dict[str, Any]:
        """What the session is opened with now."""
        return options(self.rig, model=self.model, system=self.system, settings=self.settings, **self.more)

    async def play(self) -> None:
        """Open the session a few times, and let anything happen in it."""
        steps = STEPS
        while steps > 0:
            async with self.rig.open(**self.given()) as session:
                until = max(0, steps - self.chance.randrange(6, 14))
                await session.user(self.chance.choice(REQUESTS))
                while steps > until:
                    steps -= 1
                    await self._tried(session, *self._drawn())
            if self.chance.random() < 0.4:
                self.system = self.chance.choice(SYSTEMS)
            if self.chance.random() < 0.3:
                self.model = self.chance.choice(MODELS[:3])

    def _drawn(self) -> tuple[str, tuple[Any, ...], Mapping[str, Any]]:
        """What happens next: a method of the session, and what it is given."""
        chance = self.chance
        if chance.random() < 0.2:
            self.rig.clock.advance(chance.choice((5, 400, 4_000)))
        if self.waiting and chance.random() < 0.8:
            size = chance.choice((20, 400, 1_500, 6_000))
            answered = self.waiting if chance.random() < 0.8 else self.waiting[:1]
            self.waiting = [call for call in self.waiting if call not in answered]
            return "tool_results", (dict.fromkeys(answered, output(size)),), {}
        known = self.rig.records("user", "assistant") if chance.random() < 0.4 else []
        if len(known) > 3:
            first, last = sorted(chance.sample(range(len(known)), 2))
            edits: list[tuple[str, tuple[Any, ...], Mapping[str, Any]]] = [
                ("snip", (known[first], known[last]), {}),
                ("pin", (known[last],), {}),
                ("unpin", (known[first],), {}),
                ("rewind", (known[max(first, len(known) - 6)],), {}),
                ("undo", (), {}),
                ("undo", (), {}),
                ("redo", (), {}),
                (
                    "compact",
                    ("Keep the ports.",),
                    {"engine": chance.choice(("fork", "plain", "extractive", "provider"))},
                ),
                ("compact", (), {"span": "up_to", "record": known[last], "engine": "extractive"}),
                ("compact", (), {"span": "from", "record": known[first], "engine": "plain"}),
                ("compact_preview", (), {}),
                ("dry_run", (), {}),
                ("next_costs", (), {}),
                ("recall", ("port",), {}),
            ]
            return chance.choice(edits)
        if chance.random() < 0.35:
            return "user", (chance.choice(REQUESTS),), {}
        return "complete", (), {}

    async def _tried(
        self, session: Any, method: str, given: tuple[Any, ...], named: Mapping[str, Any]
    ) -> None:
        """Do it and note what came of it; to be refused is one of the answers."""
        shown = [argument if isinstance(argument, str) else list(argument) for argument in given]
        try:
            came = await getattr(session, method)(*given, **named)
            if method == "complete":
                # Notes are taken in the background.
                await session.settle(60)
        except SevenfoldError as error:
            self.rig.note(f"{method} {shown} {dict(named)}", f"{type(error).__name__}: {error}")
            return
        if method == "complete":
            self.waiting = [call.id for call in came.calls]
            came = came.calls
        told = len(came) if isinstance(came, list) and method != "tool_results" else repr(came)
        self.rig.note(
            f"{method} {shown} {dict(named)}", told if len(str(told)) < 300 else digest(str(told).encode())
        )
        self.rig.note("gauge", session.gauge)


def _scenario(seed: int) -> Scenario:
    async def play(rig: Rig) -> None:
        await Played(rig, seed).play()

    return play


for number in range(NUMBER):
    SCENARIOS[f"anything_happens_{number}"] = _scenario(number)
