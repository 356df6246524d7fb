"""Counts and sizes of a server, for Prometheus as text and for OpenTelemetry as instruments.

No label has the name of a tenant, a user or a session: each value of a label is a time series of its own, and whoever
may read the metrics need not know who the users are.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from sevenfold import events

SECONDS = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0, 300.0, 1800.0)
"""The upper ends of the buckets of durations."""
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = tuple[tuple[str, str], ...]
_COUNTERS: Mapping[str, str] = {
    "requests": "HTTP requests, by route and status",
    "runs": "Runs of agents, by how they ended",
    "model_calls": "Answers of models, by model",
    "tokens": "Tokens of models, by kind",
    "cost_usd": "Dollars that models cost",
    "budget_refusals": "Calls and requests that a budget did not allow",
    "refusals": "Requests that were not carried out, by the type of the error",
}
_DURATIONS: Mapping[str, str] = {
    "request_seconds": "Time to the first byte of an answer, by route",
    "run_seconds": "How long runs took",
}


class ServerMetrics:
    """The metrics of one server; every method may be called by any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, defaultdict[Labels, float]] = {
            name: defaultdict(float) for name in _COUNTERS
        }
        self._durations: dict[str, dict[Labels, list[float]]] = {name: {} for name in _DURATIONS}
        """For each series its buckets, with one for everything above, then the sum."""
        self._gauges: dict[str, tuple[str, Callable[[], float]]] = {}
        self._histograms: dict[str, Any] = {}

    def count(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Add to a counter."""
        if 0 < amount < math.inf:
            with self._lock:
                self._counts[name][tuple(sorted(labels.items()))] += amount

    def took(self, name: str, seconds: float, **labels: str) -> None:
        """Enter a duration."""
        key = tuple(sorted(labels.items()))
        with self._lock:
            series = self._durations[name].setdefault(key, [0.0] * (len(SECONDS) + 2))
            series[bisect_left(SECONDS, seconds)] += 1
            series[-1] += seconds
        if name in self._histograms:
            self._histograms[name].record(seconds, dict(labels))

    def gauge(self, name: str, about: str, value: Callable[[], float]) -> None:
        """Declare a value that is computed whenever the metrics are read."""
        self._gauges[name] = (about, value)

    def listen(self, event: events.Event) -> None:
        """Count an event of the engine."""
        if isinstance(event, events.Answered):
            self.count("model_calls", model=event.model)
            self.count("tokens", event.input_tokens, kind="input")
            self.count("tokens", event.cache_read_tokens, kind="cache_read")
            self.count("tokens", event.cache_write_tokens, kind="cache_write")
            self.count("tokens", event.output_tokens, kind="output")
        if isinstance(event, events.Answered | events.Failed) and event.usd is not None:
            self.count("cost_usd", event.usd)

    def text(self) -> str:
        """All metrics in the text format of Prometheus."""
        with self._lock:
            lines = [*self._counter_lines(), *self._duration_lines()]
        for name, (about, value) in self._gauges.items():
            lines += _head(name, about, "gauge")
            lines.append(f"sevenfold_server_{name} {_number(value())}")
        return "\n".join(lines) + "\n"

    def _counter_lines(self) -> Iterator[str]:
        for name, about in _COUNTERS.items():
            yield from _head(f"{name}_total", about, "counter")
            for labels, amount in sorted(self._counts[name].items()):
                yield f"sevenfold_server_{name}_total{_braced(labels)} {_number(amount)}"

    def _duration_lines(self) -> Iterator[str]:
        for name, about in _DURATIONS.items():
            yield from _head(name, about, "histogram")
            for labels, series in sorted(self._durations[name].items()):
                total = 0.0
                for bound, number in zip((*map(str, SECONDS), "+Inf"), series[:-1], strict=True):
                    total += number
                    full = (*labels, ("le", bound))
                    yield f"sevenfold_server_{name}_bucket{_braced(full)} {_number(total)}"
                yield f"sevenfold_server_{name}_sum{_braced(labels)} {_number(series[-1])}"
                yield f"sevenfold_server_{name}_count{_braced(labels)} {_number(total)}"

    # -- OpenTelemetry ---------------------------------------------------------------------------

    def instruments(self, meter: Any) -> None:
        """Make instruments of an OpenTelemetry meter that show the same."""
        from opentelemetry.metrics import Observation

        def counted(name: str) -> Callable[[Any], Iterable[Any]]:
            def observe(options: Any) -> Iterable[Any]:
                with self._lock:
                    series = list(self._counts[name].items())
                return [Observation(amount, dict(labels)) for labels, amount in series]

            return observe

        def looked_at(value: Callable[[], float]) -> Callable[[Any], Iterable[Any]]:
            return lambda options: [Observation(value())]

        for name, about in _COUNTERS.items():
            meter.create_observable_counter(
                f"sevenfold.server.{name}", callbacks=[counted(name)], description=about
            )
        for name, (about, value) in self._gauges.items():
            meter.create_observable_gauge(
                f"sevenfold.server.{name}", callbacks=[looked_at(value)], description=about
            )
        for name, about in _DURATIONS.items():
            self._histograms[name] = meter.create_histogram(f"sevenfold.server.{name}", "s", about)


def _head(name: str, about: str, kind: str) -> list[str]:
    return [f"# HELP sevenfold_server_{name} {about}", f"# TYPE sevenfold_server_{name} {kind}"]


def _braced(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
