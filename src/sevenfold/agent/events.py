"""What an agent tells while it works, and the queue it comes through.

Events are frozen. Pieces and progress wait for a reader who is slow; what the engine tells never does, because it is
told while the session is locked, and the reader may be about to look at the session.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Protocol

from msgspec import Struct

from sevenfold.agent.loop import Call, Finished
from sevenfold.agent.tools.output import ToolOutput
from sevenfold.events import Event as EngineEvent
from sevenfold.events import Veto
from sevenfold.ports import Piece

MOST_WAITING = 1_000
"""Events that wait to be read before the agent waits for its reader."""


class ToolBegan(Struct, frozen=True):
    """A call is about to be carried out."""

    call: Call


class ToolProgress(Struct, frozen=True):
    """Output of a call that is still running."""

    call: Call
    text: str


class ToolEnded(Struct, frozen=True):
    """A call has its result."""

    call: Call
    output: ToolOutput
    seconds: float


class Happened(Struct, frozen=True):
    """Something the engine told: a layer acted, a request went out, the cache broke…"""

    event: EngineEvent


class Mentioned(Struct, frozen=True):
    """A file or folder the user mentions was read, or could not be."""

    path: str
    """As it was typed."""
    output: ToolOutput
    folder: bool = False


class Notice(Struct, frozen=True):
    """Something a hook wants shown to the user."""

    text: str


class Ended(Struct, frozen=True):
    """The run is over; always the last event."""

    finished: Finished


AgentEvent = Piece | ToolBegan | ToolProgress | ToolEnded | Happened | Mentioned | Notice | Ended


class Sink(Protocol):
    """Where events go."""

    def put(self, event: AgentEvent) -> None:
        """Hand an event over."""
        ...


class Reporter:
    """Turns what is seen of the agent into events, for whoever listens just now."""

    def __init__(self) -> None:
        self.sink: Sink | None = None

    def piece(self, piece: Piece) -> None:
        """Some of an answer."""
        self._tell(piece)

    def began(self, call: Call) -> None:
        """See `sevenfold.agent.executor.Witness`."""
        self._tell(ToolBegan(call))

    def progress(self, call: Call, text: str) -> None:
        """See `sevenfold.agent.executor.Witness`."""
        self._tell(ToolProgress(call, text))

    def ended(self, call: Call, output: ToolOutput, seconds: float) -> None:
        """See `sevenfold.agent.executor.Witness`."""
        self._tell(ToolEnded(call, output, seconds))

    def mentioned(self, path: str, output: ToolOutput, folder: bool) -> None:
        """See `sevenfold.agent.prompt.Tell`."""
        self._tell(Mentioned(path, output, folder))

    def notice(self, text: str) -> None:
        """Something to show."""
        self._tell(Notice(text))

    def happened(self, event: EngineEvent) -> Veto | None:
        """A listener of the session."""
        self._tell(Happened(event))
        return None

    def _tell(self, event: AgentEvent) -> None:
        if self.sink is not None:
            self.sink.put(event)


class Queue:
    """Events from the agent's thread to its reader's."""

    def __init__(self, most: int = MOST_WAITING) -> None:
        self._events: deque[AgentEvent] = deque()
        self._most = most
        self._changed = threading.Condition()
        self._over = False
        self._left = False

    def put(self, event: AgentEvent) -> None:
        """Add an event; waits for the reader where there are too many, unless it is the engine that tells."""
        with self._changed:
            if not isinstance(event, Happened | Notice):
                self._changed.wait_for(lambda: len(self._events) < self._most or self._left)
            if not self._left:
                self._events.append(event)
            self._changed.notify_all()

    def end(self) -> None:
        """There will be no more."""
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def leave(self) -> None:
        """The reader has gone: nobody waits for it any more."""
        with self._changed:
            self._left = True
            self._events.clear()
            self._changed.notify_all()

    def get(self) -> AgentEvent | None:
        """The next event; None when there will be no more."""
        with self._changed:
            # In short steps, so that an interrupt from the keyboard is seen.
            while not self._events and not self._over:
                self._changed.wait(0.5)
            event = self._events.popleft() if self._events else None
            self._changed.notify_all()
            return event
