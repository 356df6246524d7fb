"""What to do about a large idle conversation whose cache is about to expire, and the cost of continuing once it has.

The caller (the chat, or a program with a timer) calls `idle` while the conversation is idle. Shortly before the cache
expires, it weighs three choices by price and by how often such pauses end in a resume:

    nothing     if the user comes back, everything is written to the cache again
    keep_alive  a one-turn fork reads the conversation, which keeps it in the cache for another lifetime
    compact     the conversation is summarised while reading it is cheap, so little is written to the cache afterwards

While tools run, the conversation will continue, and the choice is between the first two. The choice is proposed
with its price, a listener may refuse it, and the outcome is reported. `KeepWarm` calls it by itself, and then nothing
is ever compacted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.conversation.flow import Flow
from sevenfold.conversation.fork import fork
from sevenfold.errors import ModelError, Refused
from sevenfold.events import Proposed
from sevenfold.layers.clear.layer import Clearer
from sevenfold.layers.compact.compactor import AUTO, Compactor
from sevenfold.layers.resuming import going_on
from sevenfold.profiles import Price
from sevenfold.prompts.context import KeepAlive
from sevenfold.request.watch import SECONDS

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation
    from sevenfold.layers.compact.compaction import Preview
    from sevenfold.record.entries import Said

SOURCE = "keep_alive"
LEAD = 0.1
"""Share of the cache's lifetime that remains when the choice is made: with one hour, after 54 minutes."""
LEAST_LEAD = 30.0
"""The least number of seconds before expiry at which the choice is made; it applies to short lifetimes."""
PRIOR = 4
"""Number of observed pauses that weigh as much as the setting `idle_resume_share`."""
REMEMBERED = 2_000
"""How many of the session's newest records are searched for pauses, across compactions."""
MARGIN = 0.8
"""A compaction removes content from the context, so it must cost less than this share of the next best choice."""


class Pause(Struct, frozen=True, kw_only=True):
    """The facts about an idle conversation whose cache is about to expire."""

    size: int
    size_after: int
    """Tokens of the conversation after a compaction."""
    summary_usd: float
    """Price of a compaction while the cache is warm."""
    price: Price
    lifetime: int
    """Seconds the cache keeps the conversation."""
    resumes: float
    """Probability that the user comes back at all."""
    soon: float
    """Probability that the user comes back within another cache lifetime."""
    requests: int
    """Expected number of requests after the user comes back."""


class Choice(Struct, frozen=True):
    """One option and its estimated cost."""

    name: str
    usd: float | None
    """The price, including the expected cost of what follows; None if prices are unknown."""
    tokens: int = 0
    """The size of the next request."""
    low: float | None = None
    """The least it may come to; None if that is not estimated."""
    high: float | None = None
    """The most it may come to; None if that is not estimated."""
    layers: tuple[str, ...] = ()
    """The layers whose work is part of the price: compaction, notes, memory."""


class IdleDecision(Struct, frozen=True):
    """The decision about an idle conversation."""

    chosen: str = "nothing"
    why: str = ""
    choices: tuple[Choice, ...] = ()
    again: float | None = None
    """Seconds until `idle` should be called again; None: not before the next answer."""


def weigh(pause: Pause) -> tuple[Choice, ...]:
    """The three choices with their expected costs."""
    read = pause.price.read / 1e6
    write = pause.price.write(pause.lifetime) / 1e6
    follow = pause.requests * pause.size * read
    cold = pause.size * write + follow
    warm = pause.size * read + follow
    late = pause.resumes - pause.soon
    short = pause.size_after * (write + pause.requests * read)
    return (
        Choice("nothing", pause.resumes * cold, pause.size),
        Choice("keep_alive", pause.size * read + pause.soon * warm + late * cold, pause.size),
        Choice("compact", pause.summary_usd + pause.resumes * short, pause.size_after),
    )


def choose(choices: Sequence[Choice]) -> Choice:
    """The cheapest choice; a compaction only if it is clearly cheaper, and doing nothing on a tie."""
    nothing, keep_alive, *compactions = choices
    best = min(nothing, keep_alive, key=lambda choice: choice.usd or 0.0)
    for compact in compactions:
        if (compact.usd or 0.0) < MARGIN * (best.usd or 0.0):
            return compact
    return best


def weigh_wait(pause: Pause, elapsed: float) -> tuple[Choice, ...]:
    """The choices while tools run, after ``elapsed`` seconds: the conversation will continue, but it is unknown when.

    What has taken so long already takes as long again with a probability of one half, whatever it is.
    """
    read = pause.price.read / 1e6
    write = pause.price.write(pause.lifetime) / 1e6
    soon = pause.lifetime / (pause.lifetime + elapsed)
    kept_alive = pause.size * read + soon * pause.size * read + (1 - soon) * pause.size * write
    return Choice("nothing", pause.size * write, pause.size), Choice("keep_alive", kept_alive, pause.size)


def likelihoods(
    pauses: Sequence[float], elapsed: float, lifetime: int, prior: float
) -> tuple[float, float]:
    """Probabilities that a pause of ``elapsed`` seconds so far ends in a resume: at all, and within another lifetime.

    ``pauses`` are the user's pauses so far; ``prior`` is the assumption without any, and halves with every lifetime.
    """
    prior *= 0.5 ** max(0, round(elapsed / lifetime) - 1)
    longer = [pause for pause in pauses if pause >= elapsed]
    ended = sum(pause < elapsed + lifetime for pause in longer)
    counted = PRIOR + len(longer)
    return (PRIOR * prior + len(longer)) / counted, (PRIOR * prior / 2 + ended) / counted


class Idleness:
    """Tracks what has been decided during the current pause of a conversation."""

    def __init__(self, c: Conversation) -> None:
        self._c = c
        self.settled = -1
        """The answer count at which this pause was decided: nothing more to do until the next answer."""
        self.led = False
        """Whether a driver decides about pauses between the user's messages, so that nothing happens by itself."""
        self._kept: tuple[int, float] = (-1, 0.0)
        """The answer count of the pause in which the cache was last kept alive, and what that has cost in it."""

    @property
    def large(self) -> bool:
        """Whether the conversation is large enough for its cache to matter."""
        return self._c.size().tokens >= _large(self._c)

    def due_in(self, *, alone: bool = False) -> float | None:
        """Seconds until a choice should be made; None if there is none left to make in this pause.

        ``alone`` asks for what happens without a driver.
        """
        c = self._c
        sent = c.epoch.watched.sent
        if not self._allowed(alone=alone) or not c.may_spend():
            return None
        if sent is None or self.settled == c.answers or not self.large:
            return None
        lifetime = SECONDS[c.epoch.lifetimes.tail]
        remaining = sent.at + lifetime - c.clock.now()
        return None if remaining <= 0 else max(0.0, remaining - max(LEAST_LEAD, LEAD * lifetime))

    def _allowed(self, *, alone: bool) -> bool:
        c = self._c
        if awaits_results(c):
            return c.settings.keep_warm
        if alone:
            return c.settings.keep_warm and not self.led and at_rest(c)
        return c.settings.idle_compaction and c.settings.compaction and at_rest(c)

    def pause(self) -> Pause | None:
        """The facts about the current pause; None if prices are unknown or nothing could be summarised."""
        c = self._c
        size = c.size().tokens
        price = c.profile.price(size)
        preview = None if awaits_results(c) else _preview(c)
        if price is None or (preview is None and not awaits_results(c)):
            return None
        if preview is not None and preview.call_usd is None:
            return None
        lifetime = SECONDS[c.epoch.lifetimes.tail]
        prior = c.settings.idle_resume_share
        records = list(islice(c.transcript.log.said(), REMEMBERED))
        resumes, soon = likelihoods(pauses(reversed(records)), _elapsed(c), lifetime, prior)
        return Pause(
            size=size,
            size_after=preview.tokens_after if preview else size,
            summary_usd=(preview.call_usd if preview else None) or 0.0,
            price=price,
            lifetime=lifetime,
            resumes=resumes,
            soon=soon,
            requests=c.settings.expected_requests,
        )

    def choices(self, pause: Pause, *, alone: bool) -> tuple[tuple[Choice, ...], str]:
        """The choices with their prices, and why one has to be made."""
        if awaits_results(self._c):
            elapsed = _elapsed(self._c)
            return weigh_wait(
                pause, elapsed
            ), f"the cache expires soon, and tools have run for {elapsed:,.0f} s"
        share = f"{pause.resumes:.0%}"
        why = f"the cache expires soon; such pauses end in a resume {share} of the time"
        choices = weigh(pause)
        return choices[:2] if alone else choices, why

    def affords(self, usd: float, limit: float) -> bool:
        """Whether another read in this pause stays, with those before it, within ``limit`` dollars."""
        answers, spent = self._kept
        return (spent if answers == self._c.answers else 0.0) + usd <= limit

    def kept(self, usd: float) -> None:
        """Note that the cache was kept alive, for this price."""
        answers, spent = self._kept
        self._kept = self._c.answers, usd + (spent if answers == self._c.answers else 0.0)
        self.settled = -1


def idle(c: Conversation, *, alone: bool = False) -> Flow[IdleDecision]:
    """If the cache is about to expire, decide what to do about it and do it; call this while no request is under way.

    With ``alone`` there is no driver: nothing is compacted.
    """
    with c.lock:
        c.refresh()
        state = c.state(Idleness)
        state.led = state.led or not alone
        wait = state.due_in(alone=alone)
        pause = state.pause() if wait == 0.0 else None
    if wait:
        return IdleDecision(why="the cache does not expire yet", again=wait)
    if pause is None:
        return IdleDecision(why="there is nothing to gain")
    answers = c.answers
    choices, why = state.choices(pause, alone=alone)
    chosen = choose(choices)
    read_usd = pause.size * pause.price.read / 1e6
    state.settled = answers
    if chosen.name == "keep_alive" and not state.affords(
        read_usd, pause.size * pause.price.write(pause.lifetime) / 1e6
    ):
        # Whatever the estimates say, a pause never costs more than twice what it costs to let the cache expire.
        return IdleDecision("nothing", f"{why}; keeping it has cost as much as writing it again", choices)
    if chosen.name == "nothing":
        return IdleDecision("nothing", why, choices)
    compacts = chosen.name == "compact"
    proposed = Proposed(
        layer="idle",
        mechanism=chosen.name,
        what="compact while the cache is warm" if compacts else "keep the cache alive",
        why=why,
        items=1,
        tokens=pause.size - chosen.tokens,
        usd=pause.summary_usd if compacts else read_usd,
    )
    if not c.events.may(proposed):
        return IdleDecision("nothing", f"{why}; refused by a listener", choices)
    if not (yield from _carried_out(c, chosen.name)):
        return IdleDecision("nothing", f"{why}; it failed", choices)
    done = "compacted while the cache was warm" if compacts else "kept the cache alive"
    c.events.acted(replace(proposed, what=done), pause.size, c.size().tokens)
    if chosen.name == "keep_alive":
        state.kept(read_usd)
    return IdleDecision(chosen.name, why, choices, state.due_in(alone=alone))


def _carried_out(c: Conversation, chosen: str) -> Flow[bool]:
    compactor = c.state(Compactor)
    if chosen == "compact":
        with c.asking():
            return (yield from compactor.attempt(compactor.run(AUTO))) is not None
    reading = fork(c, SOURCE)
    reading.user(KeepAlive().render())
    try:
        yield from reading.turn()
    except ModelError as error:
        c.events.aside("idle", str(error), source=SOURCE, error=error)
        return False
    return True


def next_costs(c: Conversation) -> tuple[Choice, ...]:
    """Costs of continuing and of the alternatives; empty unless the cache of a large conversation has expired."""
    with c.lock:
        c.refresh()
        size = c.size()
        lifetime = SECONDS[c.epoch.lifetimes.tail]
        price = c.profile.price(size.tokens)
        expired = c.answered_at != "" and c.idle_seconds() > lifetime
        if not expired or size.tokens < _large(c) or price is None:
            return ()
        write = price.write(lifetime) / 1e6
        c.measure()
        plan = c.state(Clearer).plan(size)
        # Results that will be cleared before the next request cost nothing.
        tokens_sent = size.tokens - (plan.tokens if plan.chosen == "clear" else 0)
        preview = _preview(c)
        going = going_on(c, size, size.tokens - tokens_sent, preview)
        if going is None:
            return ()
        costs = [Choice("go on", going.usd, tokens_sent, going.low, going.high, going.layers)]
        if preview is not None and preview.usd is not None:
            costs.append(Choice("compact", preview.usd, preview.tokens_after))
        costs.append(Choice("new session", c.epoch.gauge.fixed * write, c.epoch.gauge.fixed))
        return tuple(costs)


def _preview(c: Conversation) -> Preview | None:
    """What a compaction would do; None if nothing could be summarised."""
    try:
        return c.state(Compactor).preview(AUTO)
    except Refused:
        return None


def at_rest(c: Conversation) -> bool:
    """Whether the newest message is an answer without tool calls, and no request is under way."""
    newest = (item.record for item in c.transcript.view.items_from(len(c.transcript.view) - 1)[-1:])
    return not c.request_out and any(record.role == "assistant" and not record.calls for record in newest)


def awaits_results(c: Conversation) -> bool:
    """Whether tools are running whose results the next request will have, and no request is under way."""
    return bool(c.waiting) and not c.request_out


def pauses(records: Iterable[Said]) -> list[float]:
    """Seconds between each answer and the user's next message."""
    pauses_seen = list[float]()
    answered = ""
    for record in records:
        if record.sidechain:
            continue
        if record.role == "assistant":
            answered = answered if record.synthetic else record.timestamp
        elif (
            answered and record.timestamp and not record.answers and not record.meta and not record.summary
        ):
            ended = datetime.fromisoformat(record.timestamp)
            began = datetime.fromisoformat(answered)
            pauses_seen.append((ended - began).total_seconds())
            answered = ""
    return pauses_seen


def _elapsed(c: Conversation) -> float:
    """Seconds since the newest answer, whatever has read the cache since."""
    return c.clock.now() - datetime.fromisoformat(c.answered_at).timestamp() if c.answered_at else 0.0


def _large(c: Conversation) -> int:
    return c.window.budget(c.settings.idle_least_tokens)
