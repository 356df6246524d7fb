"""Asks the provider how large the next request is when the estimate is too rough to decide by.

Before a tokenizer is known, an estimate may be off by half. A conversation would then be summarised or refused that
fits, or sent that does not. Providers count tokens without charge, but not at once and only after getting the whole
request, so they are asked only if a limit lies within the band, and if the band is wide.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sevenfold.conversation.flow import CountTokens, Flow
from sevenfold.conversation.request import call_for
from sevenfold.request.frame import assemble

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation

WIDE = 0.02
"""The share of the window from which on a band is worth a count."""


def leaves_open(c: Conversation) -> bool:
    """Whether the estimate of the next request leaves open what to do about its size, and a count would tell."""
    size = c.measure()
    window = c.window
    if size.high - size.tokens < WIDE * window.context:
        return False
    # What the provider's own edits remove is counted before or after them, depending on the API.
    if not c.settings.token_counting or c.epoch.frame.edits or size.sent != size.tokens:
        return False
    return any(size.low < limit <= size.high for limit in (window.threshold, window.blocking))


def have_counted(c: Conversation, fields: Mapping[str, bytes]) -> Flow[None]:
    """Have the provider count the next request, and take the count for its size."""
    view = c.transcript.view
    newest = view.tip, view.version
    frame = c.epoch.frame.with_fields(fields)
    body = assemble(frame, tuple(view.messages()), message_pieces=view.pieces())
    tokens = yield from CountTokens(call_for(c, body, frame))
    # Something may have been said while the provider counted.
    if tokens is not None and c.transcript.view is view and (view.tip, view.version) == newest:
        c.take_count(tokens)
