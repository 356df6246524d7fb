"""Our engine. A turn is everything: both messages stored in a file, folded, counted and checked against the window."""

from __future__ import annotations

from pathlib import Path

import msgspec

import sevenfold
from bench.peers.adapters import SYSTEM
from bench.peers.sessions import Message, Session
from bench.peers.timing import Adapter, Bench, Case
from sevenfold.clock import ManualClock, RandomIds
from sevenfold.conversation.resume import resume
from sevenfold.conversation.room import Check, Limits
from sevenfold.conversation.transcript import Transcript
from sevenfold.profiles import find
from sevenfold.record import blocks
from sevenfold.record.decisions import CompactMetadata
from sevenfold.record.gauge import Gauge
from sevenfold.record.log import Answer, Place
from sevenfold.record.window import Window
from sevenfold.settings import Settings
from sevenfold.stores.jsonl.log import JsonlLog, Sync

MODEL = "claude-sonnet-5-5"
KINDS = {
    "read_file": "read",
    "bash": "shell",
    "grep": "search",
    "edit_file": "edit",
    "list_dir": "search",
    "web_fetch": "web",
}
BEHIND_BOUNDARY = 100
"""Messages since the compaction in the session that is reopened."""


class Engine:
    """A transcript in a file, and the gauge that estimates its size."""

    def __init__(self, bench: Bench, messages: list[Message]) -> None:
        self.path = bench.folder / "sevenfold.jsonl"
        log = JsonlLog.open(self.path, sync=Sync.NEVER)
        self.script = Transcript(log, Place("bench"), clock=ManualClock(), ids=RandomIds())
        self.gauge = Gauge.of(find(MODEL))
        self._window, self._limits = Window.of(find(MODEL)), Limits.of(find(MODEL), Settings())
        self.hear(messages)

    def hear(self, messages: list[Message]) -> None:
        """Add messages as if they came from a user, a tool or a server."""
        for message in messages:
            parts = tuple(blocks.read(msgspec.json.encode(block)) for block in message["content"])
            if message["role"] == "user":
                self.script.user(parts)
                continue
            usage = msgspec.Raw(msgspec.json.encode(message["usage"]))
            measured = self.script.model(Answer(message["id"], MODEL, parts, usage, "end_turn"))
            if measured:
                self.gauge = self.gauge.observe(measured)

    def check(self) -> Check:
        """Check the size of the conversation against the limits."""
        return self._limits.check(self.gauge.size(self.script.view), self._window)

    def turn(self, messages: list[Message]) -> Check:
        """Run a whole turn: add the messages, then check the size."""
        self.hear(messages)
        return self.check()

    def body(self) -> bytes:
        """The messages as they are sent."""
        return b",".join(self.script.view.encoded())


def _turn(session: Session, bench: Bench) -> None:
    engine = Engine(bench, session.history)
    bench.loop(engine.turn, lambda turn: session.turns[turn])
    engine.script.close()


def _check(session: Session, bench: Bench) -> None:
    engine = Engine(bench, session.history)
    bench.loop(lambda _: engine.check(), lambda turn: engine.hear(session.turns[turn]))
    engine.script.close()


def _prepare(session: Session, bench: Bench) -> None:
    """Time `prepare` on a session as programs use it; new messages are added before timing starts."""
    engine = Engine(bench, session.history)
    engine.script.close()
    with _opened(engine.path) as held:
        bench.loop(lambda _: held.prepare(), lambda turn: _take_in(held, session.turns[turn]))


def _prepare_taken_in(session: Session, bench: Bench) -> None:
    engine = Engine(bench, session.history)
    engine.script.close()
    with _opened(engine.path) as held:

        def step(turn: int) -> object:
            _results(held, session.turns[turn])
            return held.prepare()

        def answered(turn: int) -> int:
            _answer(held, session.turns[turn])
            return turn

        bench.loop(step, answered)


def _opened(path: Path) -> sevenfold.Session:
    """Open the session with a window that never fills up, as for the peers."""
    tools = [
        sevenfold.tool({"name": name, "input_schema": {"type": "object"}}, kind=kind)
        for name, kind in KINDS.items()
    ]
    settings = {"context_window": 10**9, "fsync": "never"}
    return sevenfold.Session.open(
        "bench", model=MODEL, file=path, folder=path.parent, tools=tools, system=SYSTEM, settings=settings
    )


def _take_in(held: sevenfold.Session, turn: list[Message]) -> None:
    _answer(held, turn)
    _results(held, turn)


def _answer(held: sevenfold.Session, turn: list[Message]) -> None:
    answer = turn[0]
    usage = msgspec.Raw(msgspec.json.encode(answer["usage"]))
    parts = tuple(blocks.read(msgspec.json.encode(block)) for block in answer["content"])
    held.conversation.transcript.model(Answer(answer["id"], MODEL, parts, usage, "tool_use"))


def _results(held: sevenfold.Session, turn: list[Message]) -> None:
    content = turn[1]["content"]
    held.tool_results(content) if content[0]["type"] == "tool_result" else held.user(content)


def _request(session: Session, bench: Bench) -> None:
    engine = Engine(bench, session.history)
    bench.loop(lambda _: engine.body(), lambda turn: engine.hear(session.turns[turn]))
    engine.script.close()


def _resume_whole(session: Session, bench: Bench) -> None:
    engine = Engine(bench, session.all)
    engine.script.close()
    bench.loop(lambda _: resume(JsonlLog(engine.path)), lambda turn: None, turns=6)


def _resume_tail(session: Session, bench: Bench) -> None:
    cut = max(1, len(session.finished) - BEHIND_BOUNDARY)
    engine = Engine(bench, session.finished[:cut])
    engine.script.compact(CompactMetadata(), [blocks.text("What happened so far.")])
    engine.hear(session.finished[cut:])
    engine.script.close()
    bench.loop(lambda _: resume(JsonlLog(engine.path)), lambda turn: None, turns=6)


ADAPTER = Adapter(
    "sevenfold",
    (
        Case("turn: everything", "both messages stored, folded, counted, held against the window", _turn),
        Case("turn: check", "the check alone: how large is it, what does that call for", _check),
        Case("turn: prepare", "the next request of a whole session, everything taken in before", _prepare),
        Case("turn: results, prepare", "the same, with the results stored and weighed", _prepare_taken_in),
        Case("request: join", "the body from parts encoded before", _request),
        Case(
            "resume: tail", f"a session compacted {BEHIND_BOUNDARY} messages before its end", _resume_tail
        ),
        Case("resume: whole", "a session never compacted", _resume_whole),
    ),
)
