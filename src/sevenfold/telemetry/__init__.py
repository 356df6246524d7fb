"""Sinks for events: a JSONL file, or OpenTelemetry. All sinks mask the events they record, and never veto.

Any failure in a sink (a full disk, a broken exporter, an unexpected event) costs one event, which is counted, and
nothing else. A sink may serve several sessions on several threads; it handles one event at a time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from threading import RLock
from typing import Any, Self

from msgspec import structs

from sevenfold.events import Event

Mask = Callable[[str], str]


class Sink(ABC):
    """A listener for events that can be closed."""

    def __init__(self, mask: Mask) -> None:
        self.dropped = 0
        """The number of events that could not be recorded, or came after `close`."""
        self.problem = ""
        """Why the last event was dropped."""
        self._mask = mask
        self._lock = RLock()
        self._closed = False

    def __call__(self, event: Event) -> None:
        """Record an event; never raises, but counts a failure in ``dropped``."""
        self._guarded(lambda: self._take(masked(event, self._mask)))

    def close(self) -> None:
        """Finish everything that is open; later events are only counted as dropped."""
        if not self._closed:
            self._guarded(self._finish)
            self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def _take(self, event: Event) -> None:
        """Record a masked event; may raise."""

    def _finish(self) -> None:  # noqa: B027 (what keeps nothing open has nothing to do)
        """Release all resources; may raise."""

    def _guarded(self, action: Callable[[], None]) -> None:
        with self._lock:
            try:
                if self._closed:
                    raise ValueError("the sink is closed")
                action()
            except Exception as error:  # noqa: BLE001 - whatever it is, the session must continue
                self.dropped += 1
                self.problem = f"{type(error).__name__}: {error}"


def masked(event: Event, mask: Mask) -> Event:
    """Return the event with every text in it masked and encodable as UTF-8."""
    fields = {name: getattr(event, name) for name in event.__struct_fields__}
    fit = {name: _fit(value, mask) for name, value in fields.items()}
    return structs.replace(event, **fit) if fit != fields else event


def _fit(value: Any, mask: Mask) -> Any:
    match value:
        case str() if value:
            # A truncated error message may end in half a character, which cannot be encoded as UTF-8.
            return mask(value).encode("utf-8", "replace").decode()
        case tuple():
            return tuple(_fit(item, mask) for item in value)
        case dict():
            return {_fit(name, mask): _fit(item, mask) for name, item in value.items()}
        case _:
            return value
