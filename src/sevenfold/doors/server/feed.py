"""The newest events of a session that is open here, for any number of streams that each read at their own pace.

A stream that falls behind costs no memory: it only loses passing events, and reads lasting ones from the log.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.doors.server.events import Cursor, SessionEvent

MOST_EVENTS = 5_000
MOST_BYTES = 4 << 20
"""How many events, and how many bytes of them, a session that is open keeps in memory."""


class _Kept(Struct, frozen=True):
    sequence: int
    event: SessionEvent
    raw: bytes


class Feed:
    """Events in the order in which they happened; written by one thread at a time, read by the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, start: int) -> None:
        """``start`` is the position behind the last line of the log."""
        self.name = secrets.token_hex(8)
        self.place = Cursor(start)
        """Behind the last lasting event."""
        self._loop = loop
        self._lock = threading.Lock()
        self._events: deque[_Kept] = deque()
        self._bytes = 0
        self._sequence = 0
        self._start = Cursor(start)
        """The position before the oldest event that is kept."""
        self._readers: set[asyncio.Event] = set()
        self.closed = False

    def pass_on(self, name: str, data: dict[str, Any]) -> None:
        """Tell of something that does not last."""
        with self._lock:
            after = replace(self.place, feed=self.name, sequence=self._sequence + 1)
            self._add(SessionEvent(name, data, after))

    def tell(self, event: SessionEvent) -> None:
        """Tell of something that lasts."""
        with self._lock:
            self.place = event.after
            self._add(event)

    def _add(self, event: SessionEvent) -> None:
        self._sequence += 1
        raw = event.encoded()
        self._events.append(_Kept(self._sequence, event, raw))
        self._bytes += len(raw)
        while len(self._events) > MOST_EVENTS or self._bytes > MOST_BYTES:
            dropped = self._events.popleft()
            self._bytes -= len(dropped.raw)
            if dropped.event.lasts:
                self._start = dropped.event.after
            if not self._events:
                break
        self._wake()

    def after(self, cursor: Cursor) -> tuple[Sequence[bytes], Cursor] | None:
        """The events behind a place as they are sent, and the place behind them.

        None if the feed does not reach back that far: then what lasts is in the log.
        """
        with self._lock:
            first = self._first_behind(cursor)
            if first is None:
                return None
            raw = [event.raw for event in self._events if event.sequence > first]
            # Where no event has the number, the place itself says how far everything has been told.
            place = replace(self.place, feed=self.name, sequence=self._sequence)
            return raw, place

    def _first_behind(self, cursor: Cursor) -> int | None:
        """The number of the newest event that was told already."""
        if cursor.feed == self.name:
            oldest = self._events[0].sequence if self._events else self._sequence + 1
            if cursor.sequence >= oldest - 1:
                return cursor.sequence
        place = (cursor.position, cursor.skip)
        if place < (self._start.position, self._start.skip):
            return None
        told = self._events[0].sequence - 1 if self._events else self._sequence
        for told_event in self._events:
            after = told_event.event.after
            if told_event.event.lasts and (after.position, after.skip) <= place:
                told = told_event.sequence
        return told

    async def wait(self, since: Cursor, seconds: float) -> None:
        """Wait until there are events after a position, at most this many seconds."""
        changed = asyncio.Event()
        with self._lock:
            if self.closed or since.feed != self.name or since.sequence < self._sequence:
                return
            self._readers.add(changed)
        try:
            async with asyncio.timeout(seconds):
                await changed.wait()
        except TimeoutError:
            pass
        finally:
            with self._lock:
                self._readers.discard(changed)

    def wake(self) -> None:
        """Let all streams look what the session is doing."""
        with self._lock:
            self._wake()

    def close(self) -> None:
        """End all streams here, because the session is no longer open here; clients continue elsewhere."""
        with self._lock:
            self.closed = True
            self._wake()

    def _wake(self) -> None:
        readers = list(self._readers)
        if readers:
            # The loop may have been closed while a thread still worked.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(_set_all, readers)


def _set_all(readers: Sequence[asyncio.Event]) -> None:
    for reader in readers:
        reader.set()
