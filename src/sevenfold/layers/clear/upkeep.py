"""What is done before a request so that it fits and costs no more than it must: the layers, cheapest first."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from msgspec.structs import replace

from sevenfold.conversation import limits as ladder
from sevenfold.conversation.events import Announcer
from sevenfold.conversation.exchange import Exchange
from sevenfold.conversation.limits import Limits, Parts, Pass, Progress
from sevenfold.conversation.pins import pinned
from sevenfold.conversation.transcript import Transcript
from sevenfold.errors import ContextFull
from sevenfold.events import Acted, Checked, Proposed
from sevenfold.layers.clear import policy as clear
from sevenfold.layers.clear.moment import Moment, Plan, Result, Stake
from sevenfold.layers.clear.references import References
from sevenfold.conversation.stock import Stock
from sevenfold.layers.offload.gate import Gate
from sevenfold.layers.offload.policy import Budget
from sevenfold.profiles import Profile
from sevenfold.record import blocks
from sevenfold.record.blocks import PLACEHOLDER_CLEARED, Block
from sevenfold.record.decisions import MicrocompactMetadata, Why
from sevenfold.record.entries import Clearing
from sevenfold.record.gauge import Budget as Counted
from sevenfold.record.gauge import Check, Size
from sevenfold.record.layout import Item
from sevenfold.record.weight import NOTHING, Weight, measure, opening, reasoning
from sevenfold.record.window import Window
from sevenfold.request.watch import SECONDS
from sevenfold.settings import Settings

CLEARED_RESULT = blocks.result("toolu_" + "0" * 24, PLACEHOLDER_CLEARED)
CHARACTERS_PER_TOKEN = 2
"""To be on the safe side when so many tokens must go."""
HALF_LIFE = 50
"""Requests of a session beyond which it is no longer expected to last as long again."""


class Upkeep:
    """Looks after a session's size and cost."""

    def __init__(
        self,
        transcript: Transcript,
        exchange: Exchange,
        gate: Gate,
        announcer: Announcer,
        *,
        profile: Profile,
        window: Window,
        kinds: Mapping[str, str],
    ) -> None:
        self._transcript = transcript
        self._exchange = exchange
        self._gate = gate
        self._announcer = announcer
        self._profile = profile
        self.window = window
        self._kinds = kinds
        self.stock = Stock(kinds)
        self.compacts = False
        """Whether a compaction may follow when clearing is not enough."""
        self._references = References(transcript, exchange, announcer, profile, self.stock)
        self._progress = Progress()
        self._stake = Stake()
        self._staked_at = 0

    # -- the pass before a request --------------------------------------------------------------

    def run(self, settings: Settings) -> Why:
        """Do what is due; says what was known and considered. Raises `ContextFull` if nothing helps."""
        self.settle(settings)
        self._references.tend(settings, self._results)
        plan = self.plan(settings)
        if plan.chosen == "clear":
            plan = self._clear(plan)
        check = self._check(settings)
        if check.verdict == "blocked" and check.budget == "tokens" and self._squeeze(check, settings):
            check = self._check(settings)
        if check.verdict == "blocked":
            raise ContextFull(self._too_full(check, settings))
        return Why(
            used=check.used,
            band=check.band,
            threshold=self.window.threshold,
            rule=plan.rule,
            chosen=plan.chosen,
            options=list(plan.options),
        )

    def dry_run(self, settings: Settings) -> list[Proposed]:
        """What the next pass would do, without doing it."""
        budget = self.budget(settings)
        proposals = [
            self._gate.proposal(big, budget)
            for big in self._gate.due(self._unsent_results(), self.stock.tool_of, budget)
        ]
        if deletion := self._references.proposed(settings, self._results):
            proposals.append(deletion)
        plan = self.plan(settings)
        return [*proposals, _proposal(plan)] if plan.chosen == "clear" else proposals

    def plan(self, settings: Settings, *, forced: int = 0) -> Plan:
        """What clearing would do now, without doing it; ``forced`` tokens must go whatever the size is."""
        self.stock.follow(self._transcript.view)
        size = self._exchange.size()
        moment = self._moment(size, settings)
        if forced:
            moment = replace(moment, most=max(moment.most, self.window.threshold + forced))
        results_tokens = self._exchange.gauge.estimator.tokens(self.stock.weight)
        if not clear.could_matter(moment, results_tokens):
            return Plan("everything fits")
        rests = self._progress.rests("clear", self.window, size.tokens)
        if moment.cold or (clear.cannot_be_sent(moment) and not moment.compacts):
            rests = ""
        self._announcer.rests("clear", rests)
        if rests:
            return Plan(f"clearing rests: {rests}")
        return clear.plan(replace(moment, results=self._results()))

    def relieve(self, settings: Settings, tokens: int) -> bool:
        """A request was refused as too long by so many tokens: let something go, if anything can."""
        plan = self.plan(settings, forced=max(1, tokens))
        if plan.chosen != "clear":
            return False
        return self._clear(plan).chosen == "clear"

    def settle(self, settings: Settings) -> None:
        """Decide about results that go out for the first time: what is sent now is sent the same ever after."""
        self._gate.settle(self._unsent_results(), self.stock.tool_of, self.budget(settings))

    def _squeeze(self, check: Check, settings: Settings) -> bool:
        """Results that no request has held yet can still go to disk, which costs nothing."""
        unsent = self._unsent_results()
        over = check.used + check.band - self.window.blocking + 1
        allowed = sum(len(block.raw) for block in unsent) - over * CHARACTERS_PER_TOKEN
        if not unsent or not settings.offload:
            return False
        tight = replace(settings, round_characters=max(1, int(allowed / self.window.scale)))
        before = self._exchange.size().tokens
        self._gate.settle(unsent, self.stock.tool_of, self.budget(tight))
        return self._exchange.size().tokens < before

    def budget(self, settings: Settings) -> Budget:
        """How much of tool results may stay in the context."""
        return Budget(settings, self.window, self._kinds)

    def unsent(self) -> list[Item]:
        """What no request has held yet."""
        view = self._transcript.view
        self.stock.follow(view)
        newest = view.items_from(self.stock.answered + 1)
        tip = self._exchange.account.tip
        while isinstance(entry := view.entry(tip or ""), Clearing):
            tip = entry.parent
        sent = next((place for place, item in enumerate(newest) if item.said.uuid == tip), -1)
        return newest[sent + 1 :]

    def _unsent_results(self) -> list[Block]:
        found = (block for item in self.unsent() if item.said.answers for block in item.shown)
        return [block for block in found if block.kind == "tool_result"]

    # -- clearing -------------------------------------------------------------------------------

    def _clear(self, plan: Plan) -> Plan:
        proposed = _proposal(plan)
        if not self._announcer.may(proposed):
            return replace(plan, rule=f"{plan.rule}; refused by a listener", chosen="nothing")
        before = self._exchange.size().tokens
        reference = self._write_clearing(plan, before)
        after = self._exchange.size().tokens
        if plan.cause != "pause":
            requests = self._exchange.account.requests
            self._progress = self._progress.after(Pass("clear", requests, before - after, after))
        self._stake = self._stake.after(plan)
        self._announcer.tell(
            Acted(
                layer="clear",
                mechanism="local",
                what=proposed.what,
                why=plan.rule,
                items=proposed.items,
                tokens_before=before,
                tokens_after=after,
                usd=plan.usd,
                reference=reference,
            )
        )
        return plan

    def _write_clearing(self, plan: Plan, before: int) -> str:
        """The epoch first, if reasoning goes: cut off between the two, the request is still a legal one."""
        reference = ""
        if plan.drops_thinking:
            kept = self._last_turn() if not plan.drops_all_thinking else None
            reference = self._exchange.open("clear", drops_thinking=True, before=kept).id
            if kept is not None:
                # Only reasoning went, from the start on: what is left of it is as valid as before.
                self._exchange.vouch()
        else:
            self._exchange.announce("clear")
        if plan.targets:
            about = MicrocompactMetadata(
                pre_tokens=before, tokens_saved=plan.tokens, compacted_tool_ids=list(plan.targets)
            )
            reference = self._transcript.clear(about)
        return reference

    def _last_turn(self) -> str | None:
        """Where the newest finished turn begins: the user's words before the last answer."""
        items = self._transcript.view.items
        asked = (item for item in reversed(items[: self.stock.answered + 1]) if _users_words(item))
        return next((item.said.uuid for item in asked), None)

    # -- what the planner looks at --------------------------------------------------------------

    def _moment(self, size: Size, settings: Settings) -> Moment:
        exchange, profile, view = self._exchange, self._profile, self._transcript.view
        idle, price = exchange.idle_seconds(), profile.price(size.tokens)
        self._stake = self._stake.earned(exchange.account.requests - self._staked_at, price)
        self._staked_at = exchange.account.requests
        limits = self.limits(settings)
        since = (item for item in reversed(view.items_from(self.stock.answered + 1)) if not item.said.meta)
        mid_turn = bool((newest := next(since, None)) and newest.said.answers)
        return Moment(
            results=(),
            size=size.tokens,
            most=size.high,
            fixed=exchange.gauge.fixed,
            window=self.window,
            settings=settings,
            price=price,
            lifetime=SECONDS[exchange.lifetimes.tail],
            idle=None if idle == inf else idle,
            expected=max(settings.expected_requests, min(exchange.account.requests, HALF_LIFE)),
            spent=exchange.account.usd or 0.0,
            owed=self._stake.owed,
            bound=profile.thinking.bound and view.weight.thoughts > 0,
            thinking=0 if mid_turn or not clear.FORGOTTEN < idle < inf else self._old_thinking(),
            reasoning=round(exchange.gauge.estimator.tokens(reasoning(view.weight))),
            mid_turn=mid_turn,
            compacts=self.compacts,
            provider=self._references.used(settings)
            or any(name == "context_management" for name, _ in exchange.frame.settings),
            edited=exchange.edited,
            wire=size.wire,
            wire_limit=limits.wire,
            images=size.images,
            images_limit=limits.images,
        )

    def limits(self, settings: Settings) -> Limits:
        """The most bytes and pictures a request may have."""
        return Limits.of(self._profile, settings)

    def overloaded(self, settings: Settings) -> bool:
        """Are there too many bytes or pictures, and not only in what no request has held yet?"""
        size, limits = self._exchange.size(), self.limits(settings)
        if not limits.passed(size.wire, size.images):
            return False
        newest = sum((item.weight for item in self.unsent()), NOTHING)
        return not limits.passed(newest.wire, _pictures(newest))

    def _old_thinking(self) -> int:
        """Tokens of reasoning of turns before the last that is still sent and could be left out."""
        if not self._profile.thinking.kept:
            return 0
        last, found = self._last_turn(), NOTHING
        for item in self._transcript.view.items:
            if item.said.uuid == last:
                break
            found += reasoning(item.weight)
        return round(self._exchange.gauge.estimator.tokens(found))

    def _results(self) -> list[Result]:
        count = self._exchange.gauge.estimator.tokens
        kept = pinned(self._transcript)
        exempt = self._exempt()
        left = round(count(measure(CLEARED_RESULT)))
        return [
            Result(
                held.call,
                round(count(held.weight)),
                held.error,
                held.place > self.stock.answered or held.record in kept or held.call in exempt,
                _pictures(held.weight),
                held.weight.wire,
                left,
            )
            for held in self.stock.results
        ]

    def _exempt(self) -> set[str]:
        """Results the user put back: they stay until that is redone."""
        view = self._transcript.view
        return {
            call
            for made in view.decisions()
            if isinstance(made, Clearing) and made.uuid in view.undone
            for call in made.about.compacted_tool_ids
        }

    # -- looking --------------------------------------------------------------------------------

    def _too_full(self, check: Check, settings: Settings) -> str:
        parts, limits = self.parts(check.budget), self.limits(settings)
        limit = {"bytes": limits.wire, "images": limits.images}.get(check.budget) or self.window.blocking
        steps = ladder.steps(
            parts,
            check.budget,
            clears=settings.size_clearing,
            compacts=settings.compaction and not self.compacts,
            snips=settings.snip,
        )
        return ladder.too_full(check, self.window, parts, limit=limit, steps=steps)

    def _check(self, settings: Settings) -> Check:
        size, limits = self._exchange.size(), self.limits(settings)
        check = self._exchange.gauge.check(size, self.window, wire=limits.wire, images=limits.images)
        self._announcer.tell(
            Checked(
                used=check.used,
                band=check.band,
                sent=size.sent,
                threshold=check.threshold,
                effective=check.effective,
                blocking=self.window.blocking,
                freed=check.freed,
                wire=check.wire,
                images=check.images,
                percent_left=self.window.status(size.tokens, band=size.band).percent_left,
                verdict=check.verdict,
                budget=check.budget,
            )
        )
        return check

    def parts(self, budget: Counted = "tokens") -> Parts:
        """What a request is filled with, in what this budget is counted in."""
        frame, size = self._exchange.frame, self._exchange.size()
        whole: Mapping[Counted, int] = {"tokens": size.tokens, "bytes": size.wire, "images": size.images}
        kept = pinned(self._transcript)
        items = self._transcript.view.items
        fresh = {item.said.uuid for item in self.unsent()}
        newest = sum((item.weight for item in items if item.said.uuid in fresh), NOTHING)
        pins = sum((item.weight for item in items if item.said.uuid in kept - fresh), NOTHING)
        parts = Parts(
            system=self._amount(opening(*frame.system), budget),
            tools=self._amount(opening(*frame.tools), budget),
            pinned=self._amount(pins, budget),
            newest=self._amount(newest, budget),
            rest=0,
        )
        # Bytes and pictures are counted in messages alone.
        known = parts.fixed if budget == "tokens" else parts.pinned + parts.newest
        return replace(parts, rest=max(0, whole[budget] - known))

    def _amount(self, weight: Weight, budget: Counted) -> int:
        match budget:
            case "bytes":
                return weight.wire
            case "images":
                return _pictures(weight)
            case _:
                return max(0, round(self._exchange.gauge.estimator.tokens(weight)))


def _proposal(plan: Plan) -> Proposed:
    """A plan, as listeners are told of it."""
    done = []
    if count := len(plan.targets):
        done.append(f"clear {count} old tool result{'s' if count != 1 else ''}")
    if plan.drops_thinking:
        done.append("leave out earlier reasoning")
    return Proposed(
        layer="clear",
        mechanism="local",
        what=" and ".join(done),
        why=plan.rule,
        items=count,
        tokens=plan.tokens,
        usd=plan.usd,
        targets=plan.targets,
    )


def _pictures(weight: Weight) -> int:
    return weight.images + weight.documents


def _users_words(item: Item) -> bool:
    return item.said.role == "user" and not item.said.answers and not item.said.meta
