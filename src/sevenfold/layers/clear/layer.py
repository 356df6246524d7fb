"""Layer 2: old tool results are cleared before a request when that pays off."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from math import inf
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sevenfold.conversation import provider_edits
from sevenfold.conversation.flow import Flow
from sevenfold.conversation.history import own_requests
from sevenfold.conversation.layer import Offer, TooFull
from sevenfold.conversation.room import overloaded
from sevenfold.errors import BodyTooLarge, ModelError, PromptTooLong
from sevenfold.events import Proposed
from sevenfold.layers.breaker import Progress
from sevenfold.layers.clear import policy as clear
from sevenfold.layers.clear.ledger import CostLedger
from sevenfold.layers.clear.policy import ClearingMoment, OldResult, Plan, ProviderCut
from sevenfold.record import blocks
from sevenfold.record.authorship import is_users
from sevenfold.record.blocks import PLACEHOLDER_CLEARED
from sevenfold.record.decisions import MicrocompactMetadata, Pinned, Why
from sevenfold.record.entries import Clearing
from sevenfold.record.gauge import Size
from sevenfold.record.weight import NOTHING, measure, reasoning
from sevenfold.request.watch import SECONDS
from sevenfold.settings import Settings

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation

CLEARED_RESULT = blocks.result("toolu_" + "0" * 24, PLACEHOLDER_CLEARED)
NEWEST = 20
"""How many of the newest records are used to estimate how much a request adds."""
IN_ORDER = ("full", "overdue")
"""Causes for which clearing takes the place of a compaction."""
HALF_LIFE = 50
"""A session is expected to last as long again, but no more than this many requests."""


class Clear:
    """Clears old tool results without a model call."""

    name = "clear"

    def on(self, settings: Settings) -> bool:
        """Always: each way of clearing has a switch of its own, which the planner checks."""
        return True

    def offer(self, c: Conversation) -> Offer | None:
        """The planned clearing, if any; it is enough if the conversation would be below the threshold afterwards."""
        plan = c.state(Clearer).plan(c.last_size)
        acts = plan.chosen in ("clear", "provider")
        if not acts and not _deletes(c):
            return None
        high = c.last_size.high
        room = c.window.threshold
        short = high >= room or overloaded(c, c.last_size)
        enough = not short or (acts and high - plan.tokens < room)
        # What is cleared here is not sent either, so there is no need to compact while the provider can still read it.
        return Offer(enough, plan, urgent=enough and plan.chosen == "clear" and plan.cause in IN_ORDER)

    def relieve(self, c: Conversation, offer: Offer) -> Flow[bool]:
        """Clear, unless a listener refuses; always True, so no more expensive layer acts after a refusal either."""
        yield from ()
        c.state(Clearer).run(offer.plan)
        return True

    def suffices(self, c: Conversation) -> bool:
        """Whether clearing alone would make enough room at the threshold, as far as can be told now."""
        return c.state(Clearer).suffices(c.last_size)

    def may_follow(self, c: Conversation) -> bool:
        """Never: it is the cheapest layer that makes room, so it follows none."""
        return False

    def on_refusal(self, c: Conversation, error: ModelError | TooFull) -> Flow[bool]:
        """After a request that was too long, clear as much as needed, if possible."""
        yield from ()
        if not isinstance(error, PromptTooLong | BodyTooLarge):
            return False
        gap = error.gap if isinstance(error, PromptTooLong) else None
        with c.lock:
            return c.request_out and c.state(Clearer).force(gap or c.window.effective // 5)

    def propose(self, c: Conversation) -> Sequence[Proposed]:
        """What would be cleared before the next request."""
        return c.state(Clearer).propose()


class Clearer:
    """Plans and carries out clearing for one conversation, and tracks what it costs."""

    def __init__(self, c: Conversation) -> None:
        self._c = c
        self._progress = Progress()
        self._ledger, self._requests, self._boundary = _on_record(c)
        self._size_after_compaction: int | None = None
        self._undone = c.transcript.view.undone
        self._left_to_compaction: tuple[int, str | None, Plan] = (-1, None, Plan(""))
        """The last plan that left it to a compaction to make room, with its pass and the boundary then."""
        self._edits_refused = "-"
        """The epoch in which a listener refused to let the provider clear; it is proposed once per epoch."""

    def run(self, plan: Plan) -> None:
        """Delete results by reference where the provider supports it, then carry out the plan."""
        if _deletes(self._c):
            self._delete()
            plan = self.plan(self._c.size())
        if plan.chosen in ("clear", "provider"):
            self._consider(self._act(plan))

    def propose(self) -> list[Proposed]:
        """What the next pass would do; writes nothing."""
        plan = self.plan(self._c.last_size)
        planned = _proposal(plan) if plan.chosen in ("clear", "provider") else None
        return [proposed for proposed in (self._deletion(), planned) if proposed is not None]

    def suffices(self, size: Size) -> bool:
        """Whether what can be cleared now would do instead of a compaction; content that stays never gets smaller."""
        c = self._c
        c.clearable.follow(c.transcript.view)
        if self._progress.rests(c.window, size.tokens):
            return False
        return clear.suffices(self._with_forecast(replace(self._moment(size), results=self._results())))

    def plan(self, size: Size, *, forced: int = 0) -> Plan:
        """The clearing planned at this size; ``forced`` is by how many tokens a request was too long."""
        plan = self._plan(size, forced)
        self._consider(plan)
        return plan

    def _consider(self, plan: Plan) -> None:
        ledger = self._ledger
        passes = self._c.passes
        boundary = self._c.transcript.view.boundary
        if plan.chosen == "compact":
            self._left_to_compaction = passes, boundary, plan
        decided_in, decided_at, decided = self._left_to_compaction
        if plan.chosen == "nothing" and decided_in == passes and decided_at != boundary:
            # After the compaction of this pass, nothing is left to do: what led to it is what must be told.
            plan = decided
        next_ledger = ledger.requested(1) if ledger.ahead else ledger
        chosen = Why(0, 0, 0, plan.rule, plan.chosen, list(plan.options))
        self._c.consider(replace(chosen, owed=next_ledger.owed or None, ahead=next_ledger.ahead))

    def _plan(self, size: Size, forced: int) -> Plan:
        c = self._c
        c.clearable.follow(c.transcript.view)
        moment = self._with_ledger(self._moment(size))
        if forced:
            moment = replace(moment, upper_size=max(moment.upper_size, c.window.threshold + forced))
        if not clear.could_matter(moment, c.epoch.gauge.estimator.tokens(c.clearable.weight)):
            return Plan("everything fits")
        moment = replace(moment, compacts=c.ladder.has_costlier_layer(c))
        rests = self._progress.rests(c.window, size.tokens)
        cannot_be_sent = moment.heavy or moment.upper_size >= moment.window.blocking
        if moment.cold or moment.overdue or (cannot_be_sent and not moment.compacts):
            rests = ""
        c.events.rests("clear", rests)
        if rests:
            return Plan(f"clearing rests: {rests}")
        running = moment.bound and moment.mid_turn and self._running_turn_thinks()
        moment = replace(moment, results=self._results(), running=running)
        forecast = not moment.cold or (moment.full and moment.compacts)
        return clear.plan(self._with_forecast(moment) if forecast else moment)

    def force(self, tokens: int) -> bool:
        """Clear after a request was refused as too long by ``tokens``; True if anything was cleared."""
        plan = self.plan(self._c.size(), forced=max(1, tokens))
        return plan.chosen == "clear" and self._act(plan).chosen == "clear"

    # -- clearing -------------------------------------------------------------------------------

    def _act(self, plan: Plan) -> Plan:
        """Clear, or ask the provider to, unless a listener refuses; returns the plan as carried out."""
        proposed = _proposal(plan)
        by_provider = plan.chosen == "provider"
        if not self._c.events.may(proposed):
            if by_provider:
                self._edits_refused = self._epoch
            return replace(plan, rule=f"{plan.rule}; refused by a listener", chosen="nothing")
        tokens_before = self._c.size().tokens
        with self._c.atomic():
            if by_provider:
                reference = provider_edits.open_epoch(self._c).id
            else:
                reference = self._write_clearing(plan, tokens_before)
        tokens_after = tokens_before - plan.tokens if by_provider else self._c.size().tokens
        if plan.cause in ("room", "size", *IN_ORDER):
            freed = tokens_before - tokens_after
            self._progress = self._progress.after(self._c.account.requests, freed, tokens_after)
        self._ledger = plan.ledger
        self._c.events.acted(proposed, tokens_before, tokens_after, reference, undoable=not by_provider)
        return plan

    def _write_clearing(self, plan: Plan, tokens_before: int) -> str:
        reference = ""
        if plan.drops_thinking:
            first_sent = self._last_turn() if not plan.drops_all_thinking else None
            # If only the oldest reasoning is dropped, the rest is still valid.
            epoch = self._c.open_epoch(
                "clear", drops_thinking=True, before=first_sent, thinking_stays_valid=first_sent is not None
            )
            reference = epoch.id
        else:
            self._c.announce("clear")
        if plan.targets:
            about = MicrocompactMetadata(
                pre_tokens=tokens_before, tokens_saved=plan.tokens, compacted_tool_ids=list(plan.targets)
            )
            reference = self._c.transcript.clear(about)
        return reference

    def _running_turn_thinks(self) -> bool:
        """Whether the model has reasoned since the user's last words, or since a summary."""
        began = self._last_turn()
        for item in reversed(self._c.transcript.view.items):
            if item.record.uuid == began:
                return False
            if item.weight.thoughts:
                return True
        return False

    def _last_turn(self) -> str | None:
        """The record that begins the turn of the newest answer: the user's words, or a summary, before it."""
        items = self._c.transcript.view.items
        for item in reversed(items[: self._c.clearable.answered + 1]):
            record = item.record
            if record.summary or (is_users(record) and not record.answers):
                return record.uuid
        return None

    # -- deleting from the cached prefix by reference ---------------------------------------------
    # With providers that support this, nothing has to be rewritten to the cache. A deletion is repeated at its place in
    # every request for as long as the cache lives. The state follows from the log alone: the results in view in their
    # order, and the decisions about them since the last empty `Pinned`.

    def _delete(self) -> None:
        """Drop stale deletions, and delete results that have become old."""
        c = self._c
        gone = self._gone()
        in_view = {held.call for held in c.clearable.results}
        # No server accepts a deletion that names a result which is no longer in the request.
        if gone is None or (gone and (self._expired() or not gone <= in_view)):
            if gone:
                c.announce("pinned edits dropped")
            c.transcript.decide(Pinned())
        proposed = self._deletion()
        if proposed is not None and c.events.may(proposed):
            tokens_before = c.size().tokens
            record = c.transcript.view.items[-1].record.uuid
            decision = c.transcript.decide(Pinned(calls=list(proposed.targets), record=record))
            tokens_after = max(0, tokens_before - proposed.tokens)
            c.events.acted(proposed, tokens_before, tokens_after, decision.id)

    def _deletion(self) -> Proposed | None:
        """The deletion to propose now, possible only when new tool results are about to be sent; None if there is none.

        Once there are enough results, all but the newest few are deleted.
        """
        c = self._c
        view = self._c.transcript.view
        settings = self._c.settings
        newest = view.items_from(len(view) - 1)[-1:]
        if not (_deletes(c) and newest and newest[0].record.answers) or self._expired():
            return None
        gone = self._gone() or frozenset()
        active = [result for result in self._results() if result.call not in gone]
        calls = tuple(result.call for result in active[: -settings.pinned_keep] if not result.kept)
        if len(active) < settings.pinned_trigger or not calls:
            return None
        count = c.epoch.gauge.estimator.tokens
        return Proposed(
            layer="clear",
            mechanism="pinned",
            what=f"delete {len(calls)} old tool results by reference",
            why="many results are in the cached prefix",
            items=len(calls),
            tokens=round(sum(count(held.weight) for held in c.clearable.results if held.call in calls)),
            usd=0.0,
            targets=calls,
        )

    def _gone(self) -> frozenset[str] | None:
        """The calls whose results are deleted; None if results are not sent with references yet."""
        self._c.clearable.follow(self._c.transcript.view)
        gone: frozenset[str] | None = None
        for decision in self._c.transcript.view.decisions():
            if isinstance(decision, Pinned):
                # An empty one ends all deletions before it.
                gone = (gone or frozenset()) | set(decision.calls) if decision.calls else frozenset()
        return gone

    def _expired(self) -> bool:
        lifetime = SECONDS[self._c.epoch.lifetimes.tail] + self._c.settings.gap_margin_seconds
        return lifetime < self._c.idle_seconds() < inf

    # -- input for the planner ------------------------------------------------------------------

    def _moment(self, size: Size) -> ClearingMoment:
        c = self._c
        settings = self._c.settings
        profile = c.profile
        view = c.transcript.view
        idle = c.idle_seconds()
        price = profile.price(size.tokens)
        provider_clears = c.epoch.frame.edits is not None
        may_ask = profile.thinking.bound and settings.provider_edits and self._edits_refused != self._epoch
        since = [item for item in view.items_from(c.clearable.answered + 1) if not item.record.meta]
        mid_turn = bool(since and since[-1].record.answers)
        return ClearingMoment(
            results=(),
            size=size.tokens,
            upper_size=size.high,
            fixed=c.epoch.gauge.fixed,
            window=c.window,
            settings=settings,
            price=price,
            lifetime=SECONDS[c.epoch.lifetimes.tail],
            idle=None if idle == inf else idle,
            expected=max(settings.expected_requests, min(c.account.requests, HALF_LIFE)),
            spent=c.account.usd or 0.0,
            size_after_compaction=self._size_after_compaction,
            bound=profile.thinking.bound and view.weight.thoughts > 0,
            thinking=0 if mid_turn or not clear.FORGOTTEN < idle < inf else self._old_thinking(),
            reasoning=round(c.epoch.gauge.estimator.tokens(reasoning(view.weight))),
            mid_turn=mid_turn,
            compacts=False,
            provider=provider_clears or _deletes(c),
            near=may_ask
            and not provider_clears
            and size.tokens >= settings.edits_trigger(c.window.threshold),
            edited=c.edited,
            wire=size.wire,
            images=size.images,
            limits=c.limits,
        )

    def _with_ledger(self, moment: ClearingMoment) -> ClearingMoment:
        """The moment with the cost ledger brought up to date."""
        view = self._c.transcript.view
        requests = self._c.account.requests
        ledger = self._ledger
        compacted = view.boundary != self._boundary
        undone = view.undone != self._undone
        terms = moment.terms if ledger.ahead or moment.full or compacted else None
        owed = ledger.owed
        if terms is not None:
            moment = replace(moment, compacts=self._c.ladder.has_costlier_layer(self._c))
            ledger = ledger.requested(requests - self._requests)
            owed = ledger.owed
            if compacted:
                ledger = ledger.compacted(terms)
                self._size_after_compaction = moment.size
            if undone:
                # Content that the user restores is there however room was made.
                ledger = replace(ledger, ahead=0)
            threshold = moment.window.threshold if moment.compacts else inf
            ledger = ledger.grown(moment.upper_size, threshold, terms)
        self._requests = requests
        self._ledger = ledger
        self._boundary = view.boundary
        self._undone = view.undone
        return replace(moment, ledger=ledger, owed=owed)

    @property
    def _epoch(self) -> str:
        epoch = self._c.transcript.view.epoch
        return epoch.id if epoch else ""

    def _with_forecast(self, moment: ClearingMoment) -> ClearingMoment:
        """The moment with a forecast: future requests are expected to add as much as the newest ones did."""
        c = self._c
        view = self._c.transcript.view
        newest = view.items_from(max(0, len(view) - NEWEST))
        answers = sum(item.record.role == "assistant" for item in newest)
        growth = sum(map(c.item_tokens, newest)) // max(1, answers)
        return replace(moment, growth=growth, cut=self._cut(growth) if moment.near else None)

    def _cut(self, growth: int) -> ProviderCut | None:
        """What the provider would clear now; None if it cannot clear, or if it is less than the minimum it clears."""
        c = self._c
        keep = self._c.settings.size_keep
        managed = provider_edits.requested_edits(c.profile, c.window, c.settings, c.kinds)
        going = c.clearable.results[:-keep]
        if managed is None or not going:
            return None
        tokens = sum(c.tokens(held.weight) for held in going)
        clear_at_least: int = managed["edits"][-1]["clear_at_least"]["value"]
        if tokens < clear_at_least:
            return None
        behind = sum(map(c.item_tokens, c.transcript.view.items_from(going[-1].place + 1)))
        moves = growth / clear_at_least if c.profile.edits_hold else 1.0
        return ProviderCut(tokens, behind, moves)

    def _old_thinking(self) -> int:
        """Tokens of reasoning from turns before the last that is still sent and could be left out."""
        if not self._c.profile.thinking.kept:
            return 0
        last = self._last_turn()
        earlier = takewhile(lambda item: item.record.uuid != last, self._c.transcript.view.items)
        weight = sum((reasoning(item.weight) for item in earlier), NOTHING)
        return round(self._c.epoch.gauge.estimator.tokens(weight))

    def _results(self) -> list[OldResult]:
        count = self._c.epoch.gauge.estimator.tokens
        pinned = self._c.transcript.pinned()
        view = self._c.transcript.view
        # Results whose clearing the user undid stay until it is redone.
        exempt: set[str] = set()
        for decision in view.decisions():
            if isinstance(decision, Clearing) and decision.uuid in view.undone:
                exempt |= {*decision.about.compacted_tool_ids}
        placeholder_tokens = round(count(measure(CLEARED_RESULT)))
        results = []
        for held in self._c.clearable.results:
            not_sent_yet = held.place > self._c.clearable.answered
            result = OldResult(
                held.call,
                round(count(held.weight)),
                held.error,
                kept=not_sent_yet or held.record in pinned or held.call in exempt,
                images=held.weight.images,
                wire=held.weight.wire,
                remaining=placeholder_tokens,
            )
            results.append(result)
        return results


def _on_record(c: Conversation) -> tuple[CostLedger, int, str | None]:
    """The ledger as of the newest request on record, the number of requests by then, and the boundary before it."""
    log = c.transcript.log
    for position, request in own_requests(log):
        if request.why is not None:
            earlier = (
                entry.uuid for boundary_position, entry in log.boundaries() if boundary_position < position
            )
            boundary = next(earlier, None)
            price = c.profile.price(request.why.used)
            # The engine's own calls after that request read from the cache it had written.
            read_price = price.read / 1e6 if price else 0.0
            ledger = CostLedger(request.why.owed or 0.0, request.why.ahead, read_price)
            return ledger, request.number + 1, boundary
    return CostLedger(), c.account.requests, c.transcript.view.boundary


def _deletes(c: Conversation) -> bool:
    """Whether results are deleted by reference; not with bound thinking, as dropping a deletion changes the prefix."""
    return c.profile.pinned_edits and c.settings.pinned_edits and not c.profile.thinking.bound


def _proposal(plan: Plan) -> Proposed:
    """A plan as listeners see it."""
    done = ["ask the provider to clear old tool results"] if plan.chosen == "provider" else []
    if count := len(plan.targets):
        done.append(f"clear {count} old tool result{'s' if count != 1 else ''}")
    if plan.drops_thinking:
        done.append("leave out earlier reasoning")
    return Proposed(
        layer="clear",
        mechanism="provider" if plan.chosen == "provider" else "local",
        what=" and ".join(done),
        why=plan.rule,
        items=count,
        tokens=plan.tokens,
        usd=plan.usd,
        targets=plan.targets,
    )
