"""Waiting for a provider that cannot answer now: how long, how often, and what the user sees.

The pauses double up to a minute, and are lengthened at random, so that clients that were refused together do not all
come back together. A provider that says how long to wait is never asked earlier than that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from zlib import crc32

from sevenfold.conversation.flow import Flow, Signal, Wait
from sevenfold.errors import (
    Aborted,
    ModelError,
    Network,
    Overloaded,
    RateLimited,
    RequestRefused,
    Unreachable,
)
from sevenfold.events import Waiting
from sevenfold.record.log import Answer

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
"""The longest pause that is not the provider's wish, in seconds."""
JITTER = 0.25
"""The largest share by which a pause is lengthened at random."""
LONGEST_WISH = 1_800.0
"""If a provider asks for a longer pause than this, its error is raised at once."""
FIRST_CONTACT = 4
"""Retries of a server that never answered in this session: its address is more likely wrong than the network down."""

FOR_EVER = 1_000_000
"""From this many retries on, no limit is meant: at a minute each they take two years."""

_NETWORK: Mapping[Network, str] = {
    "name": "no network: the server's name is not known",
    "refused": "the server refuses the connection",
    "reset": "the connection broke off",
    "secure": "no secure connection",
    "silent": "the server went silent",
    "proxy": "the proxy does not connect",
    "connect": "the server cannot be reached",
}
_ADVICE: Mapping[type[ModelError], str] = {
    Overloaded: "The provider is overloaded: continue later, or with another model",
    RateLimited: "Continue later, or look at the account's limits",
    Unreachable: "Check the network, and continue when it is back",
}
_REFUSED_ADVICE = (
    "The same request would be refused again: change what the error names, take back the last message (rewind(), "
    "/rewind), or go on with another model"
)
_USUAL_ADVICE = "Continue later; if it stays so, look at the provider's status page"


class Retries:
    """The retries of one request."""

    def __init__(self, c: Conversation, *, source: str = "main", most: int | None = None) -> None:
        """``most`` limits the retries further than the setting ``max_retries`` does."""
        self._c = c
        self._source = source
        allowed = c.settings.max_retries
        self._most = allowed if most is None else min(allowed, most)
        self._began = c.clock.now()
        self.taken = 0
        """How many retries there were."""

    def again(self, error: ModelError, stopped: Signal, *, reached: bool = True) -> Flow[bool]:
        """Wait before the next attempt, or return False if there is none; the error's text then says what was tried.

        Raises `Aborted` if ``stopped`` happens. ``reached`` says whether the server ever answered in this session.
        """
        allowed = self._most
        if not reached and isinstance(error, Unreachable) and allowed < FOR_EVER:
            allowed = min(allowed, FIRST_CONTACT)
        request_id = request_id_of(error)
        seconds = pause_before(error, self.taken + 1, request_id)
        if seconds is None or self.taken >= allowed:
            self._explain(error)
            return False
        self.taken += 1
        self._c.events.tell(
            Waiting(
                source=self._source,
                attempt=self.taken,
                of=allowed,
                status=error.status,
                until=self._c.clock.now() + seconds,
                seconds=seconds,
                request_id=request_id,
                what=describe(error),
                error=type(error).__name__,
                reason=str(error),
            )
        )
        if (yield from Wait(stopped, seconds)):
            raise Aborted() from error
        return True

    def _explain(self, error: ModelError) -> None:
        """Add to the error's text what was tried, and what the user can do."""
        facts = []
        if error.status is not None:
            facts.append(f"status {error.status}")
        if request_id := request_id_of(error):
            facts.append(f"request {request_id}")
        if self.taken:
            minutes, seconds = divmod(round(self._c.clock.now() - self._began), 60)
            lasted = f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
            facts.append(f"{self.taken + 1} attempts in {lasted}")
        text = str(error).rstrip(".")
        if facts:
            text = f"{text} [{', '.join(facts)}]"
        if error.retryable:
            wish = error.retry_after
            if wish is not None and wish > LONGEST_WISH:
                text = f"{text}. The provider asks to wait {_long(wish)}"
            text = f"{text}. {_ADVICE.get(type(error), _USUAL_ADVICE)}. Nothing is lost"
        elif isinstance(error, RequestRefused):
            text = f"{text}. {_REFUSED_ADVICE}. Nothing is lost"
        error.args = (text,)


def pause_before(error: ModelError, retry: int, spread: str = "") -> float | None:
    """Seconds to wait before a retry, counted from 1; None if the request should not be sent again.

    ``spread`` is any text that differs between clients; it decides how much the pause is lengthened.
    """
    if not error.retryable:
        return None
    longer = 1 + JITTER * (crc32(f"{spread} {retry}".encode()) / 2**32)
    usual = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(retry - 1, 30)) * longer
    wish = error.retry_after
    if wish is None:
        return usual
    if wish > LONGEST_WISH:
        return None
    # A short wish that was of no use is repeated with every refusal: obeyed to the second, it would use up all
    # retries within a minute or two of an outage that lasts much longer.
    return max(wish, usual)


def describe(error: ModelError) -> str:
    """What went wrong, in a few words, with the status."""
    status = "" if error.status is None else f" ({error.status})"
    if isinstance(error, RateLimited):
        return f"rate limit reached{status}"
    if isinstance(error, Overloaded):
        return f"API overloaded{status}"
    if error.network:
        return _NETWORK[error.network]
    if error.status is not None:
        return f"API error{status}"
    return "the answer broke off"


def request_id_of(error: ModelError) -> str:
    """The provider's id of the failed request; empty if it gave none."""
    if not error.request_id and isinstance(error.partial, Answer):
        return error.partial.request_id or ""
    return error.request_id


def _long(seconds: float) -> str:
    """A long time in words."""
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} minutes"
    hours = seconds / 3600
    return f"{hours:.0f} hours" if hours < 48 else f"{hours / 24:.0f} days"
