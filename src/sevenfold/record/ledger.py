"""The decisions on record, and which of them hold.

They are kept in the order they were made. Whether one counts depends on the branch (it holds if the record it was
made at led to the tip) and on later undos. So their effects are never stored: they are computed from the list, as of
now or of any earlier point.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Raw, Struct
from msgspec.structs import replace

from sevenfold.record import blocks
from sevenfold.record.blocks import PLACEHOLDER_CLEARED, THINKING, Block
from sevenfold.record.chain import Chain
from sevenfold.record.decisions import (
    ADOPTED,
    OTHER_MODEL,
    Epoch,
    Fold,
    Offloaded,
    OwnDecision,
    Pinned,
    SentAsText,
    ShownResult,
    Signed,
    Snip,
    Undone,
)
from sevenfold.record.entries import Boundary, Clearing, Said
from sevenfold.record.layout import Item
from sevenfold.record.sendable import as_text
from sevenfold.record.weight import NOTHING, total


class Fate(Struct, frozen=True):
    """Whether the model sees a record, and what decided it."""

    state: str
    """seen, trimmed, hidden, off_branch, sidechain or unknown"""
    by: tuple[str, ...] = ()
    """The decisions that hid or trimmed it."""


class Replacement(Struct, frozen=True):
    """What is shown in place of a tool result; results recorded after the decision are not replaced."""

    decision: str
    text: str
    seq: int
    text_only: bool = False
    """Images and documents in the result stay."""
    content: Raw | None = None
    """ShownResult by a layer instead of ``text``, until the result is cleared or offloaded."""

    def instead_of(self, block: Block) -> Block:
        """The tool result as it is shown."""
        if self.content is not None:
            return blocks.with_content(block, self.content)
        replace_content = blocks.with_words if self.text_only else blocks.with_content
        return replace_content(block, self.text)


class Effects(Struct):
    """What is hidden or replaced, and by which decision; computed by `Ledger.effects`."""

    results: dict[str, list[Replacement]] = {}
    """Tool call → its replacements, oldest first."""
    attachments: dict[str, str] = {}
    """Record → decision that cleared it."""
    spans: list[Snip | Fold] = []
    thinking: list[tuple[int, int]] = []
    """Pairs of sequence numbers between which reasoning is no longer sent."""
    references: bool = False
    """Whether results carry references by which they can be deleted from the cached prefix."""
    deletions: dict[str, Block] = {}
    """Record → the block sent at its end that deletes results."""
    refused: dict[str, dict[int, str]] = {}
    """Record → the indexes of its blocks that a provider refused, with what it said; they are sent as text."""
    signed: dict[str, Block] = {}
    """Boundary → the provider's own summary, sent in place of the readable one, or before it."""
    spans_only: bool = True
    """Whether there are no effects other than spans; derived from the other fields."""

    def touch(self, record: Said, seq: int) -> bool:
        """Whether a decision may change how this record is shown, apart from spans, which hide it either way."""
        return (
            (self.references and bool(record.answers))
            or not self.results.keys().isdisjoint(record.answers)
            or (record.summary and bool(self.signed))
            or record.uuid in self.attachments
            or record.uuid in self.deletions
            or record.uuid in self.refused
            or (self.drops_thinking(seq) and any(block.kind in THINKING for block in record.blocks))
        )

    def drops_thinking(self, seq: int) -> bool:
        """Whether the reasoning of a record with this sequence number is no longer sent."""
        return any(start < seq < end for start, end in self.thinking)


class RecordedDecision(Struct, frozen=True):
    """A decision and its sequence number in the file."""

    seq: int
    decision: Clearing | OwnDecision
    drops: tuple[int, int] = (-1, -1)
    """The sequence numbers between which an epoch drops reasoning."""

    @property
    def id(self) -> str:
        """The id by which it can be undone."""
        return id_of(self.decision)


_CHANGING_THE_VIEW = (Offloaded, ShownResult, SentAsText, Pinned, Signed, Snip, Fold, Undone)


def changes_view(decision: OwnDecision) -> bool:
    """Whether the view must be rebuilt after this decision."""
    return isinstance(decision, _CHANGING_THE_VIEW) or (
        isinstance(decision, Epoch) and decision.drops_thinking
    )


class Ledger:
    """All decisions, in order."""

    def __init__(self) -> None:
        self.all: list[RecordedDecision] = []
        self._holding: list[RecordedDecision] = []
        self._standing: set[str] = set()

    def add(self, seq: int, decision: Clearing | OwnDecision, chain: Chain) -> None:
        """Add a decision; it was made at the current tip, so it holds."""
        entry = RecordedDecision(seq, decision)
        if isinstance(decision, Epoch):
            first_sent_again = chain.nodes.get(decision.drops_thinking_before or "")
            end = first_sent_again.seq if first_sent_again else seq
            entry = RecordedDecision(seq, decision, (chain.end_of(decision.drops_thinking_after), end))
        self.all.append(entry)
        self._holding.append(entry)

    def holding(self) -> list[Clearing | OwnDecision]:
        """The decisions that hold on the live branch, in order."""
        return [entry.decision for entry in self._holding]

    def settle(self, chain: Chain, leaf: str | None) -> set[str]:
        """Determine which decisions hold when ``leaf`` is the newest record; returns the ids of those undone."""
        lineage = chain.lineage(leaf) if self.all and leaf is not None else set()
        self._holding = [entry for entry in self.all if self._holds(entry, chain, lineage)]
        return self._undone(None)

    def effects(self, seq: int | None = None, model: str = "") -> Effects:
        """What is hidden or replaced now that ``model`` answers; with ``seq``, as of before that record."""
        undone = self._undone(seq)
        model = model if seq is None else self._model(seq)
        effects = Effects()
        for entry in self._holding:
            if entry.id in undone or (seq is not None and entry.seq >= seq):
                continue
            match entry.decision:
                case Clearing(uuid=name, about=about):
                    cleared = Replacement(name, PLACEHOLDER_CLEARED, entry.seq)
                    for call in about.compacted_tool_ids:
                        effects.results.setdefault(call, []).append(cleared)
                    effects.attachments.update(dict.fromkeys(about.cleared_attachment_uuids, name))
                case Offloaded(id=name, tool_use_id=call, preview=preview):
                    offloaded = Replacement(name, preview, entry.seq, text_only=True)
                    effects.results.setdefault(call, []).append(offloaded)
                case ShownResult(id=name, tool_use_id=call, content=content):
                    shown = Replacement(name, "", entry.seq, content=content)
                    effects.results.setdefault(call, []).append(shown)
                case SentAsText(record=record, block=number, why=why):
                    effects.refused.setdefault(record, {})[number] = why
                case Pinned(calls=calls, record=record):
                    effects.references = True
                    effects.deletions = (
                        {**effects.deletions, record: blocks.deletion(calls)} if calls else {}
                    )
                case Snip() | Fold() as span:
                    effects.spans.append(span)
                case Signed(boundary=boundary, block=block, model=signer):
                    if not model or signer in ("", model):
                        effects.signed[boundary] = blocks.read(bytes(block))
                case Epoch(drops_thinking=True):
                    effects.thinking.append(entry.drops)
        replaced = (
            effects.results or effects.attachments or effects.deletions or effects.signed or effects.refused
        )
        effects.spans_only = not (replaced or effects.thinking or effects.references)
        return effects

    def since(self, seq: int) -> list[RecordedDecision]:
        """Decisions that hold and were made after this sequence number."""
        return [entry for entry in self._holding if entry.seq > seq]

    def taken_back(self, chain: Chain) -> list[tuple[int, int]]:
        """Sequence numbers of the compactions undone or redone, each with that of the undo or redo."""
        spans = []
        for entry in self.all:
            node = chain.nodes.get(entry.decision.decision) if isinstance(entry.decision, Undone) else None
            if node and isinstance(node.entry, Boundary):
                spans.append((node.seq, entry.seq))
        return spans

    def prune(self, since: int, gone: Collection[str]) -> None:
        """Forget decisions made up to ``since``, or at a record in ``gone``, unless they hold.

        Those kept from before ``since`` then always hold, although the records they depend on are forgotten.
        """
        holding = {entry.id for entry in self._holding}
        lost = {
            entry.id for entry in self.all if entry.seq <= since or record_before(entry.decision) in gone
        }
        self.all = [entry for entry in self.all if entry.id not in lost - holding]
        self._standing = {entry.id for entry in self.all if entry.seq < since}

    def _holds(self, entry: RecordedDecision, chain: Chain, lineage: set[str]) -> bool:
        made_at = record_before(entry.decision)
        if isinstance(entry.decision, Epoch) and entry.decision.reason in (ADOPTED, *OTHER_MODEL):
            # Reasoning of another model does not become readable because the user goes back to before the change.
            return True
        if isinstance(entry.decision, SentAsText):
            return True  # nor does a provider take such a block then
        if made_at is None or entry.id in self._standing or not (chain.complete or made_at in chain):
            return True
        return chain.resolve(made_at) in lineage

    def _model(self, seq: int) -> str:
        """The model of the epoch before ``seq``; empty if not known."""
        for entry in reversed(self.all):
            if isinstance(entry.decision, Epoch) and entry.seq < seq:
                return entry.decision.model
        return ""

    def _undone(self, seq: int | None) -> set[str]:
        undone: set[str] = set()
        for entry in self._holding:
            if isinstance(entry.decision, Undone) and (seq is None or entry.seq < seq):
                if entry.decision.redo:
                    undone.discard(entry.decision.decision)
                else:
                    undone.add(entry.decision.decision)
        return undone


def id_of(decision: Clearing | OwnDecision) -> str:
    """The id by which a decision can be undone."""
    return decision.uuid if isinstance(decision, Clearing) else decision.id


def record_before(decision: Clearing | OwnDecision) -> str | None:
    """The record that was the newest when a decision was made."""
    return decision.uuid if isinstance(decision, Clearing) else decision.at


# -- applying them to records ----------------------------------------------------------------------


def render(record: Said, seq: int, effects: Effects) -> Item:
    """A record as the model sees it, unless a span hides it."""
    signed = effects.signed.get(record.parent or "") if record.summary else None
    if signed is not None and not blocks.is_encrypted_summary(signed):
        return Item(record, seq, "assistant", (signed,), total((signed,)))
    shown = _blocks(record, seq, effects)
    if signed is not None:
        shown = (signed, *shown)
    return Item(record, seq, record.role, shown, total(shown))


def hide(item: Item, decision: str) -> Item:
    """The item, hidden by ``decision``."""
    return replace(item, shown=(), weight=NOTHING, hidden_by=decision)


def hide_spans(items: list[Item], effects: Effects) -> list[Item]:
    """All items, with those in a span hidden, and a fold's summary shown in place of its first item."""
    items = list(items)
    index_of = {item.record.uuid: index for index, item in enumerate(items)}
    for span in effects.spans:
        first = index_of.get(span.first)
        last = index_of.get(span.last)
        if first is None or last is None or last < first:
            continue
        items[first : last + 1] = [hide(item, span.id) for item in items[first : last + 1]]
        if isinstance(span, Fold) and span.summary:
            texts = filter(None, (span.summary, span.words))
            content = tuple(map(blocks.text, texts))
            items[first] = replace(items[first], role="user", shown=content, weight=total(content))
    return items


def _blocks(record: Said, seq: int, effects: Effects) -> tuple[Block, ...]:
    if record.synthetic or record.uuid in effects.attachments:
        return ()
    drops = effects.drops_thinking(seq)
    shown: list[Block] = []
    refused = effects.refused.get(record.uuid, {})
    for number, block in enumerate(record.blocks):
        if block.blank or (drops and block.kind in THINKING):
            continue
        replaced = _replacement(block, seq, effects)
        block = replaced.instead_of(block) if replaced else block
        if number in refused:
            if (replacement := as_text(block, refused[number])) is None:
                continue
            block = replacement
        named = effects.references and block.kind == "tool_result"
        shown.append(blocks.referenced(block) if named else block)
    if record.uuid in effects.deletions:
        shown.append(effects.deletions[record.uuid])
    return tuple(shown)


def trims(item: Item, effects: Effects) -> set[str]:
    """The decisions that replaced a tool result in this record."""
    replaced = (_replacement(block, item.seq, effects) for block in item.record.blocks)
    return {replacement.decision for replacement in replaced if replacement}


def _replacement(block: Block, seq: int, effects: Effects) -> Replacement | None:
    """The replacement for a tool result's content; None if there is none."""
    if block.kind != "tool_result" or block.id not in effects.results:
        return None
    applying = [replacement for replacement in effects.results[block.id] if seq < replacement.seq]
    final = (replacement for replacement in applying if replacement.content is None)
    # What a layer shows gives way to a clearing and an offload, whichever came first. Of several layers, each was
    # given what the one before it shows, so the last counts.
    return next(final, applying[-1] if applying else None)
