"""From what an engine found to a summary that can stand: completed by code, held against the record, scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.conversation.events import Events
from sevenfold.conversation.flow import Flow, in_thread
from sevenfold.errors import Aborted
from sevenfold.events import SteppedAside
from sevenfold.layers.compact import fidelity, summary
from sevenfold.layers.compact.engines import Got
from sevenfold.layers.compact.extract import facts as facts_of
from sevenfold.layers.compact.extract.facts import Facts, Kind
from sevenfold.layers.compact.fidelity import Probe, Score
from sevenfold.layers.compact.scope import Scope
from sevenfold.layers.compact.summary import Count, Failure, Summary
from sevenfold.ports import Recall
from sevenfold.record import blocks
from sevenfold.record.blocks import Compaction
from sevenfold.record.decisions import Fold
from sevenfold.record.layout import Item
from sevenfold.record.view import View
from sevenfold.record.window import Window

REPAIR_TOKENS = 1_000
"""For facts the check found missing."""
HITS = 10
"""A fact is within reach if its record is among so many hits."""


class Verdict(Struct, frozen=True):
    """A summary that can stand, and how well."""

    text: str
    score: Score
    left_out: tuple[str, ...] = ()
    invented: tuple[str, ...] = ()
    behind: str = ""
    """What the record shows, to stand behind a signed block, which cannot be added to."""


class Checker:
    """Checks the summaries of one session."""

    def __init__(
        self,
        announcer: Events,
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

    def checked(self, got: Got, divided: Scope, budget: int, folds: Set[str]) -> tuple[Got, Verdict]:
        """What was found, held against the record.

        A signed block cannot be corrected, and what has no source must not reach the model: then our text goes.
        """
        verdict = self.check(got, divided, budget, folds)
        if got.signed is None or not verdict.invented:
            return got, verdict
        unsigned = replace(got, signed=None)
        ours = self.check(unsigned, divided, budget, folds)
        return unsigned, replace(ours, invented=verdict.invented)

    def check(self, got: Got, divided: Scope, budget: int, folds: Set[str]) -> Verdict:
        """The summary with everything in it that code knows, and what the independent check says of it."""
        hidden = unfolded(divided.hidden, folds)
        facts = facts_of(hidden, self._kinds)
        made, invented = self._made(got, facts, hidden, divided, budget)
        if got.signed is None:
            text, score = self._gated(made.text, hidden, divided)
            return Verdict(text, score, made.left_out, invented)
        shown = summary.sections(facts, budget, self._count, span=divided.span).text
        behind, score = self._gated(shown, hidden, divided, [signed_words(got.signed)])
        return Verdict(made.text, score, made.left_out, invented, behind)

    def _made(
        self, got: Got, facts: Facts, hidden: Sequence[Item], divided: Scope, budget: int
    ) -> tuple[Summary, tuple[str, ...]]:
        if isinstance(got.found, Failure):
            made = summary.extractive(hidden, budget, self._count, span=divided.span, known=facts)
            return made, ()
        checked = summary.verify(got.found, facts, hidden)
        combined = summary.combine(checked.draft, facts, budget, self._count, span=divided.span)
        if got.signed is not None:
            return combined, _in_signed(got.signed, facts, hidden)
        return combined, (*checked.invented, *checked.strange)

    def _gated(
        self, text: str, hidden: Sequence[Item], divided: Scope, beside: Sequence[str] = ()
    ) -> tuple[str, Score]:
        """The text with what was found missing in all that the model will see, and the score after that."""
        wanted = fidelity.probes(hidden, goes_on=bool(divided.kept))
        rest = (*beside, *fidelity.texts(divided.kept))
        score = fidelity.judge(wanted, [text, *rest], self._reachable)
        if score.lost:
            block = fidelity.repair(score.lost, self._window.budget(REPAIR_TOKENS), self._count)
            text = f"{text}\n\n{block}"
            score = fidelity.judge(wanted, [text, *rest], self._reachable)
        return text, score

    def catch_up(self) -> Flow[None]:
        """Index what is about to leave the context; without an index the summary must hold everything itself."""
        self._reaches = self._recall is not None
        if self._recall is None:
            return
        try:
            yield from in_thread(self._recall.catch_up)
        except Aborted:
            raise
        except Exception as error:  # noqa: BLE001 (an index can be made again at any time; the compaction goes on)
            self._reaches = False
            reason = f"recall is not up to date: {error}"
            self._announcer.tell(SteppedAside(layer="recall", reason=reason, error=type(error).__name__))

    def _reachable(self, probe: Probe) -> bool:
        if self._recall is None or not self._reaches:
            return False
        return probe.found_among(self._recall.found(probe.text, probe.sought, HITS))


def signed_words(raw: bytes) -> str:
    """What a provider's signed block says."""
    match blocks.read(raw).body():
        case Compaction(content=str() as words):
            return words
        case _:
            return ""


def _in_signed(raw: bytes, facts: Facts, hidden: Sequence[Item]) -> tuple[str, ...]:
    """What a signed block claims without a source, in any part of it: it goes to the model as it is, or not at all."""
    words = signed_words(raw)
    seen = (*summary.unsourced(words, facts, hidden), *fidelity.invented([words], hidden))
    return tuple(dict.fromkeys(seen))


def folded(view: View) -> frozenset[str]:
    """The folds that were made in a conversation."""
    return frozenset(made.id for made in view.decisions() if isinstance(made, Fold))


def unfolded(items: Sequence[Item], folds: Set[str]) -> list[Item]:
    """The records with those that were folded as they were said: what is known of them need not be handed on."""
    return [Item.of(one.said, one.seq) if one.hidden_by in folds else one for one in items]
