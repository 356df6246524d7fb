"""Summaries: reading what a model wrote, checking it against the log, completing it, or doing without.

A summary is built half by code. What is fact (the user's messages, files, errors, open tasks, exact
identifiers) comes from the log with the ids of its records; what needs judgement comes from a model. When
no model can be had, code fills all nine sections, and never with anything that was not said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal

from sevenfold.layers.compact.extract import facts as facts_of
from sevenfold.layers.compact.extract import notation
from sevenfold.layers.compact.extract.facts import Facts, Kind
from sevenfold.layers.compact.extract.outline import TITLES, TITLES_UP_TO
from sevenfold.layers.compact.summary import claims
from sevenfold.layers.compact.summary.compose import Summary, compose
from sevenfold.layers.compact.summary.draft import Draft, Failure, Reason, read
from sevenfold.layers.compact.summary.fit import Count
from sevenfold.layers.compact.summary.verify import Checked, unsourced, verify
from sevenfold.record.layout import Item

__all__ = [
    "Checked",
    "Count",
    "Draft",
    "Failure",
    "Reason",
    "Span",
    "Summary",
    "combine",
    "extractive",
    "read",
    "sections",
    "unsourced",
    "verify",
]

Span = Literal["whole", "from", "up_to", "range"]
"""What is summarised: everything, what follows a chosen message, what is before it, or a part in the middle."""

_PROSE = 0.07
_EARLIER_PROSE = 0.05


def combine(draft: Draft, facts: Facts, budget: int, count: Count, *, span: Span = "whole") -> Summary:
    """A checked draft completed with the facts; the user's messages are the log's, never the model's."""
    own = {number: _disarmed(text) for number, text in draft.sections.items() if number != 6}
    told = {6: facts.prose[6]} if 6 in facts.prose else {}
    wanted = [
        *claims.prose(told, _PROSE, notation.EARLIER),
        *claims.prose(own, _PROSE),
        *claims.recorded(facts, "\n".join(own.values())),
    ]
    return compose(facts, wanted, budget, count, _titles(span))


def sections(facts: Facts, budget: int, count: Count, *, span: Span = "whole") -> Summary:
    """The facts alone in their sections."""
    return compose(facts, claims.recorded(facts), budget, count, _titles(span))


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
        *claims.where_it_stands(facts),
        *claims.recorded(facts),
        *claims.prose(facts.prose, _EARLIER_PROSE, notation.EARLIER),
        *claims.how_it_went(facts),
    ]
    return compose(facts, wanted, budget, count, _titles(span))


def _titles(span: Span) -> Mapping[int, str]:
    return TITLES_UP_TO if span in ("up_to", "range") else TITLES


def _disarmed(text: str) -> str:
    """Prose without anything that looks copied from the record: only code may say so."""
    for tag in ("recorded", "said"):
        text = re.sub(rf"<{tag}\b.*?(?:</{tag}>|\Z)", "", text, flags=re.DOTALL)
        text = re.sub(rf"</?{tag}\b", rf"&lt;{tag}", text)
    return text
