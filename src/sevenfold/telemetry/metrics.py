"""Converts events to metrics.

Attributes have few values (models, layers, causes, kinds of source), never a session or a request, because every
new value creates a time series. So a gauge shows the last value in this process for one kind of source.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from opentelemetry.metrics import Meter

from sevenfold import events
from sevenfold.telemetry import attributes as names
from sevenfold.telemetry.attributes import Attributes, prompt

_TOKEN_BUCKETS = tuple(4**power for power in range(14))
_DURATION_BUCKETS = tuple(0.01 * 2**power for power in range(14))
"""The bucket boundaries that the semantic conventions require."""


class Metrics:
    """Converts events to measurements."""

    def __init__(self, meter: Meter) -> None:
        gauge = meter.create_gauge
        counter = meter.create_counter
        self._usage = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Tokens of a request, by type",
            explicit_bucket_boundaries_advisory=_TOKEN_BUCKETS,
        )
        self._duration = meter.create_histogram(
            "gen_ai.client.operation.duration",
            "s",
            "How long a request took",
            explicit_bucket_boundaries_advisory=_DURATION_BUCKETS,
        )
        self._tokens = gauge("sevenfold.context.tokens", "{token}", "Size of the context, as last seen")
        self._left = gauge("sevenfold.context.percent_left", "%", "Room before compaction, as last seen")
        self._wire = gauge("sevenfold.context.wire_bytes", "By", "Size of the body, as last seen")
        self._cost = counter("sevenfold.cost", "{USD}", "What requests cost")
        self._actions = counter("sevenfold.layer.actions", "{action}", "How often a layer acted")
        self._freed = counter(
            "sevenfold.layer.freed_tokens", "{token}", "What layers took out of the context"
        )
        self._vetoes = counter(
            "sevenfold.layer.vetoes", "{veto}", "How often a listener kept a layer from acting"
        )
        self._aside = counter(
            "sevenfold.layer.stepped_aside", "{failure}", "How often a layer could not help"
        )
        self._breaks = counter(
            "sevenfold.cache.breaks", "{break}", "How often less was cached than was left there"
        )
        self._lost = counter(
            "sevenfold.cache.lost_tokens", "{token}", "What had to be written to the cache again"
        )

    def checked(self, event: events.Checked) -> None:
        """Record the size of the context before a request."""
        source = _source(event)
        self._tokens.set(event.used, source)
        self._left.set(event.percent_left, source)
        self._wire.set(event.wire, source)

    def ended(self, event: events.Answered | events.Failed, sent: events.Sending | None) -> None:
        """Record time, tokens and cost of a request; for a failed one, what the provider had reported by then."""
        seconds = event.at - sent.at if sent else 0.0
        request_attributes: Attributes = {names.OPERATION: names.CHAT, names.PROVIDER: event.provider}
        request_attributes[names.REQUEST_MODEL] = sent.model if sent else event.model
        if isinstance(event, events.Failed):
            request_attributes[names.ERROR] = event.error
        else:
            request_attributes[names.RESPONSE_MODEL] = event.model
            seconds = event.seconds or seconds
        _measure(self._duration.record, seconds, request_attributes)
        _measure(self._usage.record, prompt(event), {**request_attributes, names.TOKEN_TYPE: "input"})
        _measure(
            self._usage.record, event.output_tokens, {**request_attributes, names.TOKEN_TYPE: "output"}
        )
        _measure(self._cost.add, event.usd, {**request_attributes, **_source(event)})

    def happened(self, event: events.Event) -> None:
        """Count any other event that has a metric."""
        match event:
            case events.Acted():
                self._actions.add(1, _how(event))
                _measure(self._freed.add, event.tokens_before - event.tokens_after, _how(event))
            case events.Vetoed():
                self._vetoes.add(1, _how(event))
            case events.SteppedAside():
                error: Attributes = {names.ERROR: event.error} if event.error else {}
                self._aside.add(1, {"sevenfold.layer": event.layer, **error})
            case events.CacheBroke():
                why: Attributes = {"sevenfold.cause": event.cause, "sevenfold.expected": event.expected}
                self._breaks.add(1, why)
                _measure(self._lost.add, event.tokens, why)


def _source(event: events.Event) -> Attributes:
    """Return the kind of source only: ``agent`` for ``agent:reviewer``."""
    return {"sevenfold.source": event.source.partition(":")[0]}


def _how(event: events.LayerEvent) -> Attributes:
    return {"sevenfold.layer": event.layer, "sevenfold.mechanism": event.mechanism}


def _measure(take: Callable[[float, Attributes], None], amount: float | None, about: Attributes) -> None:
    """Record a positive, finite amount only: counters reject negative values, and infinity would never go away."""
    if amount is not None and 0 < amount < math.inf:
        take(amount, about)
