"""The ways to a summary. Each is a flow: it yields what it must ask, and returns what it got.

provider    the provider's own: one block that replaces everything it was shown. Signed, it can be read and
            goes in place of our text; encrypted, it cannot be checked, and our text, made by code, goes with it
fork        the session's own prefix and one instruction, so that almost all of it is read from the cache
plain       a small request of its own, to this or another model, shortened until it fits
extractive  no model at all
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from sevenfold.conversation import events
from sevenfold.conversation.flow import Ask, Flow, Signal, Wait
from sevenfold.conversation.request import part_sizes
from sevenfold.errors import Aborted, ModelError, PromptTooLong
from sevenfold.events import Answered, Sending
from sevenfold.layers import breaker
from sevenfold.layers.compact import shorten
from sevenfold.layers.compact.request import EngineName, Left
from sevenfold.layers.compact.scope import Scope
from sevenfold.layers.compact.shorten import Shortened
from sevenfold.layers.compact.summary.draft import Draft, Failure
from sevenfold.layers.compact.summary.draft import read as read_draft
from sevenfold.ports import Call
from sevenfold.profiles import Profile
from sevenfold.prompts.compact import Compact, Summariser
from sevenfold.record import blocks
from sevenfold.record.blocks import Compaction, read_fields
from sevenfold.record.decisions import Billed
from sevenfold.record.layout import rounds
from sevenfold.record.usage import Usage
from sevenfold.record.weight import Estimator, opening
from sevenfold.record.wire import Message
from sevenfold.request.frame import EDITS, Frame, assemble, plan

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation
    from sevenfold.conversation.fork import Fork
    from sevenfold.ports import Reply
    from sevenfold.record.layout import Item

SOURCE = "compact"
OUTPUT_CAP = 20_000
"""The most a plain call may write."""
RETRIES = 2
"""How often a call that broke off is made again."""
WHERE_IT_STANDS = 8
"""The first of the sections that tell of the end of what is summarised."""
SHORTENINGS = 3
"""How often the oldest rounds are dropped when a summary request itself is too long."""


class Got(Struct, frozen=True):
    """A summary, or why there is none, and what was spent on it."""

    found: Draft | Failure
    engine: EngineName = "extractive"
    """The one that has it."""
    left: tuple[Left, ...] = ()
    """Those that were asked or passed over before."""
    usage: Usage | None = None
    usd: float | None = 0.0
    calls: int = 0
    signed: bytes | None = None
    """The provider's block, which is sent in place of the text."""
    opaque: bytes | None = None
    """The provider's block, which cannot be read: it is sent in front of the text, and code writes that."""
    gap: int | None = None
    """By how many tokens the request was too long, where the provider said so."""
    retries: tuple[str, ...] = ()
    """What had to be tried again, and how."""
    busy: bool = False
    """Could the provider not answer just then?"""

    @property
    def too_long(self) -> bool:
        """Was the request too long?"""
        return isinstance(self.found, Failure) and self.found.reason == "prompt_too_long"

    @property
    def block(self) -> bytes | None:
        """The provider's block, of either sort."""
        return self.signed or self.opaque

    @property
    def succeeded(self) -> bool:
        """Is there a summary, of whatever sort?"""
        return isinstance(self.found, Draft) or self.opaque is not None

    def then(self, later: Got) -> Got:
        """This, followed by another try: what was spent adds up."""
        usd = None if self.usd is None or later.usd is None else self.usd + later.usd
        return replace(
            later,
            usd=usd,
            calls=self.calls + later.calls,
            usage=later.usage or self.usage,
            retries=(*self.retries, *later.retries),
        )


Asking: TypeAlias = Flow[Got]


class SummaryTask(Struct, frozen=True, kw_only=True):
    """What all engines are given."""

    c: Conversation
    scope: Scope
    prefix: tuple[Message, ...]
    """The messages that hold what is to be summarised, as they are sent."""
    upto: str | None = None
    """The record those messages end with, if more are in view."""
    user: str = ""
    hooks: str = ""
    restored: frozenset[str] = frozenset()
    """Kinds of attachments that come back by themselves."""

    @property
    def lean(self) -> tuple[Item, ...]:
        """What is to be summarised, without what a summary cannot use or what comes back by itself."""
        return tuple(shorten.lean(self.scope.hidden, self.restored))

    def tokens(self, items: Iterable[Item]) -> float:
        """The tokens of these records, by estimate."""
        return sum(self.c.gauge.estimator.tokens(item.weight) for item in items)

    def instruction(self, part: str | None = None) -> str:
        """The instruction for the model."""
        first = self.scope.hidden[0]
        begins = next((words for block in first.said.blocks if (words := blocks.words_of(block))), "")
        return Compact.of(
            self.scope.span, begins=begins, user=self.user, hooks=self.hooks, part=part
        ).render()


def by_provider(task: SummaryTask) -> Asking:
    """Have the provider summarise what it is shown; the rest keeps its reasoning."""
    c, profile = task.c, task.c.profile
    frame = _without_edits(c.frame, profile)
    wish = {"type": "summarize"}
    if profile.compaction_instructions:
        wish["instructions"] = task.instruction()[:16_000]
    markers = plan(c.frame, task.prefix, profile.cache, part_sizes(c), c.lifetimes, shared=len(task.prefix))
    body = assemble(frame, task.prefix, markers, {"compaction": msgspec.json.encode(wish)})
    return (yield from _asked(c, Call(body.raw, frame.betas, SOURCE), profile, _by_provider))


def by_fork(task: SummaryTask, begin: Callable[[Sequence[Message], str | None], Fork]) -> Asking:
    """Ask in the session's own words, behind its own prefix; too long, without its oldest rounds."""

    def shorter(left: Shortened) -> Asking:
        sent = shorten.messages(left.items, dropped=left.dropped)
        return (yield from _forked(task, begin([Message("", (), raw) for raw in sent], None)))

    got = yield from _forked(task, begin(task.prefix, task.upto))
    return (yield from _shortening(task, Shortened(task.lean, 0), got, shorter))


def by_plain_call(task: SummaryTask, model: Profile, over: int | None = None) -> Asking:
    """Ask in a request of its own; too long, its oldest rounds go, and at last it is read in parts.

    ``over`` is by how many tokens the conversation is known to be too long; what fits no request of this model at
    all is read in parts from the start, for then nothing need be left out.
    """
    lean = task.lean
    room = min(task.c.window.effective, model.window - min(OUTPUT_CAP, model.max_output))
    if task.tokens(lean) > room:
        return (yield from _in_parts(task, lean, model, room))
    left = Shortened(lean, 0)
    if over is not None:
        left = shorten.drop_oldest(lean, task.c.gauge.estimator.tokens, gap=over) or left

    def asking(left: Shortened) -> Asking:
        sent = shorten.messages(left.items, task.instruction(), dropped=left.dropped)
        return (yield from _asked(task.c, _plain(model, sent), model, _drafted))

    got = yield from _shortening(task, left, (yield from asking(left)), asking)
    if not got.too_long:
        return got
    return got.then((yield from _in_parts(task, lean, model, room)))


def _shortening(task: SummaryTask, left: Shortened, got: Got, ask: Callable[[Shortened], Asking]) -> Asking:
    """Ask again without the oldest rounds, as long as the request is too long and there are rounds to drop."""
    whole, count = task.tokens(left.items), task.c.gauge.estimator.tokens
    for attempt in range(SHORTENINGS):
        shorter = shorten.drop_oldest(left.items, count, gap=got.gap, dropped=left.dropped)
        if not got.too_long or shorter is None:
            break
        left = shorter
        told = f"attempt {attempt + 2}: {left.dropped} rounds dropped, {len(rounds(left.items))} left"
        got = replace(got, retries=(*got.retries, told)).then((yield from ask(left)))
    # The next engine starts from the whole again.
    gap = None if got.gap is None else got.gap + int(whole - task.tokens(left.items))
    return replace(got, gap=gap)


def _forked(task: SummaryTask, asked: Fork) -> Asking:
    asked.user(task.instruction())
    try:
        outcome = yield from asked.turn()
    except Aborted:
        raise
    except ModelError as error:
        return _failed(error)
    answer = outcome.reply.answer
    found = read_draft(answer.blocks, answer.stop_reason)
    return Got(found, usage=outcome.usage, usd=outcome.cost, calls=1)


def _in_parts(task: SummaryTask, lean: Sequence[Item], model: Profile, room: int) -> Asking:
    """Summarise part by part, each knowing the summaries of those before it; together they are one."""
    parts = shorten.chunks(lean, max(1_000, room // 2), task.c.gauge.estimator.tokens)
    got = Got(Failure("no_summary", "there was nothing to summarise"))
    drafts: list[Draft] = []
    for number, part in enumerate(parts, 1):
        ask = task.instruction(f"{number} of {len(parts)}")
        if drafts:
            ask = f"The parts before this one say:\n\n{_joined(drafts).text}\n\n{ask}"
        tried = yield from _asked(task.c, _plain(model, shorten.messages(part, ask)), model, _drafted)
        got = replace(got.then(tried), retries=(*got.retries, f"part {number} of {len(parts)}"))
        if isinstance(got.found, Failure):
            return got
        drafts.append(got.found)
    return replace(got, found=_joined(drafts)) if drafts else got


def _joined(drafts: Sequence[Draft]) -> Draft:
    """Several drafts as one, section by section; only the last one knows the current work."""
    sections: dict[int, str] = {}
    for draft in drafts:
        for number, text in draft.sections.items():
            before = sections.get(number, "") if number < WHERE_IT_STANDS else ""
            sections[number] = "\n\n".join(filter(None, (before, text)))
    return Draft("\n\n".join(draft.text for draft in drafts), sections)


def _asked(c: Conversation, call: Call, model: Profile, read: Callable[[Reply], Got]) -> Asking:
    """One call; made again after a pause when it broke off, and turned into a failure when that does not help."""
    got = Got(Failure("api_error", "nothing was asked yet"))
    for attempt in range(RETRIES + 1):
        try:
            reply = yield from _billed(c, call, model)
        except Aborted:
            raise
        except ModelError as error:
            got = got.then(_failed(error))
            pause = breaker.pause_before_retry(error, attempt)
            if pause is None or attempt == RETRIES:
                return got
            got = replace(got, retries=(*got.retries, f"broken off: {error}"))
            yield from Wait(Signal(), pause)
        else:
            usage = Usage.read(reply.answer.usage)
            made = replace(read(reply), usage=usage, usd=usage.cost(model), calls=1)
            return got.then(made)
    return got


def _drafted(reply: Reply) -> Got:
    return Got(read_draft(reply.answer.blocks, reply.answer.stop_reason))


def _by_provider(reply: Reply) -> Got:
    for block in reply.answer.blocks:
        if blocks.opaque(block):
            return Got(Failure("no_summary", "the provider's summary cannot be read"), opaque=block.raw)
        match block.body():
            case Compaction(content=str() as words, signature=str()) if words.strip():
                return Got(read_draft(words), signed=block.raw)
    return Got(Failure("no_summary", f"the provider made no summary ({reply.answer.stop_reason})"))


def _plain(model: Profile, messages: Sequence[bytes]) -> Call:
    cap = min(OUTPUT_CAP, model.max_output)
    settings = {"thinking": {"type": model.thinking.off}} if model.thinking.off else {}
    frame = Frame.of(model.model, cap, system=[blocks.text(Summariser().render()).raw], **settings)
    raw = [Message("", (), message) for message in messages]
    return Call(assemble(frame, raw).raw, frame.betas, SOURCE)


def _without_edits(frame: Frame, profile: Profile) -> Frame:
    """The provider takes its own edits and a compaction not together."""
    betas = {*frame.betas, *filter(None, [profile.betas.on_demand_compaction])} - {profile.betas.edits}
    kept = tuple((name, raw) for name, raw in frame.settings if name != EDITS)
    return replace(frame, settings=kept, betas=tuple(sorted(betas)))


def _failed(error: ModelError) -> Got:
    if isinstance(error, PromptTooLong):
        return Got(Failure("prompt_too_long", str(error)), calls=1, gap=error.gap)
    return Got(Failure("api_error", str(error)), calls=1, busy=error.retryable)


# -- the bill: a fork is on it by itself, and what these calls cost is written down ---------------


def _billed(c: Conversation, call: Call, model: Profile) -> Flow[Reply]:
    """Make a call, report it and what came of it, and put it on the bill."""
    sent = _sending(c, call, model)
    try:
        reply = yield from Ask(call)
    except ModelError as error:
        events.failed(c, error, sent.request, source=sent.source, model=model)
        raise
    _answered(c, sent, reply, model)
    return reply


def _sending(c: Conversation, call: Call, model: Profile) -> Sending:
    epoch = c.transcript.view.epoch
    most = round(Estimator.of(model.tokenizer).tokens(opening(call.body)))
    sent = c.events.stamped(
        Sending(
            source=call.source,
            request=c.transcript.new_id(),
            model=model.model,
            provider=model.provider,
            epoch=epoch.id if epoch else "",
            tokens=min(most, c.size().tokens),
            body_bytes=len(call.body),
            max_tokens=int(read_fields(call.body).get("max_tokens", 0)),
        )
    )
    c.events.tell(sent)
    return sent


def _answered(c: Conversation, sent: Sending, reply: Reply, model: Profile) -> None:
    answer, read = reply.answer, Usage.read(reply.answer.usage)
    usage, usd = read.billed, read.cost(model)
    c.charge(usd)
    c.transcript.decide(
        Billed(request=sent.request, model=answer.model, usage=answer.usage, source=sent.source)
    )
    told = Answered(
        source=sent.source,
        request=sent.request,
        model=answer.model,
        provider=sent.provider,
        response=answer.id,
        stop_reason=answer.stop_reason or "",
        input_tokens=usage.input_tokens,
        cache_read_tokens=usage.cache_read_input_tokens,
        cache_write_tokens=usage.cache_creation_input_tokens,
        output_tokens=usage.output_tokens,
        estimated=sent.tokens,
        usd=usd,
        uncached_usd=read.uncached_cost(model),
        ideal_usd=usd,
        seconds=c.events.stamped(sent).at - sent.at,
    )
    c.events.tell(told)
