"""Summaries: reading a model's draft, marking its unsupported claims and completing it, or writing one without a model.

Code writes what must be true: the user's words, what they allowed and refused, files, errors, open tasks and exact
identifiers come from the log, with the ids of their records. A model writes what needs judgement, and its text is kept
whole. Without a model, code fills all nine sections, using only text from the conversation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from sevenfold.layers.compact.extract import notation, outline
from sevenfold.layers.compact.extract.notation import Facts
from sevenfold.layers.compact.extract.outline import TITLES, TITLES_UP_TO
from sevenfold.layers.compact.extract.words import one_line
from sevenfold.layers.compact.scope import Span
from sevenfold.layers.compact.summary.compose import Count, Entries, Summary, compose, paragraphs
from sevenfold.layers.compact.summary.evidence import Evidence
from sevenfold.layers.compact.summary.marks import mark

_PROSE = 0.07
_EARLIER_PROSE = 0.05
_ORDER = (6, 9, 8, 1, 7, 4, 3, 5, 2)
"""Sections in the order in which their prose gets room: the user's words first, then the most recent work."""
_REQUEST = 240
_HINT = 200


def unsupported(text: str, evidence: Evidence) -> tuple[str, ...]:
    """The unsupported sentences of a summary that cannot be edited; its list of user messages is checked as well."""
    sections = outline.split(text)
    if users_messages := sections.get(6):
        sections[6] = f"The user said:\n{users_messages}"
    return mark(sections, evidence).sentences


def combine(
    drafted: Mapping[int, str],
    facts: Facts,
    budget: int,
    count: Count,
    *,
    span: Span = "whole",
    apart: bool = False,
) -> Summary:
    """Complete a model's draft with the facts; the user's messages come from the log, never from the model.

    ``apart``, here and below: they are shown behind the summary, not in it.
    """
    written_by_model = {number: text for number, text in drafted.items() if number != 6}
    earlier_messages = {6: facts.prose[6]} if 6 in facts.prose else {}
    written = [*_prose(earlier_messages, _PROSE, notation.EARLIER), *_prose(written_by_model, _PROSE)]
    wanted = [*written, *_recorded(facts, "\n".join(written_by_model.values()))]
    return compose(facts, wanted, budget, count, _titles(span), apart=apart)


def sections(
    facts: Facts, budget: int, count: Count, *, span: Span = "whole", apart: bool = False
) -> Summary:
    """A summary of the recorded facts alone, each in its section."""
    return compose(facts, _recorded(facts), budget, count, _titles(span), apart=apart)


def extractive(
    facts: Facts, budget: int, count: Count, *, span: Span = "whole", apart: bool = False
) -> Summary:
    """A summary made by code alone; it always succeeds and always fits the budget."""
    wanted = [*_prose_substitute(facts, _recorded(facts))]
    return compose(facts, wanted, budget, count, _titles(span), apart=apart)


def prose(facts: Facts, budget: int, count: Count) -> Summary:
    """The part of a summary that a model would write, made by code: without the lists that `combine` adds."""
    return compose(replace(facts, messages=(), left_out={}), [*_prose_substitute(facts)], budget, count)


def _titles(span: Span) -> Mapping[int, str]:
    return TITLES_UP_TO if span in ("up_to", "range") else TITLES


# -- the candidates for a place in a summary, by priority ------------------------------------------


def _recorded(facts: Facts, present: str = "") -> list[Entries]:
    """The lists that every summary contains; facts that the text ``present`` does not mention come first."""
    files = sorted(facts.files, key=lambda file: file.path in present)
    problems = sorted(facts.problems, key=lambda fact: fact.lines in present)
    identifiers = sorted(facts.identifiers, key=lambda fact: fact.text in present)
    return [
        Entries(7, "tasks", _lines(facts, [*facts.tasks, *facts.pending]), 0.08),
        Entries(6, "replies", _lines(facts, facts.replies[::-1]), 0.08, oldest_first=True),
        Entries(6, "permissions", _lines(facts, facts.permissions), 0.08),
        Entries(1, "corrections", _lines(facts, facts.corrections), 0.06),
        Entries(3, "files", _lines(facts, files), 0.14),
        Entries(4, "errors", _lines(facts, problems), 0.08),
        Entries(2, "identifiers", _lines(facts, identifiers), 0.08),
    ]


def _prose_substitute(facts: Facts, recorded: Iterable[Entries] = ()) -> Iterable[Entries]:
    """What code writes instead of a model's prose, with the recorded lists inserted by priority."""
    yield Entries(9, "next", tuple(_next(facts)), 0.04)
    yield Entries(8, "current", facts.current[::-1], 0.16, oldest_first=True)
    yield from recorded
    yield from _prose(facts.prose, _EARLIER_PROSE, notation.EARLIER)
    yield Entries(1, "request", tuple(_request(facts)), 0.02)
    # Newest first, without the one that the newest rounds already show in full.
    shown_records = {last_words.record for last_words in notation.said_last(facts.current)}
    outcomes = (
        quote for quote in reversed(facts.outcomes) if facts.name(quote.record) not in shown_records
    )
    yield Entries(5, "outcomes", _lines(facts, outcomes), 0.1, oldest_first=True)
    yield Entries(5, "commands", _lines(facts, facts.commands), 0.04)


def _prose(sections: Mapping[int, str], share: float, label: str = "") -> list[Entries]:
    """Prose for the sections; ``label`` marks text from an earlier summary, which may no longer be true."""
    present = ((number, sections[number]) for number in _ORDER if number in sections)
    return [Entries(number, "", paragraphs(text), share, label=label) for number, text in present]


def _lines(facts: Facts, listed: Iterable[notation.Listed]) -> tuple[str, ...]:
    return tuple(notation.entry(fact, facts) for fact in listed)


def _request(facts: Facts) -> Iterable[str]:
    if len(facts.messages) > 1 and not facts.prose:
        first = facts.messages[0]
        yield f"- what the user said first: {_begin(first.head, first.record, facts)}"


def _next(facts: Facts) -> Iterable[str]:
    """Lines for the next step, quoted from the record: the newest request, the model's last words, an open task."""
    for newest in facts.messages[-1:]:
        yield f"- the user's newest words: {_begin(newest.head, newest.record, facts)}"
    for last in facts.outcomes[-1:]:
        yield f"- the model's newest words: {_begin(last.text, last.record, facts, _HINT)}"
    for task in sorted(facts.tasks, key=lambda task: not task.doing)[:1]:
        yield f"- on the to-do list: {_begin(task.text, task.record, facts)}"


def _begin(text: str, record: str, facts: Facts, limit: int = _REQUEST) -> str:
    return f"“{one_line(text, limit)}” [{facts.name(record)}]"
