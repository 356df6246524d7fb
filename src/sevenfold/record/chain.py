"""Which records are live: the branch that leads to the newest leaf.

Records name their parent, so a transcript is a tree: a rewind or an edited prompt starts a branch. But walking from
the leaf to the root is not enough. Parallel tool calls write their results as siblings, one answer is stored as
several records, and a compaction that keeps recent messages leaves them on disk with parents from before it. So the
live branch is the ancestors of the leaf, with kept segments relinked after their anchor, closed under two rules: if
one record of an answer is live, so are the others with its message id; if a tool call is live, so are its results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING

from msgspec import Struct

from sevenfold.record.decisions import Segment
from sevenfold.record.entries import Boundary, Clearing, Link, Said

if TYPE_CHECKING:
    from sevenfold.record.layout import Item

Linked = Said | Boundary | Clearing
LINKED = (Said, Boundary, Clearing)
"""`Linked` for `isinstance`, which is far faster with a tuple than with a union."""


class Node(Struct, gc=False):
    """A record that can be part of a branch, and its sequence number in the file."""

    seq: int
    entry: Linked
    offset: int
    """Where its line begins in the store; -1 if not known."""
    item: Item | None = None
    """The record as it is shown when no decision touches it; set on first use."""


class Branch(Struct, frozen=True, gc=False):
    """The live records that lead to a leaf, in the order the model sees them."""

    order: tuple[str, ...]
    boundary: str | None
    missing: str | None
    """A record that must still be read to know the branch; None if it is complete."""


class _KeptSegment(Struct, frozen=True, gc=False):
    """The segment that a compaction keeps: its records now follow ``anchor``."""

    boundary: str
    anchor: str
    tail: str
    members: dict[str, int]
    """Its records, each with its place in the order of the view when the compaction was made."""
    missing: str | None = None
    """A record that must be read before the members are known."""

    def before(self, member: str) -> str:
        """The record before a member: another member, or the anchor."""
        index = self.members[member]
        return list(self.members)[index - 1] if index else self.anchor


class Chain:
    """The tree of records read so far.

    ``complete`` says that reading began at the start of the file: then a parent that was never read ends the branch;
    otherwise it must be fetched from further back.
    """

    def __init__(self, *, complete: bool = True) -> None:
        self.complete = complete
        self.nodes: dict[str, Node] = {}
        self.undone: set[str] = set()
        self.links: dict[str, str | None] = {}
        """Records that only link others → their parent."""
        self._answer_records: dict[str, tuple[str, ...]] = {}
        self._result_records: dict[str, tuple[str, ...]] = {}
        self._call_records: dict[str, tuple[str, ...]] = {}
        self.kept_segments: dict[str, _KeptSegment] = {}
        """Boundary → the segment its compaction keeps."""
        self._interjections: dict[str, tuple[str, ...]] = {}
        """Record → messages typed right after it that have no parent."""

    def add(self, seq: int, entry: Linked, offset: int = -1) -> tuple[Node, bool]:
        """Add a record; returns its node, and whether the tree already has other records of the same answer."""
        uuid = entry.uuid
        node = self.nodes[uuid] = Node(seq, entry, offset)
        earlier: tuple[str, ...] = ()
        if isinstance(entry, Said):
            if entry.role == "assistant":
                if answer := entry.message_id:
                    earlier = self._answer_records.get(answer, ())
                    self._answer_records[answer] = (*earlier, uuid) if earlier else (uuid,)
                for call in entry.calls:
                    records = self._call_records.setdefault(call, (uuid,))
                    if records[-1] != uuid:
                        self._call_records[call] = (*records, uuid)
            for call in entry.answers:
                results = self._result_records.get(call)
                self._result_records[call] = (*results, uuid) if results else (uuid,)
        elif isinstance(entry, Boundary) and (segment := entry.about.preserved_segment):
            self.kept_segments[uuid] = self._kept_segment(uuid, segment)
        return node, bool(earlier)

    def locate(self, uuid: str, offset: int) -> None:
        """Set the offset of a record, if it is in the tree."""
        if node := self.nodes.get(uuid):
            node.offset = offset

    def interject(self, seq: int, message: Said, previous: str, offset: int) -> Node:
        """Add a message without a parent: it is live whenever the record ``previous`` is."""
        node = self.nodes[message.uuid] = Node(seq, message, offset)
        self._interjections[previous] = (*self._interjections.get(previous, ()), message.uuid)
        return node

    def call_record(self, call: str) -> str | None:
        """The newest record that makes this tool call."""
        return self._call_records.get(call, (None,))[-1]

    def link(self, entry: Link) -> None:
        """Add a record that only links others."""
        self.links[entry.uuid] = entry.parent

    def __contains__(self, uuid: object) -> bool:
        return uuid in self.nodes or uuid in self.links

    def resolve(self, uuid: str | None) -> str | None:
        """The record that ``uuid`` leads to when links are skipped; an unknown id is returned unchanged."""
        if uuid not in self.links:
            return uuid
        visited: set[str] = set()
        while uuid in self.links and uuid not in visited:
            visited.add(uuid)
            uuid = self.links[uuid]
        return uuid

    def parent(self, uuid: str, off_branch: set[str]) -> str | None:
        """The record before ``uuid``, kept segments relinked; adds other branches' compactions to ``off_branch``."""
        entry = self.nodes[uuid].entry
        if isinstance(entry, Boundary):
            return self.resolve(entry.logical_parent) if uuid in self.undone else None
        parent = self.resolve(entry.parent)
        self._note_off_branch(uuid, parent, off_branch)
        for segment in self._in_force():
            if segment.boundary in off_branch:
                continue
            if uuid in segment.members:
                previous = segment.before(uuid)
                return previous if previous in self.nodes else segment.boundary
            if parent == segment.anchor:
                return segment.tail
        return parent

    def _note_off_branch(self, uuid: str, parent: str | None, off_branch: set[str]) -> None:
        """Add other branches' compactions to ``off_branch``: newer than ``uuid``, they keep its parent but not it."""
        seq = self.nodes[uuid].seq
        nodes = self.nodes
        for name, segment in self.kept_segments.items():
            if parent in segment.members and uuid not in segment.members and seq < nodes[name].seq:
                off_branch.add(name)

    def tip_of(self, uuid: str) -> str:
        """The record the conversation continues from after ``uuid``: for an anchor, the tail of its kept segment."""
        return next((segment.tail for segment in self._in_force() if segment.anchor == uuid), uuid)

    def end_of(self, uuid: str | None) -> int:
        """The sequence number up to which no record comes after this one in the view; -1 if the record is unknown.

        Messages that a compaction keeps come before its summary in the file, but after it in the view.
        """
        members = next((segment.members for segment in self._in_force() if segment.anchor == uuid), {})
        # After a rewind, some of them may no longer be in memory.
        kept_seqs = [self.nodes[member].seq for member in members if member in self.nodes]
        if kept_seqs:
            return min(kept_seqs) - 1
        node = self.nodes.get(uuid or "")
        return node.seq if node else -1

    def branch(self, leaf: str) -> Branch:
        """The live records when ``leaf`` is the newest."""
        return self._branch_to(self.tip_of(leaf))

    def _branch_to(self, last: str) -> Branch:
        ancestors, boundary, missing = self._ancestors(last)
        if self.complete:
            missing = None
        elif boundary is None:
            missing = missing or last
        else:
            missing = self._unknown_segment()
        live = self._with_dependents(ancestors)
        if boundary is not None:
            live = {uuid for uuid in live if self._survives(uuid, boundary)}
        return Branch(tuple(self._ordered(live, boundary)), boundary, missing)

    def lineage(self, leaf: str) -> set[str]:
        """All records that led to ``leaf``, including those before compactions, undone or not."""
        reached_until = dict[str, float]()
        off_branch = set[str]()
        behind: list[tuple[str | None, float]] = [(leaf, inf)]
        while behind:
            uuid, until = behind.pop()
            if uuid is None or uuid not in self.nodes or reached_until.get(uuid, -1) >= until:
                continue
            reached_until[uuid] = until
            previous = self._previous_record(uuid)
            self._note_off_branch(uuid, previous, off_branch)
            for boundary, segment in self.kept_segments.items():
                if boundary not in off_branch and uuid in segment.members:
                    behind.append((segment.anchor, until))
            node = self.nodes[uuid]
            if isinstance(node.entry, Boundary):
                # Of the records before a compaction, only those that existed when it was made count.
                until = min(until, node.seq)
            behind.append((previous, until))
        return self._with_dependents(set(reached_until), reached_until)

    def compaction_after(self, uuid: str) -> str | None:
        """The first compaction in the file from this record on; None if there is none."""
        seq = self.nodes[uuid].seq
        for name, node in self.nodes.items():
            if node.seq >= seq and isinstance(node.entry, Boundary):
                return name
        return None

    def prune(self, keep: Iterable[str]) -> None:
        """Forget all records except ``keep``: the others are no longer in view, and the store still has them."""
        keeping = set(keep)
        self.complete = False
        self.nodes = {uuid: node for uuid, node in self.nodes.items() if uuid in keeping}
        self.links = {uuid: parent for uuid, parent in self.links.items() if self.resolve(uuid) in keeping}
        self._answer_records = _only(self._answer_records, keeping)
        self._result_records = _only(self._result_records, keeping)
        self._interjections = _only(self._interjections, keeping)
        self._call_records = _only(self._call_records, keeping)
        self.kept_segments = {
            boundary: segment for boundary, segment in self.kept_segments.items() if boundary in keeping
        }

    def _in_force(self) -> list[_KeptSegment]:
        """The kept segments that apply now, newest compaction first."""
        if not self.kept_segments:
            return []
        in_force = []
        for boundary, segment in reversed(self.kept_segments.items()):
            if boundary not in self.undone and segment.members and segment.missing is None:
                in_force.append(segment)
        return in_force

    def _kept_segment(self, boundary: str, segment: Segment) -> _KeptSegment:
        """The segment in the order of the view now: from its head, or if that is a link, from the record after it."""
        tail = self.resolve(segment.tail_uuid)
        if tail is None or tail not in self.nodes:
            return _KeptSegment(boundary, segment.anchor_uuid, segment.tail_uuid, {}, segment.tail_uuid)
        # Records after the tail are results of kept calls, from an abandoned branch.
        order = [uuid for uuid in self._branch_to(tail).order if isinstance(self.nodes[uuid].entry, Said)]
        members = order if tail in order else []
        head = self.resolve(segment.head_uuid)
        if head is not None and head in members:
            members = members[members.index(head) + (head != segment.head_uuid) :]
            missing = self._unread_compaction(members)
        else:
            members = members[-1:]
            missing = segment.head_uuid
        index_of = {uuid: index for index, uuid in enumerate(members)}
        return _KeptSegment(
            boundary, segment.anchor_uuid, tail, index_of, None if self.complete else missing
        )

    def _unknown_segment(self) -> str | None:
        """A record to read before the members of all segments are known, if any; until then no branch is certain."""
        for segment in self.kept_segments.values():
            if segment.missing and segment.boundary not in self.undone:
                return segment.missing
        return None

    def _unread_compaction(self, members: list[str]) -> str | None:
        """The unread boundary of a summary among the members, if any: its compaction may keep still older records."""
        for uuid in members:
            entry = self.nodes[uuid].entry
            if isinstance(entry, Said) and entry.summary and entry.parent not in self.nodes:
                return entry.parent
        return None

    def _ancestors(self, leaf: str) -> tuple[set[str], str | None, str | None]:
        ancestors = set[str]()
        off_branch = set[str]()
        uuid: str | None = leaf
        while uuid is not None and uuid not in ancestors:
            if uuid not in self.nodes:
                return ancestors, None, uuid
            ancestors.add(uuid)
            if isinstance(self.nodes[uuid].entry, Boundary) and uuid not in self.undone:
                return ancestors, uuid, None
            uuid = self.parent(uuid, off_branch)
        return ancestors, None, None

    def _with_dependents(self, live: set[str], until: Mapping[str, float] = {}) -> set[str]:
        """Add what belongs to live records: the rest of an answer, results before ``until``, and interjections."""
        for uuid in tuple(live):
            live.update(self.records_of_answer(uuid))
        for uuid in tuple(live):
            for call in self._calls(uuid):
                results = self._result_records.get(call, ())
                if len(self._call_records[call]) > 1:
                    # Answers on several branches made the same call: each has results of its own.
                    results = self._without_other_branches(results, call, live)
                if (end := until.get(uuid, inf)) != inf:
                    results = tuple(result for result in results if self.nodes[result].seq < end)
                live.update(results)
        for previous, interjections in self._interjections.items():
            if previous in live:
                live.update(interjections)
        return live

    def _without_other_branches(self, results: Sequence[str], call: str, live: set[str]) -> tuple[str, ...]:
        return tuple(result for result in results if not self._answers_elsewhere(result, call, live))

    def _answers_elsewhere(self, result: str, call: str, live: set[str]) -> bool:
        """Whether a result belongs to another answer that made the same call and is not live."""
        visited = {result}
        uuid = self._previous_record(result)
        while uuid is not None and uuid not in visited and call not in self._calls(uuid):
            visited.add(uuid)
            uuid = self._previous_record(uuid)
        return uuid is not None and uuid not in visited and uuid not in live

    def _previous_record(self, uuid: str) -> str | None:
        """The record that was the newest when ``uuid`` was written, if it is in memory."""
        entry = self.nodes[uuid].entry
        previous = self.resolve(entry.logical_parent if isinstance(entry, Boundary) else entry.parent)
        return previous if previous in self.nodes else None

    def _ordered(self, live: set[str], boundary: str | None) -> list[str]:
        """Live records in file order, but kept records follow their anchor, and results follow their answer."""
        placed: dict[str, None] = {}
        for uuid in sorted(live, key=lambda uuid: self._order_key(uuid, boundary)):
            if uuid in placed:
                continue
            records = [record for record in self.records_of_answer(uuid) if record in live]
            placed.update(dict.fromkeys(records))
            results = self._live_results(records, live)
            placed.update(dict.fromkeys(sorted(results, key=lambda result: self.nodes[result].seq)))
        return list(placed)

    def _live_results(self, answer: Sequence[str], live: set[str]) -> set[str]:
        """The live results of the calls that the records of an answer make."""
        results: set[str] = set()
        for record in answer:
            for call in self._calls(record):
                results.update(self._result_records.get(call, ()))
        return results & live

    def records_of_answer(self, uuid: str) -> Sequence[str]:
        """The records of the same answer as ``uuid``, including itself."""
        entry = self.nodes[uuid].entry
        if isinstance(entry, Said) and entry.role == "assistant":
            return self._answer_records.get(entry.message_id, (uuid,))
        return (uuid,)

    def _calls(self, uuid: str) -> tuple[str, ...]:
        entry = self.nodes[uuid].entry
        return entry.calls if isinstance(entry, Said) and entry.role == "assistant" else ()

    def _survives(self, uuid: str, boundary: str) -> bool:
        """Whether a record is after the boundary, or kept by it; what it keeps may split an answer."""
        segment = self.kept_segments.get(boundary)
        return self.nodes[uuid].seq >= self.nodes[boundary].seq or (
            segment is not None and uuid in segment.members
        )

    def _order_key(self, uuid: str, boundary: str | None) -> tuple[int, int, int]:
        seq = self.nodes[uuid].seq
        if boundary is None or seq >= self.nodes[boundary].seq:
            return seq, 0, 0
        segment = self.kept_segments[boundary]
        anchor = segment.anchor if segment.anchor in self.nodes else boundary
        return self.nodes[anchor].seq, 1, segment.members[uuid]


def _only(index: dict[str, tuple[str, ...]], keep: set[str]) -> dict[str, tuple[str, ...]]:
    """The index with only the records in ``keep``, and without keys that have none left."""
    pruned = {}
    for key, uuids in index.items():
        if remaining := tuple([uuid for uuid in uuids if uuid in keep]):
            pruned[key] = remaining
    return pruned
