"""What must hold at every step of a replay: what was let go can be had again, and be put back as it was.

---

What clearing after a pause saves: what was foretold, beside two replays that differ in nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from sevenfold.conversation.results import filled, nothing
from sevenfold.errors import Refused
from sevenfold.events import Acted, Answered, Event, Proposed, Veto
from sevenfold.lab.replay.recording import Recording
from sevenfold.lab.replay.run import ReplayRun, replay
from sevenfold.record.blocks import Block, ToolResult
from sevenfold.record.decisions import Offload
from sevenfold.record.entries import Clearing
from sevenfold.session.session import Session


class CheckFindings(Struct, frozen=True):
    """What the checks of one replay came to."""

    undone: int = 0
    """Clearings that were taken back and made again at once…"""
    refused: int = 0
    """…those that could not be, because what they took out would not fit…"""
    altered: Sequence[str] = ()
    """…and those after which the messages were not the bytes they had been."""
    fetched: int = 0
    """Results that had left the context and could be fetched…"""
    lost: Sequence[str] = ()
    """…and those that came back otherwise than they went, or not at all."""


class ReplayChecker:
    """Looks at a session before each of its requests, and at its end.

    Given to `replay` as ``before``; what it finds is in `found` afterwards.
    """

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
        """What was found so far."""
        return CheckFindings(
            self._undone, self._refused, self._altered, len(self._fetched), list(self._lost.values())
        )

    def __call__(self, session: Session) -> None:
        """Let the session do what is due; take that back, and make it again."""
        if self._listening is not session:
            session.listen(self._hear)
            self._listening = session
        while acted := self._prepared(session):
            self._fetch(session)
            if not any(one.layer == "clear" for one in acted):
                break

    def _prepared(self, session: Session) -> list[Acted]:
        """One pass of the layers, with every clearing taken back and made again."""
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
            except Exception as error:  # noqa: BLE001 - whatever went wrong, the result is not to be had
                self._lost[call] = f"{call}: {error}"
                continue
            if came == self._originals[call]:
                self._fetched.add(call)
            else:
                self._lost[call] = f"{call}: {len(came)} bytes came back"


def gone(session: Session) -> list[str]:
    """The calls whose results have left the context, cleared or offloaded."""
    view = session.conversation.transcript.view
    found: dict[str, None] = {}
    for made in view.decisions():
        if isinstance(made, Clearing):
            found.update(dict.fromkeys(made.about.compacted_tool_ids))
        elif isinstance(made, Offload):
            found[made.tool_use_id] = None
    for item in view.items:
        found.update(dict.fromkeys(item.said.stored))
    return list(found)


def whole(block: Block) -> bytes:
    """What a fetch must give back for a result: its text, or its parts where they are more than text.

    An empty result has a word put in before it is ever sent.
    """
    block = filled(block) if nothing(block) else block
    body = block.body()
    content = body.content if isinstance(body, ToolResult) else None
    if not isinstance(content, list):
        return (content or "").encode()
    parts: list[Mapping[str, str]] = [msgspec.json.decode(part) for part in content]
    if all(part.get("type") == "text" for part in parts):
        return "\n".join(part["text"] for part in parts if part["text"]).encode()
    return b"[" + b",".join(bytes(part) for part in content) + b"]"


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


def _usd(run: ReplayRun, step: int) -> float:
    return sum(answer.usd or 0.0 for place, answer in run.told(Answered) if place == step)
