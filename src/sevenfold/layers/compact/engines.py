"""The engines that get a summary. Each is a flow: it yields its model calls and returns an `Attempt`.

provider    the provider's own compaction: one block that replaces everything it was shown. A signed block is readable
            and is sent in place of our text; an encrypted one cannot be checked, so a text made by code goes with it
fork        the session's own prefix plus one instruction, so that almost all of it is read from the cache
plain       a separate small request, to this or another model, shortened until it fits
extractive  no model at all

They are tried in order until one has a summary; the last always has one. After three compactions in a row in which
no model produced a summary, automatic ones stop asking models until one succeeds again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from sevenfold.conversation import waiting
from sevenfold.conversation.flow import Flow, Signal, Wait
from sevenfold.conversation.fork import fork
from sevenfold.conversation.plain_call import PlainCall, plain_call
from sevenfold.conversation.turn import turn
from sevenfold.conversation.waiting import Retries
from sevenfold.errors import Aborted, ModelError, PromptTooLong
from sevenfold.layers import breaker
from sevenfold.layers.compact import shorten
from sevenfold.layers.compact.compaction import OUTPUT_CAP, CompactionRequest, EngineName, UnusedEngine
from sevenfold.layers.compact.scope import Scope
from sevenfold.layers.compact.shorten import Shortened
from sevenfold.layers.compact.summary.draft import Draft, Failure, lines_that_name, read_draft
from sevenfold.layers.compact.task import NAMES, SummaryTask
from sevenfold.profiles import Profile
from sevenfold.prompts.compact import Summariser, UserWordsAsked
from sevenfold.record import blocks
from sevenfold.record.blocks import Compaction
from sevenfold.record.layout import rounds
from sevenfold.record.usage import Usage
from sevenfold.record.weight import NOTHING
from sevenfold.record.wire import Message
from sevenfold.request.frame import EDITS, Frame, assemble, plan
from sevenfold.request.watch import SECONDS

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation
    from sevenfold.ports import Reply
    from sevenfold.record.layout import Item

SOURCE = "compact"
COLLAPSE = "collapse"
NO_CLIENT = "no client was passed"
RETRIES = 2
"""How often a failed call is retried."""
CURRENT_WORK = 8
"""The first section about the latest state; of a summary made in parts, only the last part's version is kept."""
SHORTENINGS = 3
"""How often the oldest rounds are dropped when a summary request itself is too long."""


class Attempt(Struct, frozen=True):
    """The outcome of one or more engine calls: a summary, or why there is none, and what it cost."""

    outcome: Draft | Failure
    engine: EngineName = "extractive"
    """The engine that produced it."""
    unused: tuple[UnusedEngine, ...] = ()
    """The engines that were skipped or failed before."""
    usage: Usage | None = None
    usd: float | None = 0.0
    calls: int = 0
    signed: bytes | None = None
    """The provider's readable block, which is sent in place of the text."""
    opaque: bytes | None = None
    """The provider's unreadable block, which is sent before a text made by code."""
    gap: int | None = None
    """By how many tokens the request was too long, if the provider said so."""
    retries: tuple[str, ...] = ()
    """What had to be retried, and how."""
    busy: bool = False
    """Whether the failure was temporary."""
    names: tuple[str, ...] = ()
    """The lines in which a call of its own named what lasts of the user's messages."""
    offered: frozenset[str] = frozenset()
    """The records of the user's messages that a model was asked about."""

    @property
    def too_long(self) -> bool:
        """Whether it failed because the request was too long."""
        return isinstance(self.outcome, Failure) and self.outcome.reason == "prompt_too_long"

    @property
    def lasting(self) -> tuple[str, ...]:
        """All lines that name what lasts of the user's messages, unchecked."""
        drafted = self.outcome.lasting if isinstance(self.outcome, Draft) else ()
        return (*drafted, *self.names)

    @property
    def succeeded(self) -> bool:
        """Whether there is a summary of any kind."""
        return isinstance(self.outcome, Draft) or self.opaque is not None

    def then(self, later: Attempt) -> Attempt:
        """The result of a later try, with the costs, calls and retries of both added up."""
        usd = None if self.usd is None or later.usd is None else self.usd + later.usd
        return replace(
            later,
            usd=usd,
            calls=self.calls + later.calls,
            usage=later.usage or self.usage,
            retries=(*self.retries, *later.retries),
        )


def by_provider(task: SummaryTask) -> Flow[Attempt]:
    """Get a summary from the provider's own compaction; the messages kept after it keep their reasoning."""
    c = task.c
    profile = task.c.profile
    frame = _without_edits(c.epoch.frame, profile)
    wish = {"type": "summarize"}
    if profile.compaction_instructions:
        wish["instructions"] = task.providers_instruction()
    markers = plan(
        c.epoch.frame,
        task.prefix,
        profile.cache,
        c.part_sizes(),
        c.epoch.lifetimes,
        shared=len(task.prefix),
    )
    body = assemble(frame, task.prefix, markers, {"compaction": msgspec.json.encode(wish)})

    def call() -> PlainCall:
        return PlainCall(c, profile, frame, body, SOURCE, c.cache_key)

    return (yield from _asked(c, call, _by_provider))


def by_fork(task: SummaryTask) -> Flow[Attempt]:
    """Get a summary from a fork, which reads the session's cache; if too long, retry without the oldest rounds."""
    source = COLLAPSE if task.request.trigger == "collapse" else SOURCE

    def asking(remaining: Shortened) -> Flow[Attempt]:
        if remaining.dropped:
            sent = shorten.messages(remaining.items, dropped=remaining.dropped)
            branch = fork(task.c, source, [Message("", (), raw) for raw in sent])
        else:
            branch = fork(task.c, source, task.prefix, task.upto)
        branch.user(task.instruction())
        try:
            outcome = yield from branch.turn()
        except ModelError as error:
            return _failed(error)
        drafted = _drafted(outcome.reply)
        return replace(drafted, usage=outcome.usage, usd=outcome.cost, calls=1)

    return (yield from _shrink(task, Shortened(task.lean, 0), asking))


def by_plain_call(
    task: SummaryTask, model: Profile, over: int | None = None, *, shortened: bool = False
) -> Flow[Attempt]:
    """Get a summary from a separate request; if it is too long, drop the oldest rounds, and finally read it in parts.

    ``over`` is by how many tokens the conversation is known to be too long. If it clearly exceeds the model's window,
    or an earlier engine was refused even when ``shortened``, it is read in parts from the start: nothing is left out,
    and a provider that refuses every size is not asked for each of them by each engine.
    """
    lean = task.lean
    room = min(task.c.window.effective, model.window - min(OUTPUT_CAP, model.max_output))
    if shortened or task.tokens(lean) > room:
        return (yield from _in_parts(task, lean, model, room))
    remaining = Shortened(lean, 0)
    if over is not None:
        remaining = shorten.drop_oldest(lean, task.c.epoch.gauge.estimator.tokens, gap=over) or remaining

    def asking(remaining: Shortened) -> Flow[Attempt]:
        sent = shorten.messages(remaining.items, task.instruction(), dropped=remaining.dropped)
        return _asked(task.c, partial(_plain, task.c, model, sent), _drafted)

    attempt = yield from _shrink(task, remaining, asking)
    if not attempt.too_long:
        return attempt
    return attempt.then((yield from _in_parts(task, lean, model, room)))


def _shrink(
    task: SummaryTask, remaining: Shortened, ask: Callable[[Shortened], Flow[Attempt]]
) -> Flow[Attempt]:
    """Ask, and while the request is too long, ask again with more of the oldest rounds dropped."""
    latest = yield from ask(remaining)
    whole = task.tokens(remaining.items)
    count = task.c.epoch.gauge.estimator.tokens
    for attempt in range(SHORTENINGS):
        shorter = shorten.drop_oldest(remaining.items, count, gap=latest.gap, dropped=remaining.dropped)
        if not latest.too_long or shorter is None:
            break
        remaining = shorter
        retry = f"attempt {attempt + 2}: {remaining.dropped} rounds dropped, {len(rounds(remaining.items))} left"
        latest = replace(latest, retries=(*latest.retries, retry)).then((yield from ask(remaining)))
    # The next engine starts from the whole conversation again, so the gap must include what was dropped here.
    gap = None if latest.gap is None else latest.gap + int(whole - task.tokens(remaining.items))
    return replace(latest, gap=gap)


def _in_parts(task: SummaryTask, lean: Sequence[Item], model: Profile, room: int) -> Flow[Attempt]:
    """Summarise part by part, showing each call the summaries of the earlier parts, and join the results."""
    # Half of the room is left for the summaries of the parts before, which each request repeats.
    chunks = shorten.chunks(lean, max(1_000, room // 2), task.c.epoch.gauge.estimator.tokens)
    attempt = Attempt(Failure("no_summary", "there was nothing to summarise"))
    drafts: list[Draft] = []
    for number, items in enumerate(chunks, 1):
        ask = task.instruction(f"{number} of {len(chunks)}", items)
        if drafts:
            ask = f"The parts before this one say:\n\n{_joined(drafts).text}\n\n{ask}"
        call = partial(_plain, task.c, model, shorten.messages(items, ask))
        tried = yield from _asked(task.c, call, _drafted)
        attempt = replace(
            attempt.then(tried), retries=(*attempt.retries, f"part {number} of {len(chunks)}")
        )
        if isinstance(attempt.outcome, Failure):
            return attempt
        drafts.append(attempt.outcome)
    return replace(attempt, outcome=_joined(drafts)) if drafts else attempt


def _joined(drafts: Sequence[Draft]) -> Draft:
    """Several drafts joined section by section; only the last one counts for the current work."""
    sections: dict[int, str] = {}
    for draft in drafts:
        for number, text in draft.sections.items():
            earlier = sections.get(number, "") if number < CURRENT_WORK else ""
            sections[number] = "\n\n".join(filter(None, (earlier, text)))
    lasting = chain.from_iterable(draft.lasting for draft in drafts)
    return Draft("\n\n".join(draft.text for draft in drafts), sections, tuple(lasting))


def _asked(
    c: Conversation, call: Callable[[], PlainCall], read: Callable[[Reply], Attempt]
) -> Flow[Attempt]:
    """Make a call, again after a pause on temporary errors; a final error becomes a `Failure`."""
    attempt = Attempt(Failure("api_error", "nothing was asked yet"))
    retries = Retries(c, source=SOURCE, most=RETRIES)
    while True:
        try:
            outcome = yield from turn(call())
            answered = replace(read(outcome.reply), usage=outcome.usage, usd=outcome.cost, calls=1)
            return attempt.then(answered)
        except ModelError as error:
            reason = str(error)
            attempt = attempt.then(_failed(error))
            if not (yield from retries.again(error, c.closing)):
                return attempt
            attempt = replace(attempt, retries=(*attempt.retries, f"broken off: {reason}"))


def by_naming(task: SummaryTask, model: Profile, summary: Attempt) -> Flow[Attempt]:
    """Ask a model, in a small request without the conversation, which of the user's words last; adds their names."""
    with task.c.lock:
        listed = task.naming(model)
    if not listed.text:
        return replace(summary, offered=frozenset(task.offered))
    raw = shorten.messages((), UserWordsAsked(listed.text).render())
    messages = [Message("", (), message) for message in raw]
    most_tokens = min(NAMES, model.max_output)
    call = partial(plain_call, task.c, model, messages, SOURCE, most_tokens)
    answer = yield from _asked(task.c, call, _names)
    usd = None if summary.usd is None or answer.usd is None else summary.usd + answer.usd
    retries = (*summary.retries, *(f"naming what lasts: {retry}" for retry in answer.retries))
    spent = replace(summary, usd=usd, calls=summary.calls + answer.calls, retries=retries)
    if isinstance(answer.outcome, Failure):
        task.c.events.aside("compact", f"what lasts was not named: {answer.outcome.detail}", source=SOURCE)
        return replace(spent, offered=frozenset(task.offered))
    return replace(spent, names=answer.names, offered=frozenset(task.offered | listed.records))


def _names(reply: Reply) -> Attempt:
    lines = lines_that_name("\n".join(map(blocks.words_of, reply.answer.blocks)))
    if lines is None:
        return Attempt(Failure("no_summary", "the answer has no section for it"))
    return Attempt(Draft("", {}, lines), names=lines)


def _drafted(reply: Reply) -> Attempt:
    return Attempt(read_draft(reply.answer.blocks, reply.answer.stop_reason))


def _by_provider(reply: Reply) -> Attempt:
    for block in reply.answer.blocks:
        if blocks.is_encrypted_summary(block):
            return Attempt(Failure("no_summary", "the provider's summary cannot be read"), opaque=block.raw)
        match block.body():
            case Compaction(content=str() as text, signature=str()) if text.strip():
                return Attempt(read_draft(text), signed=block.raw)
    return Attempt(Failure("no_summary", f"the provider made no summary ({reply.answer.stop_reason})"))


def _plain(c: Conversation, model: Profile, messages: Sequence[bytes]) -> PlainCall:
    raw = [Message("", (), message) for message in messages]
    most_tokens = min(OUTPUT_CAP, model.max_output)
    return plain_call(c, model, raw, SOURCE, most_tokens, Summariser().render())


def _without_edits(frame: Frame, profile: Profile) -> Frame:
    """The frame without context edits, which the provider does not accept together with a compaction."""
    betas = {*frame.betas, *filter(None, [profile.betas.on_demand_compaction])} - {profile.betas.edits}
    settings = tuple((name, raw) for name, raw in frame.settings if name != EDITS)
    return replace(frame, settings=settings, betas=tuple(sorted(betas)))


def _failed(error: ModelError) -> Attempt:
    """The failed result for an error; an abort is raised again, as it ends the whole compaction."""
    if isinstance(error, Aborted):
        raise error
    if isinstance(error, PromptTooLong):
        return Attempt(Failure("prompt_too_long", str(error)), calls=1, gap=error.gap)
    return Attempt(Failure("api_error", str(error)), calls=1, busy=error.retryable)


class EngineChooser:
    """Chooses the engines for one conversation and gets summaries from them."""

    def __init__(self, c: Conversation) -> None:
        self._c = c
        self._second = c.profile.companion(c.settings.summary_model)
        self._reported = False
        carry = c.transcript.view.carry
        self.failures = carry.breaker if carry else 0
        """Compactions in a row in which no model produced a summary."""

    @property
    def resting(self) -> bool:
        """Whether automatic compactions no longer ask models, because they failed too often."""
        return breaker.is_open(self.failures)

    def draft(self, task: SummaryTask) -> Flow[Attempt]:
        """Try the engines in order until one has a summary; otherwise return a failure, for the extractive engine."""
        request = task.request
        unused = list[UnusedEngine]()
        spent = Attempt(Failure("no_summary", "nothing was asked"))
        for engine in self.order(request):
            if reason := self.unfit(engine, task.scope, request, steered=task.steered):
                unused.append(UnusedEngine(engine, reason))
                continue
            if engine == "extractive":
                break
            if spent.busy:
                yield from Wait(Signal(), waiting.FIRST_PAUSE)
            match engine:
                case "provider":
                    attempt = yield from by_provider(task)
                case "fork":
                    attempt = yield from by_fork(task)
                case _:
                    attempt = yield from self._plain(task, spent.gap, shortened=spent.too_long)
            spent = spent.then(attempt)
            if attempt.succeeded:
                self._count(request, succeeded=True)
                drafted = replace(spent, engine=engine, unused=tuple(unused))
                if engine == "provider" and not (
                    isinstance(attempt.outcome, Draft) and attempt.outcome.names
                ):
                    task.offered.clear()
                return (yield from self.name_lasting(task, drafted))
            assert isinstance(attempt.outcome, Failure)
            unused.append(UnusedEngine(engine, f"{attempt.outcome.reason}: {attempt.outcome.detail}"))
            self.report_failure(f"{engine}: {attempt.outcome.detail}")
        if spent.calls:
            self._count(request, succeeded=False)
        if unused and self._c.background is None and not self._reported:
            # Reported once per session: someone who forgot to pass a client would wonder about the summaries.
            self._reported = True
            self.report_failure(
                f"{NO_CLIENT}, so code makes the summary and there are no notes; pass client=… to the session"
            )
        return replace(spent, unused=tuple(unused))

    def name_lasting(self, task: SummaryTask, summary: Attempt) -> Flow[Attempt]:
        """Have named what lasts of the user's words, as far as they exceed their budget and nobody was asked yet."""
        if self.unfit("plain", task.scope, task.request, steered=task.steered):
            return replace(summary, offered=frozenset(task.offered))
        return (yield from by_naming(task, self._second or self._c.profile, summary))

    def order(self, request: CompactionRequest) -> Sequence[EngineName]:
        """The engines in the order in which to try them: the request's, the settings' or the profile's."""
        if request.engine is not None:
            return (request.engine, "extractive") if request.engine != "extractive" else ("extractive",)
        if self._c.settings.compact_engines:
            return (*dict.fromkeys(self._c.settings.compact_engines), "extractive")
        order: list[EngineName] = [*self._c.profile.engines, "extractive"]
        if self._c.epoch.frame.edits is not None and self.warm() and order[:2] == ["provider", "fork"]:
            # The provider's compaction accepts no edits, so it would read nothing from the cache; a fork would.
            order[:2] = ["fork", "provider"]
        if self._second_is_cheaper():
            order.sort(key=lambda engine: engine != "plain")
        return order

    def unfit(
        self, engine: EngineName, divided: Scope, request: CompactionRequest, *, steered: bool = False
    ) -> str:
        """Why an engine cannot be used now; empty if it can. ``steered``: there are instructions for the summary."""
        if engine == "extractive":
            return ""
        if self._c.background is None:
            return NO_CLIENT
        cap = self._c.settings.spending_cap_usd
        if cap is not None and self._c.own_usd >= cap:
            return f"the engine's own calls have cost ${self._c.own_usd:.2f}, and may cost ${cap:.2f}"
        if self.resting and request.trigger == "auto":
            return f"no model had a summary in the last {self.failures} compactions"
        read = sum((item.weight for item in (*divided.front, *divided.hidden)), NOTHING)
        heavy = self._c.limits.passed(read.wire, read.images)
        if engine in ("provider", "fork") and heavy:
            return "what it would have to read has more bytes or pictures than a request may have"
        if engine == "provider":
            return self._unfit_for_provider(divided, steered=steered or bool(request.instructions))
        if engine == "fork" and not self._c.settings.share_cache:
            return "sharing the cache is switched off"
        return ""

    def prefers_provider(self) -> bool:
        """Whether an automatic compaction would try the provider's engine first."""
        if self._c.background is None or self.resting or not self._c.profile.on_demand_compaction:
            return False
        return self.order(CompactionRequest(trigger="auto"))[0] == "provider"

    def warm(self) -> bool:
        """Whether the last request is still in the prompt cache."""
        return self._c.idle_seconds() <= SECONDS[self._c.epoch.lifetimes.tail]

    def _unfit_for_provider(self, divided: Scope, *, steered: bool) -> str:
        if not self._c.profile.on_demand_compaction:
            return "the model's provider has none"
        answers = (
            item.record.usage for item in reversed(self._c.transcript.view.items) if item.record.usage
        )
        if (newest := next(answers, None)) is not None and newest.free:
            return "the offline model has none"
        if steered and not self._c.profile.compaction_instructions:
            return "it takes no instructions"
        kept_tokens = sum(self._c.epoch.gauge.estimator.tokens(item.weight) for item in divided.kept)
        if self._c.size().sent - kept_tokens + self._c.window.reserve > self._c.window.context:
            return "the conversation is too long for it"
        if divided.span in ("from", "range"):
            return "it summarises from the start only"
        records = [item.record for item in divided.hidden]
        calls = set(chain.from_iterable(record.calls for record in records))
        if not calls.issubset(chain.from_iterable(record.answers for record in records)):
            return "a call in it has no result"
        return ""

    def _second_is_cheaper(self) -> bool:
        """Whether the second model is cheaper; only with a cold cache, when any model pays for the whole prompt."""
        second = self._second
        if second is None or self.warm():
            return False
        size = self._c.size().tokens
        here = self._c.profile.price(size)
        there = second.price(size)
        if here is None or there is None:
            return False
        ours = size * here.write(SECONDS[self._c.epoch.lifetimes.tail]) + OUTPUT_CAP * here.output
        return size * there.input + OUTPUT_CAP * there.output < ours

    def _plain(self, task: SummaryTask, over: int | None, *, shortened: bool) -> Flow[Attempt]:
        """Make a plain call to the second model, if there is one, and if that fails, to the session's own."""
        own_profile = self._c.profile
        second = self._second
        if second is None:
            return (yield from by_plain_call(task, own_profile, over, shortened=shortened))
        attempt = yield from by_plain_call(task, second, over, shortened=shortened)
        if isinstance(attempt.outcome, Draft) or second.model == own_profile.model:
            return attempt
        self.report_failure(f"{second.model}: {attempt.outcome.detail}")
        again = by_plain_call(
            task, own_profile, attempt.gap or over, shortened=shortened or attempt.too_long
        )
        return attempt.then((yield from again))

    def report_failure(self, reason: str, error: Exception | None = None) -> None:
        """Report why an engine produced no summary, or why a prepared one is not used."""
        self._c.events.aside("compact", reason, source=SOURCE, error=error)

    def _count(self, request: CompactionRequest, *, succeeded: bool) -> None:
        """Count a success or failure; a failed manual compaction does not count, as the user sees its error."""
        if request.trigger == "manual" and not succeeded:
            return
        self.failures = 0 if succeeded else self.failures + 1
        if self.failures == breaker.FAILURES:
            reason = (
                f"no model had a summary in the last {self.failures} compactions: until one has again, automatic "
                "ones use the notes, or extract by code alone; /compact asks a model all the same"
            )
            self._c.events.aside("breaker", reason)
