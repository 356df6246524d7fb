"""The events an agent reports while it works, and the queues through which they reach the reader.

Events are frozen. If the reader is slow, reporting pieces and progress blocks until it catches up. Engine events never
block: they are reported while the session is locked, and the reader may be waiting for that lock.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import Literal, Protocol

from msgspec import Struct

from sevenfold.agent.tools.output import ToolOutput
from sevenfold.conversation.request import ToolCall
from sevenfold.events import Compacting
from sevenfold.events import Event as EngineEvent
from sevenfold.ports import Piece

MOST_WAITING = 1_000
"""How many unread events there may be before the agent waits for its reader."""


End = Literal["done", "interrupted", "input_required", "max_turns", "budget", "refused", "blocked", "cut"]


class Finished(Struct, frozen=True):
    """Why a run ended, and the text of the model's last answer."""

    end: End
    text: str = ""
    turns: int = 0
    tokens: int = 0
    """Output tokens."""
    usd: float | None = None
    """The cost of the run; None if a price is unknown."""
    detail: str = ""


class ToolBegan(Struct, frozen=True):
    """A tool call is about to be carried out."""

    call: ToolCall


class ToolProgress(Struct, frozen=True):
    """Output of a tool call that is still running."""

    call: ToolCall
    text: str


class ToolEnded(Struct, frozen=True):
    """A tool call ended; ``output`` is its result."""

    call: ToolCall
    output: ToolOutput
    seconds: float


class Happened(Struct, frozen=True):
    """An engine event: a layer acted, a request was sent, the cache broke…"""

    event: EngineEvent


class Mentioned(Struct, frozen=True):
    """A file or folder that the user mentioned was read, or could not be read."""

    path: str
    """The path as the user typed it."""
    output: ToolOutput
    folder: bool = False


class Notice(Struct, frozen=True):
    """A message from a hook to the user."""

    text: str


class Ended(Struct, frozen=True):
    """The run is over; always the last event."""

    finished: Finished


AgentEvent = Piece | ToolBegan | ToolProgress | ToolEnded | Happened | Mentioned | Notice | Ended


class EventSink(Protocol):
    """Receives events."""

    def put(self, event: AgentEvent) -> None:
        """Receive an event."""


class Reporter:
    """Forwards events to the current reader, if there is one."""

    def __init__(self) -> None:
        self.sink: EventSink | None = None

    def put(self, event: AgentEvent) -> None:
        """Forward an event to the reader."""
        if self.sink is not None:
            self.sink.put(event)

    def wait_until_handled(self) -> None:
        """Wait until the reader has handled all events reported so far; only for a reader in another thread."""
        if isinstance(self.sink, EventQueue):
            self.sink.wait_until_handled()

    def listen(self, event: EngineEvent) -> None:
        """Report an engine event; registered as a listener of the session."""
        self.put(Happened(event))
        if isinstance(event, Compacting) and event.text:
            self.put(Notice(event.text))


class EventQueue:
    """A queue from the agent's thread to the reader's thread."""

    def __init__(self, limit: int = MOST_WAITING) -> None:
        self._events: deque[AgentEvent] = deque()
        self._limit = limit
        self._changed = threading.Condition()
        self._ended = False
        self._reader_gone = False
        self._reported = self._delivered = self._handled = 0

    def put(self, event: AgentEvent) -> None:
        """Add an event; blocks while the queue is full, except for engine events and notices."""
        with self._changed:
            if not isinstance(event, Happened | Notice):
                self._changed.wait_for(lambda: len(self._events) < self._limit or self._reader_gone)
            if not self._reader_gone:
                self._events.append(event)
                self._reported += 1
            self._changed.notify_all()

    def wait_until_handled(self) -> None:
        """Wait until the reader has handled all events put so far."""
        with self._changed:
            goal = self._reported
            self._changed.wait_for(lambda: self._handled >= goal or self._reader_gone or self._ended)

    def end(self) -> None:
        """Mark the end of the events."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def leave(self) -> None:
        """Note that the reader is gone: drop all events, and stop waiting for it."""
        with self._changed:
            self._reader_gone = True
            self._events.clear()
            self._changed.notify_all()

    def get(self) -> AgentEvent | None:
        """Wait for the next event; returns None after the last one."""
        with self._changed:
            self._handled = (
                self._delivered
            )  # a reader that asks for the next event has handled the last one
            self._changed.notify_all()
            # Wait in short steps, so that a keyboard interrupt is noticed.
            while not self._events and not self._ended:
                self._changed.wait(0.5)
            event = self._events.popleft() if self._events else None
            self._delivered += event is not None
            self._changed.notify_all()
            return event


class AsyncEventQueue:
    """A queue from the event loop, or a tool's thread, to a reader on the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[AgentEvent | None] = asyncio.Queue()

    def put(self, event: AgentEvent) -> None:
        """Add an event."""
        self._loop.call_soon_threadsafe(self._events.put_nowait, event)

    def end(self) -> None:
        """Mark the end of the events."""
        self._loop.call_soon_threadsafe(self._events.put_nowait, None)

    async def get(self) -> AgentEvent | None:
        """Wait for the next event; returns None after the last one."""
        return await self._events.get()
