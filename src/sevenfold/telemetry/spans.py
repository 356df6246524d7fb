"""Converts events to spans: one per request, plus everything that happens during a request or between requests.

A request's span lasts from `Sending` to `Answered` or `Failed`. Other events of the same source during that time are
added to that span; if no request is open, an event becomes its own span, `sevenfold.{layer}`, which starts at its
proposal. All state is bounded: the span of a request without any outcome is ended, and marked as unanswered, when the
same request is sent again, when too many requests are open, or when the sink is closed.
"""

from __future__ import annotations

from time import time_ns
from typing import TypeVar

from msgspec import Struct
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer

from sevenfold.events import Acted, Answered, Event, Failed, Proposed, RequestEvent, Sending
from sevenfold.telemetry import attributes as names
from sevenfold.telemetry.attributes import Attributes, attributes

MOST_OPEN = 256
"""How many open requests, and how many pending proposals, are remembered."""
MOST_COMPACTED = 4_096
"""How many conversations are remembered as compacted."""

_END_OF_TIME = 2**63 / 1e9

Key = tuple[str, ...]
Held = TypeVar("Held")


class _Open(Struct, frozen=True):
    """An open request."""

    span: Span
    began: int
    sent: Sending


class Spans:
    """Converts events to spans."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._open: dict[Key, _Open] = {}
        self._proposed: dict[Key, float] = {}
        self._compacted: dict[Key, None] = {}

    def sending(self, event: Sending) -> None:
        """Start the span of a request."""
        key = _request(event)
        self._abandon(self._open.pop(key, None), event)
        about = attributes(event)
        if _thread(event) in self._compacted:
            about[names.COMPACTED] = True
        began = _nanoseconds(event.at)
        under_way = _Open(self._chat(event.model, began, about), began, event)
        self._abandon(_keep(self._open, key, under_way, MOST_OPEN), event)

    def ended(self, event: Answered | Failed) -> Sending | None:
        """End the span of a request; return its `Sending` event, or None if that was not seen."""
        under_way = self._open.pop(_request(event), None)
        if under_way:
            span = under_way.span
            start = under_way.began
        else:
            start = _nanoseconds(event.at - event.seconds if isinstance(event, Answered) else event.at)
            request_attributes: Attributes = {names.OPERATION: names.CHAT, names.REQUEST_MODEL: event.model}
            span = self._chat(event.model, start, request_attributes)
        span.set_attributes(attributes(event))
        if isinstance(event, Failed):
            span.set_status(StatusCode.ERROR, event.reason)
        span.end(max(start, _nanoseconds(event.at)))
        return under_way.sent if under_way else None

    def proposed(self, event: Proposed) -> None:
        """Remember when a layer proposed to act, as the start of its span."""
        _keep(self._proposed, (*_thread(event), event.layer), event.at, MOST_OPEN)

    def happened(self, event: Event) -> None:
        """Record any other event: on the span of the open request, or as its own span."""
        kind = type(event).__name__
        subject = getattr(event, "layer", "") or names.SUBJECTS.get(kind, names.spelled(kind))
        began = _nanoseconds(self._proposed.pop((*_thread(event), subject), event.at))
        if isinstance(event, Acted) and event.layer == "compact":
            _keep(self._compacted, _thread(event), None, MOST_COMPACTED)
        about = attributes(event)
        if under_way := self._under_way(_thread(event)):
            under_way.add_event(f"{names.SCOPE}.{names.spelled(kind)}", about, _nanoseconds(event.at))
            return
        about["sevenfold.event"] = kind
        name = f"{names.SCOPE}.{subject}"
        span = self._tracer.start_span(name, attributes=about, start_time=began)
        if names.ERROR in about:
            span.set_status(StatusCode.ERROR, getattr(event, "reason", ""))
        span.end(max(began, _nanoseconds(event.at)))

    def close(self) -> None:
        """End all open spans as unanswered; they get a duration of zero, because the real one is unknown."""
        while self._open:
            _, unanswered = self._open.popitem()
            self._abandon(unanswered, unanswered.sent)

    def _chat(self, model: str, began: int, about: Attributes) -> Span:
        name = f"{names.CHAT} {model}"
        return self._tracer.start_span(name, kind=SpanKind.CLIENT, attributes=about, start_time=began)

    def _abandon(self, unanswered: _Open | None, event: Event) -> None:
        if unanswered:
            unanswered.span.set_attribute(names.ERROR, names.UNANSWERED)
            unanswered.span.set_status(StatusCode.ERROR, "neither an answer nor a failure was reported")
            unanswered.span.end(max(unanswered.began, _nanoseconds(event.at)))

    def _under_way(self, thread: Key) -> Span | None:
        """Return the span of the newest open request of a source, or None."""
        return next((self._open[key].span for key in reversed(self._open) if key[:2] == thread), None)


def _thread(event: Event) -> Key:
    return (event.session, event.source)


def _request(event: RequestEvent) -> Key:
    return (event.session, event.source, event.request)


def _keep(held: dict[Key, Held], key: Key, value: Held, limit: int) -> Held | None:
    """Add a value as the newest; return the oldest one if it had to be removed, else None."""
    held.pop(key, None)
    held[key] = value
    return held.pop(next(iter(held))) if len(held) > limit else None


def _nanoseconds(at: float) -> int:
    """Convert a time to nanoseconds, as OpenTelemetry needs; the current time for an event without one."""
    return int(at * 1e9) if 0 < at < _END_OF_TIME else time_ns()
