"""A session that is open here: its agent, what it is doing, and what it reports to streams.

All methods except `interrupt` block and are called in threads; `OpenSessions.using` ensures that only one runs at a
time. The status follows from the session's log alone, so every server reports the same.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from typing import Any, Literal

import msgspec
from msgspec import Struct

from sevenfold import events as engine_events
from sevenfold.agent import agent_events
from sevenfold.agent.agent import Agent
from sevenfold.agent.agent_events import AgentEvent, Ended
from sevenfold.agent.loop import PAUSED, calls_of
from sevenfold.conversation.request import ToolCall
from sevenfold.doors.server import problems
from sevenfold.doors.server.budget import BudgetedClient
from sevenfold.doors.server.definition import SayBody, SessionDefinition, ToolResultBody
from sevenfold.doors.server.events import Cursor, end_of, recorded
from sevenfold.doors.server.feed import Feed
from sevenfold.errors import SevenfoldError
from sevenfold.ports import Log, Piece
from sevenfold.record.log import Answer
from sevenfold.record.view import View

Status = Literal["idle", "working", "input_required", "unfinished"]
LONGEST_PROGRESS = 2_000
_log = logging.getLogger(__name__)


class SessionKey(Struct, frozen=True):
    """Which session, of whom."""

    tenant: str
    user: str
    name: str


class WaitingCall(Struct, frozen=True):
    """A call of a tool that runs in the client's program."""

    id: str
    name: str
    input: Any


class Standing(Struct, frozen=True):
    """The status of a session."""

    status: Status
    """``idle``: the last run has ended; ``unfinished``: a run ended before the model was done."""
    waiting: tuple[WaitingCall, ...] = ()
    """The calls whose results it waits for."""


class SessionRunEnd(Struct, frozen=True, omit_defaults=True):
    """How a run ended."""

    end: str
    """See `Finished.end`; ``failed`` if there was an error."""
    text: str = ""
    turns: int = 0
    usd: float | None = None
    detail: str = ""
    error: dict[str, str] | None = None
    waiting: tuple[WaitingCall, ...] = ()

    @property
    def paused(self) -> bool:
        """Whether the next server will resume it."""
        return self.end == "interrupted" and self.detail == PAUSED


def standing(view: View, client_tools: frozenset[str]) -> Standing:
    """The status of a session on which no run is working."""
    pending = set(view.pending_calls)
    if pending:
        waiting = tuple(
            WaitingCall(call.id, call.name, call.input)
            for call in _calls(view)
            if call.id in pending and call.name in client_tools
        )
        return Standing("input_required", waiting) if waiting else Standing("unfinished")
    newest = view.newest
    return Standing("unfinished" if newest is not None and newest.role == "user" else "idle")


def _calls(view: View) -> Iterable[ToolCall]:
    for item in view.items:
        if item.record.calls:
            yield from calls_of(Answer("", "", item.record.blocks))


class LiveSession:
    """A session that is open here."""

    def __init__(
        self,
        key: SessionKey,
        definition: SessionDefinition,
        agent: Agent,
        client: BudgetedClient,
        make_feed: Callable[[int], Feed],
    ) -> None:
        self.key = key
        self.definition = definition
        self.client = client
        self.working = False
        """Whether a run is under way, or about to begin."""
        self.run_due = False
        """Whether a run will be started: an earlier server left it, or this one is about to start it."""
        self.used_at = time.monotonic()
        self.last: SessionRunEnd | None = None
        """How the newest run here ended."""
        self._agent = agent
        self.feed = make_feed(end_of(self._log, max(0, self._view.position_of(self._view.tip or ""))))

    @property
    def _log(self) -> Log:
        return self._agent.assembly.store.log

    @property
    def _view(self) -> View:
        return self._agent.assembly.conversation.transcript.view

    def standing(self) -> Standing:
        """Its status."""
        return Standing("working") if self.working or self.run_due else self.recorded()

    def recorded(self) -> Standing:
        """Its status by the log alone, as if no run were working."""
        return standing(self._view, self.definition.client_tools)

    @property
    def place(self) -> Cursor:
        """The position after everything that streams have been told."""
        return self.feed.place

    def clear_due_run(self) -> None:
        """Note that no run is due any more: streams that wait for one check the status again."""
        self.run_due = False
        self.feed.wake()

    # -- what a program may ask ------------------------------------------------------------------

    def say(self, body: SayBody, key: str) -> None:
        """Record a message of the user's; the request is answered only when that is done."""
        self._agent.assembly.loop.close_calls()
        self._agent.session.user(body.text, key=key, origin=body.origin)
        self._tell()

    def knows(self, key: str) -> bool:
        """Whether a message was recorded under this key."""
        return bool(self._log.keyed(key))

    def give_up(self) -> None:
        """Stop waiting for results; the model gets a message that there are none."""
        self._agent.assembly.loop.close_calls()
        self._tell()

    def results(self, answers: Iterable[ToolResultBody]) -> None:
        """Record results; a result that was recorded before is not replaced."""
        self._agent.session.tool_results([answer.block() for answer in answers])
        self._tell()

    def work(self) -> SessionRunEnd:
        """Work until there is nothing left to do, a result is missing, or something is wrong."""
        self.feed.pass_on("status", {"status": "working"})
        try:
            end = self._run()
            self._tell()
        except Exception as error:  # noqa: BLE001 (whatever it is, the run has ended, and its streams hear so)
            return self.failed(error)
        self.last = end
        return end

    def failed(self, error: Exception) -> SessionRunEnd:
        """Record that the run failed."""
        problem = problems.of(error)
        if not isinstance(error, SevenfoldError):
            _log.error("a run of a session failed", exc_info=error)
        self.last = SessionRunEnd("failed", error={"type": problem.kind, "message": problem.message})
        return self.last

    def _run(self) -> SessionRunEnd:
        finished = agent_events.Finished("interrupted")
        with closing(self._agent.stream()) as events:
            for event in events:
                if isinstance(event, Ended):
                    finished = event.finished
                else:
                    self._report(event)
        waiting = standing(self._view, self.definition.client_tools).waiting
        return SessionRunEnd(
            finished.end,
            finished.text,
            finished.turns,
            finished.usd,
            finished.detail,
            waiting=waiting if finished.end == "input_required" else (),
        )

    def tell_end(self, end: SessionRunEnd) -> None:
        """Report how a run ended, when `working` is False again: a client may send its next message at once."""
        self.feed.pass_on("ended", msgspec.to_builtins(end))

    def interrupt(self) -> bool:
        """Stop the run; False if there is none."""
        if self._agent.running:
            self._agent.interrupt()
            return True
        return False

    def pause(self) -> None:
        """Stop the run before its next request."""
        self._agent.pause()

    def compact(self, instructions: str) -> dict[str, Any]:
        """Summarise the conversation."""
        compacted = self._agent.compact(instructions)
        self._tell()
        if compacted is None:
            return {
                "made": False,
                "reason": "it was refused",
                "ways": [],
                "tokens_before": 0,
                "tokens_after": 0,
            }
        return {
            "made": compacted.made,
            "reason": compacted.reason,
            "ways": list(compacted.ways),
            "tokens_before": compacted.tokens_before,
            "tokens_after": compacted.tokens_after,
        }

    def undo(self, decision: str) -> str:
        """Undo a decision of the layers; returns its id."""
        undone = self._agent.session.undo(decision)
        self._tell()
        return undone

    def recall(self, query: str, most: int) -> list[dict[str, Any]]:
        """Search the whole session."""
        hits = self._agent.session.recall(query, most=most)
        return [
            {
                "id": hit.uuid,
                "kind": hit.kind,
                "tool": hit.tool,
                "at": hit.timestamp,
                "excerpt": hit.excerpt,
                "exact": hit.exact,
            }
            for hit in hits
        ]

    def gauge(self) -> dict[str, Any]:
        """How full the window is, and what the session has cost."""
        reading = self._agent.session.gauge
        return {
            "tokens": reading.seen,
            "context": reading.context,
            "percent_left": reading.percent_left,
            "requests": reading.requests,
            "usd": reading.usd,
        }

    def close(self) -> None:
        """Release the session, so that another server can open it."""
        self.feed.close()
        self._agent.close()

    # -- telling ---------------------------------------------------------------------------------

    def _report(self, event: AgentEvent) -> None:
        feed = self.feed
        match event:
            case Piece(kind="text" | "thinking" as kind, words=words):
                feed.pass_on(kind, {"text": words})
            case agent_events.ToolBegan(call=call):
                self._tell()
                feed.pass_on("tool_began", {"id": call.id, "name": call.name})
            case agent_events.ToolProgress(call=call, text=text):
                feed.pass_on("tool_progress", {"id": call.id, "text": text[-LONGEST_PROGRESS:]})
            case agent_events.ToolEnded(call=call, output=output):
                self._tell()
                feed.pass_on("tool_ended", {"id": call.id, "name": call.name, "is_error": output.is_error})
            case agent_events.Happened(event=happened):
                self._report_engine(happened)
            case agent_events.Notice(text=text):
                feed.pass_on("notice", {"text": text})

    def _report_engine(self, event: engine_events.Event) -> None:
        match event:
            case engine_events.Answered(source="main" | "sdk"):
                self._tell()
            case engine_events.Failed(source="main" | "sdk", again=True):
                # The request is repeated, so clients must drop the pieces of the failed answer.
                self.feed.pass_on("discarded", {})
            case engine_events.Waiting():
                self.feed.pass_on(
                    "waiting",
                    {
                        "attempt": event.attempt,
                        "of": event.of,
                        "seconds": event.seconds,
                        "reason": event.reason,
                    },
                )
            case engine_events.Compacting(stage="compact_start"):
                self.feed.pass_on("compacting", {})
            case engine_events.Compacted():
                self._tell()

    def _tell(self) -> None:
        """Report everything in the log that has not been reported."""
        for event in recorded(self._log, self.feed.place, self.definition.client_tools):
            self.feed.tell(event)


def described(state: Standing) -> Mapping[str, Any]:
    """A status as the fields of an answer."""
    plain: Mapping[str, Any] = msgspec.to_builtins(state)
    return plain
