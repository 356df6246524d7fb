"""What the compactions of a recorded session kept in the context, and what left it.

Works on the log of any tool's session, and writes nothing. The facts of each compaction are looked for in what the
model saw next, and by our recall, which another tool's model does not have. What a compaction left in the context is
read just before the model or the user speaks again: a summary is followed by what was restored with it, but the words
of a later turn are not its merit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct, structs

from sevenfold.conversation.resume import read
from sevenfold.lab.fidelity import Count, Probe, Score, judge, sample, texts
from sevenfold.lab.fidelity.reader import account
from sevenfold.layers.compact.extract import facts
from sevenfold.layers.compact.extract.notation import read_back
from sevenfold.layers.compact.summary import unsupported as claims_of
from sevenfold.layers.compact.summary.evidence import Evidence
from sevenfold.ports import Log
from sevenfold.recall.index import RecallIndex
from sevenfold.record.decisions import Commit, Fold, Rewound, Snip, Undone
from sevenfold.record.entries import Boundary, Decision, Entry, Said
from sevenfold.record.layout import Item
from sevenfold.record.view import View

MOST_HITS = 10
"""A fact is reachable if its record is among this many hits of recall."""
Progress = Callable[[int], None]
"""Called with how far in the log reading has come."""


class CompactionMoment(Struct, frozen=True):
    """A compaction, with what the model saw before and after it."""

    boundary: Boundary
    before: tuple[Item, ...]
    after: tuple[Item, ...]

    @property
    def hidden(self) -> tuple[Item, ...]:
        """The records it hid."""
        kept = {one.said.uuid for one in self.after}
        return tuple(one for one in self.before if one.said.uuid not in kept)

    @property
    def summary(self) -> tuple[Item, ...]:
        """The summary that replaced the hidden records."""
        known = {one.said.uuid for one in self.before}
        return tuple(one for one in self.after if one.said.summary and one.said.uuid not in known)

    @property
    def goes_on(self) -> bool:
        """Whether the newest record from before stays in view."""
        return bool(self.before) and any(one.said.uuid == self.before[-1].said.uuid for one in self.after)


def compactions(log: Log, progress: Progress | None = None) -> Iterator[CompactionMoment]:
    """The compactions of the live conversation in a log, in order."""
    view = View(keeps_history=False)
    boundaries: dict[str, Boundary] = {}
    opened: tuple[Boundary, tuple[Item, ...]] | None = None
    for offset, entry in read(log):
        if opened and _ends(entry):
            yield CompactionMoment(*opened, tuple(view.items))
            opened = None
        if isinstance(entry, Boundary):
            boundaries[entry.uuid] = entry
        compacts, last = _compacts(entry), view.boundary
        before = tuple(view.items) if compacts else ()
        view.add(entry, offset)
        if compacts and view.boundary not in (None, last) and view.boundary in boundaries:
            opened = boundaries[view.boundary], before
        if progress:
            progress(offset)
    if opened:
        yield CompactionMoment(*opened, tuple(view.items))


def _compacts(entry: Entry) -> bool:
    """Whether an entry makes a compaction count: for ours its commit, for another tool's its boundary."""
    return isinstance(entry, Boundary) or (isinstance(entry, Decision) and isinstance(entry.made, Commit))


def _ends(entry: Entry) -> bool:
    """Whether an entry ends the moment after a compaction."""
    match entry:
        case Said(sidechain=True) | Said(attachment="kept_message"):
            return False
        case Said(role="assistant") | Boundary():
            return True
        case Said(summary=False, meta=False) as said if not _asks_to_compact(said):
            return bool(account([Item.of(said, 0)]).user)
        case Decision(made=Rewound() | Undone() | Snip() | Fold()):
            return True
        case _:
            return False


def _asks_to_compact(said: Said) -> bool:
    """Some tools record the command that asked for a compaction after it."""
    return any(b"<command-name>/compact<" in block.raw for block in said.blocks)


class LeftFact(Struct, frozen=True):
    """A fact that left the context, and whether recall finds its record."""

    kind: str
    text: str
    record: str
    found: bool


class AuditTotal(Struct, frozen=True, kw_only=True):
    """What became of the facts of one compaction, or of all compactions of a session."""

    boundaries: int = 1
    in_context: int
    reachable: int
    """Facts that left the context, and that our recall finds."""
    lost: int
    """Facts that left the context, and that our recall does not find."""
    out_of_reach: int
    """Facts the model has no way to: after a compaction of ours the lost ones, after another tool's all that left."""
    by_kind: dict[str, Count]
    invented: int


class AuditedCompaction(AuditTotal, frozen=True, kw_only=True):
    """What became of the facts that a compaction hid."""

    uuid: str
    timestamp: str
    trigger: str
    own: bool
    """Whether it is one of ours; another tool's model cannot search what left its context."""
    left_facts: tuple[LeftFact, ...]
    invented_statements: tuple[str, ...]
    left_out: dict[str, int]
    """How many facts of each kind were not looked for, because there were too many."""

    @property
    def missing(self) -> tuple[LeftFact, ...]:
        """The facts out of the model's reach."""
        return tuple(one for one in self.left_facts if not (self.own and one.found))


class Audit(Struct, frozen=True):
    """The audit of a session."""

    boundaries: tuple[AuditedCompaction, ...]
    total: AuditTotal


def by_recall(index: RecallIndex) -> Callable[[Probe], bool]:
    """Whether recall finds the record of a fact."""

    def reachable(probe: Probe) -> bool:
        return probe.found_among(index.search(probe.text, kind=probe.sought, k=MOST_HITS, around=0))

    return reachable


def audit(log: Log, index: RecallIndex, progress: Progress | None = None) -> Audit:
    """Audit every compaction of a log; ``index`` must have read it."""
    reachable, audited, scores = by_recall(index), [], list[Score]()
    for compaction in compactions(log, progress):
        facts = sample(compaction.hidden, goes_on=compaction.goes_on)
        score = judge(facts.probes, texts(compaction.after), reachable)
        audited.append(_audited(log, compaction, score, facts.left_out))
        scores.append(score)
    every = Score(tuple(one for score in scores for one in score.states))
    total = AuditTotal(
        boundaries=len(audited),
        **structs.asdict(every.total),
        out_of_reach=sum(one.out_of_reach for one in audited),
        by_kind=every.by_kind,
        invented=sum(one.invented for one in audited),
    )
    return Audit(tuple(audited), total)


def _audited(
    log: Log, compaction: CompactionMoment, score: Score, left_out: dict[str, int]
) -> AuditedCompaction:
    # Some tools keep answers whole among what they summarise; those say what they said before.
    known = set(texts(compaction.before))
    written = [text for text in texts(compaction.summary) if text not in known]
    statements = unsupported(written, compaction.before, log)
    boundary, total = compaction.boundary, score.total
    left = [(probe, state) for probe, state in score.states if state != "in_context"]
    return AuditedCompaction(
        **structs.asdict(total),
        out_of_reach=total.lost if boundary.own else len(left),
        by_kind=score.by_kind,
        invented=len(statements),
        uuid=boundary.uuid,
        timestamp=boundary.timestamp,
        trigger=boundary.about.trigger or "auto",
        own=boundary.own,
        left_facts=tuple(
            LeftFact(probe.kind, probe.text, probe.record, state == "reachable") for probe, state in left
        ),
        invented_statements=tuple(statements),
        left_out=left_out,
    )


def unsupported(summaries: Iterable[str], items: Sequence[Item], log: Log) -> tuple[str, ...]:
    """The sentences of these texts that claim the user's permission for something and that no record supports.

    What is marked as such is left out: it deceives no reader.
    """

    def said() -> Iterator[Item]:
        entries = (entry for _, entry in read(log) if isinstance(entry, Said) and not entry.sidechain)
        return (Item.of(entry, place) for place, entry in enumerate(entries))

    evidence = Evidence(facts(items), items, said)
    return tuple(one for text in summaries for one in claims_of(read_back(text)[1], evidence))
