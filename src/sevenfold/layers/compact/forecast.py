"""What a compaction would do to the cache and to the bill, before it is made."""

from __future__ import annotations

from collections.abc import Sequence

from sevenfold.conversation.exchange import Exchange
from sevenfold.layers.compact.engines import OUTPUT_CAP
from sevenfold.layers.compact.request import Engine, Preview
from sevenfold.layers.compact.scope import Scope
from sevenfold.profiles import Price, Profile
from sevenfold.record import blocks
from sevenfold.record.gauge import Gauge
from sevenfold.record.layout import Item
from sevenfold.record.weight import measure
from sevenfold.record.window import Window
from sevenfold.request.watch import SECONDS
from sevenfold.settings import Settings

ANSWER_SHARE = 1.5
"""What a model writes for a summary, its analysis included, in lengths of that summary."""


SHARE = 0.2
"""Of what is summarised for the first time, the most a summary may be."""
LEAST_SUMMARY = 1_500


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

    def room(self, divided: Scope, window: Window, settings: Settings) -> int:
        """The most a summary may have: a share of what is new, and all an earlier one had, or it would wear away."""
        before = self._tokens([item for item in divided.hidden if item.said.summary])
        fresh = self._tokens(divided.hidden) - before
        least = min(LEAST_SUMMARY, window.threshold // 8)
        return max(least, min(before + int(fresh * SHARE), window.budget(settings.summary_tokens)))

    def after(self, divided: Scope, added: int) -> int:
        """The size of the conversation with so many tokens, a summary's above all, in place of what it hides.

        Behind a summary the conversation begins with what is wanted before its messages by now.
        """
        return self._gauge(divided).fixed + self._tokens(divided.kept) + added

    def at_most(self, divided: Scope, said: str) -> int:
        """The most it can have with that text in place of what it hides: by this the next request is judged."""
        weight = sum((item.weight for item in divided.kept), measure(blocks.text(said)))
        return self._gauge(divided).unanchored(weight).high

    def _gauge(self, divided: Scope) -> Gauge:
        gauge, wanted = self._exchange.gauge, self._exchange.wanted
        if divided.side == "before" or divided.span == "range":
            return gauge
        return gauge.opened(*wanted.tools, *wanted.system)

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
