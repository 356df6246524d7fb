"""Whether an answer still grows: a stream may stay open for ever without any content.

Pings, comments, empty deltas, blank text and events that only repeat themselves show that the server is alive, not that
an answer comes. If that is all there is for too long, the answer is given up. What counts is when content came last, so
one byte a minute keeps nothing alive either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from sevenfold.ports import Piece

_COUNTERS = re.compile(rb"\d+")
_PING = re.compile(rb'"type"\s*:\s*"(?:ping|keepalive)"')
_REMEMBERED = 10_000


class AnswerProgress:
    """When an answer last grew, by the clock ``now``; after ``max_seconds`` without growing it counts as stalled."""

    def __init__(self, now: Callable[[], float], max_seconds: float) -> None:
        self._now = now
        self._max_seconds = max_seconds
        self._grew = now()
        self._seen: set[int] = set()

    def event(self, data: bytes, pieces: Iterable[Piece]) -> None:
        """Take note of an event and of what a watcher sees of it."""
        shown = list(pieces)
        grown = any(piece.words.strip() for piece in shown) if shown else self._is_new(data)
        if grown:
            self._grew = self._now()

    def raw(self, chunk: bytes) -> None:
        """Take note of bytes of an answer that is not a stream."""
        if chunk.strip():
            self._grew = self._now()

    @property
    def stalled(self) -> bool:
        """Whether nothing has been added for too long."""
        return self._now() - self._grew > self._max_seconds

    def _is_new(self, data: bytes) -> bool:
        """Whether an event without visible content is neither a ping nor one seen before, its counters aside."""
        if _PING.search(data) or len(self._seen) >= _REMEMBERED:
            return False
        name = hash(_COUNTERS.sub(b"", data))
        was_seen = name in self._seen
        self._seen.add(name)
        return not was_seen
