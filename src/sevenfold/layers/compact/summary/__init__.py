"""Summaries: reading what a model wrote, marking what it claims without a source, completing it, or doing without.

Code writes what must be true: the user's words, what they allowed and refused, files, errors, open tasks and exact
identifiers come from the log, with the ids of their records. A model writes what needs judgement, and its text stays
whole. Without a model, code fills all nine sections, and only with what was said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec.structs import replace

from sevenfold.layers.compact.extract import facts as facts_of
from sevenfold.layers.compact.extract import notation, outline
from sevenfold.layers.compact.extract.facts import Facts, Kind
from sevenfold.layers.compact.extract.outline import TITLES, TITLES_UP_TO
from sevenfold.layers.compact.summary import lists
from sevenfold.layers.compact.summary.compose import Summary, compose
from sevenfold.layers.compact.summary.draft import Draft
from sevenfold.layers.compact.summary.evidence import Evidence
from sevenfold.layers.compact.summary.fit import Count
from sevenfold.layers.compact.summary.marks import mark
from sevenfold.record.layout import Item

Span = Literal["whole", "from", "up_to", "range"]
"""What is summarised: everything, what follows a chosen message, what is before it, or a part in the middle."""

_PROSE = 0.07
_EARLIER_PROSE = 0.05


def unsupported(text: str, evidence: Evidence) -> tuple[str, ...]:
    """The sentences of a summary that cannot be changed which would be marked, with its list of the user's messages."""
    sections = outline.split(text)
    if told := sections.get(6):
        sections[6] = f"The user said:\n{told}"
    return mark(sections, evidence).sentences


def combine(draft: Draft, facts: Facts, budget: int, count: Count, *, span: Span = "whole") -> Summary:
    """A draft completed with the facts; the user's messages are the log's, never the model's."""
    own = {number: text for number, text in draft.sections.items() if number != 6}
    told = {6: facts.prose[6]} if 6 in facts.prose else {}
    wanted = [
        *lists.prose(told, _PROSE, notation.EARLIER),
        *lists.prose(own, _PROSE),
        *lists.recorded(facts, "\n".join(own.values())),
    ]
    return compose(facts, wanted, budget, count, _titles(span))


def sections(facts: Facts, budget: int, count: Count, *, span: Span = "whole") -> Summary:
    """The facts alone in their sections."""
    return compose(facts, lists.recorded(facts), budget, count, _titles(span))


def extractive(
    items: Iterable[Item],
    budget: int,
    count: Count,
    *,
    kinds: Mapping[str, Kind] | None = None,
    span: Span = "whole",
    known: Facts | None = None,
) -> Summary:
    """A summary made by code alone, of any records whatever; it always succeeds and always fits.

    ``known`` is what is known of these records, where that was found out before.
    """
    facts = facts_of(items, kinds) if known is None else known
    wanted = [
        *lists.where_it_stands(facts),
        *lists.recorded(facts),
        *lists.prose(facts.prose, _EARLIER_PROSE, notation.EARLIER),
        *lists.how_it_went(facts),
    ]
    return compose(facts, wanted, budget, count, _titles(span))


def prose(items: Iterable[Item], budget: int, count: Count) -> Summary:
    """What a model would write of these records, by code: a summary without the lists that `combine` adds."""
    facts = facts_of(items)
    wanted = [
        *lists.where_it_stands(facts),
        *lists.prose(facts.prose, _EARLIER_PROSE, notation.EARLIER),
        *lists.how_it_went(facts),
    ]
    return compose(replace(facts, messages=(), left_out={}), wanted, budget, count)


def _titles(span: Span) -> Mapping[int, str]:
    return TITLES_UP_TO if span in ("up_to", "range") else TITLES
