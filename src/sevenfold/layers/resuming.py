"""What a conversation costs whose cache has expired, from the next message to the end of what follows from it.

The next request writes the conversation to the cache again, unless it is compacted first. Then the answer is paid for,
and after it the layers that work in the background read the conversation from the cache.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from sevenfold.profiles import Price
from sevenfold.request.watch import SECONDS

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation
    from sevenfold.layers.compact.compaction import Preview
    from sevenfold.record.gauge import Size

RECENT = 20
"""How many of the newest answers show how long the next one will be."""
USUAL_ANSWER = 500
"""Tokens of an answer if there is none to judge by."""
SIDE_ANSWER = 1_000
"""Tokens that a background request writes, as a rule."""
LONG_SIDE_ANSWER = 4_000
MOST_SIDE_REQUESTS = 3
"""How many requests a layer in the background makes at most, as a rule: it may read something first."""


class GoingOn(Struct, frozen=True):
    """The price of going on, in dollars."""

    usd: float
    low: float
    high: float
    layers: tuple[str, ...]
    """The layers whose work is part of the price."""


def going_on(c: Conversation, size: Size, cleared: int, preview: Preview | None) -> GoingOn | None:
    """The price of the next message; ``cleared`` tokens will be cleared first. None if a price is unknown."""
    price = c.profile.price(size.tokens)
    if price is None:
        return None
    layers = [name for name, works in (("notes", _keeps_notes(c)), ("memory", _remembers(c))) if works]
    write = price.write(SECONDS[c.epoch.lifetimes.tail]) / 1e6
    sent = max(0, size.tokens - cleared)
    low = max(0, size.low - cleared)
    high = max(0, size.high - cleared)
    usd = sent * write
    usd_low = low * write
    usd_high = high * write
    if _compacts_first(c, sent, preview) and preview is not None and preview.usd is not None:
        layers.insert(0, "compaction")
        usd = preview.usd
        usd_low = min(usd_low, preview.usd / 2)
        # The summary's call may find nothing in the cache, or may fail and be made again.
        usd_high += preview.usd * 2
        sent = high = preview.tokens_after
    answer, longest = _answer_tokens(c)
    usd += answer * price.output / 1e6
    usd_high += longest * price.output / 1e6
    for name in layers:
        if name != "compaction":
            usd += _side_usd(price, sent, SIDE_ANSWER)
            usd_high += MOST_SIDE_REQUESTS * _side_usd(price, high, LONG_SIDE_ANSWER)
    return GoingOn(usd, usd_low, max(usd_high, usd), tuple(layers))


def _side_usd(price: Price, read: int, written: int) -> float:
    """The price of a request that reads the conversation from the cache."""
    return (read * price.read + written * price.output) / 1e6


def _compacts_first(c: Conversation, size: int, preview: Preview | None) -> bool:
    return c.settings.auto_compact and preview is not None and size >= c.window.threshold


def _keeps_notes(c: Conversation) -> bool:
    return c.services.notes is not None and c.settings.notes and c.background is not None


def _remembers(c: Conversation) -> bool:
    return c.services.memory is not None and c.settings.extraction and c.background is not None


def _answer_tokens(c: Conversation) -> tuple[int, int]:
    """How many tokens the next answer will have, judged by the newest ones: usually, and at most."""
    newest = islice(c.transcript.log.answers(), RECENT)
    usages = (record.usage for record in newest if not record.sidechain and not record.synthetic)
    answers = [usage.output_tokens for usage in usages if usage is not None]
    if not answers:
        return USUAL_ANSWER, 8 * USUAL_ANSWER
    return sum(answers) // len(answers), max(USUAL_ANSWER, 2 * max(answers))
