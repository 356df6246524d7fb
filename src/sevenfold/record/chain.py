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


class _Kept(Struct, frozen=True, gc=False):
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
        place = self.members[member]
        return list(self.members)[place - 1] if place else self.anchor


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
        self._groups: dict[str, tuple[str, ...]] = {}
        self._answers: dict[str, tuple[str, ...]] = {}
        self._call_records: dict[str, tuple[str, ...]] = {}
        self.kept: dict[str, _Kept] = {}
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
                    earlier = self._groups.get(answer, ())
                    self._groups[answer] = (*earlier, uuid) if earlier else (uuid,)
                for call in entry.calls:
                    records = self._call_records.setdefault(call, (uuid,))
                    if records[-1] != uuid:
                        self._call_records[call] = (*records, uuid)
            for call in entry.answers:
                given = self._answers.get(call)
                self._answers[call] = (*given, uuid) if given else (uuid,)
        elif isinstance(entry, Boundary) and (segment := entry.about.preserved_segment):
            self.kept[uuid] = self._keep(uuid, segment)
        return node, bool(earlier)

    def locate(self, uuid: str, offset: int) -> None:
        """Set the offset of a record, if it is in the tree."""
        if node := self.nodes.get(uuid):
            node.offset = offset

    def interject(self, seq: int, said: Said, after: str, offset: int) -> Node:
        """Add a message without a parent: it is live whenever the record ``after`` is."""
        node = self.nodes[said.uuid] = Node(seq, said, offset)
        self._interjections[after] = (*self._interjections.get(after, ()), said.uuid)
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
        seen: set[str] = set()
        while uuid in self.links and uuid not in seen:
            seen.add(uuid)
            uuid = self.links[uuid]
        return uuid

    def parent(self, uuid: str, off_branch: set[str]) -> str | None:
        """The record before ``uuid``, kept segments relinked; adds other branches' compactions to ``off_branch``."""
        entry = self.nodes[uuid].entry
        if isinstance(entry, Boundary):
            return self.resolve(entry.logical_parent) if uuid in self.undone else None
        parent = self.resolve(entry.parent)
        self._note_off_branch(uuid, parent, off_branch)
        for kept in (one for one in self._in_force() if one.boundary not in off_branch):
            if uuid in kept.members:
                before = kept.before(uuid)
                return before if before in self.nodes else kept.boundary
            if parent == kept.anchor:
                return kept.tail
        return parent

    def _note_off_branch(self, uuid: str, parent: str | None, off_branch: set[str]) -> None:
        """Add other branches' compactions to ``off_branch``: newer than ``uuid``, they keep its parent but not it."""
        seq = self.nodes[uuid].seq
        nodes = self.nodes
        for name, kept in self.kept.items():
            if parent in kept.members and uuid not in kept.members and seq < nodes[name].seq:
                off_branch.add(name)

    def tip_of(self, uuid: str) -> str:
        """The record the conversation continues from after ``uuid``: for an anchor, the tail of its kept segment."""
        return next((kept.tail for kept in self._in_force() if kept.anchor == uuid), uuid)

    def end_of(self, uuid: str | None) -> int:
        """The sequence number up to which no record comes after this one in the view; -1 if the record is unknown.

        Messages that a compaction keeps come before its summary in the file, but after it in the view.
        """
        members = next((kept.members for kept in self._in_force() if kept.anchor == uuid), {})
        # After a rewind, some of them may no longer be in memory.
        before = [self.nodes[member].seq - 1 for member in members if member in self.nodes]
        node = self.nodes.get(uuid or "")
        return min(before, default=node.seq if node else -1)

    def branch(self, leaf: str) -> Branch:
        """The live records when ``leaf`` is the newest."""
        return self._way_to(self.tip_of(leaf))

    def _way_to(self, last: str) -> Branch:
        ancestors, boundary, missing = self._ancestors(last)
        if self.complete:
            missing = None
        elif boundary is None:
            missing = missing or last
        else:
            missing = self._unknown_segment()
        live = self._close(ancestors)
        if boundary is not None:
            live = {uuid for uuid in live if self._survives(uuid, boundary)}
        return Branch(tuple(self._ordered(live, boundary)), boundary, missing)

    def lineage(self, leaf: str) -> set[str]:
        """All records that led to ``leaf``, including those before compactions, undone or not."""
        seen = dict[str, float]()
        off_branch = set[str]()
        behind: list[tuple[str | None, float]] = [(leaf, inf)]
        while behind:
            uuid, until = behind.pop()
            if uuid is None or uuid not in self.nodes or seen.get(uuid, -1) >= until:
                continue
            seen[uuid] = until
            before = self._said_before(uuid)
            node = self.nodes[uuid]
            self._note_off_branch(uuid, before, off_branch)
            kept_by = [kept for name, kept in self.kept.items() if name not in off_branch]
            behind += [(kept.anchor, until) for kept in kept_by if uuid in kept.members]
            # Of the records before a compaction, only those that existed when it was made count.
            behind.append((before, min(until, node.seq) if isinstance(node.entry, Boundary) else until))
        return self._close(set(seen), seen)

    def compaction_after(self, uuid: str) -> str | None:
        """The first compaction in the file from this record on; None if there is none."""
        later = (name for name, node in self.nodes.items() if node.seq >= self.nodes[uuid].seq)
        return next((name for name in later if isinstance(self.nodes[name].entry, Boundary)), None)

    def prune(self, keep: Iterable[str]) -> None:
        """Forget all records except ``keep``: the others are no longer in view, and the store still has them."""
        kept = set(keep)
        self.complete = False
        self.nodes = {uuid: node for uuid, node in self.nodes.items() if uuid in kept}
        self.links = {uuid: parent for uuid, parent in self.links.items() if self.resolve(uuid) in kept}
        self._groups = _only(self._groups, kept)
        self._answers = _only(self._answers, kept)
        self._interjections = _only(self._interjections, kept)
        self._call_records = _only(self._call_records, kept)
        self.kept = {boundary: segment for boundary, segment in self.kept.items() if boundary in kept}

    def _in_force(self) -> list[_Kept]:
        """The kept segments that apply now, newest compaction first."""
        if not self.kept:
            return []
        kept = [self.kept[boundary] for boundary in reversed(self.kept) if boundary not in self.undone]
        return [segment for segment in kept if segment.members and segment.missing is None]

    def _keep(self, boundary: str, segment: Segment) -> _Kept:
        """The segment in the order of the view now: from its head, or if that is a link, from the record after it."""
        tail = self.resolve(segment.tail_uuid)
        if tail is None or tail not in self.nodes:
            return _Kept(boundary, segment.anchor_uuid, segment.tail_uuid, {}, segment.tail_uuid)
        # Records after the tail are results of kept calls, from an abandoned branch.
        order = [uuid for uuid in self._way_to(tail).order if isinstance(self.nodes[uuid].entry, Said)]
        members = order if tail in order else []
        head = self.resolve(segment.head_uuid)
        if head is not None and head in members:
            members = members[members.index(head) + (head != segment.head_uuid) :]
            missing = self._unread_compaction(members)
        else:
            members = members[-1:]
            missing = segment.head_uuid
        places = {uuid: place for place, uuid in enumerate(members)}
        return _Kept(boundary, segment.anchor_uuid, tail, places, None if self.complete else missing)

    def _unknown_segment(self) -> str | None:
        """A record to read before the members of all segments are known, if any; until then no branch is certain."""
        kept = (kept.missing for kept in self.kept.values() if kept.boundary not in self.undone)
        return next((uuid for uuid in kept if uuid), None)

    def _unread_compaction(self, members: list[str]) -> str | None:
        """The unread boundary of a summary among the members, if any: its compaction may keep still older records."""
        for uuid in members:
            entry = self.nodes[uuid].entry
            if isinstance(entry, Said) and entry.summary and entry.parent not in self.nodes:
                return entry.parent
        return None

    def _ancestors(self, leaf: str) -> tuple[set[str], str | None, str | None]:
        seen = set[str]()
        off_branch = set[str]()
        uuid: str | None = leaf
        while uuid is not None and uuid not in seen:
            if uuid not in self.nodes:
                return seen, None, uuid
            seen.add(uuid)
            if isinstance(self.nodes[uuid].entry, Boundary) and uuid not in self.undone:
                return seen, uuid, None
            uuid = self.parent(uuid, off_branch)
        return seen, None, None

    def _close(self, live: set[str], until: Mapping[str, float] = {}) -> set[str]:
        """Add what belongs to live records: the rest of an answer, results before ``until``, and interjections."""
        for uuid in tuple(live):
            live.update(self.records_of_answer(uuid))
        for uuid in tuple(live):
            for call in self._calls(uuid):
                given = self._answers.get(call, ())
                if len(self._call_records[call]) > 1:
                    given = tuple(one for one in given if not self._answers_elsewhere(one, call, live))
                if (end := until.get(uuid, inf)) != inf:
                    given = tuple(one for one in given if self.nodes[one].seq < end)
                live.update(given)
        for after, words in self._interjections.items():
            if after in live:
                live.update(words)
        return live

    def _answers_elsewhere(self, result: str, call: str, live: set[str]) -> bool:
        """Whether a result belongs to another answer that made the same call and is not live."""
        seen = {result}
        uuid = self._said_before(result)
        while uuid is not None and uuid not in seen and call not in self._calls(uuid):
            seen.add(uuid)
            uuid = self._said_before(uuid)
        return uuid is not None and uuid not in seen and uuid not in live

    def _said_before(self, uuid: str) -> str | None:
        """The record that was the newest when ``uuid`` was written, if it is in memory."""
        entry = self.nodes[uuid].entry
        before = self.resolve(entry.logical_parent if isinstance(entry, Boundary) else entry.parent)
        return before if before in self.nodes else None

    def _ordered(self, live: set[str], boundary: str | None) -> list[str]:
        """Live records in file order, but kept records follow their anchor, and results follow their answer."""
        placed: dict[str, None] = {}
        for uuid in sorted(live, key=lambda uuid: self._place(uuid, boundary)):
            if uuid in placed:
                continue
            records = [record for record in self.records_of_answer(uuid) if record in live]
            placed.update(dict.fromkeys(records))
            calls = [call for record in records for call in self._calls(record)]
            results = {result for call in calls for result in self._answers.get(call, ()) if result in live}
            placed.update(dict.fromkeys(sorted(results, key=lambda result: self.nodes[result].seq)))
        return list(placed)

    def records_of_answer(self, uuid: str) -> Sequence[str]:
        """The records of the same answer as ``uuid``, including itself."""
        entry = self.nodes[uuid].entry
        if isinstance(entry, Said) and entry.role == "assistant":
            return self._groups.get(entry.message_id, (uuid,))
        return (uuid,)

    def _calls(self, uuid: str) -> tuple[str, ...]:
        entry = self.nodes[uuid].entry
        return entry.calls if isinstance(entry, Said) and entry.role == "assistant" else ()

    def _survives(self, uuid: str, boundary: str) -> bool:
        """Whether a record is after the boundary, or kept by it; what it keeps may split an answer."""
        kept = self.kept.get(boundary)
        return self.nodes[uuid].seq >= self.nodes[boundary].seq or (
            kept is not None and uuid in kept.members
        )

    def _place(self, uuid: str, boundary: str | None) -> tuple[int, int, int]:
        seq = self.nodes[uuid].seq
        if boundary is None or seq >= self.nodes[boundary].seq:
            return seq, 0, 0
        kept = self.kept[boundary]
        anchor = kept.anchor if kept.anchor in self.nodes else boundary
        return self.nodes[anchor].seq, 1, kept.members[uuid]


def _only(index: dict[str, tuple[str, ...]], keep: set[str]) -> dict[str, tuple[str, ...]]:
    pruned = {key: tuple([uuid for uuid in uuids if uuid in keep]) for key, uuids in index.items()}
    return {key: uuids for key, uuids in pruned.items() if uuids}
