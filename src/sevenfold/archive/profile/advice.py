"""What the figures of a session say about its cost, as sentences: what was lost, why, and what would have helped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sevenfold.archive.profile import cache
from sevenfold.archive.profile.cache import HOUR, SHORT_LIFETIME
from sevenfold.archive.profile.figures import BreakSum, CacheBreak, SessionProfile
from sevenfold.archive.profile.labels import RESULT, SYSTEM, UNLOGGED

LEAST_USD = 0.005
"""Losses below half a cent are not worth a sentence."""
LEAST_SHARE = 0.25
"""The least share of all prompt tokens for which a category is said to dominate."""
Money = Callable[[float | None], str]
"""How an amount is written."""
_CAUSES = {
    cache.MODEL: (
        "change of model",
        "changes of model",
        "each model has a cache of its own, so the new one reads everything at the full price",
    ),
    "system_changed": (
        "change of the system prompt",
        "changes of the system prompt",
        "everything behind it had to be written again; put what changes into a message",
    ),
    "tools_changed": (
        "change of the tools",
        "changes of the tools",
        "everything behind them had to be written again; keep the list the same and refuse calls instead",
    ),
    "messages_changed": (
        "change of earlier messages",
        "changes of earlier messages",
        "a request must extend the one before it, to the byte",
    ),
    cache.REWIND: ("rewind", "rewinds", "what came behind the point was written again"),
    cache.COMPACTION: (
        "compaction",
        "compactions",
        "the summary and what was kept were written to the cache anew",
    ),
    cache.CLEARING: ("clearing", "clearings", "what stood behind the cleared results was written again"),
    cache.UNEXPLAINED: (
        "unexplained break",
        "unexplained breaks",
        "nothing in the transcript accounts for it: usually the server",
    ),
}


def advice(session: SessionProfile, money: Money) -> Iterator[str]:
    """Sentences about what cost most without need, the dearest first."""
    by_cause: dict[str, list[CacheBreak]] = {}
    for lost in session.cache_breaks:
        by_cause.setdefault(lost.cause, []).append(lost)
    causes = sorted(by_cause, key=lambda cause: -_cost(by_cause[cause]))
    for cause in causes:
        breaks = by_cause[cause]
        cost = _cost(breaks)
        if cost < LEAST_USD:
            continue
        if cause == cache.EXPIRED:
            yield _idle(session, breaks, cost, money)
        elif cause in _CAUSES:
            single, several, remedy = _CAUSES[cause]
            name = f"1 {single}" if len(breaks) == 1 else f"{len(breaks):,} {several}"
            yield f"{name} cost {money(cost)}: {remedy}."
    yield from dominating(session)


def advice_in_total(breaks: Sequence[BreakSum], money: Money) -> Iterator[str]:
    """A sentence for the dearest cause over several sessions."""
    priced = [lost for lost in breaks if (lost.cost_usd or 0.0) >= LEAST_USD]
    if not priced:
        return
    worst = max(priced, key=lambda lost: lost.cost_usd or 0.0)
    single, several, remedy = _CAUSES.get(worst.cause, ("idle break", "idle breaks", _WHY_IDLE))
    name = f"1 {single}" if worst.count == 1 else f"{worst.count:,} {several}"
    yield f"{name} cost {money(worst.cost_usd)}: {remedy}."


_WHY_IDLE = "the pause was longer than the cache lives, so the whole prompt was written again"


def _idle(session: SessionProfile, breaks: Sequence[CacheBreak], cost: float, money: Money) -> str:
    name = "1 idle break" if len(breaks) == 1 else f"{len(breaks):,} idle breaks"
    sentence = f"{name} cost {money(cost)}: {_WHY_IDLE}"
    # With a lifetime of an hour, pauses shorter than that lose nothing, but every write costs more.
    avoidable = [lost for lost in breaks if SHORT_LIFETIME <= (lost.idle_seconds or 0) < HOUR]
    extra = session.hour_lifetime_extra_usd
    saved = _cost(avoidable)
    if not avoidable or not extra:
        return f"{sentence}; compacting before a long pause makes the next one cheaper."
    net = saved - extra
    times = "it" if len(breaks) == 1 else f"{len(avoidable):,} of them"
    cheaper = (
        f"{money(net)} less in all" if net > 0 else f"{money(-net)} more in all, so it would not have paid"
    )
    return f"{sentence}. A cache lifetime of one hour avoids {times}: {cheaper}."


def dominating(session: SessionProfile) -> Iterator[str]:
    """A sentence about the category that most of the prompts consisted of, if one stands out."""
    carried = {
        name: tokens
        for name, tokens in session.carried_by_category.items()
        if tokens > 0 and name not in (SYSTEM, UNLOGGED)
    }
    whole = sum(tokens for tokens in session.carried_by_category.values() if tokens > 0)
    if not carried:
        return
    largest = max(carried, key=lambda name: carried[name])
    share = carried[largest] / whole
    if share >= LEAST_SHARE:
        tool = largest.removeprefix(RESULT)
        subject = f"results of {tool}" if largest.startswith(RESULT) else largest.replace("_", " ")
        yield f"{share:.0%} of all prompt tokens were {subject}, carried from request to request."


def _cost(breaks: Sequence[CacheBreak]) -> float:
    return sum(lost.cost_usd or 0.0 for lost in breaks)
