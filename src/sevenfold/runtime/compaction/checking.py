"""From what an engine found to a summary that can stand: completed by code, held against the record, scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.events import SteppedAside
from sevenfold.layers import fidelity, summary
from sevenfold.layers.extract import facts as facts_of
from sevenfold.layers.extract.facts import Facts, Kind
from sevenfold.layers.fidelity import Probe, Score
from sevenfold.layers.scope import Scope
from sevenfold.layers.summary import Count, Failure, Summary
from sevenfold.ports import Recall
from sevenfold.record.decisions import Fold
from sevenfold.record.effects import Effects, item
from sevenfold.record.layout import Item
from sevenfold.record.view import View
from sevenfold.record.window import Window
from sevenfold.runtime.announce import Announcer
from sevenfold.runtime.compaction.engines import Got

REPAIR_TOKENS = 1_000
"""For facts the check found missing."""
HITS = 10
"""A fact is within reach if its record is among so many hits."""


class Verdict(Struct, frozen=True):
    """A summary that can stand, and how well."""

    text: str
    facts: Facts
    score: Score
    left_out: tuple[str, ...] = ()
    invented: tuple[str, ...] = ()


class Checker:
    """Checks the summaries of one session."""

    def __init__(
        self,
        announcer: Announcer,
        *,
        kinds: Mapping[str, Kind],
        window: Window,
        count: Count,
        recall: Recall | None,
    ) -> None:
        self._announcer = announcer
        self._kinds = kinds
        self._window = window
        self._count = count
        self._recall = recall
        self._reaches = recall is not None

    def check(self, got: Got, divided: Scope, budget: int, view: View) -> Verdict:
        """The summary with everything in it that code knows, and what the independent check says of it."""
        hidden = unfolded(divided.hidden, view)
        facts = facts_of(hidden, self._kinds)
        made, invented = self._made(got, facts, hidden, divided, budget)
        self._catch_up()
        made, score = self._gated(made, hidden, divided, signed=got.signed is not None)
        return Verdict(made.text, facts, score, made.left_out, invented)

    def _made(
        self, got: Got, facts: Facts, hidden: Sequence[Item], divided: Scope, budget: int
    ) -> tuple[Summary, tuple[str, ...]]:
        if isinstance(got.found, Failure):
            made = summary.extractive(hidden, budget, self._count, span=divided.span, known=facts)
            return made, ()
        checked = summary.verify(got.found, facts, hidden)
        combined = summary.combine(checked.draft, facts, budget, self._count, span=divided.span)
        return combined, checked.invented

    def _gated(
        self, made: Summary, hidden: Sequence[Item], divided: Scope, *, signed: bool
    ) -> tuple[Summary, Score]:
        """The summary with what was found missing, and the score after that."""
        wanted = fidelity.probes(hidden, goes_on=bool(divided.kept))
        kept = fidelity.texts(divided.kept)
        score = fidelity.judge(wanted, [made.text, *kept], self._reachable)
        if score.lost and not signed:
            block = fidelity.repair(score.lost, self._window.budget(REPAIR_TOKENS), self._count)
            made = replace(made, text=f"{made.text}\n\n{block}")
            score = fidelity.judge(wanted, [made.text, *kept], self._reachable)
        return made, score

    def _catch_up(self) -> None:
        """Index what is about to leave the context; without an index the summary must hold everything itself."""
        self._reaches = self._recall is not None
        if self._recall is None:
            return
        try:
            self._recall.catch_up()
        except Exception as error:  # noqa: BLE001 (an index can be made again at any time; the compaction goes on)
            self._reaches = False
            reason = f"recall is not up to date: {error}"
            self._announcer.tell(SteppedAside(layer="recall", reason=reason, error=type(error).__name__))

    def _reachable(self, probe: Probe) -> bool:
        if self._recall is None or not self._reaches:
            return False
        return probe.found_among(self._recall.found(probe.text, probe.sought, HITS))


def unfolded(items: Sequence[Item], view: View) -> list[Item]:
    """The records with those that were folded as they were said: what is known of them need not be handed on."""
    folds = {made.id for made in view.decisions() if isinstance(made, Fold)}
    return [item(one.said, one.seq, Effects()) if one.hidden_by in folds else one for one in items]
