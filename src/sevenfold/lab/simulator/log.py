"""What came in and how it was answered, kept so that a test can look at the very bytes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct


class Received(Struct):
    """One request; what is known of the answer is filled in when it is given."""

    number: int
    at: float
    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    raw: bytes
    status: int = 0
    usage: Mapping[str, Any] | None = None
    answer: Any = None
    """The body of the answer, as decoded JSON, streamed or not."""

    @property
    def body(self) -> Any:
        """The body as JSON, decoded when asked for: as objects, a long session would fill the memory."""
        return msgspec.json.decode(self.raw)


class RequestLog:
    """The latest requests, oldest first, as many as fit into a number of bytes."""

    def __init__(self, most: int) -> None:
        self._kept: deque[Received] = deque()
        self._most = most
        self._bytes = 0
        self._count = 0

    def add(
        self, at: float, method: str, path: str, query: str, headers: Mapping[str, str], raw: bytes
    ) -> Received:
        """Keep a request."""
        self._count += 1
        received = Received(self._count, at, method, path, query, headers, raw)
        self._kept.append(received)
        self._bytes += len(raw)
        while self._bytes > self._most and len(self._kept) > 1:
            self._bytes -= len(self._kept.popleft().raw)
        return received

    def answered(self, path: str = "/v1/messages") -> list[Received]:
        """The requests to a path that were answered well."""
        return [each for each in self._kept if each.path == path and each.status == 200]

    def __iter__(self) -> Iterator[Received]:
        return iter(list(self._kept))

    def __len__(self) -> int:
        return len(self._kept)

    def __getitem__(self, place: int) -> Received:
        return self._kept[place]

    def clear(self) -> None:
        """Forget all requests."""
        self._kept.clear()
        self._bytes = 0
