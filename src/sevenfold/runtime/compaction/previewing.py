"""What a compaction would do to the cache and to the bill, before it is made."""

from __future__ import annotations

from collections.abc import Sequence

from sevenfold.layers.scope import Scope
from sevenfold.profiles import Price, Profile
from sevenfold.record.layout import Item
from sevenfold.request.watch import SECONDS
from sevenfold.runtime.compaction.engines import OUTPUT_CAP
from sevenfold.runtime.compaction.wish import Engine, Preview
from sevenfold.runtime.exchange import Exchange

ANSWER_SHARE = 1.5
"""What a model writes for a summary, its analysis included, in lengths of that summary."""


class Forecaster:
    """Reckons beforehand."""

    def __init__(self, exchange: Exchange, profile: Profile) -> None:
        self._exchange = exchange
        self._profile = profile

    def preview(
        self, divided: Scope, engine: Engine, summary: int, *, around: int = 0, warm: bool
    ) -> Preview:
        """Sizes and costs; ``summary`` is the most the summary may have, ``around`` the message it is told in."""
        fixed = self._exchange.gauge.fixed
        hidden, front, behind = map(self._tokens, (divided.hidden, divided.front, divided.behind))
        after = self.after(divided, summary + around)
        read = fixed + front if warm else 0
        size = self._exchange.size()
        price = self._profile.price(size.tokens)
        asked = fixed + front * (divided.span in ("from", "range")) + hidden
        written = after - read
        return Preview(
            span=divided.span,
            engine=engine,
            summarised=len(divided.hidden),
            kept=len(divided.kept),
            tokens_before=size.tokens,
            tokens_hidden=hidden,
            tokens_kept=front + behind,
            tokens_summary=summary,
            tokens_after=after,
            read=read,
            written=written,
            call_usd=self._call(engine, asked, summary, price, warm=warm),
            next_usd=None if price is None else (read * price.read + written * self._write(price)) / 1e6,
        )

    def after(self, divided: Scope, added: int) -> int:
        """The size of the conversation with so many tokens, a summary's above all, in place of what it hides.

        Behind a summary the conversation begins with what is wanted before its messages by now.
        """
        gauge, wanted = self._exchange.gauge, self._exchange.wanted
        if divided.side != "before" and divided.span != "range":
            gauge = gauge.opened(*wanted.tools, *wanted.system)
        return gauge.fixed + self._tokens(divided.kept) + added

    def _tokens(self, items: Sequence[Item]) -> int:
        count = self._exchange.gauge.estimator.tokens
        return sum(max(0, round(count(item.weight))) for item in items)

    def _call(
        self, engine: Engine, asked: int, summary: int, price: Price | None, *, warm: bool
    ) -> float | None:
        if engine in ("extractive", "notes"):
            return 0.0
        if price is None:
            return None
        shares = engine in ("fork", "provider")
        each = price.input if not shares else price.read if warm else self._write(price)
        answer = min(OUTPUT_CAP, int(summary * ANSWER_SHARE))
        return (asked * each + answer * price.output) / 1e6

    def _write(self, price: Price) -> float:
        return price.write(SECONDS[self._exchange.lifetimes.tail])
