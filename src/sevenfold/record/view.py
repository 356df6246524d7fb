"""What the model would see now: a fold of the log, kept up to date record by record.

A `View` is fed every entry of a transcript in order. Appending to the newest record costs what that
record costs; anything else (a branch, an undo, a boundary, a clearing) folds again from the last
boundary, which the window bounds. The view is a function of the log alone: the same entries give the
same view, the same bytes and the same weights, whether they were read in one go or lived through.
"""

from __future__ import annotations

from msgspec.structs import replace

from sevenfold.record import ledger
from sevenfold.record.batch import Batch
from sevenfold.record.chain import LINKED, Chain, Linked, Node
from sevenfold.record.decisions import (
    AgentEnd,
    AgentStart,
    Billed,
    Carry,
    Commit,
    Epoch,
    Forked,
    OwnDecision,
    Request,
    Rewound,
    Segment,
)
from sevenfold.record.entries import (
    QUEUED_COMMAND,
    Boundary,
    Clearing,
    Damaged,
    Decision,
    Entry,
    Label,
    Link,
    Said,
    UnknownDecision,
    name_of,
)
from sevenfold.record.layout import Item, Layout, Measured
from sevenfold.record.ledger import Effects, Fate, Ledger
from sevenfold.record.weight import NOTHING, Weight, typical
from sevenfold.record.wire import Message, Repair

CHARACTERS_PER_SAVED_TOKEN = 4
"""What a clearing's ``tokensSaved`` is reckoned with."""


class View:
    """The fold. Feed it with `add`; everything else only looks.

    ``complete`` says that the entries begin at the start of the file. ``keeps_history`` keeps records
    in memory that a compaction took out of view; without it they are left to the store.
    """

    def __init__(self, *, complete: bool = True, keeps_history: bool = True) -> None:
        self.damaged = 0
        self.unknown_kinds: set[str] = set()
        self.labels: dict[str, str] = {}
        self._complete = complete
        self.keeps_history = keeps_history
        self._seq = 0
        self.version = 0, 0
        """Changes when the view is laid out again, or something is put in between; not when it grows."""
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
        self._products: dict[str, str] = {}
        """Record → compaction that put it there, its summary and attachments."""
        self._ledger = Ledger()
        self._compacted: dict[str, str] = {}
        self._batch = Batch()
        self._decided: set[str] = set()
        """Decisions of our own that were taken in."""
        self._forks: set[str | None] = set()
        """Records behind which a fork began."""
        self._after_damage = False
        self._show([])

    # -- looking -----------------------------------------------------------------------------

    @property
    def items(self) -> list[Item]:
        """Live records since the last boundary, in the order they are sent."""
        return list(self.layout.items)

    def __len__(self) -> int:
        return len(self.layout.items)

    def items_from(self, place: int) -> list[Item]:
        """The live records from that place on; with `version` unchanged, those before are as they were."""
        return self.layout.items[place:]

    def item(self, uuid: str) -> Item | None:
        """A live record since the last boundary, by its id."""
        place = self.layout.index.get(uuid)
        return None if place is None else self.layout.items[place]

    @property
    def newest(self) -> Item | None:
        """The last record of which anything is sent."""
        for item in reversed(self.layout.items):
            if item.shown:
                return item
        return None

    @property
    def answered_at(self) -> str:
        """When the newest answer in view came; empty before the first."""
        for item in reversed(self.layout.items):
            if item.said.role == "assistant":
                return item.said.timestamp
        return ""

    @property
    def undone(self) -> frozenset[str]:
        """Decisions that were taken back, and still are."""
        return frozenset(self._chain.undone)

    @property
    def deletes(self) -> bool:
        """Are results deleted from the cached prefix by reference?"""
        return bool(self._effects.deletions)

    @property
    def weight(self) -> Weight:
        """Of all that is sent, system and tools aside."""
        return self.layout.total()

    @property
    def pending_calls(self) -> list[str]:
        """Calls of the newest answer that wait for a result."""
        return self.layout.wire.pending()

    @property
    def repairs(self) -> list[Repair]:
        """What is sent otherwise than it was recorded, because a server would refuse it."""
        return self.layout.wire.repairs()

    def messages(self) -> list[Message]:
        """The messages of a request sent now."""
        return self.layout.wire.messages()

    def pieces(self) -> list[bytes]:
        """The bytes of all of them, to be joined."""
        return self.layout.wire.pieces()

    def encoded(self) -> list[bytes]:
        """The bytes of each of them."""
        return self.layout.wire.encoded()

    def entry(self, uuid: str) -> Linked | None:
        """A record by its id, if it is in memory."""
        node = self._chain.nodes.get(uuid)
        return node.entry if node else None

    def said_at(self, tip: str | None) -> str | None:
        """The last record that says something, up to one that may be a clearing."""
        while isinstance(entry := self.entry(tip or ""), Clearing):
            tip = entry.parent
        return tip

    @property
    def whole(self) -> bool:
        """Are all records of the transcript in memory?"""
        return self._chain.complete

    def asked(self, call: str) -> str | None:
        """The newest record in memory that makes this call, on whatever branch."""
        return self._chain.asked(call)

    def start_of(self, segment: Segment) -> int | None:
        """The first place in the store that holds a record of this part of the view."""
        first, last = (self.layout.index.get(end) for end in (segment.head_uuid, segment.tail_uuid))
        if first is None or last is None:
            return None
        kept, nodes = self.layout.items[first : last + 1], self._chain.nodes
        offsets = [nodes[item.said.uuid].offset for item in kept]
        return min(offsets, default=-1) if -1 not in offsets else None

    def locate(self, entry: Entry, offset: int) -> None:
        """A record that was taken in before it was written is at ``offset``."""
        self._chain.locate(name_of(entry), offset)

    def begins_round(self, uuid: str) -> bool:
        """Can the view be cut in front of this record without tearing an answer or its results apart?"""
        place = self.layout.index.get(uuid)
        if place is None:
            return False
        here = self.layout.items[place]
        torn = any(self._chain.asked(call) in self.layout.index for call in here.said.answers)
        first = next(iter(self._chain.mates(uuid))) == uuid
        before = self.layout.items[:place]
        return first and not torn and all(item.seq < here.seq or item.said.summary for item in before)

    def brought_by(self, uuid: str) -> str:
        """The compaction that put a record there, as its summary or an attachment; empty if none did."""
        return self._products.get(uuid, "")

    def decisions(self) -> list[OwnDecision | Clearing]:
        """The decisions made on the live branch, in order, taken back or not."""
        return self._ledger.holding()

    def fate(self, uuid: str) -> Fate:
        """What became of a record."""
        place = self.layout.index.get(uuid)
        if place is not None:
            return self._fate_in_view(self.layout.items[place])
        if uuid in self._sidechain:
            return Fate("sidechain")
        if uuid in self._compacted:
            return Fate("hidden", (self._compacted[uuid],))
        if uuid not in self._chain:
            return Fate("unknown")
        if self.tip is not None and uuid in self._chain.lineage(self.tip):
            return Fate("hidden", (self._chain.compaction_after(uuid) or self.boundary or "",))
        return Fate("off_branch")

    def _fate_in_view(self, item: Item) -> Fate:
        if item.hidden_by:
            return Fate("hidden", (item.hidden_by,))
        if cut := self._effects.attachments.get(item.said.uuid):
            return Fate("hidden", (cut,))
        trims = ledger.trims(item, self._effects)
        return Fate("trimmed", tuple(sorted(trims))) if trims else Fate("seen")

    # -- folding -----------------------------------------------------------------------------

    def add(self, entry: Entry, offset: int = -1) -> Measured | None:
        """Take in the next entry of the log, which is at ``offset``; returns the size it reports, if any."""
        self._seq += 1
        if isinstance(entry, LINKED):
            if entry.sidechain is not self._lane and self._elsewhere(entry):
                return None
            uuid, chain = entry.uuid, self._chain
            if uuid in chain.nodes or uuid in chain.links:
                return None  # a copy of a record
        if not self._batch.open:
            return self._hear(entry, offset) if isinstance(entry, Said) else self._take(entry, offset)
        committed = self._batch.take(entry, offset)
        if committed is None:
            return self._take(entry, offset)
        compaction, measured = "", None
        for held, place in committed:
            self._seq += 1
            if isinstance(held, Boundary):
                compaction = held.uuid
                self._compact(held, place)
                continue
            if compaction and isinstance(held, Said):
                self._products[held.uuid] = compaction
            measured = self._take(held, place) or measured
        return measured

    def _take(self, entry: Entry, offset: int) -> Measured | None:
        match entry:
            case Said() | Clearing():
                self._batch.drop()
                return self._hear(entry, offset)
            case Boundary(own=True):
                self._batch.begin(entry, offset)
            case Boundary():
                self._compact(entry, offset)
            case Decision(made=made):
                self._decide(made)
            case Link() if entry.uuid not in self._chain:
                self._chain.link(entry)
            case UnknownDecision(kind=kind):
                self.unknown_kinds.add(kind)
            case Label(kind=kind, text=text):
                self.labels[kind] = text
            case Damaged(uuid=uuid, parent=parent):
                self.damaged += 1
                if uuid is None:
                    self._after_damage = True
                elif uuid not in self._chain:
                    self._chain.link(Link(uuid, parent))
        return None

    def _elsewhere(self, entry: Linked) -> bool:
        """Does a record belong to a side conversation that shares the file? Changes to the main one."""
        if self._lane is False:
            self._sidechain.add(entry.uuid)
            return True
        if self._lane:
            self._sidechain.update(self._chain.nodes)
            self._clear()
        self._lane = entry.sidechain
        return False

    def _compact(self, boundary: Boundary, offset: int) -> None:
        self._chain.add(self._seq, boundary, offset)
        self._refold(boundary.uuid)

    def _forget(self) -> None:
        """Once a summary is in view, what it replaced is left to the store."""
        if self.keeps_history or self.boundary is None or not self.layout.items:
            return
        nodes, since = self._chain.nodes, self._chain.nodes[self.boundary].seq
        gone = {uuid for uuid, node in nodes.items() if node.seq < since} - self.layout.index.keys()
        if gone:
            self._compacted.update(dict.fromkeys(gone, self.boundary))
            self._ledger.prune(since, gone)
            self._chain.prune(nodes.keys() - gone)

    def _decide(self, made: OwnDecision) -> None:
        match made:
            case Commit(together=names) if names:
                self._batch.announce(names)
                return
            case Request() | Billed() | Commit() | AgentStart() | AgentEnd():
                return
            case Carry():
                self.carry = made
                return
            case _ if made.id in self._decided:
                return  # a copy of a record
            case Epoch():
                self.epoch = made
            case Rewound(to=target):
                self._rewind(target)
            case Forked(at=place):
                self._forks.add(place)
        if made.id:
            self._decided.add(made.id)
        self._ledger.add(self._seq, made, self._chain)
        if ledger.changes_view(made) and self.tip is not None:
            self._refold(self.tip)

    def _rewind(self, target: str | None) -> None:
        target = self._chain.resolve(target)
        if target is None:
            self.tip = self.boundary = None
            # Which decisions hold at the start, only the whole log tells.
            self.missing = None if self._chain.complete else ""
            self._chain.undone = self._ledger.settle(self._chain, None)
            self._show([])
        elif target in self._chain or not self._chain.complete:
            self._refold(target)

    def _interject(self, said: Said, offset: int) -> None:
        """Take in words typed while the agent was busy, which follow what is newest."""
        assert self.tip is not None
        said = replace(said, parent=self.tip)
        node = self._chain.interject(self._seq, said, self.tip, offset)
        self.layout.add(self._item(node, said, self._effects))

    def _hear(self, entry: Said | Clearing, offset: int) -> Measured | None:
        parent, chain, layout = entry.parent, self._chain, self.layout
        if parent is None and self.tip and isinstance(entry, Said) and entry.attachment == QUEUED_COMMAND:
            self._interject(entry, offset)
            return None
        if parent in chain.links:
            parent = chain.resolve(parent)
        grows = parent == self.tip or layout.in_round(parent, self.tip)
        if self._after_damage:
            if not grows and chain.complete and parent not in chain:
                entry, grows = replace(entry, parent=self.tip), True
            self._after_damage = False
        node, joins = chain.add(self._seq, entry, offset)
        if isinstance(entry, Clearing):
            self._ledger.add(self._seq, entry, chain)
        else:
            if entry.summary and isinstance(self.entry(parent or ""), Boundary):
                self._products[entry.uuid] = parent or ""
            # Nearly always nothing was decided that concerns it, and if it answers calls, they are the newest.
            effects = self._effects
            plain = effects.quiet and not (joins or effects.spans or chain.kept or self._forks)
            newest = plain and (entry.role == "assistant" or layout.calls.issuperset(entry.answers))
            if grows and (newest or self._goes_last(entry, joins)):
                self.tip = entry.uuid
                item = Item.of(entry, node.seq) if plain else self._item(node, entry, effects)
                if plain:
                    node.item = item
                measured = layout.add(item)
                if layout.inserted != self.version[1]:
                    self.version = self.version[0], layout.inserted
                if entry.summary:
                    self._forget()
                return measured
        self._refold(entry.uuid)
        if isinstance(entry, Clearing) or len(self._chain.mates(entry.uuid)) > 1:
            return None
        return self.layout.measured_alone(entry)

    def _goes_last(self, said: Said, joins: bool) -> bool:
        """Not so what belongs further up: a late result, more of an earlier answer, what spans may hide.

        ``joins`` says that there are other records of the same answer.
        """
        layout, chain = self.layout, self._chain
        if chain.kept and chain.tip_of(said.uuid) != said.uuid:
            return False
        if self._effects.spans and layout.place(said) < len(layout.items):
            return False
        if joins:
            mates = set(chain.mates(said.uuid))
            return layout.goes_on(said) and mates.difference(layout.index) == {said.uuid}
        if said.role == "assistant" or layout.calls.issuperset(said.answers):
            return True
        return not any(chain.asked(call) in layout.index for call in set(said.answers) - layout.calls)

    # -- folding again -----------------------------------------------------------------------

    def _refold(self, leaf: str) -> None:
        self._chain.undone = self._ledger.settle(self._chain, leaf)
        branch = self._chain.branch(leaf)
        self.tip = self._chain.tip_of(leaf)
        self.boundary, self.missing = branch.boundary, branch.missing
        self._show([uuid for uuid in branch.order if isinstance(self._chain.nodes[uuid].entry, Said)])
        self._forget()

    def _show(self, order: list[str]) -> None:
        """Lay out the live records from scratch."""
        self._effects = self._ledger.effects(answers=self.epoch.model if self.epoch else "")
        self.layout = Layout()
        for item in self._rendered(order, self._effects):
            self.layout.add(item, reported=self._report_holds(item.seq))
        self.version = self.version[0] + 1, self.layout.inserted
        self._subtract_removed(order)

    def _rendered(self, order: list[str], active: Effects) -> list[Item]:
        items = []
        for node in map(self._chain.nodes.__getitem__, order):
            assert isinstance(node.entry, Said)
            item = self._item(node, node.entry, active)
            if (compaction := self._products.get(node.entry.uuid)) in self._chain.undone:
                item = ledger.hide(item, compaction)
            items.append(item)
        return ledger.hide_spans(items, active)

    def _item(self, node: Node, said: Said, active: Effects) -> Item:
        """A record as the model sees it; what no decision touches is rendered and weighed only once."""
        if not active.quiet and active.touch(said, node.seq):
            item = ledger.render(said, node.seq, active)
        elif (known := node.item) is not None:
            item = known
        else:
            item = node.item = Item.of(said, node.seq)
        return replace(item, begins=True) if self._forks and said.parent in self._forks else item

    def _report_holds(self, seq: int) -> bool:
        """A size reported before a boundary, or under one since taken back, says nothing of this view."""
        begins = self._chain.nodes[self.boundary].seq if self.boundary else -1
        taken_back = self._ledger.taken_back(self._chain)
        return seq > begins and not any(begins <= stood < seq < decided for stood, decided in taken_back)

    def _subtract_removed(self, order: list[str]) -> None:
        anchor = self.layout.anchor
        later = self._ledger.since(anchor.seq) if anchor else []
        if anchor is None or not later:
            return
        then = self._rendered(order[: anchor.place], self._ledger.effects(anchor.seq))
        removed = sum((item.weight for item in then), NOTHING)
        removed -= sum((item.weight for item in self.layout.items[: anchor.place]), NOTHING)
        for made in later:
            if isinstance(made.what, Clearing):
                removed += self._cleared_unseen(made.what)
        self.layout.anchor = replace(anchor, removed=removed)

    def _cleared_unseen(self, clearing: Clearing) -> Weight:
        """Results that were cleared and never read, in a session resumed from another file's."""
        calls = clearing.about.compacted_tool_ids
        if not calls or any(self._chain.asked(call) for call in calls):
            return NOTHING
        return typical(CHARACTERS_PER_SAVED_TOKEN * (clearing.about.tokens_saved or 0))
