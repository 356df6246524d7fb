"""Injected faults: errors, silence, broken streams, a lost cache; by schedule or at random."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from random import Random
from typing import Literal

from msgspec import Struct

from sevenfold.lab.simulator.errors import ApiError, internal, rate_limited

OVERLOADED = (
    b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'
)
Kind = Literal[
    "rate_limited",
    "overloaded",
    "server_error",
    "compaction_unavailable",
    "no_answer",
    "cut_stream",
    "malformed_event",
    "error_event",
    "truncated_body",
    "slow_first_byte",
    "cache_eviction",
]


class Fault(Struct, frozen=True):
    """One fault to inject into a request."""

    kind: Kind
    retry_after: float | None = None
    """Seconds, sent with ``rate_limited``; without it, waiting does not help."""
    after: int = 3
    """How many events of a stream are sent before it breaks."""
    clean: bool = False
    """Whether a cut stream ends as if it were complete; otherwise the connection breaks."""
    seconds: float = 0.0
    """How long a slow first byte takes."""


class Faults:
    """Which request gets which fault; only requests for an answer are counted, from 1."""

    def __init__(
        self,
        schedule: Mapping[int, Fault] | None = None,
        *,
        chances: Iterable[tuple[float, Fault]] = (),
        seed: int = 0,
    ) -> None:
        self._schedule = dict(schedule or {})
        self._chances = tuple(chances)
        self._random = Random(seed)
        self.seen = 0

    def next(self) -> Fault | None:
        """The fault for the request that just arrived, if any."""
        self.seen += 1
        by_chance = [fault for chance, fault in self._chances if self._random.random() < chance]
        return self._schedule.get(self.seen) or (by_chance[0] if by_chance else None)

    def then(self, fault: Fault, requests: int = 1) -> None:
        """Schedule a fault for the next requests."""
        self._schedule |= dict.fromkeys(range(self.seen + 1, self.seen + 1 + requests), fault)


class BrokenConnection(Exception):
    """Raised inside a response so that the client sees the connection close."""


def refusal(fault: Fault) -> ApiError | None:
    """The error response of a fault; None for faults of another kind."""
    match fault.kind:
        case "rate_limited":
            return rate_limited(fault.retry_after)
        case "overloaded":
            return ApiError(529, "overloaded_error", "Overloaded")
        case "server_error":
            return internal()
        case "compaction_unavailable":
            message = "The compaction could not be completed. Retry the request."
            return ApiError(529, "overloaded_error", message, code="compaction_unavailable")
        case _:
            return None


async def with_fault(stream: Iterable[bytes], fault: Fault | None) -> AsyncIterator[bytes]:
    """Yield a stream of events, broken by the fault if it is one that breaks streams."""
    for index, event in enumerate(stream):
        if fault is not None and index == fault.after:
            match fault.kind:
                case "cut_stream" if fault.clean:
                    return
                case "cut_stream":
                    raise BrokenConnection
                case "error_event":
                    yield OVERLOADED
                    return
                case "malformed_event":
                    yield b'event: content_block_delta\ndata: {"type": "content_block_delta", "index\n\n'
        yield event
