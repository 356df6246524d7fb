"""Taking a decision back, and making it again.

A decision that is undone leaves the conversation as it was before it, reasoning included; what was said since
stays. Reasoning that was produced since is left out where it is bound, because it was produced behind what is now
no longer there. What was put back is not taken again by the same layer until that is redone.
"""

from __future__ import annotations

from sevenfold.conversation.exchange import Exchange
from sevenfold.conversation.transcript import Transcript
from sevenfold.errors import Refused
from sevenfold.profiles import Profile
from sevenfold.record.decisions import Epoch, Fold, Offload, OwnDecision, Snip, Undone
from sevenfold.record.entries import Clearing
from sevenfold.record.layout import Item
from sevenfold.record.weight import NOTHING, Weight, total
from sevenfold.record.window import Window

Undoable = Clearing | Snip | Fold | Epoch
CLEARED = "clear"
"""The reason of an epoch that was opened to clear."""


def undo(
    transcript: Transcript, exchange: Exchange, profile: Profile, window: Window, reference: str = ""
) -> str:
    """Take back the newest decision, or the one named; returns its name."""
    made = _find(transcript, reference)
    name = _name(made)
    _must_fit(made, transcript, exchange, window)
    undone = [name, *_partner(transcript, made)]
    for each in undone:
        transcript.decide(Undone(decision=each))
    exchange.open("undo", drops_thinking=profile.thinking.bound, after=_place(made))
    return name


def redo(transcript: Transcript, exchange: Exchange, profile: Profile, reference: str = "") -> str:
    """Make a decision again that was taken back: the newest, or the one named; returns its name."""
    view = transcript.view
    taken = [made for made in view.decisions() if isinstance(made, Undoable) and _name(made) in view.undone]
    names = {_name(made): made for made in taken if not _opened_for(made, taken)}
    order = [made.decision for made in view.decisions() if isinstance(made, Undone) and not made.redo]
    name = reference or next((one for one in reversed(order) if one in names), "")
    if name not in names:
        raise Refused(
            f"{name} was not undone, so it cannot be redone"
            if name
            else "nothing was undone that could be redone"
        )
    for each in [name, *_partner(transcript, names[name])]:
        transcript.decide(Undone(decision=each, redo=True))
    exchange.open("redo", drops_thinking=profile.thinking.bound, after=_place(names[name]))
    return name


def standing(transcript: Transcript) -> list[Undoable]:
    """The decisions that could be taken back, in order."""
    view = transcript.view
    return [
        made
        for made in view.decisions()
        if isinstance(made, Undoable) and _name(made) not in view.undone and _is_decision(made)
    ]


def _find(transcript: Transcript, reference: str) -> Undoable:
    view = transcript.view
    decisions, candidates = view.decisions(), standing(transcript)
    if not reference:
        if not candidates:
            raise Refused(
                "there is nothing to undo: no layer has taken anything out of the context "
                "(what the provider clears itself cannot be undone, only switched off: provider_edits)"
            )
        return candidates[-1]
    for made in candidates:
        if _name(made) == reference:
            return made
    raise Refused(_why_not(decisions, reference, view.undone))


def _why_not(decisions: list[OwnDecision | Clearing], reference: str, undone: frozenset[str]) -> str:
    if reference in undone:
        return f"{reference} was undone already; redo makes it again"
    for made in decisions:
        if isinstance(made, Offload) and reference in (made.id, made.path, made.tool_use_id):
            return (
                f"{reference} is an offload: what was sent of a result stays as it is, so it cannot be undone; "
                "fetch gives its whole text"
            )
        if _name(made) == reference:
            return f"{reference} is a decision that takes nothing out of the context, so there is nothing to undo"
    return f"there is no decision {reference} in this session since its last compaction"


def _is_decision(made: Undoable) -> bool:
    """Epochs are undone with what they were opened for; alone only those that leave reasoning out.

    A clearing of nothing but attachments is housekeeping: system and tools were sent whole instead.
    """
    match made:
        case Epoch():
            return made.reason == CLEARED and made.drops_thinking
        case Clearing(about=about):
            return bool(about.compacted_tool_ids)
        case _:
            return True


def _partner(transcript: Transcript, made: Undoable) -> list[str]:
    """The epoch that was opened together with a decision."""
    if isinstance(made, Epoch):
        return []
    decisions = transcript.view.decisions()
    place = next(number for number, one in enumerate(decisions) if one is made)
    before = decisions[place - 1] if place else None
    if isinstance(before, Epoch) and before.reason == CLEARED and before.drops_thinking:
        return [before.id]
    return []


def _opened_for(made: Undoable, taken: list[Undoable]) -> bool:
    """Is this the epoch that goes with the next decision in the list?"""
    if not isinstance(made, Epoch):
        return False
    place = next(number for number, one in enumerate(taken) if one is made)
    after = taken[place + 1] if place + 1 < len(taken) else None
    return after is not None and not isinstance(after, Epoch)


def _name(made: OwnDecision | Clearing) -> str:
    return made.uuid if isinstance(made, Clearing) else made.id


def _place(made: Undoable) -> str | None:
    """The record that was the newest when the decision was made."""
    return made.uuid if isinstance(made, Clearing) else made.at


def _must_fit(made: Undoable, transcript: Transcript, exchange: Exchange, window: Window) -> None:
    thinking = isinstance(made, Epoch) or bool(_partner(transcript, made))
    hidden = [
        item for item in transcript.view.items if _touched(item, made) or (thinking and _thinks(item))
    ]
    back = sum((_whole(item) - item.weight for item in hidden), NOTHING)
    tokens = round(exchange.gauge.estimator.tokens(back))
    size = exchange.size()
    if tokens + size.high >= window.blocking:
        raise Refused(
            f"undoing this would put back about {tokens:,} tokens, and with {size.tokens:,} in the context that is "
            f"over the {window.blocking:,} at which sending stops; fetch single results, or snip other rounds first"
        )


def _whole(item: Item) -> Weight:
    """What a record weighs when all of it is sent; offloaded results stay as they are."""
    offloaded = {block.id: block for block in item.shown if block.kind == "tool_result"}
    return total(
        [
            offloaded.get(block.id, block) if block.id in item.said.stored else block
            for block in item.said.blocks
        ]
    )


def _thinks(item: Item) -> bool:
    return item.said.role == "assistant" and not item.hidden_by


def _touched(item: Item, made: Undoable) -> bool:
    match made:
        case Clearing(about=about):
            return not set(item.said.answers).isdisjoint(about.compacted_tool_ids)
        case Epoch():
            return False
        case _:
            return item.hidden_by == made.id
