"""What the model would see now: a fold of the log, kept up to date record by record.

A `View` is fed every entry of a transcript in order. Appending to the newest record costs what that
record costs; anything else (a branch, an undo, a boundary, a clearing) folds again from the last
boundary, which the window bounds. The view is a function of the log alone: the same entries give the
same view, the same bytes and the same weights, whether they were read in one go or lived through.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.record import blocks, effects
from sevenfold.record.chain import Chain
from sevenfold.record.decisions import Carry, Commit, Epoch, Format, OwnDecision, Request, Rewound, Undone
from sevenfold.record.effects import Effects, Made
from sevenfold.record.entries import (
    Boundary,
    Clearing,
    Damaged,
    Decision,
    Entry,
    Link,
    Said,
    UnknownDecision,
)
from sevenfold.record.layout import Anchor, Item, Layout, Measured
from sevenfold.record.weight import NOTHING, Weight, measure, total
from sevenfold.record.wire import Message, Repair


class Fate(Struct, frozen=True):
    """Whether the model sees a record, and what decided it."""

    state: str
    """seen, trimmed, hidden, off_branch, sidechain or unknown"""
    by: tuple[str, ...] = ()
    """The decisions that hid or trimmed it."""


class View:
    """The fold. Feed it with `add`; everything else only looks.

    ``complete`` says that the entries begin at the start of the file. ``keeps_history`` keeps records
    in memory that a compaction took out of view; without it they are left to the store.
    """

    def __init__(self, *, complete: bool = True, keeps_history: bool = True) -> None:
        self.damaged = 0
        self.unknown_kinds: set[str] = set()
        self._complete = complete
        self._keeps_history = keeps_history
        self._seq = 0
        self._sidechain: set[str] = set()
        self._clear()

    def _clear(self) -> None:
        self.tip: str | None = None
        self.boundary: str | None = None
        self.missing: str | None = None
        self.carry: Carry | None = None
        self.epoch: Epoch | None = None
        self._lane: bool | None = None
        self._chain = Chain(complete=self._complete)
        self._decisions: list[Made] = []
        self._standing: set[str] = set()
        self._compacted: dict[str, str] = {}
        self._pending: list[Boundary | Said | Decision] = []
        self._after_damage = False
        self._counts: effects.Counts = effects.always
        self._show([])

    # -- looking -----------------------------------------------------------------------------

    @property
    def items(self) -> list[Item]:
        """Live records since the last boundary, in the order they are sent."""
        return list(self._layout.items)

    @property
    def weight(self) -> Weight:
        """Of all that is sent, system and tools aside."""
        return self._layout.total

    @property
    def anchor(self) -> Anchor | None:
        """The newest reported size that still holds for this view."""
        return self._layout.anchor

    @property
    def pending_calls(self) -> list[str]:
        """Calls of the newest answer that wait for a result."""
        return self._layout.wire.pending()

    @property
    def repairs(self) -> list[Repair]:
        """What is sent otherwise than it was recorded, because a server would refuse it."""
        return self._layout.wire.repairs()

    def messages(self) -> list[Message]:
        """The messages of a request sent now."""
        return self._layout.wire.messages()

    def encoded(self) -> list[bytes]:
        """The same as bytes, one element a message."""
        return self._layout.wire.encoded()

    def entry(self, uuid: str) -> Said | Boundary | Clearing | None:
        """A record by its id, if it is in memory."""
        node = self._chain.nodes.get(uuid)
        return node.entry if node else None

    def decisions(self) -> list[OwnDecision | Clearing]:
        """All decisions on record for this view, in order, taken back or not."""
        return [made.what for made in self._decisions]

    def fate(self, uuid: str) -> Fate:
        """What became of a record."""
        place = self._layout.index.get(uuid)
        if place is not None:
            return self._fate_in_view(self._layout.items[place])
        if uuid in self._sidechain:
            return Fate("sidechain")
        if uuid in self._compacted:
            return Fate("hidden", (self._compacted[uuid],))
        if uuid not in self._chain:
            return Fate("unknown")
        if self.tip is not None and uuid in self._chain.lineage(self.tip):
            return Fate("hidden", (self._boundary_over(uuid),))
        return Fate("off_branch")

    def _fate_in_view(self, item: Item) -> Fate:
        if item.hidden_by:
            return Fate("hidden", (item.hidden_by,))
        if cut := self._effects.attachments.get(item.said.uuid):
            return Fate("hidden", (cut,))
        trims = {
            self._effects.results[call][0] for call in item.said.answers if call in self._effects.results
        }
        return Fate("trimmed", tuple(sorted(trims))) if trims else Fate("seen")

    def _boundary_over(self, uuid: str) -> str:
        seq = self._chain.nodes[uuid].seq
        later = [
            node
            for node in self._chain.nodes.values()
            if isinstance(node.entry, Boundary) and node.seq >= seq
        ]
        return min(later, key=lambda node: node.seq).entry.uuid if later else self.boundary or ""

    # -- folding -----------------------------------------------------------------------------

    def add(self, entry: Entry) -> Measured | None:
        """Take in the next entry of the log; says so when it brings a reported size."""
        self._seq += 1
        if isinstance(entry, Said | Boundary | Clearing) and self._not_ours(entry):
            return None
        if self._pending and self._belongs_to_pending(entry):
            self._hold(entry)
            return None
        return self._take(entry)

    def _take(self, entry: Entry) -> Measured | None:
        match entry:
            case Said() | Clearing():
                self._pending = []
                return self._hear(entry)
            case Boundary(own=True):
                self._pending = [entry]
            case Boundary():
                self._compact(entry)
            case Decision(made=made):
                self._decide(made)
            case Link() if entry.uuid not in self._chain:
                self._chain.link(entry)
            case UnknownDecision(kind=kind):
                self.unknown_kinds.add(kind)
            case Damaged(uuid=uuid, parent=parent):
                self.damaged += 1
                if uuid is None:
                    self._after_damage = True
                elif uuid not in self._chain:
                    self._chain.link(Link(uuid, parent))
            case _:
                pass
        return None

    def _not_ours(self, entry: Said | Boundary | Clearing) -> bool:
        """A copy of a record, or part of a side conversation that shares the file."""
        if self._lane and not entry.sidechain:
            self._sidechain.update(self._chain.nodes)
            self._clear()
        if self._lane is None:
            self._lane = entry.sidechain
        if entry.sidechain != self._lane:
            self._sidechain.add(entry.uuid)
            return True
        return entry.uuid in self._chain

    # A compaction of ours is several records in one write. Until its commit is read it did not happen.

    def _belongs_to_pending(self, entry: Entry) -> bool:
        if isinstance(entry, Decision):
            return True
        names = [held.uuid for held in self._pending if not isinstance(held, Decision)]
        return isinstance(entry, Said) and entry.parent in names

    def _hold(self, entry: Entry) -> None:
        match self._pending[0], entry:
            case Boundary() as boundary, Decision(made=Commit(boundary=committed)):
                held, self._pending = self._pending[1:], []
                if committed == boundary.uuid:
                    self._compact(boundary)
                    for one in held:
                        self._seq += 1
                        self._take(one)
                    self._forget()
            case _, Said() | Decision():
                self._pending.append(entry)

    def _compact(self, boundary: Boundary) -> None:
        self._chain.add(self._seq, boundary)
        self._refold(boundary.uuid)

    def _forget(self) -> None:
        """After a compaction, what left the view is left to the store."""
        if self._keeps_history or self.boundary is None:
            return
        live = {*self._layout.index, self.boundary}
        self._compacted.update(dict.fromkeys(self._chain.nodes.keys() - live, self.boundary))
        self._decisions = [made for made in self._decisions if self._counts(made)]
        self._standing = {made.id for made in self._decisions}
        self._chain.prune(live)

    def _decide(self, made: OwnDecision) -> None:
        match made:
            case Request() | Format() | Commit():
                return
            case Carry():
                self.carry = made
                return
            case Epoch():
                self.epoch = made
            case Rewound(to=target):
                self._rewind(target)
            case _:
                pass
        stays = made.drops_thinking_after if isinstance(made, Epoch) else None
        last = self._chain.nodes.get(stays or "")
        self._decisions.append(Made(self._seq, made, last.seq if last else -1))
        if isinstance(made, Undone):
            self._chain.undone = effects.undone_at(self._decisions)
        if effects.changes_view(made) and self.tip is not None:
            self._refold(self.tip)

    def _rewind(self, target: str | None) -> None:
        target = self._chain.resolve(target)
        if target is None:
            self.tip = self.boundary = None
            self._show([])
        elif target in self._chain:
            self._refold(target)
        elif not self._chain.complete:
            self.missing = target

    def _hear(self, entry: Said | Clearing) -> Measured | None:
        parent = self._chain.resolve(entry.parent)
        grows = parent == self.tip or parent in self._layout.round
        if not grows and self._after_damage and parent not in self._chain:
            entry, grows = replace(entry, parent=self.tip), True
        self._after_damage = False
        self._chain.add(self._seq, entry)
        if isinstance(entry, Clearing):
            self._decisions.append(Made(self._seq, entry))
        elif grows and self._chain.tip_of(entry.uuid) == entry.uuid:
            self.tip = entry.uuid
            return self._layout.add(self._item(entry, self._seq, self._effects))
        self._refold(entry.uuid)
        return self._measured_on_new_branch(entry)

    def _measured_on_new_branch(self, entry: Said | Clearing) -> Measured | None:
        """A report with nothing before it to compare with."""
        layout, anchor = self._layout, self._layout.anchor
        if anchor is None or isinstance(entry, Clearing) or entry.usage is None:
            return None
        if entry.message_id != anchor.message_id or self._chain.has_mates(entry.uuid):
            return None
        return Measured(None, layout.total - anchor.reply - anchor.since, entry.usage, entry.model)

    # -- folding again -----------------------------------------------------------------------

    def _refold(self, leaf: str) -> None:
        branch = self._chain.branch(leaf)
        self.tip = self._chain.tip_of(leaf)
        self.boundary, self.missing = branch.boundary, branch.missing
        self._counts = self._lineage_rule()
        self._show([uuid for uuid in branch.order if isinstance(self._chain.nodes[uuid].entry, Said)])

    def _show(self, order: list[str]) -> None:
        """Lay out the live records from scratch."""
        self._effects = effects.in_force(self._decisions, self._counts)
        self._layout = Layout()
        for item in self._render(order, self._effects):
            self._layout.add(item, reported=self._report_holds(item.seq))
        self._subtract_removed(order)

    def _render(self, order: list[str], active: Effects) -> list[Item]:
        items = []
        for uuid in order:
            node = self._chain.nodes[uuid]
            assert isinstance(node.entry, Said)
            items.append(self._item(node.entry, node.seq, active))
        places = {item.said.uuid: number for number, item in enumerate(items)}
        for span in active.spans:
            first, last = places.get(span.first), places.get(span.last)
            if first is None or last is None:
                continue
            for number in range(first, last + 1):
                items[number] = replace(items[number], shown=(), weight=NOTHING, hidden_by=span.decision)
            if span.summary and first <= last:
                said = blocks.text(span.summary)
                items[first] = replace(items[first], role="user", shown=(said,), weight=measure(said))
        return items

    def _item(self, said: Said, seq: int, active: Effects) -> Item:
        shown = effects.render(said, seq, active)
        return Item(said, seq, said.role, shown, total(shown))

    def _report_holds(self, seq: int) -> bool:
        """A size reported before a boundary, or under one since taken back, says nothing of this view."""
        nodes = self._chain.nodes
        if self.boundary is not None and seq < nodes[self.boundary].seq:
            return False
        for made in self._decisions:
            node = nodes.get(made.what.decision) if isinstance(made.what, Undone) else None
            if node and node.seq < seq < made.seq:
                return False
        return True

    def _subtract_removed(self, order: list[str]) -> None:
        anchor = self._layout.anchor
        if anchor is None or not any(made.seq > anchor.seq for made in self._decisions):
            return
        then = self._render(
            order[: anchor.place], effects.in_force(self._decisions, self._counts, anchor.seq)
        )
        measured = sum((item.weight for item in then), NOTHING)
        now = sum((item.weight for item in self._layout.items[: anchor.place]), NOTHING)
        self._layout.anchor = replace(anchor, removed=measured - now)

    def _lineage_rule(self) -> effects.Counts:
        """A decision holds where the record it was made at led to the present."""
        if not self._decisions or self.tip is None:
            return effects.always
        chain, lineage, standing = self._chain, self._chain.lineage(self.tip), self._standing

        def counts(made: Made) -> bool:
            place = effects.place_of(made.what)
            if place is None or made.id in standing or not (chain.complete or place in chain):
                return True
            return chain.resolve(place) in lineage

        return counts
