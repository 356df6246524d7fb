"""Layer 2: old tool results are cleared when that pays off.

One planner decides before each request. It knows the model's limits, what is in the cache and for how long, the prices
of reading and writing, and how many requests are likely to follow. It picks the first of these rules that applies, and
lists what it considered:

    room      the request has too many bytes or images: clear the oldest results that contain them, if that is enough
    full      the conversation is at the threshold: clear results if that alone makes enough room, else compact
    overdue   clearing has postponed a compaction for as long as the session can bear: the same
    pause     the cache has expired, so everything is written again anyway: clear old results first
    provider  with bound thinking, ask the provider to clear, once per epoch, if that costs less than waiting
    size      results have grown large: clear them if reading them again and again would cost more than the rewrite

At the threshold the order of the ladder decides, not the price: nothing is summarised as long as clearing alone makes
enough room. Below it, clearing that is not free must be within what the session can bear
(`sevenfold.layers.clear.ledger`).

Only whole results of reproducible tools are cleared, oldest first, in one batch, to a level well below the trigger.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.conversation.room import Limits
from sevenfold.layers.clear.ledger import CostLedger, Terms
from sevenfold.profiles import Price
from sevenfold.record.decisions import Option
from sevenfold.record.window import Window
from sevenfold.settings import Settings

PLACEHOLDER_BYTES = 150
"""Approximate size of what remains of a cleared result."""
HEADROOM = 0.8
"""Share of the limit on bytes or images to which a clearing reduces a request."""
WORTH = 1_000
"""The fewest tokens for which even a clearing without cost is worth a record."""
FORGOTTEN = 3_600
"""Seconds of silence after which the model no longer needs its reasoning from turns before the last."""
SUMMARY = 3_000
"""Tokens a model writes for a summary, including its analysis; a rough figure for comparing costs."""
ROOM_SHARE = 5
"""Clearing at the threshold must leave a fifth of the window free below it, or it would soon be due again."""
LEAST_SHARE = 3
"""The room is at most a third of the threshold, which a percentage may have set very low."""
AFTER_COMPACTION = 12_000
"""Approximate tokens of messages after a compaction: summary, recent messages and restored content."""
UNBEARABLE = "it costs more than the session can bear if it ends soon"
AT_THRESHOLD = "the conversation is at the threshold"
OVERDUE = "clearing has put a compaction off for as long as that was cheaper"
RUNNING_TURN = "it would take away the reasoning of a turn that goes on"
TYPICAL_PRICES = Price(input=1.0, output=5.0, write_5m=1.25, write_1h=2.0, read=0.1)
"""Typical relative prices, for models whose prices are unknown."""


class OldResult(Struct, frozen=True):
    """A tool result that could be cleared."""

    call: str
    tokens: int
    error: bool = False
    kept: bool = False
    """Whether it must stay: pinned, restored by the user, or not sent yet."""
    images: int = 0
    wire: int = 0
    remaining: int = 25
    """Tokens that remain of it once it is cleared."""


class ProviderCut(Struct, frozen=True):
    """What the provider would clear if asked to from now on."""

    tokens: int
    behind: int
    """Tokens after the last result it clears, which are written to the cache again whenever the cut moves."""
    moves: float
    """How often the cut moves, per request on average."""


class ClearingMoment(Struct, frozen=True, kw_only=True):
    """Everything the planner takes into account."""

    results: Sequence[OldResult]
    size: int
    """Tokens of the conversation."""
    upper_size: int
    """Upper end of the estimated size, in tokens."""
    fixed: int
    """Tokens of system prompt and tools, which clearing does not affect."""
    window: Window
    settings: Settings
    price: Price | None
    lifetime: int
    """Seconds the cache keeps the conversation."""
    idle: float | None
    """Seconds since the last answer; None before the first."""
    expected: int
    """Number of requests that are likely to follow."""
    spent: float
    """US dollars the session has cost."""
    ledger: CostLedger = CostLedger()
    """How that differs from the cost without clearing."""
    owed: float = 0.0
    """US dollars by which it had cost more before this request."""
    size_after_compaction: int | None = None
    """Tokens of the conversation after the newest compaction; None before the first."""
    bound: bool = False
    """Whether there is bound thinking in view."""
    thinking: int = 0
    """Tokens of reasoning from turns before the last that is still sent and may be left out."""
    reasoning: int = 0
    """Tokens of all reasoning; if it is bound, it must be dropped when results are cleared."""
    mid_turn: bool = False
    """Whether the newest message contains tool results: the reasoning of this turn must stay."""
    running: bool = False
    """Whether a running turn has bound reasoning, which clearing results on our side would give up."""
    provider: bool = False
    """Whether the provider clears by itself in this epoch."""
    edited: int = 0
    """Tokens of the oldest results that the provider already leaves out; those would be cleared first here as well."""
    near: bool = False
    """Whether the provider could be asked to clear in this epoch, and the size at which it would is reached."""
    cut: ProviderCut | None = None
    """What it would clear then; None if that is too little."""
    growth: int = 0
    """Approximate tokens that a request adds; 0 if unknown."""
    compacts: bool = False
    """Whether a compaction could be made instead."""
    wire: int = 0
    images: int = 0
    limits: Limits = Limits(None, None)
    """The most bytes and images a request may have."""

    @property
    def heavy(self) -> bool:
        """Whether there are too many bytes or images."""
        return bool(self.limits.passed(self.wire, self.images))

    @property
    def full(self) -> bool:
        """Whether the conversation is at the threshold."""
        return self.upper_size >= self.window.threshold

    @property
    def low(self) -> int:
        """The most tokens that clearing at the threshold may leave; if it leaves more, a compaction is better."""
        threshold = self.window.threshold
        return threshold - min(self.window.capped // ROOM_SHARE, threshold // LEAST_SHARE)

    @property
    def cold(self) -> bool:
        """Whether the cache has expired."""
        return self.idle is not None and self.idle > self.lifetime + self.settings.gap_margin_seconds

    @property
    def terms(self) -> Terms | None:
        """The current prices of a request and a compaction; None if unknown."""
        if self.price is None:
            return None
        read = self.price.read / 1e6
        write = self.price.write(self.lifetime) / 1e6
        tokens_after = self.size_after_compaction or self.fixed + self.window.budget(AFTER_COMPACTION)
        summary = self.window.budget(SUMMARY) * self.price.output / 1e6
        return Terms(read, write, self.cold, min(self.fixed, tokens_after), tokens_after, summary)

    def bears(self, ledger: CostLedger) -> bool:
        """Whether the session can bear this ledger; True if prices are unknown."""
        terms = self.terms
        return terms is None or ledger.bears(self.spent, terms)

    @property
    def overdue(self) -> bool:
        """Whether clearing has postponed a compaction for too long; False at the threshold, where it is due anyway."""
        put_off = self.ledger.ahead > 0 and self.compacts and not self.full
        return put_off and not self.bears(self.ledger)

    @property
    def total(self) -> int:
        """Tokens of all results."""
        return sum(result.tokens for result in self.results)


class Plan(Struct, frozen=True):
    """What to do before the next request, and what else was considered."""

    rule: str
    chosen: str = "nothing"
    cause: str = ""
    """The rule that applied: room, full, overdue, pause, provider or size."""
    targets: tuple[str, ...] = ()
    tokens: int = 0
    usd: float | None = None
    """How much more the next request costs because of it; negative if less, None if prices are unknown."""
    drops_thinking: bool = False
    """Whether reasoning of earlier turns is left out from now on."""
    drops_all_thinking: bool = False
    """Whether that includes the last turn's reasoning, because it would not be valid after the change."""
    options: tuple[Option, ...] = ()
    ledger: CostLedger = CostLedger()
    """The cost ledger once this is done."""


def plan(moment: ClearingMoment) -> Plan:
    """Decide what to clear: the first rule with a plan wins; the plan also lists what earlier rules considered."""
    considered: list[Option] = []
    for rule in (_room, _full, _overdue, _pause, _provider, _size):
        outcome = rule(moment)
        if isinstance(outcome, Plan):
            return replace(outcome, options=(*considered, *outcome.options))
        considered += [outcome] if outcome else []
    return Plan(rule="nothing is due", options=tuple(considered))


def could_matter(moment: ClearingMoment, results_tokens: float) -> bool:
    """Whether there is anything to plan; a quick check that needs no list of results."""
    settings = moment.settings
    window = moment.window
    large = (
        settings.size_clearing
        and results_tokens > window.budget(settings.size_trigger_tokens)
        # If clearing all results would not pay off, clearing a part of them does not either.
        and not (moment.provider or moment.bound)
        and not _too_dear(moment, round(results_tokens), moment.expected)
    )
    paused = settings.gap_clearing and moment.cold and results_tokens + moment.thinking > 0
    return bool(moment.heavy or large or paused or moment.near or moment.full or moment.overdue)


def suffices(moment: ClearingMoment) -> bool:
    """Whether clearing everything that may go now would be enough at the threshold."""
    if moment.bound:
        # Whether clearing on our side will cut into a turn is not known before the threshold is reached.
        freed = moment.cut.tokens if moment.cut else 0
    else:
        may_go = _oldest(moment, moment.settings.size_keep) if moment.settings.size_clearing else []
        freed = _freed(moment, may_go)
    enough = moment.window.budget(moment.settings.size_least_tokens)
    return freed >= enough and moment.upper_size - freed <= moment.low


class Need(Struct, frozen=True):
    """An amount of something that must be freed."""

    amount: float
    worth: Callable[[OldResult], int]
    """How much of it clearing a result frees."""


def _room(moment: ClearingMoment) -> Plan | Option | None:
    """Clear if there are too many bytes or images; if there are too many tokens as well, in the same batch."""
    if not (moment.settings.size_clearing and moment.heavy):
        return None
    needs = []
    reasons = []
    for name, used, limit, worth in (
        ("bytes", moment.wire, moment.limits.wire, _bytes),
        ("pictures", moment.images, moment.limits.images, _pictures),
    ):
        if limit is not None and used > limit:
            needs.append(Need(used - int(limit * HEADROOM), worth))
            reasons.append(f"{used:,} {name} of at most {limit:,}")
    if moment.full:
        needs.append(_need(moment))
    targets = _oldest(moment, 1, needs)
    rule = " and ".join(reasons)
    wire = moment.wire - sum(map(_bytes, targets))
    images = moment.images - sum(map(_pictures, targets))
    if moment.compacts and moment.limits.passed(wire, images):
        option = Option("clear", _freed(moment, targets), because="it would not be enough")
        return Plan(rule, "compact", "room", options=(option,))
    if not any(_meets_any(needs, target) for target in targets):
        return Option("clear", because=f"{rule}, but no result that may go holds any")
    return _clear(moment, "room", targets, rule)


def _meets_any(needs: Sequence[Need], result: OldResult) -> bool:
    """Whether clearing a result frees anything that is needed."""
    return any(need.worth(result) > 0 for need in needs)


def _full(moment: ClearingMoment) -> Plan | Option | None:
    """Clear at the threshold; if a compaction is possible, only if clearing alone makes enough room."""
    if not moment.full:
        return None
    if moment.compacts:
        return _in_order(moment, "full", AT_THRESHOLD)
    if not moment.settings.size_clearing:
        return None
    window = moment.window
    targets = _oldest(moment, moment.settings.size_keep, [_need(moment)])
    freed = _freed(moment, targets)
    remaining = moment.upper_size - freed
    much = freed >= window.budget(moment.settings.size_least_tokens)
    saves = moment.upper_size >= window.blocking > remaining
    if targets and (remaining < window.threshold or much or saves):
        return _clear(moment, "full", targets, AT_THRESHOLD)
    still_full = " and leave the conversation at the threshold" if remaining >= window.threshold else ""
    return Option("clear", freed, because=f"it would free {freed:,} tokens{still_full}")


def _overdue(moment: ClearingMoment) -> Plan | Option | None:
    """Make room if clearing has postponed a compaction for as long as that was cheaper."""
    if not moment.overdue:
        return None
    return _in_order(moment, "overdue", OVERDUE) or Plan(OVERDUE, "compact", "overdue")


def _in_order(moment: ClearingMoment, cause: str, rule: str) -> Plan | None:
    """Clear if that alone makes enough room, whatever it costs; otherwise compact.

    Where reasoning is bound, the provider is asked first. Clearing here would give up all reasoning in view, which may
    not cut into a running turn.
    """
    tried: list[Option] = []
    by_provider = _provider_in_order(moment, cause, rule) if cause == "full" else None
    if isinstance(by_provider, Plan):
        return by_provider
    if by_provider is not None:
        tried.append(by_provider)
    if moment.settings.size_clearing:
        targets = _oldest(moment, moment.settings.size_keep, [_need(moment, to=moment.low)])
        cleared = _clear(moment, cause, targets, rule)
        if because := _not_in_order(moment, cleared):
            tried.append(Option("clear", cleared.tokens, because=because))
        else:
            # From here on, the session without clearing below the threshold would be the same.
            settled = CostLedger(moment.owed, 0, cleared.ledger.rate)
            return replace(cleared, options=(*tried, *cleared.options), ledger=settled)
    return Plan(rule, "compact", cause, options=tuple(tried)) if tried else None


def _not_in_order(moment: ClearingMoment, cleared: Plan) -> str:
    """Why a clearing may not take the place of a compaction; empty if it may."""
    remaining = moment.upper_size - cleared.tokens
    if remaining > moment.low:
        return _too_little(moment, cleared.tokens)
    if cleared.tokens < moment.window.budget(moment.settings.size_least_tokens):
        return f"it would free {cleared.tokens:,} tokens, too little to take the place of a compaction"
    return RUNNING_TURN if moment.running else ""


def _too_little(moment: ClearingMoment, freed: int) -> str:
    remaining = moment.upper_size - freed
    low = moment.low
    outcome = f"it would free {freed:,} tokens and leave {remaining:,}"
    return f"{outcome}; to do without a summary at most {low:,} may be left"


def _provider_in_order(moment: ClearingMoment, cause: str, rule: str) -> Plan | Option | None:
    """Ask the provider to clear instead of compacting, if what it clears makes enough room."""
    cut = moment.cut
    if cut is None:
        return None
    if moment.upper_size - cut.tokens > moment.low:
        return Option("provider", cut.tokens, because=_too_little(moment, cut.tokens))
    if cut.moves >= 1:
        # Everything behind such a cut is written to the cache again with every request, which no summary costs.
        return Option("provider", cut.tokens, because="its cut would move with every call")
    if moment.upper_size >= moment.window.blocking:
        # What the provider clears is known only once it has answered, and this request may not be sent as it is.
        return Option(
            "provider", cut.tokens, because="the conversation is too large to be sent before it clears"
        )
    usd = _usd(moment, _rewrite(moment, cut.tokens))
    settled = CostLedger(moment.owed, 0, _rates(moment)[0] / 1e6)
    option = Option("provider", cut.tokens, None, rule)
    return Plan(rule, "provider", cause, tokens=cut.tokens, usd=usd, options=(option,), ledger=settled)


def _pause(moment: ClearingMoment) -> Plan | Option | None:
    """Clear while the cache is cold, when that costs nothing extra."""
    if not (moment.settings.gap_clearing and moment.cold):
        return None
    targets = _oldest(moment, moment.settings.gap_keep)
    freed = _freed(moment, targets)
    option = None
    if because := _too_dear_a_pause(moment, freed):
        option = Option("clear", freed, because=because)
        freed = 0
    worth = moment.window.budget(WORTH)
    thinking = moment.thinking if moment.thinking >= worth else 0
    if freed + thinking < worth:
        return option
    minutes = round((moment.idle or 0) / 60)
    ago = f"{minutes} minutes" if minutes < 120 else f"{minutes // 60} hours"
    rule = f"{ago} since the last answer: the cache has expired"
    cleared = _clear(moment, "pause", targets if freed else [], rule, thinking=thinking)
    return replace(cleared, options=(option, *cleared.options)) if option else cleared


def _too_dear_a_pause(moment: ClearingMoment, freed: int) -> str:
    """Why results should stay although they are no longer cached; empty if they may be cleared."""
    if not moment.bound or not freed:
        return ""
    if moment.mid_turn:
        return RUNNING_TURN
    if freed < moment.window.budget(moment.settings.size_least_tokens):
        return "too little to give up the reasoning in view for it"
    return ""


def _provider(moment: ClearingMoment) -> Plan | Option | None:
    """Ask the provider to clear from now on, if that costs less than waiting."""
    cut = moment.cut
    if cut is None:
        return None
    read, write = _rates(moment)
    once = _rewrite(moment, cut.tokens)
    per_request = cut.tokens * read - cut.moves * cut.behind * (write - read)
    room = moment.window.threshold - moment.upper_size
    # If no compaction is possible, a conversation that will soon be full cannot continue unless the provider clears.
    ends = not moment.compacts and room < moment.expected * moment.growth
    saved = moment.expected * per_request - once
    ledger = _cleared(moment, round(per_request / read))
    because = ""
    if cut.moves >= 1:
        # The part after the cut is rewritten each time and keeps growing, so its cost cannot be estimated.
        because = "a cut that moves with every call costs more than waiting"
    elif saved <= 0 or not moment.bears(ledger):
        because = "it costs more than waiting" if saved <= 0 else UNBEARABLE
    if because and not ends:
        return Option("provider", cut.tokens, _usd(moment, saved), because)
    rule = f"the provider clears {cut.tokens:,} tokens of old results for less than waiting would cost"
    option = Option("provider", cut.tokens, None if ends else _usd(moment, saved), rule)
    usd = _usd(moment, once)
    return Plan(rule, "provider", "provider", tokens=cut.tokens, usd=usd, options=(option,), ledger=ledger)


def _size(moment: ClearingMoment) -> Plan | Option | None:
    """Clear results that have grown large, although the cache is warm, if that pays off."""
    settings = moment.settings
    budget = moment.window.budget
    if not settings.size_clearing or moment.cold or moment.total <= budget(settings.size_trigger_tokens):
        return None
    excess = moment.total - budget(settings.size_target_tokens)
    targets = _oldest(moment, settings.size_keep, [Need(excess, _tokens)])
    freed = _freed(moment, targets)
    if freed < max(1, budget(settings.size_least_tokens)):
        return Option("clear", freed, because="too little to be worth it")
    if moment.provider:
        return Option("provider", because="it clears by itself when the time comes")
    if moment.bound:
        because = "it would invalidate the reasoning in view: wait for a pause or a compaction"
        return Option("wait", freed, because=because)
    lasts = _lasts(moment, freed)
    if because := _too_dear(moment, freed, lasts):
        gain = freed * _rates(moment)[0] * lasts - _rewrite(moment, freed)
        return Option("clear", freed, _usd(moment, gain), because)
    rule = f"results of {moment.total:,} tokens: {lasts:.0f} more requests would pay for the rewrite"
    return _clear(moment, "size", targets, rule)


def _too_dear(moment: ClearingMoment, freed: int, lasts: float) -> str:
    """Why clearing ``freed`` tokens from a warm cache does not pay off over ``lasts`` requests; empty if it does."""
    if freed * _rates(moment)[0] * lasts <= _rewrite(moment, freed):
        return f"writing the rest again costs more than {lasts:.0f} requests would save"
    return "" if moment.bears(_cleared(moment, freed)) else UNBEARABLE


def _lasts(moment: ClearingMoment, freed: int) -> float:
    """For how many requests a clearing saves money: until the room is filled again, or a compaction is due anyway."""
    if not moment.growth:
        return moment.expected
    room = moment.window.threshold - moment.upper_size if moment.compacts else freed
    return max(0.0, min(moment.expected, freed / moment.growth, room / moment.growth))


def _clear(
    moment: ClearingMoment, cause: str, targets: list[OldResult], rule: str, *, thinking: int = 0
) -> Plan:
    drops_all = moment.bound and bool(targets)
    freed = _freed(moment, targets) + (moment.reasoning if drops_all else thinking)
    extra = _rewrite(moment, freed)
    later = freed * _rates(moment)[0] * moment.expected
    return Plan(
        rule,
        "clear",
        cause,
        tuple(target.call for target in targets),
        freed,
        _usd(moment, extra),
        drops_thinking=drops_all or thinking > 0,
        drops_all_thinking=drops_all,
        options=(Option("clear", freed, _usd(moment, later - extra), rule),),
        ledger=_cleared(moment, freed),
    )


def _oldest(moment: ClearingMoment, keep: int, needs: Sequence[Need] = ()) -> list[OldResult]:
    """The oldest results to clear so that all needs are met; without needs, all that may be cleared.

    The newest ``keep`` results stay, not counting errors. If bytes or images must be freed, results with images come
    first, as they contain most of the bytes too.
    """
    may = []
    slots = keep
    for result in reversed(moment.results):
        if slots > 0:
            slots -= 0 if result.error else 1
        elif not result.kept:
            may.append(result)
    may.reverse()
    if any(need.worth is not _tokens for need in needs):
        may.sort(key=lambda result: result.images == 0)
    chosen: list[OldResult] = []
    missing = [need.amount for need in needs]
    for result in may:
        gains = [need.worth(result) for need in needs]
        useful = any(
            gain > 0 and still_missing > 0 for gain, still_missing in zip(gains, missing, strict=True)
        )
        if useful or (not needs and _tokens(result) > 0):
            chosen.append(result)
            missing = [
                still_missing - max(0, gain) for gain, still_missing in zip(gains, missing, strict=True)
            ]
    return chosen


def _need(moment: ClearingMoment, to: int | None = None) -> Need:
    """Tokens to free at the threshold: enough not to reach it again at once, or to get down to ``to`` tokens."""
    budget = moment.window.budget
    settings = moment.settings
    low = moment.window.threshold - budget(settings.size_least_tokens) if to is None else to
    above = max(
        moment.upper_size - low,
        moment.total - moment.edited - budget(settings.size_target_tokens),
    )
    return Need(above + moment.edited, _tokens)


def _freed(moment: ClearingMoment, targets: Sequence[OldResult]) -> int:
    """Tokens by which the context shrinks, without those that the provider already leaves out."""
    return max(0, sum(map(_tokens, targets)) - moment.edited)


def _rewrite(moment: ClearingMoment, freed: int) -> float:
    """Extra cost of the next request: the rest is written instead of read, minus the freed tokens, which are not sent.

    The rest is everything after system prompt and tools: no cache entry after a changed result matches, and those
    before it are outside the look-back. If the cache has expired, the rest is written anyway.
    """
    read, write = _rates(moment)
    if moment.cold:
        return -freed * write
    return max(0, moment.size - moment.fixed - freed) * (write - read) - freed * read


def _cleared(moment: ClearingMoment, freed: int) -> CostLedger:
    """The ledger after a clearing."""
    rate = _rates(moment)[1 if moment.cold else 0]
    usd = _usd(moment, _rewrite(moment, freed) + freed * rate)
    return moment.ledger.cleared(freed, usd or 0.0, rate / 1e6)


def _rates(moment: ClearingMoment) -> tuple[float, float]:
    """Prices of reading and of writing a million tokens."""
    price = moment.price or TYPICAL_PRICES
    return price.read, price.write(moment.lifetime)


def _usd(moment: ClearingMoment, units: float) -> float | None:
    return None if moment.price is None else units / 1e6


def _tokens(result: OldResult) -> int:
    return result.tokens - result.remaining


def _bytes(result: OldResult) -> int:
    return result.wire - PLACEHOLDER_BYTES


def _pictures(result: OldResult) -> int:
    return result.images
