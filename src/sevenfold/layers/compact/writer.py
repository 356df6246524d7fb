"""Writes a compaction: boundary, summary and restored content in one write, or the fold of a range.

Also predicts the size and cost of a compaction before it is made, and says when one is not worth making.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain, dropwhile
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import asdict, replace

from sevenfold.conversation import restore
from sevenfold.conversation.edits import CLEARED
from sevenfold.conversation.epoch import epoch_record, in_force
from sevenfold.conversation.restore import Moment
from sevenfold.conversation.room import parts, steps
from sevenfold.conversation.transcript import Attachment
from sevenfold.events import Acted
from sevenfold.events import Compacted as CompactedEvent
from sevenfold.layers.compact.compaction import (
    OUTPUT_CAP,
    Compacted,
    CompactionRequest,
    Preview,
    UserWordsKept,
)
from sevenfold.layers.compact.extract.words import is_words_block
from sevenfold.layers.compact.kinds import by_kind
from sevenfold.layers.compact.scope import messages_of
from sevenfold.layers.compact.user_record import Shown
from sevenfold.prompts.compact import Continued, GivenTask, UserWords
from sevenfold.prompts.context import Folded, RecordedFacts
from sevenfold.record import blocks, redact
from sevenfold.record.decisions import Carry, CompactionChain, CompactMetadata, Fidelity, Fold, Segment
from sevenfold.record.layout import rounds
from sevenfold.record.log import renew_labels
from sevenfold.record.usage import Usage
from sevenfold.record.weight import NOTHING, measure
from sevenfold.request.frame import Frame, tool_name
from sevenfold.request.watch import SECONDS

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation
    from sevenfold.layers.compact.check import Verdict
    from sevenfold.layers.compact.compaction import EngineName
    from sevenfold.layers.compact.engines import Attempt
    from sevenfold.layers.compact.scope import Scope
    from sevenfold.record.decisions import CarriedWords
    from sevenfold.record.gauge import Gauge, Size
    from sevenfold.record.layout import Item
    from sevenfold.record.view import View

AFTER_SHARE = 0.5
"""The most the conversation may fill afterwards, as a share of the threshold; restored content is cut to fit."""
_REPORTED = {*Compacted.__struct_fields__} & {*CompactedEvent.__struct_fields__} - {"left", "invented"}
"""The fields that the event copies from the result."""
ANSWER_SHARE = 1.5
"""Tokens a model writes for a summary, including its analysis, as a multiple of the summary's length."""
LEFT_SHARE = 0.8
"""A compaction must end below this share of what it replaces, or it is not made."""
LEAST_TEXT = 120
"""Tokens below which a summary is little more than its nine headings."""
_FORGED = re.compile(rf"<(?=/?\s*(?:{UserWords.tag}|{GivenTask.tag})\b)", re.IGNORECASE)
SHARE = 0.2
"""The most a summary may take of the content it summarises for the first time, as a share."""
LEAST_SUMMARY = 1_500


def preview(
    c: Conversation,
    request: CompactionRequest,
    divided: Scope,
    engine: EngineName,
    shown: Shown,
    *,
    warm: bool,
) -> Preview:
    """Predicted sizes and costs of a compaction; ``warm``: the conversation is still in the cache."""
    fixed = c.epoch.gauge.fixed
    size = c.size()
    summary = max(0, min(room(c, divided), room_left(c, request, divided, shown)))
    hidden, front, behind = (_tokens(c, items) for items in (divided.hidden, divided.front, divided.behind))
    around = c.count(summary_message(c, request, divided, ""))
    tokens_after = size_after(c, divided, summary + around + shown.tokens)
    read = fixed + front if warm else 0
    by_model = engine not in ("extractive", "notes")
    price = c.profile.price(size.tokens)
    call_usd: float | None = None if by_model else 0.0
    next_usd: float | None = None
    if price is not None:
        write = price.write(SECONDS[c.epoch.lifetimes.tail])
        next_usd = (read * price.read + (tokens_after - read) * write) / 1e6
        prompt = fixed + front * (divided.span in ("from", "range")) + hidden
        prompt_price = price.input if engine == "plain" else price.read if warm else write
        answer = min(OUTPUT_CAP, int(summary * ANSWER_SHARE))
        call_usd = (prompt * prompt_price + answer * price.output) / 1e6 if by_model else 0.0
    return Preview(
        span=divided.span,
        engine=engine,
        summarised=len(divided.hidden),
        kept=len(divided.kept),
        tokens_before=size.tokens,
        tokens_hidden=hidden,
        tokens_kept=front + behind,
        tokens_summary=summary,
        tokens_words=shown.tokens,
        tokens_after=tokens_after,
        read=read,
        written=tokens_after - read,
        call_usd=call_usd,
        next_usd=next_usd,
    )


def room(c: Conversation, divided: Scope) -> int:
    """The most tokens a summary may have: the size of earlier summaries, so none erode, plus a share of the rest.

    The user's words are not part of it.
    """
    summaries = [item for item in divided.hidden if item.record.summary]
    whole = _tokens(c, summaries)
    summary_blocks = chain.from_iterable(item.shown for item in summaries)
    users_blocks = filter(is_words_block, summary_blocks)
    earlier = whole - sum(c.count(blocks.words_of(block)) for block in users_blocks)
    fresh = _tokens(c, divided.hidden) - whole
    least_tokens = min(LEAST_SUMMARY, c.window.threshold // 8)
    return max(least_tokens, min(earlier + int(fresh * SHARE), c.window.budget(c.settings.summary_tokens)))


def most_after(c: Conversation, divided: Scope) -> int:
    """The size below which a compaction must end, so that it is worth making."""
    size = c.size().tokens
    replaced = _tokens(c, divided.hidden) if divided.span == "range" else size
    return size - int((1 - LEFT_SHARE) * replaced)


def room_left(c: Conversation, request: CompactionRequest, divided: Scope, shown: Shown) -> int:
    """The most tokens the summary's text may have so that the compaction is worth making."""
    around = c.count(summary_message(c, request, divided, "")) + shown.tokens
    return most_after(c, divided) - 1 - size_after(c, divided, around)


def size_after(c: Conversation, divided: Scope, added: int) -> int:
    """Estimated size of the conversation with ``added`` tokens, mainly the summary, in place of the hidden part."""
    return _gauge(c, divided).fixed + _tokens(c, divided.kept) + added


def at_most(c: Conversation, divided: Scope, texts: Sequence[str]) -> int:
    """Upper estimate of the size with ``texts`` in place of the hidden part: the next request is judged by it."""
    added = sum((measure(blocks.text(text)) for text in texts), NOTHING)
    weight = sum((item.weight for item in divided.kept), added)
    return _gauge(c, divided).unanchored(weight).high


def _gauge(c: Conversation, divided: Scope) -> Gauge:
    """The gauge to use afterwards; unless the beginning stays, it assumes the system prompt and tools wanted now."""
    stays = divided.side == "before" or divided.span == "range"
    return c.epoch.gauge if stays else c.epoch.gauge.opened(*c.epoch.wanted.tools, *c.epoch.wanted.system)


def _tokens(c: Conversation, items: Sequence[Item]) -> int:
    return sum(map(c.item_tokens, items))


class Result(Struct, frozen=True):
    """Everything a compaction consists of, before it is written."""

    request: CompactionRequest
    divided: Scope
    attempt: Attempt
    verdict: Verdict
    shown: Shown
    passing: tuple[CarriedWords, ...] = ()
    """The user's messages in other summary messages, which stay in view."""
    context: tuple[str, ...] = ()
    """Text that hooks add after the summary."""


class PlannedCompaction(Struct, frozen=True):
    """What a compaction would write, and what would be left of the conversation."""

    texts: tuple[str, ...]
    """The blocks of the summary message."""
    tokens_after: int
    attachments: tuple[Attachment, ...] = ()
    restored: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()
    """What was not restored, and why."""
    pins: tuple[str, ...] = ()
    """The pinned records in a range, as they are shown behind its summary."""


def plan(c: Conversation, result: Result) -> PlannedCompaction:
    """Put together what a compaction writes; restored files get only the room that keeps it worth making."""
    divided = result.divided
    shown = result.shown
    if divided.span == "range":
        uuids = {item.record.uuid for item in divided.hidden}
        hidden = (item for item in c.transcript.pinned_items() if item.record.uuid in uuids)
        pins = tuple(text for item in hidden if (text := restore.pinned_text(item)))
        summary = summary_message(c, result.request, divided, "\n\n".join([result.verdict.text, *pins]))
        texts = (summary, *shown.texts)
        return PlannedCompaction(texts, size_after(c, divided, sum(map(c.count, texts))), pins=pins)
    texts = (summary_message(c, result.request, divided, result.verdict.text),)
    if not _is_replaced(result):
        texts = (*texts, *shown.texts)
    tokens_after = size_after(c, divided, sum(map(c.count, texts)))
    if tokens_after >= most_after(c, divided):
        return PlannedCompaction(texts, tokens_after)
    attachments, restored, missed = _restore(c, result, tokens_after)
    tokens_after += _attached_tokens(c, attachments)
    return PlannedCompaction(texts, tokens_after, tuple(attachments), tuple(restored), tuple(missed))


def _is_replaced(result: Result) -> bool:
    """Whether the provider's block is sent in place of the summary message, so that the words must stand behind it."""
    return result.attempt.signed is not None


def not_made(c: Conversation, result: Result, tokens_after: int) -> Compacted:
    """The result of a compaction that was not worth making; nothing was written."""
    size = c.size()
    share = f"{LEFT_SHARE:.0%}"
    figures = f"about {tokens_after:,} of {size.tokens:,} tokens would be left"
    if result.divided.span == "range":
        figures = f"{_tokens(c, result.divided.hidden):,} tokens would be replaced, and {figures}"
    reason = f"{figures}; a compaction must end below {share} of what it replaces"
    snips = c.settings.snip and len(rounds(c.transcript.view.items)) > 1
    ways = steps(parts(c), "tokens", clears=c.settings.size_clearing, compacts=False, snips=snips)
    return replace(_result(c, result, size, tokens_after, "", reason), ways=ways)


def write(c: Conversation, result: Result, planned: PlannedCompaction, failures: int) -> Compacted:
    """Write a compaction atomically, with the content restored after it; returns what was done.

    ``failures``: compactions in a row in which no model produced a summary.
    """
    size_before = c.size()
    placed = place_in_chain(c.transcript.view, c.transcript.new_id(), c.window.threshold, c.source.name)
    if result.divided.span == "range":
        boundary = _fold(c, result, planned)
    else:
        boundary = _compaction(c, result, planned, placed, failures)
    done = _result(c, result, size_before, c.size().tokens, boundary)
    restored = ("pins",) if planned.pins else planned.restored
    cut = (*result.verdict.left_out, *_words_left_out(result.shown), *planned.missed)
    return replace(done, chain=placed, cut=cut, restored=restored)


def _words_left_out(shown: Shown) -> Sequence[str]:
    messages = sum(shown.selection.counts.values())
    shortened = sum(message.lost > 0 for message in shown.selection.shown)
    phrases = []
    if messages:
        sorts = ", ".join(f"{number} {sort}" for sort, number in shown.selection.counts.items())
        phrases.append(f"{messages} {'message' if messages == 1 else 'messages'} of the user ({sorts})")
    if shortened:
        phrases.append(f"parts of {shortened} {'message' if shortened == 1 else 'messages'} of the user")
    return phrases


def _result(
    c: Conversation, result: Result, size_before: Size, tokens_after: int, boundary: str, reason: str = ""
) -> Compacted:
    divided = result.divided
    attempt = result.attempt
    verdict = result.verdict
    shown = result.shown
    return Compacted(
        made=not reason,
        reason=reason,
        boundary=boundary,
        trigger=result.request.trigger,
        engine=attempt.engine,
        left=attempt.unused,
        tokens_before=size_before.tokens,
        sent_before=size_before.sent,
        tokens_after=tokens_after,
        summarised=len(divided.hidden),
        kept=len(divided.kept),
        summary=verdict.text,
        score=verdict.score,
        chain=CompactionChain(),
        invented=verdict.invented,
        cut=(*verdict.left_out, *_words_left_out(shown)),
        restored=(),
        words=UserWordsKept(
            text="\n\n".join(shown.texts),
            tokens=shown.tokens,
            budget=shown.budget,
            kept=len(shown.selection.shown),
            shortened=sum(message.lost > 0 for message in shown.selection.shown),
            left_out=shown.selection.counts,
            lasting_left_out=shown.selection.lasting_left_out,
        ),
        usage=attempt.usage.billed if attempt.usage else None,
        usd=attempt.usd,
        calls=attempt.calls,
        retries=attempt.retries,
        by_kind=by_kind(divided.hidden, c.epoch.gauge.estimator.tokens),
    )


def summary_message(c: Conversation, request: CompactionRequest, divided: Scope, text: str) -> str:
    """The message that contains the summary, as it is sent."""
    text = unforged(text)
    if divided.span == "range":
        return Folded(len(divided.hidden), text, c.services.path or None).render()
    auto = request.trigger != "manual"
    return Continued.of(
        text,
        transcript=c.services.path or None,
        kept=divided.side,
        auto=auto,
        autonomous=request.autonomous or (auto and c.autonomous()),
    ).render()


def unforged(text: str) -> str:
    """A summary that cannot pass for the blocks behind it, whatever a model or a tool's output wrote into it."""
    return _FORGED.sub("&lt;", text)


def _compaction(
    c: Conversation, result: Result, planned: PlannedCompaction, placed: CompactionChain, failures: int
) -> str:
    """Write boundary, summary and restored content; returns the boundary's id."""
    script = c.transcript
    divided = result.divided
    attempt = result.attempt
    tokens_before = c.size().tokens
    boundary = placed.turn
    anchor = script.new_id()
    block = attempt.signed or attempt.opaque
    frame = c.epoch.frame if divided.side == "before" else c.epoch.wanted
    drops = _drops_reasoning(c, result, frame)
    if block and (needed := c.profile.betas.on_demand_compaction):
        frame = replace(frame, betas=tuple(sorted({*frame.betas, needed})))
    counts = result.verdict.score.total
    about = CompactMetadata(
        trigger=result.request.started_by,
        pre_tokens=tokens_before,
        post_tokens=planned.tokens_after,
        messages_summarized=len(divided.hidden),
        user_context=result.request.note or None,
        pre_compact_discovered_tools=_announced_tools(c) or None,
        preserved_segment=_segment(script.view, divided, boundary if divided.side == "before" else anchor),
        engine=attempt.engine,
        chain=placed,
        fidelity=Fidelity(counts.in_context, counts.reachable, counts.lost, len(result.verdict.invented)),
    )
    script.compact(
        about,
        [blocks.text(text) for text in planned.texts],
        boundary=boundary,
        anchor=anchor,
        attachments=planned.attachments,
        epoch=epoch_record(c, frame, "compact", drops),
        signed=block,
        known_by=renew_labels(script.view.labels, script.view.items, redact.mask_text),
        carry=Carry(
            boundary=boundary,
            pins=sorted(script.pinned()),
            breaker=failures,
            words=[*(replace(carried, summary=anchor) for carried in result.shown.words), *result.passing],
            left_out=dict(result.shown.left_out),
            left_out_ends=list(result.shown.left_out_ends),
            not_shown=list(result.shown.not_shown),
        ),
    )
    c.compacted()
    c.after_compaction()
    return boundary


def _drops_reasoning(c: Conversation, result: Result, frame: Frame) -> bool:
    """Whether reasoning in the kept part is invalid afterwards, because other bytes stand in front of it."""
    divided = result.divided
    if not c.profile.thinking.bound or divided.side != "after":
        return False
    # Where a text already replaces rounds, the cut may go through a message; then the kept part follows other bytes.
    view = c.transcript.view
    summarised = messages_of(view, divided.hidden)
    is_torn = view.messages()[: len(summarised)] != summarised
    is_reframed = (frame.system, frame.tools) != (c.epoch.frame.system, c.epoch.frame.tools)
    return result.attempt.signed is None or is_torn or is_reframed


def _segment(view: View, divided: Scope, parent: str) -> Segment | None:
    """The kept records as the boundary names them, behind ``parent``; None if there are none."""
    # A segment must not begin with hidden records: the decision that hid them may not be kept.
    shown = tuple(dropwhile(lambda item: item.hidden_by and not item.shown, divided.kept))
    records = divided.kept if divided.front else shown
    if not records:
        return None
    last = records[-1].record.uuid
    tip = next((item for item in records if item.record.uuid == view.skip_clearings(view.tip)), None)
    if tip is not None and tip.seq < max(item.seq for item in records):
        # After a rewind, the newest results of an answer may follow abandoned records: end the segment at the tip.
        last = tip.record.uuid
    return Segment(records[0].record.uuid, parent, last)


def _restore(c: Conversation, result: Result, fixed: int) -> tuple[list[Attachment], list[str], list[str]]:
    stays = result.divided.side == "before"

    def front() -> str:
        # Evaluated when a slot asks for it: earlier slots may have changed the wanted system prompt.
        return (c.epoch.frame if stays else c.epoch.wanted).words()

    moment = Moment(result.divided.kept, c.count, budget=c.window.budget, front=front, keeps_front=stays)
    always: list[Attachment] = []
    if _is_replaced(result):
        texts = [RecordedFacts(unforged(result.verdict.behind)).render()] if result.verdict.behind else []
        texts += result.shown.texts
        always = [Attachment("facts", tuple(map(blocks.text, texts)))] if texts else []
    from_hooks = [restore.from_hooks(result.context)] if result.context else []
    fixed += _attached_tokens(c, (*always, *from_hooks))
    most_tokens = min(int(c.window.threshold * AFTER_SHARE), most_after(c, result.divided) - 1)
    filled, missed = restore.restore(c.slots, moment, max(0, most_tokens - fixed))
    from_slots = chain.from_iterable(restored.attachments for _, restored in filled)
    return [*always, *from_slots, *from_hooks], [name for name, _ in filled], missed


def _attached_tokens(c: Conversation, attachments: Iterable[Attachment]) -> int:
    attached = chain.from_iterable(attachment.blocks for attachment in attachments)
    return sum(c.count(blocks.words_of(block)) for block in attached)


def _fold(c: Conversation, result: Result, planned: PlannedCompaction) -> str:
    """Replace rounds in the middle with a summary, the pinned records among them and the user's words."""
    script = c.transcript
    divided = result.divided
    uuids = [item.record.uuid for item in divided.hidden]
    text, *behind = planned.texts
    named = [carried for carried in result.shown.words if carried.lasting]
    with c.atomic():
        if c.profile.thinking.bound and script.view.weight.thoughts:
            stays = divided.front[-1].record.uuid if divided.front else None
            c.open_epoch(CLEARED, drops_thinking=True, after=stays)
        else:
            c.announce("fold")
        fold = Fold(first=uuids[0], last=uuids[-1], summary=text, words="\n\n".join(behind), named=named)
        folded = script.decide(fold)
    return folded.id


def _announced_tools(c: Conversation) -> list[str]:
    """Names of the tools that were announced to the model during the conversation; they stay known."""
    frame = c.epoch.frame
    _, tools = in_force(c.transcript.view, frame)
    always_known = {*map(tool_name, frame.tools)}
    return sorted(name for name in map(tool_name, tools) if name not in always_known)


def place_in_chain(view: View, turn: str, threshold: int, source: str) -> CompactionChain:
    """The place of a compaction made now among those of the session, from the view; ``turn`` is its id."""
    if view.boundary is None:
        return CompactionChain(turn=turn, threshold=threshold, query_source=source)
    last_summary = next((item.seq for item in view.items if item.record.summary), -1)
    since = (
        item.record for item in view.items if item.record.role == "assistant" and item.seq > last_summary
    )
    answers = {answer.message_id or answer.uuid for answer in since}
    return CompactionChain(True, len(answers), view.boundary, turn, threshold, source)


def report(c: Conversation, done: Compacted, failures: int) -> None:
    """Report what was done: once as the event any layer sends, once with all figures."""
    usage = done.usage or Usage()
    placed = done.chain
    c.events.tell(
        Acted(
            layer="compact",
            mechanism=done.engine,
            what=f"summarised {done.summarised} records, kept {done.kept}",
            why=done.trigger,
            items=done.summarised,
            tokens_before=done.tokens_before,
            tokens_after=done.tokens_after,
            usd=done.usd,
            reference=done.boundary,
        )
    )
    c.events.tell(
        CompactedEvent(
            **{name: getattr(done, name) for name in _REPORTED},
            left=tuple(f"{unused.engine}: {unused.reason}" for unused in done.left),
            **usage.counts,
            **asdict(done.score.total),
            **{f"summarised_{name}": number for name, number in asdict(done.by_kind).items()},
            invented=len(done.invented),
            cached_share=done.cached_share,
            missed=done.cut,
            words_tokens=done.words.tokens,
            words_left_out=sum(done.words.left_out.values()),
            lasting_left_out=done.words.lasting_left_out,
            again=placed.recompaction,
            turns_since=placed.turns_since,
            previous_turn=placed.previous_turn or "",
            query_source=placed.query_source,
            threshold=placed.threshold,
            failures=failures,
        )
    )
