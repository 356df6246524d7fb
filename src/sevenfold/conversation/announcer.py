"""Telling listeners what happens, and asking them first where they may refuse."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TypeVar

from msgspec.structs import replace

from sevenfold.events import Event, Listener, Proposed, SteppedAside, Veto, Vetoed
from sevenfold.ports import Clock

_log = logging.getLogger(__name__)
Told = TypeVar("Told", bound=Event)
MAIN = "main"


class Announcer:
    """Stamps events and hands them to everyone who listens, in the order they subscribed."""

    def __init__(
        self, session: str, clock: Clock, listeners: Iterable[Listener] = (), *, source: str = MAIN
    ) -> None:
        self._session = session
        self._clock = clock
        self._source = source
        self._listeners = list(listeners)
        self._resting: dict[str, str] = {}
        self.problems: list[Exception] = []
        """What went wrong in listeners; it is kept from the session, not from whoever asks."""

    def listen(self, listener: Listener) -> None:
        """Add a listener."""
        self._listeners.append(listener)

    def tell(self, event: Event) -> None:
        """Tell everyone."""
        if self._listeners:
            self._ask(event)

    def rests(self, layer: str, reason: str) -> None:
        """A layer rests, or no longer does (no reason); told once, however often it is looked at."""
        if reason and reason != self._resting.get(layer):
            self.tell(SteppedAside(layer=layer, reason=reason))
        self._resting[layer] = reason

    def may(self, proposed: Proposed) -> bool:
        """Ask everyone; the first refusal counts, and everyone hears of it."""
        reason = self._ask(proposed)
        if reason is None:
            return True
        refusal = Vetoed(
            source=proposed.source,
            layer=proposed.layer,
            mechanism=proposed.mechanism,
            what=proposed.what,
            reason=reason,
        )
        self.tell(refusal)
        return False

    def stamped(self, event: Told) -> Told:
        """With session, time and, where a session is not the main thread itself, on whose behalf it talks."""
        source = self._source if event.source == MAIN else event.source
        return replace(event, session=self._session, at=self._clock.now(), source=source)

    def _ask(self, event: Event) -> str | None:
        stamped = self.stamped(event)
        reason = None
        for listener in self._listeners:
            try:
                answer = listener(stamped)
            except Exception as error:  # noqa: BLE001 (whatever a listener does, the session goes on)
                self.problems = [*self.problems[-9:], error]
                _log.warning("a listener failed on %s: %r", type(stamped).__name__, error)
                continue
            if reason is None and isinstance(answer, Veto):
                reason = answer.reason
        return reason
