"""From an engine's answer to a summary: marked where it claims too much, completed by code, and scored."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from typing import TYPE_CHECKING, cast

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.conversation.flow import in_thread
from sevenfold.conversation.resume import read
from sevenfold.errors import Aborted
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


def catch_up(c: Conversation) -> Flow[bool]:
    """Index what is about to leave the context; False if recall cannot find it, so the summary must hold everything."""
    if c.services.recall is None:
        return False
    try:
        yield from in_thread(c.services.recall.catch_up)
    except Aborted:
        raise
    except Exception as error:  # noqa: BLE001 (an index can be made again at any time; the compaction goes on)
        c.events.aside("recall", f"recall is not up to date: {error}", error=error)
        return False
    return True


def check(
    c: Conversation, got: Got, divided: Scope, budget: int, folds: Collection[str], *, reaches: bool
) -> Verdict:
    """The summary with its marks and everything in it that code knows; ``reaches``: recall is up to date.

    A signed block is sent as it is; what there is to say about it goes behind it.
    """
    # Records that were folded count as they were said: what is known of them need not be handed on.
    hidden = [Item.of(one.said, one.seq) if one.hidden_by in folds else one for one in divided.hidden]
    facts = facts_of(hidden, {name: cast(Kind, kind) for name, kind in c.kinds.items() if kind})
    evidence = Evidence(facts, (*divided.front, *hidden, *divided.kept), partial(_everything_said, c))
    if isinstance(got.found, Failure):
        marked = mark(facts.prose, evidence)
        known = replace(facts, prose=marked.sections)
        made = summary.extractive(known, budget, c.count, span=divided.span)
    else:
        marked = mark({n: text for n, text in got.found.sections.items() if n != 6}, evidence)
        made = summary.combine(marked.sections, facts, budget, c.count, span=divided.span)
    if got.signed is None:
        text, score = _completed(c, made.text, facts, divided, reaches)
        return Verdict(text, score, made.left_out, marked.sentences)
    words = words_of(blocks.read(got.signed))
    claims = summary.unsupported(words, evidence)
    shown = summary.sections(facts, budget, c.count, span=divided.span).text
    if claims:
        shown = f"{Unsupported.of(claims).render()}\n\n{shown}"
    behind, score = _completed(c, shown, facts, divided, reaches, words)
    return Verdict(made.text, score, made.left_out, claims, behind)


def _completed(
    c: Conversation, text: str, facts: Facts, divided: Scope, reaches: bool, *before: str
) -> tuple[str, Coverage[Fact]]:
    """The text with the facts that would be lost, and the score after that."""
    recall = c.services.recall if reaches else None

    def found(fact: Fact) -> bool:
        hits = recall.found(fact.text, (), HITS) if recall is not None else ()
        return any(hit.exact or hit.uuid.startswith(fact.record) for hit in hits)

    rest = (*before, *(whole_text(item) for item in (*divided.front, *divided.kept)))
    score = coverage.cover(facts, [text, *rest], found)
    if score.lost:
        room = c.window.budget(MISSING_TOKENS)
        text = f"{text}\n\n{coverage.missing(score.lost, room, c.count)}"
        score = coverage.cover(facts, [text, *rest], found)
    return text, score


def _everything_said(c: Conversation) -> Iterator[Item]:
    """Everything that was ever said, also before earlier compactions."""
    for place, entry in read(c.transcript.log):
        if isinstance(entry, Said) and not entry.sidechain:
            yield Item.of(entry, place)
