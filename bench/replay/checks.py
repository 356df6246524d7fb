"""What must hold at every step of a replay, and what clearing after a pause saves.

Content that left the context must be fetched unchanged, and undoing and redoing a clearing must restore every byte.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from bench.replay.run import ReplayRun, replay
from sevenfold.conversation.results import is_empty, with_placeholder
from sevenfold.errors import Refused
from sevenfold.events import Acted, Answered, Event, Proposed, Veto
from sevenfold.lab.replay.recording import Recording
from sevenfold.record.blocks import Block, ToolResult
from sevenfold.record.decisions import Offloaded
from sevenfold.record.entries import Clearing
from sevenfold.session.session import Session

EXPIRED = "the cache has expired"
"""Part of the planner's reason for a clearing after a pause."""


class CheckFindings(Struct, frozen=True):
    """The results of the checks of one replay."""

    undone: int = 0
    """Clearings that were undone and redone."""
    refused: int = 0
    """Clearings that could not be undone, because the content they removed would no longer fit."""
    altered: Sequence[str] = ()
    """Clearings whose undo or redo did not restore the exact bytes of the messages."""
    fetched: int = 0
    """Results that had left the context and were fetched unchanged."""
    lost: Sequence[str] = ()
    """Results that came back altered, or not at all."""


class ReplayChecker:
    """Checks a session before each of its requests: pass it to `replay` as ``before``, then read `found`."""

    def __init__(self, recording: Recording) -> None:
        self._originals = {block.id: whole(block) for step in recording.steps for block in step.results}
        self._undone = self._refused = 0
        self._altered: list[str] = []
        self._lost: dict[str, str] = {}
        self._fetched: set[str] = set()
        self._acted: list[Acted] = []
        self._before: Sequence[bytes] = ()
        self._listening: Session | None = None

    @property
    def found(self) -> CheckFindings:
        """The results so far."""
        return CheckFindings(
            self._undone, self._refused, self._altered, len(self._fetched), list(self._lost.values())
        )

    def __call__(self, session: Session) -> None:
        """Let the session prepare its next request; undo and redo every clearing, and fetch what left the context."""
        if self._listening is not session:
            session.listen(self._hear)
            self._listening = session
        while acted := self._prepared(session):
            self._fetch(session)
            if not any(one.layer == "clear" for one in acted):
                break

    def _prepared(self, session: Session) -> list[Acted]:
        """Run the layers once, undo and redo every clearing, and return what the layers did."""
        self._acted = []
        session.prepare()
        acted, self._acted = self._acted, []
        for one in acted:
            if one.layer == "clear":
                self._there_and_back(session, one.reference)
        return acted

    def _hear(self, event: Event) -> None:
        match event:
            case Proposed(layer="clear") if self._listening is not None:
                self._before = self._listening.conversation.transcript.view.encoded()
            case Acted():
                self._acted.append(event)
            case _:
                pass

    def _there_and_back(self, session: Session, reference: str) -> None:
        transcript = session.conversation.transcript
        after = transcript.view.encoded()
        try:
            session.undo(reference)
        except Refused:
            self._refused += 1
            return
        self._undone += 1
        if transcript.view.encoded() != self._before:
            self._altered.append(f"{reference}, taken back")
        session.redo(reference)
        if transcript.view.encoded() != after:
            self._altered.append(f"{reference}, made again")

    def _fetch(self, session: Session) -> None:
        for call in gone(session):
            if call in self._fetched or call not in self._originals:
                continue
            try:
                came = session.fetch(call)
            except Exception as error:  # noqa: BLE001 - whatever the error, the result is lost
                self._lost[call] = f"{call}: {error}"
                continue
            if came == self._originals[call]:
                self._fetched.add(call)
            else:
                self._lost[call] = f"{call}: {len(came)} bytes came back"


def gone(session: Session) -> list[str]:
    """The ids of the calls whose results have left the context, cleared or offloaded."""
    view = session.conversation.transcript.view
    found: dict[str, None] = {}
    for made in view.decisions():
        if isinstance(made, Clearing):
            found.update(dict.fromkeys(made.about.compacted_tool_ids))
        elif isinstance(made, Offloaded):
            found[made.tool_use_id] = None
    for item in view.items:
        found.update(dict.fromkeys(item.record.stored))
    return list(found)


def whole(block: Block) -> bytes:
    """What a fetch must return for a result: its text, or all its parts if they are not only text.

    An empty result gets a placeholder text before it is ever sent.
    """
    block = with_placeholder(block) if is_empty(block) else block
    body = block.body()
    content = body.content if isinstance(body, ToolResult) else None
    if not isinstance(content, list):
        return (content or "").encode()
    parts: list[Mapping[str, str]] = [msgspec.json.decode(part) for part in content]
    if all(part.get("type") == "text" for part in parts):
        return "\n".join(part["text"] for part in parts if part["text"]).encode()
    return b"[" + b",".join(bytes(part) for part in content) + b"]"


class Saving(Struct, frozen=True):
    """One clearing after a pause, and what it saved on the next request, in US dollars."""

    step: int
    expected: float
    """What the planner expected."""
    found: float

    @property
    def error(self) -> float:
        """The error of the forecast, as a share of the actual saving."""
        return abs(self.expected - self.found) / max(1e-9, abs(self.found))


def savings(recording: Recording, model: str, settings: Mapping[str, object] | None = None) -> list[Saving]:
    """Every clearing after a pause in a session, compared with a replay without that clearing."""
    cleared = replay(recording, model, settings=settings)
    found = []
    for step, acted in cleared.cleared:
        if EXPIRED in acted.why and acted.usd is not None:
            without = replay(recording, model, settings=settings, listen=_Refusing(step), until=step + 1)
            found.append(Saving(step, -acted.usd, _usd(without, step) - _usd(cleared, step)))
    return found


class _Refusing(Struct, frozen=True):
    """Vetoes clearings in one step."""

    step: int

    def __call__(self, step: int, event: Event) -> Veto | None:
        clears = isinstance(event, Proposed) and event.layer == "clear" and step == self.step
        return Veto("to see what it would have cost") if clears else None


def _usd(run: ReplayRun, step: int) -> float:
    return sum(answer.usd or 0.0 for place, answer in run.events_of(Answered) if place == step)
