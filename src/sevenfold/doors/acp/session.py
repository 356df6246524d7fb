"""One conversation with an editor: its agent, the permissions it asks for, and whether the user cancelled.

An agent works in a thread of its own, and its events are read in another one; the editor is spoken to on the event
loop. Each update is sent before the next event is read, so their order is that of the work.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import acp
from acp import schema

from sevenfold.agent import agent_events as events
from sevenfold.agent.agent import Agent
from sevenfold.agent.agent_events import AgentEvent, Finished
from sevenfold.agent.executor import Asked, Consented
from sevenfold.agent.permissions.engine import Mode
from sevenfold.agent.tools.output import ToolOutput
from sevenfold.conversation import history
from sevenfold.conversation.request import ToolCall
from sevenfold.doors.acp import updates
from sevenfold.doors.acp.updates import ShownChange, Update
from sevenfold.errors import ModelError
from sevenfold.events import Failed
from sevenfold.ports import Piece
from sevenfold.record.authorship import UserPrompt

POLL_SECONDS = 0.2
"""How often a thread that waits for the editor looks whether the user cancelled."""
R = TypeVar("R")


class Editor(Protocol):
    """The requests to an editor that a session makes."""

    async def session_update(self, session_id: str, update: Any) -> None:
        """Show what happens."""

    async def request_permission(
        self, session_id: str, tool_call: Any, options: Any
    ) -> schema.RequestPermissionResponse:
        """Ask the user."""


class EditorSession:
    """A conversation that an editor shows; ``agent`` and ``close`` are set once it is open."""

    agent: Agent
    close: Callable[[], None]

    def __init__(self, name: str, folder: Path, editor: Editor, loop: asyncio.AbstractEventLoop) -> None:
        self.name = name
        self.folder = folder
        self._editor = editor
        self._loop = loop
        self._lock = threading.Lock()
        self._calls: dict[str, ShownChange | None] = {}
        """The calls that the editor was told of and whose end it was not, with what they change."""
        self._cancelled = threading.Event()
        self._mode = ""
        self._answering = False
        """Whether a part of the current answer has been shown."""

    def run(self, prompt: UserPrompt) -> Finished:
        """Work on a message until it is done; to be called in a thread that may wait."""
        self._mode = self.agent.grants.mode
        finished = Finished("interrupted")
        for event in self.agent.stream(prompt):
            if self._cancelled.is_set():
                self.agent.interrupt()
            if isinstance(event, events.Ended):
                finished = event.finished
            for update in self._shown(event):
                self._send(update)
        for call in list(self._calls):
            # What was under way when the user cancelled never reports an end.
            self._send(acp.update_tool_call(call, status="failed"))
        self._calls.clear()
        return finished

    def begin(self) -> None:
        """Take note that a message came: what is cancelled from now on is the work on it."""
        self._cancelled.clear()
        self._answering = False

    def cancel(self) -> None:
        """Stop the work on the current message."""
        self._cancelled.set()
        if self.agent.running:
            self.agent.interrupt()

    def replay(self) -> None:
        """Show the whole conversation to an editor that has just loaded it."""
        items = history.every_record(self.agent.session.conversation.transcript.log)
        for update in updates.replayed(items, self.folder):
            self._send(update)

    def set_mode(self, mode: str) -> None:
        """Change the permission mode; raises `InputError` for an unknown one."""
        self.agent.grants.mode = cast("Mode", mode)
        self._mode = mode

    def consent(self, question: Asked) -> Consented:
        """Ask the user whether a call may be carried out; called on the agent's threads."""
        self.agent.assembly.reporter.wait_until_handled()
        self._announce(question.call)
        call = updates.permission_call(question, self.folder)
        options = updates.permission_options(question)
        try:
            response = self._wait(self._editor.request_permission(self.name, call, options))
        except (acp.RequestError, ConnectionError, RuntimeError) as error:
            return Consented(False, remark=f"the editor could not ask: {error}", unanswered=True)
        chosen = response.outcome.option_id if response and response.outcome.outcome == "selected" else ""
        if not chosen:
            # The user cancelled: the protocol answers all open questions so.
            self.cancel()
            return Consented(False)
        if question.call.name == updates.PLAN_READY and chosen != "no":
            self.agent.grants.after_planning = cast("Mode", chosen)
        return Consented(chosen != "no", always=chosen == "always")

    # -- what is shown -----------------------------------------------------------------------

    def _shown(self, event: AgentEvent) -> Iterator[Update]:
        match event:
            case Piece(kind="text", words=words):
                self._answering = True
                yield acp.update_agent_message_text(words)
            case Piece(kind="thinking", words=words):
                yield acp.update_agent_thought_text(words)
            case events.Happened(event=Failed(source="main")) if self._answering:
                self._answering = False
                yield acp.update_agent_message_text(
                    "\n\n(The answer broke off; it is asked for again.)\n\n"
                )
            case events.ToolBegan(call=call):
                self._answering = False
                self._announce(call)
                yield acp.update_tool_call(call.id, status="in_progress")
            case events.ToolProgress(call=call, text=text):
                shown = acp.tool_content(acp.text_block(text[-updates.LONGEST_RESULT :]))
                yield acp.update_tool_call(call.id, content=[shown])
            case events.ToolEnded(call=call, output=output):
                self._announce(call)
                yield from self._end(call, output)
            case events.Notice(text=text):
                yield acp.update_agent_thought_text(text)

    def _end(self, call: ToolCall, output: ToolOutput) -> Iterator[Update]:
        with self._lock:
            change = self._calls.pop(call.id, None)
        yield updates.ended(call, output, change)
        if call.name == "Todo" and not output.is_error and (plan := updates.plan_of(call)):
            yield plan
        if (mode := self.agent.grants.mode) != self._mode:
            self._mode = mode
            yield schema.CurrentModeUpdate(session_update="current_mode_update", current_mode_id=mode)

    def _announce(self, call: ToolCall) -> None:
        """Tell the editor of a call, once, with what the call changes as the files are now."""
        with self._lock:
            if call.id in self._calls:
                return
            self._calls[call.id] = updates.change_of(call, self.folder)
        self._send(updates.begun(call, self.folder))

    # -- the editor --------------------------------------------------------------------------

    def _send(self, update: Update) -> None:
        """Send an update, and wait until it was written: an editor that reads slowly slows the agent down."""
        self._submit(self._editor.session_update(self.name, update)).result()

    def _wait(self, request: Coroutine[Any, Any, R]) -> R | None:
        """The editor's answer to a request; None if the user cancels before it comes."""
        answer = self._submit(request)
        while not self._cancelled.is_set():
            try:
                return answer.result(POLL_SECONDS)
            except NotYet:
                continue
        answer.cancel()
        return None

    def _submit(self, request: Coroutine[Any, Any, R]) -> Future[R]:
        return asyncio.run_coroutine_threadsafe(request, self._loop)


def error_of(error: ModelError) -> acp.RequestError:
    """An error of the provider as the editor shows it."""
    return acp.RequestError(-32603, str(error))
