"""Keeps the cache of a large conversation warm by itself: while tools run for long, and while the user is away.

Shortly before the cache expires it is read once, if the price says so (`sevenfold.layers.idle`). Nothing is compacted
by itself: that changes what the model sees, so it is for a driver that knows that the user is not about to continue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sevenfold.layers.idle import SOURCE, Idleness, idle
from sevenfold.settings import Settings

if TYPE_CHECKING:
    from sevenfold.conversation.background import Stop
    from sevenfold.conversation.conversation import Conversation
    from sevenfold.layers.idle import IdleDecision

BEAT_SECONDS = 10.0
"""Seconds between two looks; with the shortest lifetime, a choice is made in the last thirty."""


class KeepWarm:
    """The layer."""

    name = "keep_warm"

    def on(self, settings: Settings) -> bool:
        """See `Layer`."""
        return settings.keep_warm

    def after_answer(self, c: Conversation) -> None:
        """Look from now on whether the cache is about to expire."""
        c.state(Warmth).begin()


class Warmth:
    """Looks from time to time whether the cache is about to expire, until the conversation is closed."""

    seconds = 0.0
    """Closing does not wait for it."""
    busy = False

    def __init__(self, c: Conversation) -> None:
        self._c = c
        self._stop: Stop | None = None
        self._at_work = False

    def begin(self) -> None:
        """Start looking, once the conversation is worth it."""
        c = self._c
        if self._stop is None and c.background is not None and c.state(Idleness).large:
            self._stop = c.background.every(BEAT_SECONDS, self.look)
            c.finish_before_closing(self)

    def look(self) -> None:
        """Keep the cache alive in the background, if it is about to expire and that is likely to save money."""
        with self._c.lock:
            if self._at_work or self._stop is None:
                return
            if self._c.state(Idleness).due_in(alone=True) == 0.0:
                self._at_work = True
                self._c.run_background(idle(self._c, alone=True), self._done, SOURCE)

    def _done(self, outcome: IdleDecision | Exception) -> None:
        self._at_work = False
        if isinstance(outcome, Exception):
            self._c.events.aside("idle", str(outcome), source=SOURCE)

    def leave(self) -> None:
        """Stop looking; see `Ending`."""
        if self._stop is not None:
            self._stop()
            self._stop = None

    def hurry(self) -> None:
        """See `Ending`."""

    def left(self) -> None:
        """See `Ending`."""
