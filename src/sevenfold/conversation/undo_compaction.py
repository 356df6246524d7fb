"""Taking a compaction back, and making it again.

What the summary stood for comes back in front of what was said since; the summary goes, and with it what was put
beside it. What precedes the messages is again what it was before, so that the reasoning of then is valid.
"""

from __future__ import annotations

from msgspec.structs import replace

from sevenfold.conversation import undo as undoing
from sevenfold.conversation.epoch import frame_of
from sevenfold.conversation.exchange import Exchange
from sevenfold.conversation.transcript import Transcript
from sevenfold.errors import Refused
from sevenfold.ports import Log
from sevenfold.profiles import Profile
from sevenfold.record.decisions import Epoch, Undone
from sevenfold.record.entries import Boundary, Clearing
from sevenfold.record.window import Window


def undo(transcript: Transcript, exchange: Exchange, profile: Profile, window: Window) -> str:
    """Take back the compaction the view begins with; returns the boundary's id."""
    boundary = _boundary(transcript)
    _must_fit(boundary, transcript, exchange, window)
    own, before = _epochs(transcript.log, boundary.uuid)
    transcript.decide(Undone(decision=boundary.uuid))
    if own is not None:
        transcript.decide(Undone(decision=own.id))
    if before is not None:
        _return_to(before, exchange)
    exchange.open("undo", drops_thinking=profile.thinking.bound, after=boundary.logical_parent)
    exchange.forget_tail()
    return boundary.uuid


def redo(transcript: Transcript, exchange: Exchange, profile: Profile, boundary: str) -> str:
    """Make a compaction again that was taken back.

    Reasoning from before it was taken back stands again behind exactly what it was produced behind, so it is sent
    again; what was produced meanwhile is not.
    """
    own, _ = _epochs(transcript.log, boundary)
    meanwhile = _meanwhile(transcript, own) if own is not None else None
    transcript.decide(Undone(decision=boundary, redo=True))
    if own is not None:
        transcript.decide(Undone(decision=own.id, redo=True))
        _return_to(own, exchange)
    last = meanwhile.at if meanwhile is not None else None
    exchange.open("redo", drops_thinking=profile.thinking.bound, after=last)
    if meanwhile is not None:
        # Last, so that cut off anywhere before it the request has too little reasoning, and is still a legal one.
        transcript.decide(Undone(decision=meanwhile.id))
    exchange.forget_tail()
    return boundary


def _meanwhile(transcript: Transcript, own: Epoch) -> Epoch | None:
    """The epoch that began when a compaction was taken back, if until then the same preceded the messages."""
    before = found = None
    taken_back = False
    for made in transcript.view.decisions():
        match made:
            case Undone(decision=name, redo=redo) if name == own.boundary:
                taken_back, found = not redo, None
            case Epoch() if not taken_back:
                before = made
            case Epoch(reason="undo") if found is None:
                found = made
    same = before is not None and _precedes(before) == _precedes(own)
    return found if same else None


def _precedes(epoch: Epoch) -> tuple[object, ...]:
    return epoch.model, epoch.system, epoch.tools


def _return_to(epoch: Epoch, exchange: Exchange) -> None:
    """Send again what preceded the messages then; if another model answers now, its own stays."""
    then = frame_of(epoch)
    if then.model != exchange.frame.model:
        return
    exchange.frame = replace(then, max_tokens=exchange.frame.max_tokens)
    exchange.gauge = exchange.gauge.opened(*exchange.frame.tools, *exchange.frame.system)


def newest(transcript: Transcript) -> str:
    """What was decided last of all that can be taken back: a compaction, or the newest decision since."""
    boundary = transcript.view.boundary or ""
    decided = undoing.standing(transcript)
    if not boundary or not decided:
        return boundary
    return boundary if _place(transcript.log, boundary) > _place(transcript.log, decided[-1]) else ""


def stands_undone(transcript: Transcript) -> bool:
    """Was a compaction taken back, and none made since?"""
    name = newest_undone(transcript)
    boundary = transcript.view.boundary
    return bool(name) and (
        boundary is None or _place(transcript.log, name) > _place(transcript.log, boundary)
    )


def newest_undone(transcript: Transcript) -> str:
    """The newest compaction that was taken back and still is; empty if there is none."""
    order = [
        made.decision for made in transcript.view.decisions() if isinstance(made, Undone) and not made.redo
    ]
    return next(
        (
            name
            for name in reversed(order)
            if name in transcript.view.undone and _is_boundary(transcript.log, name)
        ),
        "",
    )


def _boundary(transcript: Transcript) -> Boundary:
    view = transcript.view
    entry = view.entry(view.boundary or "")
    if not isinstance(entry, Boundary):
        raise Refused("there is no compaction to undo in this session")
    return entry


def _must_fit(boundary: Boundary, transcript: Transcript, exchange: Exchange, window: Window) -> None:
    view, size = transcript.view, exchange.size()
    since = [item for item in view.items if not view.brought_by(item.said.uuid)]
    kept = boundary.about.preserved_segment
    count = exchange.gauge.estimator.tokens
    fresh = since if kept is None else [item for item in since if item.said.timestamp > boundary.timestamp]
    said = sum(round(count(item.weight)) for item in fresh)
    back = (boundary.about.pre_tokens or 0) + said
    if back >= window.blocking:
        raise Refused(
            f"undoing this compaction would make about {back:,} tokens of the {size.tokens:,} in the context now, and "
            f"sending stops at {window.blocking:,}; look things up with recall, or rewind to before the compaction"
        )


def _epochs(log: Log, boundary: str) -> tuple[Epoch | None, Epoch | None]:
    """The epoch a compaction opened, and the one before it."""
    own = None
    for _, epoch in log.decisions(Epoch):
        if own is not None:
            return own, epoch
        if epoch.boundary == boundary:
            own = epoch
    return own, None


def _place(log: Log, decision: str | undoing.Undoable) -> int:
    """Where a decision was last made, undone or redone; -1 if that is not on record."""
    match decision:
        case str():
            name = decision
        case Clearing(uuid=name):
            pass
        case _:
            name = decision.id
    position = log.decided_at(name)
    return -1 if position is None else position


def _is_boundary(log: Log, uuid: str) -> bool:
    match log.record(uuid):
        case (_, Boundary()):
            return True
        case _:
            return False
