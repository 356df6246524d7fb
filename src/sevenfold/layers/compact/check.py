"""From an engine's answer to a summary: marked where it claims too much, completed by code, and scored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.conversation.flow import in_thread
from sevenfold.conversation.resume import read
from sevenfold.errors import Aborted
from sevenfold.layers.compact import coverage, summary
from sevenfold.layers.compact.coverage import Coverage, Fact
from sevenfold.layers.compact.extract import facts as facts_of
from sevenfold.layers.compact.extract.words import whole_text
from sevenfold.layers.compact.summary.draft import Draft, Failure, words_of
from sevenfold.layers.compact.summary.evidence import Evidence
from sevenfold.layers.compact.summary.marks import mark
from sevenfold.prompts.context import Unsupported
from sevenfold.record import blocks
from sevenfold.record.decisions import Fold
from sevenfold.record.entries import Said
from sevenfold.record.layout import Item

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation
    from sevenfold.conversation.flow import Flow
    from sevenfold.layers.compact.engines import Got
    from sevenfold.layers.compact.scope import Scope
    from sevenfold.ports import Recall

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


def check(c: Conversation, got: Got, divided: Scope, room: int) -> Flow[Verdict]:
    """The summary with its marks and everything in it that code knows, in so many tokens."""
    if got.engine == "notes" and isinstance(got.found, Draft):
        # Notes have limits of their own, and are not cut any further.
        room += c.count(got.found.text)
    recall = yield from _caught_up(c)
    # Records that were folded count as they were said: what is known of them need not be handed on.
    folds = {made.id for made in c.transcript.view.decisions() if isinstance(made, Fold)}
    hidden = [Item.of(one.said, one.seq) if one.hidden_by in folds else one for one in divided.hidden]
    return (yield from in_thread(partial(_verdict, c, got, divided, hidden, room, recall)))


def _caught_up(c: Conversation) -> Flow[Recall | None]:
    """Index what is about to leave the context; None if recall cannot find it, so the summary must hold everything."""
    if c.services.recall is None:
        return None
    try:
        yield from in_thread(c.services.recall.catch_up)
    except Aborted:
        raise
    except Exception as error:  # noqa: BLE001 (an index can be made again at any time; the compaction goes on)
        c.events.aside("recall", f"recall is not up to date: {error}", error=error)
        return None
    return c.services.recall


def _verdict(
    c: Conversation, got: Got, divided: Scope, hidden: Sequence[Item], room: int, recall: Recall | None
) -> Verdict:
    """A signed block is sent as it is; what there is to say about it goes behind it."""
    facts = facts_of(hidden, c.kinds)
    evidence = Evidence(facts, (*divided.front, *hidden, *divided.behind), partial(_everything_said, c))
    if isinstance(got.found, Failure):
        marked = mark(facts.prose, evidence)
        known = replace(facts, prose=marked.sections)
        made = summary.extractive(known, room, c.count, span=divided.span)
    else:
        marked = mark({n: text for n, text in got.found.sections.items() if n != 6}, evidence)
        made = summary.combine(marked.sections, facts, room, c.count, span=divided.span)
    text, claims = made.text, marked.sentences
    seen = [whole_text(item) for item in divided.kept]
    if got.signed is not None:
        words = words_of(blocks.read(got.signed))
        seen.append(words)
        claims = summary.unsupported(words, evidence)
        text = summary.sections(facts, room, c.count, span=divided.span).text
        if claims:
            text = f"{Unsupported.of(claims).render()}\n\n{text}"

    def found(fact: Fact) -> bool:
        hits = recall.found(fact.text, (), HITS) if recall is not None else ()
        return any(hit.exact or hit.uuid.startswith(fact.record) for hit in hits)

    score = coverage.cover(facts, [text, *seen], found)
    if score.lost:
        text = f"{text}\n\n{coverage.missing(score.lost, c.window.budget(MISSING_TOKENS), c.count)}"
        score = coverage.cover(facts, [text, *seen], found)
    if got.signed is None:
        return Verdict(text, score, made.left_out, claims)
    return Verdict(made.text, score, made.left_out, claims, behind=text)


def _everything_said(c: Conversation) -> Iterator[Item]:
    """Everything that was ever said, also before earlier compactions."""
    for place, entry in read(c.transcript.log):
        if isinstance(entry, Said) and not entry.sidechain:
            yield Item.of(entry, place)
