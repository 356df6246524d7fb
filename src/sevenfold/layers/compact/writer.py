"""Writing a compaction down: one write of boundary, summary and what comes with it, or the fold of a range."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.conversation.edits import CLEARED
from sevenfold.conversation.epoch import epoch_record, in_force
from sevenfold.conversation.transcript import Attachment
from sevenfold.layers.compact.check import Verdict
from sevenfold.layers.compact.engines import Got
from sevenfold.layers.compact.request import CompactionRequest
from sevenfold.layers.compact.scope import Scope
from sevenfold.prompts.compact import Continued
from sevenfold.prompts.context import Folded
from sevenfold.record import blocks, redact
from sevenfold.record.decisions import Carry, CompactionChain, CompactMetadata, Fidelity, Fold, Segment
from sevenfold.record.log import renew_labels
from sevenfold.request.frame import tool_name

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation
    from sevenfold.record.view import View


class Result(Struct, frozen=True, kw_only=True):
    """Everything a compaction consists of, before it is written."""

    request: CompactionRequest
    divided: Scope
    got: Got
    verdict: Verdict
    chain: CompactionChain
    attachments: Sequence[Attachment] = ()
    before: int = 0
    after: int = 0
    failures: int = 0


def said(c: Conversation, request: CompactionRequest, divided: Scope, text: str) -> str:
    """The message the summary is sent in."""
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


def compaction(c: Conversation, made: Result) -> str:
    """Write a compaction, whole or not at all; returns the boundary's id."""
    script, divided = c.transcript, made.divided
    boundary, anchor = made.chain.turn, script.new_id()
    block = made.got.block
    drops = c.profile.thinking.bound and divided.side == "after" and made.got.signed is None
    frame = c.frame if divided.side == "before" else c.wanted
    if block and (needed := c.profile.betas.on_demand_compaction):
        frame = replace(frame, betas=tuple(sorted({*frame.betas, needed})))
    script.compact(
        _about(c, made, boundary, anchor),
        [blocks.text(said(c, made.request, divided, made.verdict.text))],
        boundary=boundary,
        anchor=anchor,
        attachments=made.attachments,
        epoch=epoch_record(frame, c.lifetimes, "compact", drops),
        signed=block,
        known_by=renew_labels(script.view.labels, script.view.items, redact.mask_text),
        carry=Carry(boundary=boundary, pins=sorted(script.pinned()), breaker=made.failures),
    )
    c.compacted()
    return boundary


def fold(c: Conversation, made: Result) -> str:
    """Put a summary in the place of rounds in the middle; returns the decision's id."""
    script, divided = c.transcript, made.divided
    first, last = divided.hidden[0].said.uuid, divided.hidden[-1].said.uuid
    text = said(c, made.request, divided, made.verdict.text)
    with c.together():
        if c.profile.thinking.bound and script.view.weight.thoughts:
            stays = divided.front[-1].said.uuid if divided.front else None
            c.open_epoch(CLEARED, drops_thinking=True, after=stays)
        else:
            c.announce("fold")
        return script.decide(Fold(first=first, last=last, summary=text)).id


def _about(c: Conversation, made: Result, boundary: str, anchor: str) -> CompactMetadata:
    divided, total = made.divided, made.verdict.score.total
    segment = None
    if divided.kept:
        ends = divided.kept[0].said.uuid, divided.kept[-1].said.uuid
        segment = Segment(ends[0], boundary if divided.side == "before" else anchor, ends[1])
    return CompactMetadata(
        trigger="manual" if made.request.trigger == "manual" else "auto",
        pre_tokens=made.before,
        post_tokens=made.after,
        messages_summarized=len(divided.hidden),
        user_context=made.request.note or None,
        pre_compact_discovered_tools=_announced_tools(c) or None,
        preserved_segment=segment,
        engine=made.got.engine,
        chain=made.chain,
        fidelity=Fidelity(total.in_context, total.reachable, total.lost, len(made.verdict.invented)),
    )


def _announced_tools(c: Conversation) -> list[str]:
    """The tools the model has heard of in the conversation rather than before it: they stay."""
    frame = c.frame
    _, tools = in_force(c.transcript.view, frame)
    known = {*map(tool_name, frame.tools)}
    return sorted(name for name in map(tool_name, tools) if name not in known)


def chain(view: View, turn: str, threshold: int, source: str) -> CompactionChain:
    """The place of a compaction made now in the chain, from the record alone; ``turn`` names it."""
    if view.boundary is None:
        return CompactionChain(turn=turn, threshold=threshold, query_source=source)
    begun = next((item.seq for item in view.items if item.said.summary), -1)
    answers = {
        item.said.message_id or item.said.uuid
        for item in view.items
        if item.said.role == "assistant" and item.seq > begun
    }
    return CompactionChain(True, len(answers), view.boundary, turn, threshold, source)
