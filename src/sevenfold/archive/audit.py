"""Audit a recorded session: which facts its compactions kept in the context, and which left it.

Works on a session log of any tool and writes nothing. The facts that a compaction hid are searched for in the context
after it, and with our recall, which another tool's model does not have. The context is read just before the next
message of the model or the user: it then includes what was restored after the summary, but nothing that a later turn
repeated.

A fact that left the context is searched for twice: by its own words, and by a question made of a few of them. What a
summary says of the user without a source is called invented only if nothing the user ever said speaks of it; where the
file does not have the whole history, it is said to be unchecked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

from msgspec import Struct, structs

from sevenfold.archive.fidelity import Count, Probe, Score, judge, sample, texts
from sevenfold.archive.fidelity.questions import question
from sevenfold.archive.fidelity.reader import read_items
from sevenfold.conversation.resume import read
from sevenfold.layers.compact.extract import facts
from sevenfold.layers.compact.extract.notation import read_back
from sevenfold.layers.compact.summary import unsupported as claims_of
from sevenfold.layers.compact.summary.claims import topic
from sevenfold.layers.compact.summary.evidence import Evidence
from sevenfold.layers.compact.summary.marks import bare
from sevenfold.ports import Log
from sevenfold.prompts.compact import UserWords
from sevenfold.recall.index import RecallIndex
from sevenfold.record.decisions import Commit, Fold, Rewound, Snip, Undone
from sevenfold.record.entries import Boundary, Decision, Entry, Link, Said
from sevenfold.record.layout import Item
from sevenfold.record.view import View

MOST_HITS = 10
"""A fact is reachable if its record is among this many recall hits."""
Progress = Callable[[int], None]
"""Called with the position in the log reached so far."""


class CompactionMoment(Struct, frozen=True):
    """A compaction, with the records in view before and after it."""

    boundary: Boundary
    before: tuple[Item, ...]
    after: tuple[Item, ...]
    whole: bool = True
    """Whether the file has the conversation from its beginning, so that what is not in it was not said."""

    @property
    def hidden(self) -> tuple[Item, ...]:
        """The records it hid."""
        visible = {item.record.uuid for item in self.after}
        return tuple(item for item in self.before if item.record.uuid not in visible)

    @property
    def summary(self) -> tuple[Item, ...]:
        """The summary that replaced the hidden records."""
        earlier = {item.record.uuid for item in self.before}
        return tuple(item for item in self.after if item.record.summary and item.record.uuid not in earlier)

    @property
    def later_rounds_visible(self) -> bool:
        """Whether the newest earlier record stays in view, so that the current step is not hidden."""
        return bool(self.before) and any(
            item.record.uuid == self.before[-1].record.uuid for item in self.after
        )


def compactions(log: Log, progress: Progress | None = None) -> Iterator[CompactionMoment]:
    """Yield the compactions of the live conversation in a log, in order."""
    view = View(keeps_history=False)
    boundaries: dict[str, Boundary] = {}
    opened: tuple[Boundary, tuple[Item, ...]] | None = None
    begins_here: bool | None = None
    for offset, entry in read(log):
        if begins_here is None:
            begins_here = _begins(entry)
        if opened and _ends(entry):
            yield CompactionMoment(*opened, tuple(view.items), begins_here is not False)
            opened = None
        if isinstance(entry, Boundary):
            boundaries[entry.uuid] = entry
        compacts = _compacts(entry)
        last = view.boundary
        items_before = tuple(view.items) if compacts else ()
        view.add(entry, offset)
        if compacts and view.boundary not in (None, last) and view.boundary in boundaries:
            opened = boundaries[view.boundary], items_before
        if progress:
            progress(offset)
    if opened:
        yield CompactionMoment(*opened, tuple(view.items), begins_here is not False)


def _begins(entry: Entry) -> bool | None:
    """Whether a conversation can begin with this entry; None if it does not show.

    A file that was cut, or continued from another, begins with a summary or with a record whose parent is elsewhere.
    """
    match entry:
        case Said(sidechain=True) | Boundary(sidechain=True):
            return None
        case Boundary() | Said(summary=True):
            return False
        case Said(parent=parent) | Link(parent=parent):
            return parent is None
        case _:
            return None


def _compacts(entry: Entry) -> bool:
    """Whether an entry makes a compaction valid: the commit of ours, the boundary of another tool's."""
    return isinstance(entry, Boundary) or (isinstance(entry, Decision) and isinstance(entry.record, Commit))


def _ends(entry: Entry) -> bool:
    """Whether an entry is the first that no longer belongs to the compaction before it."""
    match entry:
        case Said(sidechain=True) | Said(attachment="kept_message"):
            return False
        case Said(role="assistant") | Boundary():
            return True
        case Said(summary=False, meta=False) as message if not _asks_to_compact(message):
            return bool(read_items([Item.of(message, 0)]).user)
        case Decision(record=Rewound() | Undone() | Snip() | Fold()):
            return True
        case _:
            return False


def _asks_to_compact(message: Said) -> bool:
    """Whether this is the command that asked for the compaction; some tools record it afterwards."""
    return any(b"<command-name>/compact<" in block.raw for block in message.blocks)


class LeftFact(Struct, frozen=True):
    """A fact that left the context, and whether recall finds its record."""

    kind: str
    text: str
    record: str
    found: bool
    """By its own words."""
    found_by_question: bool


class AuditTotal(Struct, frozen=True, kw_only=True):
    """Counts of the facts that one compaction, or all compactions of a session, hid."""

    boundaries: int = 1
    in_context: int
    reachable: int
    """Facts that left the context and that our recall finds by their own words."""
    reachable_by_question: int
    """Facts that left the context and that our recall finds by a question."""
    lost: int
    """Facts that left the context and that our recall does not find."""
    out_of_reach: int
    """Facts the model cannot get: after our own compaction the lost ones, after another tool's all that left."""
    by_kind: dict[str, Count]
    invented: int
    """Statements about the user that nothing the user said speaks of."""
    doubtful: int
    """Statements about the user without a source, of whose subject the user did speak."""
    unchecked: int
    """Statements without a source in the file, which does not have the whole history."""


class AuditedCompaction(AuditTotal, frozen=True, kw_only=True):
    """The audit of one compaction."""

    uuid: str
    timestamp: str
    trigger: str
    own: bool
    """Whether the compaction is ours; another tool's model cannot search for what left its context."""
    left_facts: tuple[LeftFact, ...]
    invented_statements: tuple[str, ...]
    doubtful_statements: tuple[str, ...]
    unchecked_statements: tuple[str, ...]
    whole_history: bool
    """Whether the file has the conversation from its beginning."""
    left_out: dict[str, int]
    """How many facts of each kind were not checked because there were too many."""

    @property
    def missing(self) -> tuple[LeftFact, ...]:
        """The facts the model cannot get."""
        return tuple(fact for fact in self.left_facts if not (self.own and fact.found))


class Audit(Struct, frozen=True):
    """The audit of a session."""

    boundaries: tuple[AuditedCompaction, ...]
    total: AuditTotal


def by_recall(index: RecallIndex) -> Callable[[Probe], bool]:
    """Build a predicate: whether recall finds the record of a fact, as its tool shows it: weak matches included."""

    def reachable(probe: Probe) -> bool:
        hits = index.search(probe.text, kind=probe.sought, k=MOST_HITS, around=0, weak=True)
        return probe.found_among(hits)

    return reachable


def by_question(index: RecallIndex) -> Callable[[Probe], bool]:
    """Build a predicate: whether recall finds the record of a fact by a question for it, weak matches included."""

    def reachable(probe: Probe) -> bool:
        hits = index.search(question(probe), k=MOST_HITS, around=0, weak=True)
        return probe.found_among(hits)

    return reachable


def audit(log: Log, index: RecallIndex, progress: Progress | None = None) -> Audit:
    """Audit every compaction of a log; ``index`` must have indexed it."""
    reachable = by_recall(index)
    answered = by_question(index)
    audited: list[AuditedCompaction] = []
    scores: list[Score] = []
    for compaction in compactions(log, progress):
        facts = sample(compaction.hidden, later_rounds_visible=compaction.later_rounds_visible)
        score = judge(facts.probes, texts(compaction.after), reachable)
        audited.append(_audited(log, compaction, score, answered, facts.left_out))
        scores.append(score)
    overall = Score(tuple(chain.from_iterable(score.states for score in scores)))
    total = AuditTotal(
        boundaries=len(audited),
        **structs.asdict(overall.total),
        reachable_by_question=sum(compaction.reachable_by_question for compaction in audited),
        out_of_reach=sum(compaction.out_of_reach for compaction in audited),
        by_kind=overall.by_kind,
        invented=sum(compaction.invented for compaction in audited),
        doubtful=sum(compaction.doubtful for compaction in audited),
        unchecked=sum(compaction.unchecked for compaction in audited),
    )
    return Audit(tuple(audited), total)


def _audited(
    log: Log,
    compaction: CompactionMoment,
    score: Score,
    found_by_question: Callable[[Probe], bool],
    left_out: dict[str, int],
) -> AuditedCompaction:
    # Some tools include whole earlier answers in their summary; those are not newly written.
    earlier_texts = set(texts(compaction.before))
    # Only our own block is copied from the record; in another tool's summary the tag is a model's text like any other.
    copied_tag = f"<{UserWords.tag}>" if compaction.boundary.own else None
    model_texts = (
        text for text in texts(compaction.summary) if copied_tag is None or not text.startswith(copied_tag)
    )
    written = [text for text in model_texts if text not in earlier_texts]
    evidence = evidence_in(compaction.before, log)
    statements = unsourced(written, evidence)
    if compaction.whole:
        doubtful = [statement for statement in statements if evidence.touches(topic(bare(statement)))]
        invented = [statement for statement in statements if statement not in doubtful]
        unchecked: list[str] = []
    else:
        doubtful = []
        invented = []
        unchecked = list(statements)
    boundary = compaction.boundary
    total = score.total
    left_facts: list[LeftFact] = []
    for probe, state in score.states:
        if state != "in_context":
            asked = found_by_question(probe)
            left_facts.append(LeftFact(probe.kind, probe.text, probe.record, state == "reachable", asked))
    return AuditedCompaction(
        **structs.asdict(total),
        reachable_by_question=sum(fact.found_by_question for fact in left_facts),
        out_of_reach=total.lost if boundary.own else len(left_facts),
        by_kind=score.by_kind,
        invented=len(invented),
        doubtful=len(doubtful),
        unchecked=len(unchecked),
        uuid=boundary.uuid,
        timestamp=boundary.timestamp,
        trigger=boundary.about.trigger or "auto",
        own=boundary.own,
        left_facts=tuple(left_facts),
        invented_statements=tuple(invented),
        doubtful_statements=tuple(doubtful),
        unchecked_statements=tuple(unchecked),
        whole_history=compaction.whole,
        left_out=left_out,
    )


def unsupported(summaries: Iterable[str], items: Sequence[Item], log: Log) -> tuple[str, ...]:
    """The sentences of summaries that claim the user permitted something, without support in the records.

    Sentences already marked as unsupported are left out: they mislead no reader.
    """
    return unsourced(summaries, evidence_in(items, log))


def unsourced(summaries: Iterable[str], evidence: Evidence) -> tuple[str, ...]:
    """The sentences of summaries that claim the user permitted something, without support in this evidence."""
    claims: list[str] = []
    for text in summaries:
        _, prose = read_back(text)
        claims += claims_of(prose, evidence)
    return tuple(claims)


def evidence_in(items: Sequence[Item], log: Log) -> Evidence:
    """What the user said in these records, and before them in the log."""

    def everything_said() -> Iterator[Said]:
        return (entry for _, entry in read(log) if isinstance(entry, Said) and not entry.sidechain)

    return Evidence(facts(items), items, everything_said)
