"""What all sinks have in common: they listen, mask what they take, and never disturb the session.

Whatever goes wrong in a sink (a full disk, a broken exporter, an event nobody foresaw) costs one event, which is
counted, and nothing else. A sink may serve several sessions on several threads; it takes one event at a time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from threading import RLock
from types import TracebackType
from typing import Self

from msgspec import structs

from sevenfold.events import Event

Mask = Callable[[str], str]


def unmasked(text: str) -> str:
    """The mask that hides nothing."""
    return text


class Sink(ABC):
    """A listener with an end."""

    def __init__(self, mask: Mask) -> None:
        self.dropped = 0
        """Events that could not be taken, or came after the end."""
        self.problem = ""
        """Why the last of them was dropped."""
        self._mask = mask
        self._lock = RLock()
        self._closed = False

    def __call__(self, event: Event) -> None:
        """Take an event."""
        self._guarded(lambda: self._take(masked(event, self._mask)))

    def close(self) -> None:
        """Finish what is open; events that come later are only counted."""
        if not self._closed:
            self._guarded(self._finish)
            self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def _take(self, event: Event) -> None:
        """Record a masked event; may raise."""

    @abstractmethod
    def _finish(self) -> None:
        """Let go of everything; may raise."""

    def _guarded(self, action: Callable[[], None]) -> None:
        with self._lock:
            try:
                if self._closed:
                    raise ValueError("the sink is closed")
                action()
            except Exception as error:  # noqa: BLE001 - whatever it is, the session must go on
                self.dropped += 1
                self.problem = f"{type(error).__name__}: {error}"


def masked(event: Event, mask: Mask) -> Event:
    """The event with every text in it masked, and fit to be encoded."""
    changed = {}
    for name in event.__struct_fields__:
        value = getattr(event, name)
        if isinstance(value, str):
            fit: object = _fit(value, mask)
        elif isinstance(value, tuple):
            fit = tuple(_fit(item, mask) if isinstance(item, str) else item for item in value)
        else:
            continue
        if fit != value:
            changed[name] = fit
    return structs.replace(event, **changed) if changed else event


def _fit(text: str, mask: Mask) -> str:
    text = mask(text) if text else text
    # Half a character, as a cut-off error message may end with, has no UTF-8.
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
