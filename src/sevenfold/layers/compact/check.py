"""From an engine's answer to a summary: marked where it claims too much, completed by code, and scored."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, cast

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.conversation.flow import in_thread
from sevenfold.conversation.resume import read
from sevenfold.errors import Aborted
from sevenfold.events import SteppedAside
from sevenfold.layers.compact import coverage, summary
from sevenfold.layers.compact.coverage import Coverage, Fact
from sevenfold.layers.compact.extract import facts as facts_of
from sevenfold.layers.compact.extract.facts import Kind
from sevenfold.layers.compact.extract.words import whole_text
from sevenfold.layers.compact.summary.draft import Failure, words_of
from sevenfold.layers.compact.summary.evidence import Evidence
from sevenfold.layers.compact.summary.marks import mark
from sevenfold.prompts.context import Unsupported
from sevenfold.record import blocks
from sevenfold.record.entries import Said
from sevenfold.record.layout import Item

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation
    from sevenfold.conversation.flow import Flow
    from sevenfold.layers.compact.engines import Got
    from sevenfold.layers.compact.extract.facts import Facts
    from sevenfold.layers.compact.scope import Scope
    from sevenfold.layers.compact.summary.compose import Summary

MISSING_TOKENS = 1_000
"""For facts that found no place in the summary."""
HITS = 10
"""A fact is within reach if its record is among so many hits."""


class Verdict(Struct, frozen=True):
    """A summary, and how complete it is."""

    text: str
    score: Coverage[Fact]
    left_out: tuple[str, ...] = ()
    invented: tuple[str, ...] = ()
    """Sentences that claim a permission or an order that is not in the record; they are marked."""
    behind: str = ""
    """What goes behind a signed block, which cannot be added to."""


class Checker:
    """Checks the summaries of one conversation."""

    def __init__(self, c: Conversation) -> None:
        self._c = c
        self._recall = c.services.recall
        self._reaches = self._recall is not None

    def checked(self, got: Got, divided: Scope, budget: int, folds: Collection[str]) -> Verdict:
        """The summary with its marks and everything in it that code knows.

        A signed block is sent as it is; what there is to say about it goes behind it.
        """
        # Records that were folded count as they were said: what is known of them need not be handed on.
        hidden = [Item.of(one.said, one.seq) if one.hidden_by in folds else one for one in divided.hidden]
        facts = facts_of(hidden, {name: cast(Kind, kind) for name, kind in self._c.kinds.items() if kind})
        evidence = Evidence(facts, (*divided.front, *hidden, *divided.kept), self._said)
        made, claims = self._made(got, facts, evidence, divided, budget)
        if got.signed is None:
            text, score = self._completed(made.text, facts, divided)
            return Verdict(text, score, made.left_out, claims)
        words = words_of(blocks.read(got.signed))
        claims = summary.unsupported(words, evidence)
        shown = summary.sections(facts, budget, self._c.count, span=divided.span).text
        if claims:
            shown = f"{Unsupported.of(claims).render()}\n\n{shown}"
        behind, score = self._completed(shown, facts, divided, [words])
        return Verdict(made.text, score, made.left_out, claims, behind)

    def _made(
        self, got: Got, facts: Facts, evidence: Evidence, divided: Scope, budget: int
    ) -> tuple[Summary, tuple[str, ...]]:
        if isinstance(got.found, Failure):
            marked = mark(facts.prose, evidence)
            known = replace(facts, prose=marked.sections)
            return summary.extractive(
                (), budget, self._c.count, span=divided.span, known=known
            ), marked.sentences
        marked = mark({n: text for n, text in got.found.sections.items() if n != 6}, evidence)
        draft = replace(got.found, sections=marked.sections)
        return summary.combine(draft, facts, budget, self._c.count, span=divided.span), marked.sentences

    def _completed(
        self, text: str, facts: Facts, divided: Scope, attachments: Sequence[str] = ()
    ) -> tuple[str, Coverage[Fact]]:
        """The text with the facts that would be lost, and the score after that."""
        rest = (*attachments, *(whole_text(item) for item in (*divided.front, *divided.kept)))
        score = coverage.cover(facts, [text, *rest], self._reaches_to)
        if score.lost:
            room = self._c.window.budget(MISSING_TOKENS)
            text = f"{text}\n\n{coverage.missing(score.lost, room, self._c.count)}"
            score = coverage.cover(facts, [text, *rest], self._reaches_to)
        return text, score

    def _said(self) -> Iterator[Item]:
        """Everything that was ever said, also before earlier compactions."""
        for place, entry in read(self._c.transcript.log):
            if isinstance(entry, Said) and not entry.sidechain:
                yield Item.of(entry, place)

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
            self._c.events.tell(SteppedAside(layer="recall", reason=reason, error=type(error).__name__))

    def _reaches_to(self, fact: Fact) -> bool:
        if self._recall is None or not self._reaches:
            return False
        hits = self._recall.found(fact.text, (), HITS)
        return any(hit.exact or hit.uuid.startswith(fact.record) for hit in hits)
