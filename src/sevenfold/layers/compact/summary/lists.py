"""What wants a place in a summary, and how urgently: the recorded lists, and the prose."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from sevenfold.layers.compact.extract import notation
from sevenfold.layers.compact.extract.facts import Facts, Quote
from sevenfold.layers.compact.extract.words import one_line
from sevenfold.layers.compact.summary.compose import paragraphs
from sevenfold.layers.compact.summary.fit import Entries

_FACT = TypeVar("_FACT")

_ORDER = (6, 9, 8, 1, 7, 4, 3, 5, 2)
"""Sections in the order in which their prose is wanted: the user's words first, then what is nearest."""

_MOST = {
    "corrections": 30,
    "permissions": 30,
    "identifiers": 60,
    "errors": 25,
    "outcomes": 40,
    "commands": 20,
}
"""Entries beyond these are rather looked up than read every time."""
_REQUEST = 600
_HINT = 200


def recorded(facts: Facts, present: str = "") -> list[Entries]:
    """The lists every summary holds; what the text ``present`` does not mention yet comes first."""
    missing = _missing_first(present)
    tasks = [notation.task(task, facts) for task in facts.tasks]
    pending = [notation.quote(one, facts) for one in facts.pending]
    return [
        Entries(7, "tasks", (*tasks, *pending), 0.08),
        _entries(6, "replies", facts.replies[::-1], notation.quote, facts, 0.08, oldest_first=True),
        _entries(6, "permissions", facts.permissions, notation.permission, facts, 0.08),
        _entries(1, "corrections", facts.corrections, notation.quote, facts, 0.06),
        _entries(3, "files", missing(facts.files, lambda file: file.path), notation.file, facts, 0.14),
        _entries(
            4, "errors", missing(facts.problems, lambda one: one.lines), notation.problem, facts, 0.08
        ),
        _entries(
            2,
            "identifiers",
            missing(facts.identifiers, lambda one: one.text),
            notation.identifier,
            facts,
            0.08,
        ),
    ]


def where_it_stands(facts: Facts) -> list[Entries]:
    """The lists that take the place of what a model would write about the current work and the next step."""
    return [
        Entries(9, "next", tuple(_next(facts)), 0.04),
        Entries(8, "current", facts.current[::-1], 0.16, oldest_first=True),
    ]


def how_it_went(facts: Facts) -> list[Entries]:
    """The lists that take the place of what a model would write about the request and what came of it."""
    return [
        Entries(1, "request", tuple(_request(facts)), 0.02),
        _entries(5, "outcomes", _before_now(facts), notation.quote, facts, 0.1, oldest_first=True),
        _entries(5, "commands", facts.commands, notation.command, facts, 0.04),
    ]


def prose(sections: Mapping[int, str], share: float, label: str = "") -> list[Entries]:
    """Text for the sections; what an earlier summary has is labelled, for it may no longer hold."""
    return [
        Entries(number, "", paragraphs(sections[number]), share, label=label)
        for number in _ORDER
        if number in sections
    ]


def _entries(
    section: int,
    kind: str,
    entries: Iterable[_FACT],
    write: Callable[[_FACT, Facts], str],
    facts: Facts,
    share: float,
    *,
    oldest_first: bool = False,
) -> Entries:
    lines = tuple(write(entry, facts) for entry in entries)
    return Entries(section, kind, lines, share, _MOST.get(kind, len(lines)), oldest_first=oldest_first)


def _missing_first(present: str) -> Callable[[Iterable[_FACT], Callable[[_FACT], str]], list[_FACT]]:
    def order(entries: Iterable[_FACT], key: Callable[[_FACT], str]) -> list[_FACT]:
        return sorted(entries, key=lambda entry: key(entry) in present)

    return order


def _before_now(facts: Facts) -> list[Quote]:
    """Newest first, without the one that is shown at length among the newest rounds."""
    told = {quote.record for quote in notation.said_last(facts.current)}
    return [one for one in reversed(facts.outcomes) if facts.name(one.record) not in told]


def _request(facts: Facts) -> Iterable[str]:
    if len(facts.messages) > 1 and not facts.prose:
        first = facts.messages[0]
        yield f"- what the user said first: {_begin(Quote(first.head, first.record), facts)}"
        yield "- Section 6 has every message, section 9 the newest."


def _next(facts: Facts) -> Iterable[str]:
    """Only what was said: the newest request, what the model said of it last, what is open."""
    if facts.messages:
        newest = facts.messages[-1]
        yield f"- the user's newest words: {_begin(Quote(newest.head, newest.record), facts)}"
    if facts.outcomes:
        last = facts.outcomes[-1]
        yield f"- the model's newest words: “{one_line(last.text, _HINT)}” [{facts.name(last.record)}]"
    if doing := [task for task in facts.tasks if task.doing] or facts.tasks:
        yield f"- on the to-do list: “{one_line(doing[0].text, _REQUEST)}” [{facts.name(doing[0].record)}]"


def _begin(quote: Quote, facts: Facts) -> str:
    return f"“{one_line(quote.text, _REQUEST)}” [{facts.name(quote.record)}]"
