"""What a compaction would do to the cache and to the bill, before it is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sevenfold.layers.compact.request import OUTPUT_CAP, Preview
from sevenfold.record import blocks
from sevenfold.record.weight import measure
from sevenfold.request.watch import SECONDS

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation
    from sevenfold.layers.compact.request import EngineName
    from sevenfold.layers.compact.scope import Scope
    from sevenfold.profiles import Price
    from sevenfold.record.gauge import Gauge
    from sevenfold.record.layout import Item

ANSWER_SHARE = 1.5
"""What a model writes for a summary, its analysis included, in lengths of that summary."""


SHARE = 0.2
"""Of what is summarised for the first time, the most a summary may be."""
LEAST_SUMMARY = 1_500


def preview(
    c: Conversation, divided: Scope, engine: EngineName, summary: int, *, around: int = 0, warm: bool
) -> Preview:
    """Sizes and costs; ``summary`` is the most the summary may have, ``around`` the message it is sent in."""
    fixed = c.gauge.fixed
    hidden, front, behind = (_tokens(c, part) for part in (divided.hidden, divided.front, divided.behind))
    left = after(c, divided, summary + around)
    read = fixed + front if warm else 0
    size = c.size()
    price = c.profile.price(size.tokens)
    asked = fixed + front * (divided.span in ("from", "range")) + hidden
    written = left - read
    return Preview(
        span=divided.span,
        engine=engine,
        summarised=len(divided.hidden),
        kept=len(divided.kept),
        tokens_before=size.tokens,
        tokens_hidden=hidden,
        tokens_kept=front + behind,
        tokens_summary=summary,
        tokens_after=left,
        read=read,
        written=written,
        call_usd=_call(c, engine, asked, summary, price, warm=warm),
        next_usd=None if price is None else (read * price.read + written * _write(c, price)) / 1e6,
    )


def room(c: Conversation, divided: Scope) -> int:
    """The most a summary may have: a share of what is new, and all an earlier one had, or it would wear away."""
    before = _tokens(c, [item for item in divided.hidden if item.said.summary])
    fresh = _tokens(c, divided.hidden) - before
    least = min(LEAST_SUMMARY, c.window.threshold // 8)
    return max(least, min(before + int(fresh * SHARE), c.window.budget(c.settings.summary_tokens)))


def after(c: Conversation, divided: Scope, added: int) -> int:
    """The size of the conversation with so many tokens, a summary's above all, in place of what it hides.

    Behind a summary the conversation begins with what is wanted before its messages by now.
    """
    return _gauge(c, divided).fixed + _tokens(c, divided.kept) + added


def at_most(c: Conversation, divided: Scope, said: str) -> int:
    """The most it can have with that text in place of what it hides: by this the next request is judged."""
    weight = sum((item.weight for item in divided.kept), measure(blocks.text(said)))
    return _gauge(c, divided).unanchored(weight).high


def _gauge(c: Conversation, divided: Scope) -> Gauge:
    gauge, wanted = c.gauge, c.wanted
    if divided.side == "before" or divided.span == "range":
        return gauge
    return gauge.opened(*wanted.tools, *wanted.system)


def _tokens(c: Conversation, items: Sequence[Item]) -> int:
    return sum(map(c.item_tokens, items))


def _call(
    c: Conversation, engine: EngineName, asked: int, summary: int, price: Price | None, *, warm: bool
) -> float | None:
    if engine in ("extractive", "notes"):
        return 0.0
    if price is None:
        return None
    shares = engine in ("fork", "provider")
    each = price.input if not shares else price.read if warm else _write(c, price)
    answer = min(OUTPUT_CAP, int(summary * ANSWER_SHARE))
    return (asked * each + answer * price.output) / 1e6


def _write(c: Conversation, price: Price) -> float:
    return price.write(SECONDS[c.lifetimes.tail])
