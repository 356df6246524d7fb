"""A real OpenTelemetry SDK that keeps what it gets in memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from opentelemetry.context import Context
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, SpanKind, StatusCode

from sevenfold.events import Event, Listener
from sevenfold.telemetry import Mask
from sevenfold.telemetry.otel import OtelSink


class Told(NamedTuple):
    """What is compared of a span."""

    name: str
    kind: SpanKind
    attributes: dict[str, Any]
    began: int
    ended: int
    status: StatusCode
    description: str | None
    events: tuple[SpanEvent, ...]
    parent: SpanContext | None

    @property
    def seconds(self) -> float:
        return (self.ended - self.began) / 1e9


class SpanEvent(NamedTuple):
    """What is compared of an event on a span."""

    name: str
    attributes: dict[str, Any]
    at: int


class UnderWay(SpanProcessor):
    """Counts spans that have begun and not ended."""

    def __init__(self) -> None:
        self.count = 0

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self.count += 1

    def on_end(self, span: ReadableSpan) -> None:
        self.count -= 1


class Collected:
    """A sink and everything the SDK got from it."""

    def __init__(self, mask: Mask = str) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._under_way = UnderWay()
        self.tracers.add_span_processor(self._under_way)
        self._meters = MeterProvider([self._reader], shutdown_on_exit=False)
        self.sink = OtelSink(self.tracers, self._meters, mask=mask)

    @property
    def open_spans(self) -> int:
        """How many have begun and not ended."""
        return self._under_way.count

    def __call__(self, *events: Event) -> Collected:
        listener: Listener = self.sink
        for event in events:
            assert listener(event) is None, "a sink vetoes nothing"
        return self

    @property
    def spans(self) -> list[Told]:
        """Those that have ended."""
        return [_told(span) for span in self._exporter.get_finished_spans()]

    @property
    def span(self) -> Told:
        """The one that has ended."""
        (only,) = self.spans
        return only

    def measured(self) -> dict[str, list[tuple[dict[str, Any], Any]]]:
        """Every metric with its points: their attributes, and a value, or the sum of a histogram."""
        data = self._reader.get_metrics_data()
        metrics: Iterable[Any] = (
            metric
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
        )
        return {
            metric.name: [
                (dict(point.attributes), point.sum if hasattr(point, "sum") else point.value)
                for point in metric.data.data_points
            ]
            for metric in metrics
        }


def _told(span: ReadableSpan) -> Told:
    assert span.start_time is not None
    assert span.end_time is not None
    return Told(
        span.name,
        span.kind,
        dict(span.attributes or {}),
        span.start_time,
        span.end_time,
        span.status.status_code,
        span.status.description,
        tuple(
            SpanEvent(event.name, dict(event.attributes or {}), event.timestamp) for event in span.events
        ),
        span.parent,
    )
