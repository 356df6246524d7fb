"""Sends events to OpenTelemetry, for any backend that the program has set up.

Only the API is needed here (the extra `otel`), and it is loaded when a sink is created. The program sets up and shuts
down providers and exporters; without any, events are discarded at little cost. No content of the conversation is
recorded, because events contain none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sevenfold import __version__
from sevenfold.errors import SettingError
from sevenfold.events import Answered, Checked, Event, Failed, Proposed, Sending
from sevenfold.record.redact import mask_text
from sevenfold.telemetry import Mask, Sink
from sevenfold.telemetry import attributes as names

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider


class OtelSink(Sink):
    """Records spans and metrics with the given providers, or with the program's global ones."""

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        *,
        mask: Mask = mask_text,
    ) -> None:
        super().__init__(mask)
        try:
            from opentelemetry.metrics import get_meter
            from opentelemetry.trace import get_tracer
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("opentelemetry"):
                raise
            raise SettingError(
                "Sending telemetry to OpenTelemetry needs its API: pip install 'sevenfold[otel]'"
            ) from None
        from sevenfold.telemetry.metrics import Metrics
        from sevenfold.telemetry.spans import Spans

        self._spans = Spans(get_tracer(names.SCOPE, __version__, tracer_provider))
        self._metrics = Metrics(get_meter(names.SCOPE, __version__, meter_provider))

    def _take(self, event: Event) -> None:
        match event:
            case Checked():
                self._metrics.checked(event)
            case Sending():
                self._spans.sending(event)
            case Answered() | Failed():
                self._metrics.ended(event, self._spans.ended(event))
            case Proposed():
                self._spans.proposed(event)
            case _:
                self._spans.happened(event)
                self._metrics.happened(event)

    def _finish(self) -> None:
        self._spans.close()
