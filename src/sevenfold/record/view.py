"""What the model would see now: a fold of the log, kept up to date record by record.

A `View` is fed every entry of a transcript in order. Continuing the newest record costs only the work for the new
record. Anything else (a branch, an undo, a boundary, a clearing) folds again from the last boundary, which is at
most one context window of work. The view is a function of the log alone: the same entries give the same view, bytes
and weights, whether they were read from a file or added one by one in a live session.
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
    Relayed,
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
"""Converts a clearing's ``tokensSaved`` to characters."""


class View:
    """The fold of a log: feed it entries with `add`, then read it.

    ``complete`` says that the entries begin at the start of the file. ``keeps_history`` keeps the records in memory
    that a compaction removed from view; without it, only the store has them. A view that does not ``weigh`` knows the
    live records and their order, for a third of the work; it has no sizes and no messages.
    """

    def __init__(self, *, complete: bool = True, keeps_history: bool = True, weighs: bool = True) -> None:
        self._weighs = weighs
        self.damaged = 0
        self.unknown_kinds: set[str] = set()
        self.labels: dict[str, str] = {}
        self._complete = complete
        self.keeps_history = keeps_history
        self._seq = 0
        self.version = 0, 0
        """Changes when the view is rebuilt or a record is inserted in the middle; not when one is appended."""
        self._sidechain: set[str] = set()
        self._clear()

    def _clear(self) -> None:
        self.tip: str | None = None
        self.boundary: str | None = None
        self.missing: str | None = None
        self.carry: Carry | None = None
        self.epoch: Epoch | None = None
        self._on_sidechain: bool | None = None
        self._chain = Chain(complete=self._complete)
        self._added_by: dict[str, str] = {}
        """Record (a summary or an attachment) → the compaction that added it."""
        self._ledger = Ledger()
        self._compacted: dict[str, str] = {}
        self._batch = Batch()
        self._decided: set[str] = set()
        """Ids of our own decisions that were already added."""
        self._forks: set[str | None] = set()
        """Records after which a fork began."""
        self._after_damage = False
        self._show([])

    # -- reading -----------------------------------------------------------------------------

    @property
    def items(self) -> list[Item]:
        """Live records since the last boundary, in the order they are sent."""
        return list(self.layout.items)

    def __len__(self) -> int:
        return len(self.layout.items)

    def items_from(self, index: int) -> list[Item]:
        """The live records from index ``index`` on; while `version` is unchanged, those before it are unchanged too."""
        return self.layout.items[index:]

    def item(self, uuid: str) -> Item | None:
        """A live record since the last boundary, by its id."""
        index = self.layout.index.get(uuid)
        return None if index is None else self.layout.items[index]

    @property
    def newest(self) -> Item | None:
        """The last record with any content that is sent; None if there is none."""
        for item in reversed(self.layout.items):
            if item.shown:
                return item
        return None

    @property
    def answered_at(self) -> str:
        """The timestamp of the newest answer in view; empty before the first."""
        for item in reversed(self.layout.items):
            if item.record.role == "assistant":
                return item.record.timestamp
        return ""

    @property
    def undone(self) -> frozenset[str]:
        """Decisions that are undone and were not redone."""
        return frozenset(self._chain.undone)

    @property
    def deletes(self) -> bool:
        """Whether any tool results are deleted from the cached prefix by reference."""
        return bool(self._effects.deletions)

    @property
    def weight(self) -> Weight:
        """The weight of everything that is sent, without system prompt and tools."""
        return self.layout.total()

    @property
    def pending_calls(self) -> list[str]:
        """Tool calls of the newest answer that have no result yet."""
        return self.layout.wire.pending()

    @property
    def repairs(self) -> list[Repair]:
        """Where the messages differ from the records, because a server would refuse these as they are."""
        return self.layout.wire.repairs()

    def messages(self) -> list[Message]:
        """The messages that a request sent now would contain."""
        return self.layout.wire.messages()

    def pieces(self) -> list[bytes]:
        """The bytes of all messages, in pieces to be joined."""
        return self.layout.wire.pieces()

    def encoded(self) -> list[bytes]:
        """The bytes of each message."""
        return self.layout.wire.encoded()

    def entry(self, uuid: str) -> Linked | None:
        """The record with this id, if it is in memory."""
        node = self._chain.nodes.get(uuid)
        return node.entry if node else None

    def skip_clearings(self, tip: str | None) -> str | None:
        """The record ``tip``; if that is a clearing, the newest record before it that is not."""
        while isinstance(entry := self.entry(tip or ""), Clearing):
            tip = entry.parent
        return tip

    @property
    def whole(self) -> bool:
        """Whether all records of the transcript are in memory."""
        return self._chain.complete

    def call_record(self, call: str) -> str | None:
        """The newest record in memory that makes this tool call, on any branch."""
        return self._chain.call_record(call)

    def start_of(self, segment: Segment) -> int | None:
        """The lowest position in the store of the records in this part of the view; None if it is not known."""
        first, last = (self.layout.index.get(end) for end in (segment.head_uuid, segment.tail_uuid))
        if first is None or last is None:
            return None
        items = self.layout.items[first : last + 1]
        nodes = self._chain.nodes
        offsets = [nodes[item.record.uuid].offset for item in items]
        return min(offsets, default=-1) if -1 not in offsets else None

    def position_of(self, uuid: str) -> int:
        """The position of a record in the store; -1 if it is not in memory, or not written yet."""
        node = self._chain.nodes.get(uuid)
        return node.offset if node else -1

    def led_to_tip(self) -> list[tuple[int, Said]]:
        """The records in memory that led to the tip, those that compactions hid included, with their positions."""
        lineage = self._chain.lineage(self.tip) if self.tip is not None else set()
        nodes = sorted((self._chain.nodes[uuid] for uuid in lineage), key=lambda node: node.seq)
        return [(node.offset, node.entry) for node in nodes if isinstance(node.entry, Said)]

    def locate(self, entry: Entry, offset: int) -> None:
        """Set the position of a record that was added before it was written."""
        self._chain.locate(name_of(entry), offset)

    def begins_round(self, uuid: str) -> bool:
        """Whether the view can be cut before this record without splitting an answer or losing its results."""
        index = self.layout.index.get(uuid)
        if index is None:
            return False
        item = self.layout.items[index]
        torn = any(self._chain.call_record(call) in self.layout.index for call in item.record.answers)
        first = next(iter(self._chain.records_of_answer(uuid))) == uuid
        earlier = self.layout.items[:index]
        return first and not torn and all(other.seq < item.seq or other.record.summary for other in earlier)

    def added_by(self, uuid: str) -> str:
        """The compaction that added this record as its summary or an attachment; empty if none did."""
        return self._added_by.get(uuid, "")

    def decisions(self) -> list[OwnDecision | Clearing]:
        """The decisions made on the live branch, in order, including those undone."""
        return self._ledger.holding()

    def shown_by_layers(self) -> set[str]:
        """The tool calls in whose results a layer shows other content than was recorded."""
        shown = set()
        for call, replacements in self._effects.results.items():
            if any(replacement.content is not None for replacement in replacements):
                shown.add(call)
        return shown

    def sent_as_text(self, uuid: str) -> set[int]:
        """The indexes of the blocks of a record that are sent as text because a provider refused them."""
        return set(self._effects.refused.get(uuid, ()))

    def fate(self, uuid: str) -> Fate:
        """Whether the model sees a record, and which decisions hid or trimmed it."""
        index = self.layout.index.get(uuid)
        if index is not None:
            return self._fate_in_view(self.layout.items[index])
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
        if cut := self._effects.attachments.get(item.record.uuid):
            return Fate("hidden", (cut,))
        trims = ledger.trims(item, self._effects)
        return Fate("trimmed", tuple(sorted(trims))) if trims else Fate("seen")

    # -- folding -----------------------------------------------------------------------------

    def add(self, entry: Entry, offset: int = -1) -> Measured | None:
        """Add the next entry of the log, at position ``offset``; returns the size measurement it brings, if any."""
        self._seq += 1
        if isinstance(entry, LINKED):
            if entry.sidechain is not self._on_sidechain and self._skip_sidechain(entry):
                return None
            uuid = entry.uuid
            chain = self._chain
            if uuid in chain.nodes or uuid in chain.links:
                return None  # a copy of a record
        if not self._batch.open:
            return self._add_record(entry, offset) if isinstance(entry, Said) else self._take(entry, offset)
        committed = self._batch.take(entry, offset)
        if committed is None:
            return self._take(entry, offset)
        compaction = ""
        measured = None
        for held, held_offset in committed:
            self._seq += 1
            if isinstance(held, Boundary):
                compaction = held.uuid
                self._compact(held, held_offset)
                continue
            if compaction and isinstance(held, Said):
                self._added_by[held.uuid] = compaction
            measured = self._take(held, held_offset) or measured
        return measured

    def _take(self, entry: Entry, offset: int) -> Measured | None:
        match entry:
            case Said() | Clearing():
                self._batch.drop()
                return self._add_record(entry, offset)
            case Boundary(own=True):
                self._batch.begin(entry, offset)
            case Boundary():
                self._compact(entry, offset)
            case Decision(record=record):
                self._decide(record)
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

    def _skip_sidechain(self, entry: Linked) -> bool:
        """Whether a record is on a sidechain that shares the file; at the first main record, starts over with that."""
        if self._on_sidechain is False:
            self._sidechain.add(entry.uuid)
            return True
        if self._on_sidechain:
            self._sidechain.update(self._chain.nodes)
            self._clear()
        self._on_sidechain = entry.sidechain
        return False

    def _compact(self, boundary: Boundary, offset: int) -> None:
        self._chain.add(self._seq, boundary, offset)
        self._refold(boundary.uuid)

    def _forget(self) -> None:
        """Once a summary is in view, drop from memory what it replaced; the store still has it."""
        if self.keeps_history or self.boundary is None or not self.layout.items:
            return
        nodes = self._chain.nodes
        since = self._chain.nodes[self.boundary].seq
        gone = {uuid for uuid, node in nodes.items() if node.seq < since} - self.layout.index.keys()
        if gone:
            self._compacted.update(dict.fromkeys(gone, self.boundary))
            self._ledger.prune(since, gone)
            self._chain.prune(nodes.keys() - gone)

    def _decide(self, decision: OwnDecision) -> None:
        match decision:
            case Commit(together=names) if names:
                self._batch.announce(names)
                return
            case Request() | Billed() | Relayed() | Commit() | AgentStart() | AgentEnd():
                return
            case Carry():
                self.carry = decision
                return
            case _ if decision.id in self._decided:
                return  # a copy of a record
            case Epoch():
                self.epoch = decision
            case Rewound(to=target):
                self._rewind(target)
            case Forked(at=record):
                self._forks.add(record)
        if decision.id:
            self._decided.add(decision.id)
        self._ledger.add(self._seq, decision, self._chain)
        reads_otherwise = (
            isinstance(decision, Epoch) and tuple(decision.unsupported) != self.layout.unsupported
        )
        if (ledger.changes_view(decision) or reads_otherwise) and self.tip is not None:
            self._refold(self.tip)
        elif reads_otherwise:
            self._show([])

    def _rewind(self, target: str | None) -> None:
        target = self._chain.resolve(target)
        if target is None:
            self.tip = self.boundary = None
            # Only the whole log can tell which decisions hold at the start.
            self.missing = None if self._chain.complete else ""
            self._chain.undone = self._ledger.settle(self._chain, None)
            self._show([])
        elif target in self._chain or not self._chain.complete:
            self._refold(target)

    def _interject(self, message: Said, offset: int) -> None:
        """Add a message typed while the agent was busy; it follows the newest record."""
        assert self.tip is not None
        message = replace(message, parent=self.tip)
        node = self._chain.interject(self._seq, message, self.tip, offset)
        self.layout.add(self._item(node, message, self._effects))

    def _add_record(self, entry: Said | Clearing, offset: int) -> Measured | None:
        """Add a record: to the end of what is in view if that is all it takes, otherwise by folding again.

        This runs for each record of every log, so it calls as little as possible in the usual case.
        """
        parent = entry.parent
        chain = self._chain
        if parent is None and self.tip and isinstance(entry, Said) and entry.attachment == QUEUED_COMMAND:
            self._interject(entry, offset)
            return None
        if parent in chain.links:
            parent = chain.resolve(parent)
        continues = parent == self.tip or self.layout.continues_round(parent, self.tip)
        if self._after_damage:
            self._after_damage = False
            if not continues and self._is_lost(parent):
                entry = replace(entry, parent=self.tip)
                continues = True
        node, has_siblings = chain.add(self._seq, entry, offset)
        if isinstance(entry, Clearing):
            self._ledger.add(self._seq, entry, chain)
            self._refold(entry.uuid)
            return None
        if entry.summary and isinstance(self.entry(parent or ""), Boundary):
            self._added_by[entry.uuid] = parent or ""
        effects = self._effects
        layout = self.layout
        is_untouched = effects.spans_only and not (
            has_siblings or effects.spans or chain.kept_segments or self._forks
        )
        is_newest = is_untouched and (entry.role == "assistant" or layout.calls.issuperset(entry.answers))
        if not (continues and (is_newest or self._goes_last(entry, has_siblings))):
            self._refold(entry.uuid)
            # All records of an answer report the size of one prompt, so it is measured with the first of them.
            return (
                None if len(chain.records_of_answer(entry.uuid)) > 1 else self.layout.measured_alone(entry)
            )
        self.tip = entry.uuid
        if is_untouched:
            item = node.item = Item.of(entry, node.seq, weighs=self._weighs)
        else:
            item = self._item(node, entry, effects)
        measured = layout.add(item)
        if layout.inserted != self.version[1]:
            self.version = self.version[0], layout.inserted
        if entry.summary:
            self._forget()
        return measured

    def _is_lost(self, parent: str | None) -> bool:
        """Whether the damaged line before a record may have been its parent.

        In a log that was read from its end, a parent that is not known may be in the part that was not read.
        """
        return parent is None or (self._chain.complete and parent not in self._chain)

    def _goes_last(self, record: Said, has_siblings: bool) -> bool:
        """Whether a record goes at the end: not a late result, more of an earlier answer, or what a span may hide.

        ``has_siblings`` says that there are other records of the same answer.
        """
        layout = self.layout
        chain = self._chain
        if chain.kept_segments and chain.tip_of(record.uuid) != record.uuid:
            return False
        if self._effects.spans and layout.index_for(record) < len(layout.items):
            return False
        if has_siblings:
            records = set(chain.records_of_answer(record.uuid))
            return layout.continues_answer(record) and records.difference(layout.index) == {record.uuid}
        if record.role == "assistant" or layout.calls.issuperset(record.answers):
            return True
        return not any(
            chain.call_record(call) in layout.index for call in set(record.answers) - layout.calls
        )

    def counted(self, tokens: int, model: str) -> Measured:
        """Take the size of what is in view now from a provider that counted it.

        It is not on record: it holds until an answer reports a size, or the view is laid out again.
        """
        return self.layout.counted(tokens, model, self._seq)

    # -- folding again -----------------------------------------------------------------------

    def _refold(self, leaf: str) -> None:
        self._chain.undone = self._ledger.settle(self._chain, leaf)
        branch = self._chain.branch(leaf)
        self.tip = self._chain.tip_of(leaf)
        self.boundary = branch.boundary
        self.missing = branch.missing
        self._show([uuid for uuid in branch.order if isinstance(self._chain.nodes[uuid].entry, Said)])
        self._forget()

    def _show(self, order: list[str]) -> None:
        """Rebuild the layout from the live records."""
        self._effects = self._ledger.effects(model=self.epoch.model if self.epoch else "")
        unsupported = self.epoch.unsupported if self.epoch else ()
        self.layout = Layout(weighs=self._weighs, unsupported=unsupported)
        for item in self._rendered(order, self._effects):
            self.layout.add(item, reported=self._report_holds(item.seq))
        self.version = self.version[0] + 1, self.layout.inserted
        self._subtract_removed(order)

    def _rendered(self, order: list[str], active: Effects) -> list[Item]:
        items = []
        for node in map(self._chain.nodes.__getitem__, order):
            assert isinstance(node.entry, Said)
            item = self._item(node, node.entry, active)
            if (compaction := self._added_by.get(node.entry.uuid)) in self._chain.undone:
                item = ledger.hide(item, compaction)
            items.append(item)
        return ledger.hide_spans(items, active)

    def _item(self, node: Node, record: Said, active: Effects) -> Item:
        """A record as the model sees it; one that no decision touches is rendered and weighed only once."""
        if not active.spans_only and active.touch(record, node.seq):
            item = ledger.render(record, node.seq, active)
        elif (untouched := node.item) is not None:
            item = untouched
        else:
            item = node.item = Item.of(record, node.seq, weighs=self._weighs)
        return replace(item, begins=True) if self._forks and record.parent in self._forks else item

    def _report_holds(self, seq: int) -> bool:
        """Whether a size reported at ``seq`` is valid: after the boundary, and no compaction undone or redone since."""
        begins = self._chain.nodes[self.boundary].seq if self.boundary else -1
        taken_back = self._ledger.taken_back(self._chain)
        return seq > begins and not any(begins <= stood < seq < decided for stood, decided in taken_back)

    def _subtract_removed(self, order: list[str]) -> None:
        anchor = self.layout.anchor
        later = self._ledger.since(anchor.seq) if anchor else []
        if anchor is None or not later:
            return
        then = self._rendered(order[: anchor.records], self._ledger.effects(anchor.seq))
        removed = sum((item.weight for item in then), NOTHING)
        removed -= sum((item.weight for item in self.layout.items[: anchor.records]), NOTHING)
        for entry in later:
            if isinstance(entry.decision, Clearing):
                removed += self._cleared_unseen(entry.decision)
        self.layout.anchor = replace(anchor, removed=removed)

    def _cleared_unseen(self, clearing: Clearing) -> Weight:
        """The weight of cleared results whose calls are not in memory, as in a session resumed from another file."""
        calls = clearing.about.compacted_tool_ids
        if not calls or any(self._chain.call_record(call) for call in calls):
            return NOTHING
        return typical(CHARACTERS_PER_SAVED_TOKEN * (clearing.about.tokens_saved or 0))
