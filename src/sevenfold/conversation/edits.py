"""The user's decisions about a conversation: pin, snip, rewind, undo and redo.

Undoing a decision restores the conversation from before it, thinking included; later messages stay. Later thinking is
dropped if it is bound, because the content it was produced after is gone. The same layer does not remove restored
content again until the decision is redone. Undoing a compaction puts the messages it hid back in front of the later
ones, and sends the frame from before it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, pairwise
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sevenfold.conversation import history, reporting
from sevenfold.conversation.epoch import clear_unsupported_amendments, frame_of, learned
from sevenfold.conversation.resume import SizeReport, resume
from sevenfold.errors import Refused
from sevenfold.events import Proposed
from sevenfold.ports import Log
from sevenfold.record.blocks import Block
from sevenfold.record.decisions import (
    Epoch,
    Fold,
    Offloaded,
    Pin,
    Pinned,
    Rewound,
    ShownResult,
    Snip,
    Undone,
)
from sevenfold.record.entries import Boundary, Clearing
from sevenfold.record.layout import Item
from sevenfold.record.ledger import id_of, record_before
from sevenfold.record.view import View
from sevenfold.record.weight import NOTHING
from sevenfold.record.wire import Message, open_server_calls
from sevenfold.request.frame import Frame

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation

Undoable = Clearing | ShownResult | Snip | Fold | Epoch
CLEARED = "clear"
"""The reason of an epoch that was opened to clear content."""
IMPORTED = "imported_"
"""The prefix of the ids of answers imported from elsewhere."""


# -- pins, snips, rewinds -------------------------------------------------------------------------


def pin(c: Conversation, record: str) -> None:
    """Keep a record verbatim; raises `Refused` if it is not in view or exceeds the budget for pins."""
    with c.lock:
        c.refresh()
        budget = c.window.budget(c.settings.pins_tokens)
        item = c.transcript.view.item(record)
        if item is None:
            raise Refused(f"{record} is not a record in view")
        other_pins = c.transcript.pinned() - {record}
        held = [
            pinned_item for pinned_item in c.transcript.view.items if pinned_item.record.uuid in other_pins
        ]
        tokens = _tokens(c, [item])
        used = _tokens(c, held)
        if used + tokens > budget:
            raise Refused(
                f"this record has about {tokens:,} tokens, {used:,} are pinned already, and the budget for pins is "
                f"{budget:,} (pins_tokens); unpin another one, or raise the budget"
            )
        c.transcript.decide(Pin(record=record))


def unpin(c: Conversation, record: str) -> None:
    """Unpin a record; raises `Refused` if it is not pinned."""
    with c.lock:
        if record not in c.transcript.pinned():
            raise Refused(f"{record} is not pinned")
        c.transcript.decide(Pin(record=record, off=True))


def snip(c: Conversation, first: str, last: str) -> str:
    """Remove whole rounds from the context, from ``first`` to ``last``; returns the decision's id."""
    with c.lock:
        c.refresh()
        if not c.settings.snip:
            raise Refused("snipping is switched off (setting snip)")
        span = _span(c, first, last)
        tokens_before = c.size().tokens
        proposed = Proposed(
            layer="snip",
            mechanism="span",
            what=f"remove {len(span)} records",
            why="asked for",
            items=len(span),
            tokens=_tokens(c, span),
        )
        if not c.events.may(proposed):
            raise Refused("a listener refused the snip")
        with c.atomic():
            if c.profile.thinking.bound and c.transcript.view.weight.thoughts:
                c.open_epoch(CLEARED, drops_thinking=True)
            else:
                c.announce("snip")
            snipped = c.transcript.decide(Snip(first=first, last=last))
        c.events.acted(proposed, tokens_before, c.size().tokens, snipped.id, undoable=True)
        reporting.epochs(c)
        return snipped.id


def rewind(c: Conversation, record: str | None) -> None:
    """Continue from an earlier record, or from the start; later records stay in the transcript."""
    with c.lock:
        go_back(c, record)
        c.forget_request()
        reporting.epochs(c)


def go_back(c: Conversation, record: str | None) -> None:
    """Record a rewind and nothing else, so that it can be part of a larger decision."""
    transcript = c.transcript
    if record is not None and not history.holds(transcript.log, record):
        raise Refused(f"there is no record {record} in this session to continue from")
    messages_before = transcript.view.messages()
    as_sent = _goes_on_from_what_was_sent(c, messages_before)
    with c.atomic():
        c.announce("rewound")
        transcript.decide(Rewound(to=record))
        clear_unsupported_amendments(c)
        remaining = transcript.view.messages()
        # A call of the provider's own tools without a result is dropped as soon as a message is added.
        waits = open_server_calls([*chain.from_iterable(message.parts for message in remaining)])
        imported = any(item.record.message_id.startswith(IMPORTED) for item in transcript.view.items)
        if as_sent and _begins(messages_before, remaining) and not waits:
            c.vouch_for_thinking()
        elif transcript.view.weight.thoughts and (c.profile.thinking.bound or imported):
            # Other decisions apply there, or such a call is or was dropped, so thinking would follow other bytes than
            # those it was produced after. Imported thinking is never valid.
            c.open_epoch("rewound", drops_thinking=True)


def _tokens(c: Conversation, items: list[Item]) -> int:
    return round(c.epoch.gauge.estimator.tokens(sum((item.weight for item in items), NOTHING)))


def _span(c: Conversation, first: str, last: str) -> list[Item]:
    view = c.transcript.view
    items = view.items
    places = [view.layout.index.get(end, -1) for end in (first, last)]
    if -1 in places or places[0] > places[1]:
        raise Refused(f"{first} to {last} is not a span of records in view")
    following = items[places[1] + 1] if places[1] + 1 < len(items) else None
    if not view.begins_round(first) or (
        following is not None and not view.begins_round(following.record.uuid)
    ):
        raise Refused("a span must hold whole rounds: an answer together with all its results")
    if following is None:
        raise Refused("the newest round cannot be removed: rewind to before it instead")
    span = items[places[0] : places[1] + 1]
    if all(item.hidden_by for item in span):
        raise Refused(f"{first} to {last} is out of the context already; undo brings it back")
    if held := c.transcript.pinned() & {item.record.uuid for item in span}:
        raise Refused(f"{sorted(held)[0]} in that span is pinned; unpin it first")
    return span


def _goes_on_from_what_was_sent(c: Conversation, messages: list[Message]) -> bool:
    """Whether the messages begin with those of the last request, or are known to keep thinking valid without that."""
    if c.epoch.thinking_known_valid or not (c.profile.thinking.bound and c.transcript.view.weight.thoughts):
        return True
    if c.resumed is not None:
        c.resume_watch()
    sent = c.epoch.watched.sent
    return sent is None or _begins(messages, list(sent.messages))


def _begins(longer: list[Message], shorter: list[Message]) -> bool:
    """Whether ``shorter`` is the beginning of ``longer``; only its last message may be cut short."""
    if len(shorter) > len(longer):
        return False
    if not shorter:
        return True
    here = shorter[-1]
    there = longer[len(shorter) - 1]
    cut = here.role == there.role and there.parts[: len(here.parts)] == here.parts
    return cut and shorter[:-1] == longer[: len(shorter) - 1]


# -- undo and redo --------------------------------------------------------------------------------


def undo(c: Conversation, reference: str = "") -> str:
    """Undo the newest decision that can be undone, or the one named; returns its id."""
    with c.lock:
        boundary = c.transcript.view.boundary
        with c.atomic():
            if boundary and (reference or _newest_boundary(c)) == boundary:
                name = _undo_compaction(c)
            else:
                name = _undo_decision(c, reference)
            clear_unsupported_amendments(c)
        reporting.epochs(c)
        return name


def redo(c: Conversation, reference: str = "") -> str:
    """Redo the decision that was undone last, or the one named; returns its id."""
    with c.lock:
        view = c.transcript.view
        compaction = undone_compaction(c)
        if compaction and not compaction_undone(c):
            if reference == compaction:
                raise Refused(
                    f"{reference} was undone, but the conversation was compacted again since then, so it cannot be "
                    "redone; undo the newer compaction first"
                )
            compaction = ""
        decisions = _decisions(view, undone=True)
        last = (
            decision for decision in _undone_ids(view) if decision == compaction or decision in decisions
        )
        name = reference or next(last, "")
        with c.atomic():
            if name and name == compaction:
                _redo_compaction(c, name)
            elif name in decisions:
                _redo_decision(c, decisions[name])
            else:
                raise Refused(
                    f"{name} was not undone, so it cannot be redone"
                    if name
                    else "nothing was undone that could be redone"
                )
            clear_unsupported_amendments(c)
        reporting.epochs(c)
        return name


def _undo_decision(c: Conversation, reference: str) -> str:
    decision = _find(c.transcript.view, reference)
    undone = [Undone(decision=name) for name in (id_of(decision), *_partner(c.transcript.view, decision))]
    _must_fit(c, *undone)
    for undoing in undone:
        c.transcript.decide(undoing)
    _open_epoch_keeping_thinking(c, "undo", id_of(decision), record_before(decision))
    return id_of(decision)


def _redo_decision(c: Conversation, decision: Undoable) -> None:
    meanwhile = _epoch_of_undo(c.transcript.view, id_of(decision)) if c.profile.thinking.bound else None
    for name in [id_of(decision), *_partner(c.transcript.view, decision)]:
        c.transcript.decide(Undone(decision=name, redo=True))
    _open_redo_epoch(c, meanwhile, id_of(decision), record_before(decision))


def _epoch_of_undo(view: View, redone: str) -> Epoch | None:
    """The epoch opened when a decision was undone; None if a later decision changed earlier records since."""
    epoch: Epoch | None = None
    taken_back = changed = False
    for decision in view.decisions():
        match decision:
            case Undone(decision=name, redo=False) if name == redone:
                taken_back = True
                epoch = None
                changed = False
            case Epoch(boundary=str()):
                changed = True
            case Epoch() if taken_back and epoch is None:
                epoch = decision
            case Clearing() | Snip() | Fold() | Pinned():
                changed = True
    return None if changed else epoch


def _open_redo_epoch(c: Conversation, meanwhile: Epoch | None, redone: str, last_valid: str | None) -> None:
    """Open the epoch that follows a redo.

    Thinking from before the undo now follows exactly what it was produced after, so it is sent again; if the frame has
    changed, only the thinking up to ``last_valid``. Thinking produced between undo and redo is not sent.
    """
    earlier_epoch = _before(c, meanwhile)
    if earlier_epoch is None or _precedes(frame_of(earlier_epoch)) != _precedes(c.epoch.frame):
        meanwhile = None
    _open_epoch_keeping_thinking(c, "redo", redone, meanwhile.at if meanwhile else last_valid, meanwhile)
    if meanwhile is not None:
        c.transcript.decide(Undone(decision=meanwhile.id))


def _open_epoch_keeping_thinking(
    c: Conversation, why: str, name: str, last_valid: str | None, since: Epoch | None = None
) -> None:
    """Open the epoch that follows an undo or a redo; thinking up to ``last_valid`` is sent again if it is valid.

    It is valid if model, system, tools and messages, with the epoch ``since`` undone too, begin as they did before the
    decision ``name``, thinking included. A late result may have changed them, another epoch may have dropped thinking.
    """
    bound = c.profile.thinking.bound
    transcript = c.transcript
    view_then = resume(transcript.log.upto(max(0, _decided_at(transcript.log, name)))) if bound else View()
    view_now = transcript.view_after(Undone(decision=since.id)) if since else transcript.view
    blocks_then = _sent(view_then)
    frame = frame_of(view_then.epoch) if view_then.epoch else c.epoch.frame
    same_blocks = _sent(view_now)[: len(blocks_then)] == blocks_then
    unchanged = same_blocks and _precedes(frame) == _precedes(c.epoch.frame)
    c.open_epoch(why, drops_thinking=bound, after=last_valid if unchanged else None)


def _sent(view: View) -> list[Block]:
    return [*chain.from_iterable(message.parts for message in view.messages())]


def _before(c: Conversation, epoch: Epoch | None) -> Epoch | None:
    """The epoch before another one, taken from the log, because a rewind leaves epochs in force."""
    epochs = pairwise(opened for _, opened in c.transcript.log.decisions(Epoch))
    return next((older for newer, older in epochs if epoch and newer.id == epoch.id), None)


def _precedes(frame: Frame) -> tuple[object, ...]:
    return frame.model, frame.system, frame.tools


def _decisions(view: View, *, undone: bool = False) -> dict[str, Undoable]:
    """Decisions that can be undone, or those already ``undone``, by id and in order; without their own epochs."""
    undoable = (decision for decision in view.decisions() if isinstance(decision, Undoable))
    candidates = [*filter(_is_decision, undoable)]
    partners = {*chain.from_iterable(_partner(view, decision) for decision in candidates)}
    names = {
        id_of(decision): decision for decision in candidates if (id_of(decision) in view.undone) is undone
    }
    return {name: decision for name, decision in names.items() if name not in partners}


def _undone_ids(view: View) -> Iterator[str]:
    """The ids of decisions that are undone at present, newest first."""
    undoings = (decision for decision in view.decisions() if isinstance(decision, Undone))
    order = [undoing.decision for undoing in undoings if not undoing.redo]
    return (name for name in reversed(order) if name in view.undone)


def _find(view: View, reference: str) -> Undoable:
    candidates = _decisions(view)
    if not reference and not candidates:
        raise Refused(
            "there is nothing to undo: no layer has taken anything out of the context "
            "(what the provider clears itself cannot be undone, only switched off: provider_edits); to go back to an "
            "earlier message: rewind(), /rewind"
        )
    name = reference or [*candidates][-1]
    if name not in candidates:
        raise Refused(_why_not(view, name))
    return candidates[name]


def _why_not(view: View, reference: str) -> str:
    if reference in view.undone:
        return f"{reference} was undone already; redo makes it again"
    for decision in view.decisions():
        if isinstance(decision, Offloaded) and reference in (
            decision.id,
            decision.path,
            decision.tool_use_id,
        ):
            return (
                f"{reference} is an offload: what was sent of a result stays as it is, so it cannot be undone; "
                "fetch gives its whole text"
            )
        if id_of(decision) == reference:
            return f"{reference} is a decision that takes nothing out of the context, so there is nothing to undo"
    return f"there is no decision {reference} in this session since its last compaction"


def _is_decision(record: Undoable) -> bool:
    """Whether this counts as a decision to undo; of epochs, only those opened to clear content that drop thinking.

    Other epochs are undone with what they were opened for. Clearing only attachments is housekeeping for a new frame.
    """
    match record:
        case Epoch():
            return record.reason == CLEARED and record.drops_thinking
        case Clearing(about=about):
            return bool(about.compacted_tool_ids)
        case _:
            return True


def _partner(view: View, decision: Undoable) -> list[str]:
    """The id of the epoch opened together with a decision, in a list; empty if there is none."""
    if isinstance(decision, Epoch | ShownResult):
        return []
    neighbours = pairwise(view.decisions())
    preceding = next((earlier for earlier, later in neighbours if later is decision), None)
    return [preceding.id] if isinstance(preceding, Epoch) and _is_decision(preceding) else []


def _must_fit(c: Conversation, *undone: Undone) -> None:
    size = c.size()
    blocking = c.window.blocking
    back = c.epoch.gauge.size(c.transcript.view_after(*undone))
    if back.high >= blocking:
        raise Refused(
            f"undoing this would put back about {back.tokens - size.tokens:,} tokens, and with {size.tokens:,} in the "
            f"context that is over the {blocking:,} at which sending stops; fetch single results, or snip other rounds "
            "first"
        )


# -- undoing a compaction -------------------------------------------------------------------------


def _undo_compaction(c: Conversation) -> str:
    """Undo the compaction that the view starts with; returns the boundary's id."""
    entry = c.transcript.view.entry(c.transcript.view.boundary or "")
    if not isinstance(entry, Boundary):
        raise Refused("there is no compaction to undo in this session")
    _compaction_must_fit(c, entry)
    own_epoch = _epoch_of(c, entry.uuid)
    reports = list[SizeReport]()
    c.transcript.decide(Undone(decision=entry.uuid))
    if own_epoch is not None:
        c.transcript.decide(Undone(decision=own_epoch.id))
    if earlier_epoch := _before(c, own_epoch):
        c.return_to(earlier_epoch)
    if entry.uuid == c.boundary_at_opening:
        # The reports from before the compaction were not read when the session was opened.
        c.transcript.view_after(reports=reports)
        frame = c.epoch.frame
        c.set_epoch(replace(c.epoch, gauge=learned(c.profile, reports, *frame.tools, *frame.system)))
    _open_epoch_keeping_thinking(c, "undo", entry.uuid, entry.logical_parent)
    c.set_epoch(replace(c.epoch, tail=None))
    return entry.uuid


def _redo_compaction(c: Conversation, boundary: str) -> None:
    """Redo a compaction."""
    own_epoch = _epoch_of(c, boundary)
    meanwhile = _epoch_of_undo(c.transcript.view, boundary)
    c.transcript.decide(Undone(decision=boundary, redo=True))
    if own_epoch is not None:
        c.transcript.decide(Undone(decision=own_epoch.id, redo=True))
    if frame_epoch := _before(c, meanwhile) or own_epoch:
        c.return_to(frame_epoch)
    _open_redo_epoch(c, meanwhile, boundary, None)
    c.set_epoch(replace(c.epoch, tail=None))


def _newest_boundary(c: Conversation) -> str:
    """The boundary that the view starts with; empty if there is none, or a later decision can be undone first."""
    boundary = c.transcript.view.boundary or ""
    decided = [*_decisions(c.transcript.view)]
    if not boundary or not decided:
        return boundary
    log = c.transcript.log
    return boundary if _decided_at(log, boundary) > _decided_at(log, decided[-1]) else ""


def compaction_undone(c: Conversation) -> bool:
    """Whether a compaction was undone and none was made since."""
    name = undone_compaction(c)
    boundary = c.transcript.view.boundary
    log = c.transcript.log
    return bool(name) and (boundary is None or _decided_at(log, name) > _decided_at(log, boundary))


def undone_compaction(c: Conversation) -> str:
    """The boundary of the compaction undone last and not redone; empty if there is none."""
    view = c.transcript.view
    undone = _undone_ids(view) if view.undone else ()
    return next((name for name in undone if is_compaction(c, name)), "")


def _compaction_must_fit(c: Conversation, boundary: Boundary) -> None:
    size = c.size()
    blocking = c.window.blocking
    back = c.epoch.gauge.size(c.transcript.view_after(Undone(decision=boundary.uuid)))
    if back.high >= blocking:
        raise Refused(
            f"undoing this compaction would make {back.tokens:,} tokens, perhaps {back.band:,} more, of the "
            f"{size.tokens:,} in the context now, and sending stops at {blocking:,}; look things up with recall, or "
            "rewind to before the compaction"
        )


def _epoch_of(c: Conversation, boundary: str) -> Epoch | None:
    """The epoch that a compaction opened; None if it opened none."""
    opened = (epoch for _, epoch in c.transcript.log.decisions(Epoch))
    return next((epoch for epoch in opened if epoch.boundary == boundary), None)


def _decided_at(log: Log, decision: str) -> int:
    """The position where a decision was last made, undone or redone; -1 if it is not on record."""
    position = log.decided_at(decision)
    return -1 if position is None else position


def is_compaction(c: Conversation, decision: str) -> bool:
    """Whether a decision is a compaction."""
    _, entry = c.transcript.log.record(decision) or (0, None)
    return isinstance(entry, Boundary)
