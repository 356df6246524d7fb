"""Going on without what a provider refused, where it is known what that was and the conversation is whole without it.

A summary that only the provider could read, and no longer can (another account, a key of its own that changed), goes
first: ours is sent with it and stays. Then reasoning. An hour in the cache becomes five minutes for the rest of the
session.
"""

from __future__ import annotations

import re

from sevenfold.conversation.events import Announcer
from sevenfold.conversation.exchange import Exchange
from sevenfold.conversation.transcript import Transcript
from sevenfold.errors import BoundThinking, ModelError, RequestRefused
from sevenfold.events import SteppedAside
from sevenfold.record import blocks
from sevenfold.record.decisions import Signed, Undone
from sevenfold.request.plan import Lifetimes

REFUSED_LIFETIME = "the provider refused the long lifetime"
"""The reason of the epoch in which the cache is kept for the shorter time."""
_LIFETIME = re.compile(r"\bttl\b", re.IGNORECASE)


def mend(error: ModelError, transcript: Transcript, exchange: Exchange, announcer: Announcer) -> bool:
    """Leave out of the next request what was refused in this one; False if nothing can be."""
    match error:
        case BoundThinking():
            return _opaque_summary(transcript, exchange, announcer) or _reasoning(transcript, exchange)
        case RequestRefused() if _LIFETIME.search(str(error)):
            return _long_lifetime(exchange, announcer)
        case _:
            return False


def _opaque_summary(transcript: Transcript, exchange: Exchange, announcer: Announcer) -> bool:
    made = _shown_summary(transcript)
    if made is None:
        return False
    exchange.announce("the provider refused its summary")
    transcript.decide(Undone(decision=made.id))
    reason = "the provider can no longer read its own summary: the readable one goes on without it"
    announcer.tell(SteppedAside(layer="compact", reason=reason))
    return True


def _shown_summary(transcript: Transcript) -> Signed | None:
    view = transcript.view
    shown = {block.raw for item in view.items if item.said.summary for block in item.shown}
    for made in view.decisions():
        if isinstance(made, Signed) and bytes(made.block) in shown and made.id not in view.undone:
            return made if blocks.opaque(blocks.read(bytes(made.block))) else None
    return None


def _reasoning(transcript: Transcript, exchange: Exchange) -> bool:
    if not transcript.view.weight.thoughts:
        return False
    exchange.open("the provider refused the reasoning", drops_thinking=True)
    return True


def _long_lifetime(exchange: Exchange, announcer: Announcer) -> bool:
    if exchange.lifetimes == Lifetimes():
        return False
    exchange.lifetimes = Lifetimes()
    exchange.open(REFUSED_LIFETIME)
    # Markers are no part of what reasoning is bound to.
    exchange.vouch()
    reason = "the provider does not keep the cache for an hour: five minutes for the rest of the session"
    announcer.tell(SteppedAside(layer="cache", reason=reason))
    return True
