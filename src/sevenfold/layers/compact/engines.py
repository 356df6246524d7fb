"""The ways to a summary. Each is a flow: it yields what it must ask, and returns what it got.

provider    the provider's own: one block that stands for everything it was shown. Signed, it can be read and
            goes in place of our text; encrypted, it cannot be checked, and our text, made by code, goes with it
fork        the session's own prefix and one instruction, so that almost all of it is read from the cache
plain       a small request of its own, to this or another model, shortened until it fits
extractive  no model at all
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from sevenfold.conversation.flow import Ask, Flow
from sevenfold.errors import Aborted, ModelError, PromptTooLong
from sevenfold.layers.compact import shorten, summary
from sevenfold.layers.compact.scope import Scope
from sevenfold.layers.compact.summary import Draft, Failure
from sevenfold.ports import Call
from sevenfold.profiles import Profile
from sevenfold.prompts.compact import Compact, Summariser
from sevenfold.record import blocks
from sevenfold.record.blocks import Compaction
from sevenfold.record.layout import rounds
from sevenfold.record.usage import Usage
from sevenfold.record.weight import Weight
from sevenfold.record.wire import Message
from sevenfold.request import price
from sevenfold.request.frame import EDITS, Frame, Marker, assemble

if TYPE_CHECKING:
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

Tokens = Callable[[Weight], float]


class Got(Struct, frozen=True):
    """A summary, or why there is none, and what was spent on it."""

    found: Draft | Failure
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

    scope: Scope
    profile: Profile
    frame: Frame
    prefix: tuple[Message, ...]
    """The messages that hold what is to be summarised, as they are sent."""
    markers: tuple[Marker, ...] = ()
    """Where a request with these messages reads the cache, and writes nothing."""
    user: str = ""
    hooks: str = ""
    room: int
    """Tokens a request may have."""
    tokens: Tokens
    upto: str | None = None
    """The record those messages end with, if more are in view."""
    restored: frozenset[str] = frozenset()
    """Kinds of attachments that come back by themselves."""

    def instruction(self, part: str | None = None) -> str:
        """The instruction for the model."""
        first = self.scope.hidden[0]
        begins = next((words for block in first.said.blocks if (words := blocks.words_of(block))), "")
        return Compact.of(
            self.scope.span, begins=begins, user=self.user, hooks=self.hooks, part=part
        ).render()


def by_provider(task: SummaryTask) -> Asking:
    """Have the provider summarise what it is shown; the rest keeps its reasoning."""
    frame = _without_edits(task.frame, task.profile)
    wish = {"type": "summarize"}
    if task.profile.compaction_instructions:
        wish["instructions"] = task.instruction()[:16_000]
    extra = {"compaction": msgspec.json.encode(wish)}
    body = assemble(frame, task.prefix, task.markers, extra)
    got = yield from _asked(Call(body.raw, frame.betas, SOURCE), task.profile, _by_provider)
    return got


def by_fork(task: SummaryTask, fork: Fork) -> Asking:
    """Ask in the session's own words, behind its own prefix."""
    fork.user(task.instruction())
    try:
        outcome = yield from fork.turn()
    except Aborted:
        raise
    except ModelError as error:
        return _failed(error)
    answer = outcome.reply.answer
    return Got(summary.read(answer.blocks, answer.stop_reason), outcome.usage, outcome.cost, 1)


def by_plain_call(task: SummaryTask, model: Profile, over: int | None = None) -> Asking:
    """Ask in a request of its own; too long, its oldest rounds go, and at last it is read in parts.

    ``over`` is by how many tokens the conversation is known to be too long; what fits no request of this model at
    all is read in parts from the start, for then nothing need be left out.
    """
    lean = tuple(shorten.lean(task.scope.hidden, task.restored))
    size = sum(task.tokens(item.weight) for item in lean)
    room = min(task.room, model.window - min(OUTPUT_CAP, model.max_output))
    if size > room:
        return (yield from _in_parts(task, lean, model, room))
    left: shorten.Shortened | None = shorten.Shortened(lean, 0)
    if over is not None:
        left = shorten.drop_oldest(lean, task.tokens, gap=over) or left
    got = Got(Failure("no_summary", "nothing was asked yet"))
    for attempt in range(SHORTENINGS + 1):
        if left is None:
            break
        call = _plain(model, shorten.messages(left.items, task.instruction(), dropped=left.dropped))
        got = got.then((yield from _asked(call, model, _drafted)))
        if not isinstance(got.found, Failure) or got.found.reason != "prompt_too_long":
            return got
        left = shorten.drop_oldest(left.items, task.tokens, gap=got.gap, dropped=left.dropped)
        if left is not None and attempt < SHORTENINGS:
            told = f"attempt {attempt + 2}: {left.dropped} rounds dropped, {len(rounds(left.items))} left"
            got = replace(got, retries=(*got.retries, told))
    return got.then((yield from _in_parts(task, lean, model, room)))


def _in_parts(task: SummaryTask, lean: Sequence[Item], model: Profile, room: int) -> Asking:
    """Summarise part by part, each knowing the summaries of those before it; together they are one."""
    parts = shorten.chunks(lean, max(1_000, room // 2), task.tokens)
    got = Got(Failure("no_summary", "there was nothing to summarise"))
    drafts: list[Draft] = []
    for number, part in enumerate(parts, 1):
        ask = task.instruction(f"{number} of {len(parts)}")
        if drafts:
            ask = f"The parts before this one say:\n\n{_joined(drafts).text}\n\n{ask}"
        tried = yield from _asked(_plain(model, shorten.messages(part, ask)), model, _drafted)
        got = replace(got.then(tried), retries=(*got.retries, f"part {number} of {len(parts)}"))
        if isinstance(got.found, Failure):
            return got
        drafts.append(got.found)
    return replace(got, found=_joined(drafts)) if drafts else got


def _joined(drafts: Sequence[Draft]) -> Draft:
    """Several drafts as one, section by section; where the work stands, only the last one knows."""
    sections: dict[int, str] = {}
    for draft in drafts:
        for number, text in draft.sections.items():
            before = sections.get(number, "") if number < WHERE_IT_STANDS else ""
            sections[number] = "\n\n".join(filter(None, (before, text)))
    return Draft("\n\n".join(draft.text for draft in drafts), sections)


def _asked(call: Call, model: Profile, read: Callable[[Reply], Got]) -> Asking:
    """One call; made again when it broke off, and turned into a failure when that does not help."""
    got = Got(Failure("api_error", "nothing was asked yet"))
    for attempt in range(RETRIES + 1):
        try:
            reply = yield from Ask(call)
        except Aborted:
            raise
        except ModelError as error:
            got = got.then(_failed(error))
            if not error.retryable or attempt == RETRIES:
                return got
            got = replace(got, retries=(*got.retries, f"broken off: {error}"))
        else:
            usage = Usage.read(reply.answer.usage)
            made = replace(read(reply), usage=usage, usd=price.cost(usage, model), calls=1)
            return got.then(made)
    return got


def _drafted(reply: Reply) -> Got:
    return Got(summary.read(reply.answer.blocks, reply.answer.stop_reason))


def _by_provider(reply: Reply) -> Got:
    for block in reply.answer.blocks:
        if blocks.opaque(block):
            return Got(Failure("no_summary", "the provider's summary cannot be read"), opaque=block.raw)
        match block.body():
            case Compaction(content=str() as words, signature=str()) if words.strip():
                return Got(summary.read(words), signed=block.raw)
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
    return Got(Failure("api_error", str(error)), calls=1)
