"""Going on without what a provider refused, where it is known what that was and the conversation is whole without it.

A summary that only the provider could read, and no longer can (another account, a changed key), goes first: ours is
sent with it and stays. Then reasoning. A cache lifetime of an hour becomes five minutes for the rest of the session.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sevenfold.conversation.epoch import REFUSED_LIFETIME
from sevenfold.errors import BoundThinking, ModelError, RequestRefused
from sevenfold.events import SteppedAside
from sevenfold.record import blocks
from sevenfold.record.decisions import Signed, Undone
from sevenfold.request.frame import Lifetimes

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation

_LIFETIME = re.compile(r"\bttl\b", re.IGNORECASE)


def recover(c: Conversation, error: ModelError) -> bool:
    """Leave out of the next request what was refused in this one; False if that is not possible."""
    match error:
        case BoundThinking():
            return _without_opaque_summary(c) or _without_reasoning(c)
        case RequestRefused() if _LIFETIME.search(str(error)):
            return _without_long_lifetime(c)
        case _:
            return False


def _without_opaque_summary(c: Conversation) -> bool:
    made = _shown_summary(c)
    if made is None:
        return False
    c.announce("the provider refused its summary")
    c.transcript.decide(Undone(decision=made.id))
    reason = "the provider can no longer read its own summary: the readable one goes on without it"
    c.events.tell(SteppedAside(layer="compact", reason=reason))
    return True


def _shown_summary(c: Conversation) -> Signed | None:
    view = c.transcript.view
    shown = {block.raw for item in view.items if item.said.summary for block in item.shown}
    for made in view.decisions():
        if isinstance(made, Signed) and bytes(made.block) in shown and made.id not in view.undone:
            return made if blocks.opaque(blocks.read(bytes(made.block))) else None
    return None


def _without_reasoning(c: Conversation) -> bool:
    if not c.transcript.view.weight.thoughts:
        return False
    c.open_epoch("the provider refused the reasoning", drops_thinking=True)
    return True


def _without_long_lifetime(c: Conversation) -> bool:
    if c.lifetimes == Lifetimes():
        return False
    c.lifetimes = Lifetimes()
    c.open_epoch(REFUSED_LIFETIME)
    # Markers are no part of what reasoning is bound to.
    c.vouched = True
    reason = "the provider does not keep the cache for an hour: five minutes for the rest of the session"
    c.events.tell(SteppedAside(layer="cache", reason=reason))
    return True
