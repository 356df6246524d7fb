"""The facts of each compaction looked for in what the model saw next, and by recall."""

from __future__ import annotations

from msgspec import Struct

from sevenfold.lab.audit.moments import Compaction, Progress, compactions
from sevenfold.layers.compact.fidelity import Count, Probe, Score, invented, judge, sample, texts
from sevenfold.ports import Log
from sevenfold.recall.index import RecallIndex

MOST_HITS = 10
"""A fact is reachable if its record is among so many hits of recall."""


class LostFact(Struct, frozen=True):
    """A fact that is neither in the context nor found by recall."""

    kind: str
    text: str
    record: str


class Audited(Struct, frozen=True):
    """What became of the facts a compaction took out of sight."""

    uuid: str
    timestamp: str
    trigger: str
    in_context: int
    reachable: int
    lost: int
    by_kind: dict[str, Count]
    invented: int
    lost_facts: tuple[LostFact, ...]
    invented_statements: tuple[str, ...]
    left_out: dict[str, int]
    """Facts of each kind beyond those that were looked for."""


class Total(Struct, frozen=True):
    """All compactions of a session together."""

    boundaries: int
    in_context: int
    reachable: int
    lost: int
    by_kind: dict[str, Count]
    invented: int


class Audit(Struct, frozen=True):
    """The audit of a session."""

    boundaries: tuple[Audited, ...]
    total: Total


def audit(log: Log, index: RecallIndex, progress: Progress | None = None) -> Audit:
    """Audit every compaction of a log; ``index`` must have read it."""

    def reachable(probe: Probe) -> bool:
        return probe.found_among(index.search(probe.text, kind=probe.sought, k=MOST_HITS, around=0))

    audited = []
    scores: list[Score] = []
    for compaction in compactions(log, progress):
        facts = sample(compaction.hidden, goes_on=compaction.goes_on)
        score = judge(facts.probes, texts(compaction.after), reachable)
        audited.append(_audited(compaction, score, facts.left_out))
        scores.append(score)
    return Audit(tuple(audited), _total(audited, scores))


def _audited(compaction: Compaction, score: Score, left_out: dict[str, int]) -> Audited:
    statements = invented(texts(compaction.summary), (*compaction.before, *compaction.kept))
    boundary, total = compaction.boundary, score.total
    return Audited(
        uuid=boundary.uuid,
        timestamp=boundary.timestamp,
        trigger=boundary.about.trigger,
        in_context=total.in_context,
        reachable=total.reachable,
        lost=total.lost,
        by_kind=score.by_kind,
        invented=len(statements),
        lost_facts=tuple(LostFact(probe.kind, probe.text, probe.record) for probe in score.lost),
        invented_statements=tuple(statements),
        left_out=left_out,
    )


def _total(audited: list[Audited], scores: list[Score]) -> Total:
    every = Score(tuple(judged for score in scores for judged in score.judged))
    total = every.total
    return Total(
        boundaries=len(audited),
        in_context=total.in_context,
        reachable=total.reachable,
        lost=total.lost,
        by_kind=every.by_kind,
        invented=sum(one.invented for one in audited),
    )
