"""Layer 2: old tool results are cleared, when that is worth its price.

One planner decides before each request. It knows what the model allows, what is in the cache and for how long,
what reading and writing cost, and how many requests are likely to follow. It picks the first of these that
applies, and says what it considered:

    room      the request has too many bytes or pictures: the oldest results that hold them go
    full      the conversation is at the threshold: results go, if that is enough to stay below it
    pause     the cache has expired: everything will be written again anyway, so old results go first
    size      results have grown large: they go if reading them again and again would cost more than the
              rewrite, and if the rewrite is small beside what the session has cost so far
    nothing   else

Only whole results of reproducible tools go, oldest first, in one batch, down to a mark well below the trigger.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from sevenfold.profiles import Price
from sevenfold.record.decisions import Option
from sevenfold.record.window import Window
from sevenfold.settings import Settings

PLACEHOLDER_TOKENS = 25
"""What remains of a cleared result, about."""
HEADROOM = 0.8
"""How far below a limit of bytes or pictures a clearing goes."""
WORTH = 1_000
"""Tokens for which even a clearing that costs nothing is worth a line in the record."""
STAKE = 0.01
"""The most a clearing in a warm cache may cost, as a share of what the session has cost so far."""
SHIFTED = Price(input=1.0, output=5.0, write_5m=1.25, write_1h=2.0, read=0.1)
"""How prices usually relate to each other, where a model's own are not known."""


class Result(Struct, frozen=True):
    """A result that may be cleared."""

    call: str
    tokens: int
    error: bool = False
    kept: bool = False
    """Pinned, put back by the user, or not sent yet: it stays."""
    images: int = 0
    wire: int = 0


class Moment(Struct, frozen=True, kw_only=True):
    """Everything the planner looks at."""

    results: Sequence[Result]
    size: int
    """The conversation in tokens…"""
    most: int
    """…and the most it may really be."""
    fixed: int
    """System and tools, which no clearing touches."""
    window: Window
    settings: Settings
    price: Price | None
    lifetime: int
    """Seconds the cache keeps the conversation."""
    idle: float | None
    """Seconds since the last answer; None before the first."""
    expected: int
    """Requests that are likely to follow."""
    spent: float
    """US dollars the session has cost so far."""
    bound: bool = False
    """There is reasoning in view that is bound to what precedes it."""
    thinking: int = 0
    """Tokens of reasoning of earlier turns that is still sent and may be left out."""
    mid_turn: bool = False
    """The newest message answers calls: reasoning of this turn must stay."""
    provider: bool = False
    """The provider clears by itself in this epoch."""
    compacts: bool = False
    """A compaction could be made instead."""
    wire: int = 0
    wire_limit: int | None = None
    images: int = 0
    images_limit: int | None = None

    @property
    def cold(self) -> bool:
        """Has the cache expired?"""
        return self.idle is not None and self.idle > self.lifetime + self.settings.gap_margin_seconds

    @property
    def total(self) -> int:
        """Tokens of all results."""
        return sum(result.tokens for result in self.results)


class Plan(Struct, frozen=True):
    """What to do before the request, and what else was considered."""

    rule: str
    chosen: str = "nothing"
    targets: tuple[str, ...] = ()
    tokens: int = 0
    usd: float | None = None
    """What the next request costs more because of it; negative: less. None: prices are unknown."""
    drops_thinking: bool = False
    """Reasoning of earlier turns is left out from now on…"""
    drops_all_thinking: bool = False
    """…and that of the last turn too, because it would not be valid behind what changed."""
    options: tuple[Option, ...] = ()


def plan(moment: Moment) -> Plan:
    """What to clear now."""
    considered: list[Option] = []
    for rule in (_room, _full, _pause, _size):
        found = rule(moment, considered)
        if found is not None:
            return found
    return Plan(rule="nothing is due", options=tuple(considered))


def could_matter(moment: Moment, results_tokens: float) -> bool:
    """A quick look that needs no list of results: is there anything to plan at all?"""
    settings, window = moment.settings, moment.window
    too_heavy = _over(moment.wire, moment.wire_limit) or _over(moment.images, moment.images_limit)
    large = settings.size_clearing and results_tokens > window.budget(settings.size_trigger_tokens)
    paused = settings.gap_clearing and moment.cold and results_tokens + moment.thinking > 0
    return bool(too_heavy or large or paused or moment.most >= window.threshold)


def _room(moment: Moment, considered: list[Option]) -> Plan | None:
    """Too many bytes or pictures."""
    for name, used, limit, worth in (
        ("bytes", moment.wire, moment.wire_limit, _wire),
        ("pictures", moment.images, moment.images_limit, _images),
    ):
        if limit is None or not _over(used, limit):
            continue
        targets = _oldest(moment, 1, until=used - int(limit * HEADROOM), worth=worth)
        targets = [target for target in targets if worth(target)]
        if targets:
            return _clear(moment, targets, f"{used:,} {name} of at most {limit:,}", considered)
        considered.append(Option("clear", because=f"no result that may go holds {name}"))
    return None


def _full(moment: Moment, considered: list[Option]) -> Plan | None:
    """At the threshold."""
    if moment.most < moment.window.threshold or not moment.settings.size_clearing:
        return None
    budget = moment.window.budget
    excess = max(
        moment.most - moment.window.threshold + budget(moment.settings.size_least_tokens),
        moment.total - budget(moment.settings.size_target_tokens),
    )
    targets = _oldest(moment, moment.settings.size_keep, until=excess)
    freed = _freed(targets)
    enough = moment.most - freed < moment.window.threshold
    if enough or (freed >= budget(moment.settings.size_least_tokens) and not moment.compacts):
        return _clear(moment, targets, "the conversation is at the threshold", considered)
    because = f"it would free {freed:,} tokens and leave the conversation at the threshold"
    considered.append(Option("clear", freed, because=because))
    if moment.compacts:
        return Plan("the conversation is at the threshold", "compact", options=tuple(considered))
    return None


def _pause(moment: Moment, considered: list[Option]) -> Plan | None:
    """The cache is gone anyway."""
    if not (moment.settings.gap_clearing and moment.cold):
        return None
    targets = _oldest(moment, moment.settings.gap_keep)
    freed = _freed(targets)
    least = moment.window.budget(moment.settings.size_least_tokens if moment.bound else WORTH)
    thinking = 0 if moment.bound else moment.thinking
    if freed + thinking < least:
        if freed:
            considered.append(Option("clear", freed, because="too little to be worth it"))
        return None
    if moment.bound and moment.mid_turn:
        because = "it would take away the reasoning of a turn that goes on"
        considered.append(Option("clear", freed, because=because))
        return None
    rule = f"{_duration(moment.idle or 0)} since the last answer: the cache has expired"
    return _clear(moment, targets, rule, considered, thinking=thinking)


def _size(moment: Moment, considered: list[Option]) -> Plan | None:
    """Results have grown large, and the cache is warm."""
    settings, budget = moment.settings, moment.window.budget
    if not settings.size_clearing or moment.total <= budget(settings.size_trigger_tokens):
        return None
    excess = moment.total - budget(settings.size_target_tokens)
    targets = _oldest(moment, settings.size_keep, until=excess)
    freed = _freed(targets)
    if freed < max(1, budget(settings.size_least_tokens)):
        considered.append(Option("clear", freed, because="too little to be worth it"))
        return None
    if moment.provider:
        considered.append(Option("provider", because="it clears by itself when the time comes"))
        return None
    if moment.bound:
        because = "it would invalidate the reasoning in view: wait for a pause or a compaction"
        considered.append(Option("wait", freed, because=because))
        return None
    cost, gain = _rewrite(moment, freed), freed * _rates(moment)[0] * moment.expected
    option = Option("clear", freed, _usd(moment, gain - cost))
    if gain <= cost:
        because = f"writing the rest again costs more than {moment.expected} requests would save"
        considered.append(_because(option, because))
        return None
    if cost > STAKE * moment.spent * 1e6 and moment.price is not None:
        considered.append(_because(option, "too large a stake beside what the session has cost so far"))
        return None
    rule = f"results of {moment.total:,} tokens: {moment.expected} more requests would pay for the rewrite"
    return _clear(moment, targets, rule, considered)


def _clear(
    moment: Moment, targets: list[Result], rule: str, considered: list[Option], *, thinking: int = 0
) -> Plan:
    freed = _freed(targets) + thinking
    read, write = _rates(moment)
    extra = -freed * write if moment.cold else _rewrite(moment, freed)
    later = freed * read * moment.expected
    return Plan(
        rule,
        "clear",
        tuple(target.call for target in targets),
        freed,
        _usd(moment, extra),
        drops_thinking=moment.bound or thinking > 0,
        drops_all_thinking=moment.bound,
        options=(*considered, Option("clear", freed, _usd(moment, later - extra), rule)),
    )


def _oldest(
    moment: Moment, keep: int, *, until: float = float("inf"), worth: Callable[[Result], int] | None = None
) -> list[Result]:
    """The oldest results that may go, until enough is freed; the newest ``keep`` stay, errors not counted."""
    may, slots = [], keep
    for result in reversed(moment.results):
        if slots > 0:
            slots -= 0 if result.error else 1
        elif not result.kept:
            may.append(result)
    chosen: list[Result] = []
    freed = 0
    for result in reversed(may):
        if freed >= until:
            break
        gain = worth(result) if worth else result.tokens - PLACEHOLDER_TOKENS
        if gain > 0:
            chosen.append(result)
            freed += gain
    return chosen


def _freed(targets: Sequence[Result]) -> int:
    return sum(target.tokens - PLACEHOLDER_TOKENS for target in targets)


def _rewrite(moment: Moment, freed: int) -> float:
    """What is written anew that would have been read, less what is no longer read."""
    read, write = _rates(moment)
    rest = max(0, moment.size - moment.fixed - freed)
    return rest * (write - read) - freed * read


def _rates(moment: Moment) -> tuple[float, float]:
    """Of a million tokens read and written."""
    price = moment.price or SHIFTED
    return price.read, price.write(moment.lifetime)


def _usd(moment: Moment, units: float) -> float | None:
    return None if moment.price is None else units / 1e6


def _because(option: Option, because: str) -> Option:
    return Option(option.name, option.tokens, option.usd, because)


def _over(used: int, limit: int | None) -> bool:
    return limit is not None and used > limit


def _wire(result: Result) -> int:
    return result.wire


def _images(result: Result) -> int:
    return result.images


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes} minutes" if minutes < 120 else f"{minutes // 60} hours"
