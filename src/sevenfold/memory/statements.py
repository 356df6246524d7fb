"""The user's own statements in a message, each complete.

Half a sentence can say the opposite of the whole: "push on Fridays" is in "Never push on Fridays", in "Should we push
on Fridays?" and in 'The page says "push on Fridays"'. So a quotation of the user is never less than a sentence, and a
list item comes with the line that introduces the list. Text that a message only quotes is not the user's statement;
`sevenfold.record.authorship` says what that is.

In doubt, a statement is made longer than necessary: that loses nothing.

A statement may name a day relative to the day it was made: "tomorrow", "by Friday", "in two weeks". Only unambiguous
names are resolved: "next Friday" has two meanings, "on Friday" may be past, and "by Friday" on a Friday may be today.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from functools import lru_cache
from itertools import accumulate

from msgspec import Struct

from sevenfold.memory.entry import Kind
from sevenfold.memory.words import is_temporary
from sevenfold.recall.ranking import folded
from sevenfold.record.authorship import PASTED, QUOTED, typed_lines

DATES = "Dates: "
"""The beginning of the line that gives the dates of relative days in the user's words."""
LONGEST = 1_500
"""Characters. Anything longer without an end was pasted, and is not a statement."""
_ITEM = re.compile(r"(\s*)(?:[-*+•]|\d{1,3}[.)])\s+(?=\S)")
_END = re.compile(r"[.!?…]+[\"'”’»)\]*_`]*(?= (?![a-z])|$)|[。！？]+[」』”]?")
_ABBREVIATED = re.compile(r"\b(?:al|approx|cf|dr|e\.g|i\.e|mrs?|ms|prof|st|vs)\.$", re.IGNORECASE)
_MARKS = re.compile('["“”„«»「」『』]')
_GAP = " […]"


class Statement(Struct, frozen=True):
    """A sentence, possibly of a list item."""

    own: str
    lead: str = ""
    """The line that introduces the list."""

    @property
    def text(self) -> str:
        """The statement as it can be quoted on its own."""
        return f"{self.lead} {self.own}".lstrip()


@lru_cache(maxsize=256)
def statements(message: str) -> tuple[Statement, ...]:
    """The user's own statements in a message, in order."""
    found: list[Statement] = []
    leads: list[tuple[int, str]] = []
    """The indentation and the introducing line of each list that the current line is in."""
    for indent, words in _parts(message):
        while leads and (indent is None or leads[-1][0] >= indent):
            leads.pop()
        lead = leads[-1][1] if leads else ""
        made = [Statement(one, lead) for one in _sentences(words)]
        if leads and not lead.endswith(_GAP):
            leads[-1] = (leads[-1][0], lead + _GAP)  # for the items after this one
        if words.endswith(":"):
            leads.append((-1 if indent is None else indent, made[-1].text))
        # With a paste in the middle of it, a sentence says what others wrote.
        found += (statement for statement in made if PASTED not in statement.text)
    return tuple(found)


def whole(message: str, words: str) -> str:
    """The complete statements of a message that contain these words; empty if the words are not the user's own."""
    wanted = folded("\n".join(_ITEM.sub("", line, count=1) for line in words.splitlines()))
    found = statements(message)
    parts = [f"{folded(one.own)} " for one in found]
    ends = list(accumulate(map(len, parts)))
    place = "".join(parts).find(wanted) if wanted else -1
    if place < 0:
        return ""
    held = [one for one, end in zip(found, ends, strict=True) if place < end]
    more = sum(place + len(wanted) >= end for end in ends) - (len(found) - len(held))
    text = " ".join((held[0].text, *(one.own for one in held[1 : more + 1])))
    return text if len(text) <= LONGEST else ""


def _parts(message: str) -> Iterator[tuple[int | None, str]]:
    """Paragraphs (indent None) and list items; a paragraph that ends in a colon continues after a blank line."""
    indent: int | None = None
    held = ""
    for line in (*typed_lines(message), "", ""):
        item = _ITEM.match(line)
        blank = not line.strip() and (line == QUOTED or not held.endswith(":"))
        if held and (item or blank):
            yield indent, held
            held = ""
        if item or not held:
            indent = len(item[1]) if item else None
        held = " ".join((held, *line[item.end() if item else 0 :].split())).strip()
    if held:
        yield indent, held


def _sentences(words: str) -> Iterator[str]:
    """The sentences of a paragraph; none ends inside quotation marks or after an abbreviation."""
    start = looked = marks = 0
    for end in _END.finditer(words):
        marks += len(_MARKS.findall(words, looked, end.end()))
        looked = end.end()
        if marks % 2 == 0 and not _ABBREVIATED.search(words, max(start, looked - 8), looked):
            yield words[start:looked].strip()
            start = looked
    yield from filter(None, [words[start:].strip()])


# -- relative days -------------------------------------------------------------------------------

_DAYS = {"today": 0, "tonight": 0, "tomorrow": 1, "yesterday": -1, "the day after tomorrow": 2}
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBERS = {"a": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_NUMBER = rf"\d{{1,3}}|{'|'.join(_NUMBERS)}"
_RELATIVE = re.compile(
    rf"\b(?:(?P<day>the day after tomorrow|today|tonight|tomorrow|yesterday)"
    rf"|(?:by|until|before|this) (?P<weekday>{'|'.join(_WEEKDAYS)})"
    rf"|in (?P<ahead>{_NUMBER}) (?P<unit>day|week)s?|(?P<back>{_NUMBER}) (?P<past>day|week)s? ago)\b",
    re.IGNORECASE,
)


def absolute_dates(words: str, said_on: date) -> dict[str, str]:
    """The phrases that name a day relative to ``said_on``, each with its date."""
    return {found: day.isoformat() for found, day in _resolved(words, said_on)}


def _resolved(words: str, said_on: date) -> Iterator[tuple[str, date]]:
    for found in _RELATIVE.finditer(" ".join(words.split())):
        part = {name: value.casefold() for name, value in found.groupdict().items() if value}
        if "day" in part:
            yield found[0], said_on + timedelta(days=_DAYS[part["day"]])
        elif "ahead" in part:
            yield found[0], said_on + _span(part["ahead"], part["unit"])
        elif "back" in part:
            yield found[0], said_on - _span(part["back"], part["past"])
        elif ahead := (_WEEKDAYS.index(part["weekday"]) - said_on.weekday()) % 7:
            yield found[0], said_on + timedelta(days=ahead)


def _span(number: str, unit: str) -> timedelta:
    count = _NUMBERS.get(number) or int(number)
    return timedelta(days=count * (7 if unit == "week" else 1))


# -- facts worth remembering, without a model --------------------------------------------------------
# Sentences in which the user says how things should be from now on. The offline model uses this, so that memory can be
# tried without an API key. It supports only English, and copies the user's sentences unchanged.

LEAST_CHARACTERS = 8
"""Shorter quotations prove nothing: anyone says "yes" or "do it"."""
MOST_CHARACTERS = 400
"""A longer sentence is pasted text, not a wish."""

_RULES: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    (
        "user",
        re.compile(
            r"\b(?:remember(?: that)?|note that|keep in mind|for the future|my name is|i am an?|i work)\b",
            re.I,
        ),
    ),
    (
        "feedback",
        re.compile(
            r"\b(?:i (?:prefer|like|want|hate|dislike|always|never)|(?:please )?(?:always|never)|from now on|in future"
            r"|don['’]t ever|stop (?:using|doing)|use \S+(?: \S+){0,3} (?:instead|rather)|not \S+,? but|instead of)\b",
            re.I,
        ),
    ),
    (
        "project",
        re.compile(
            r"\b(?:we (?:decided|agreed|use|ship|release|deploy|target|support)|the decision is|let['’]s go with"
            r"|deadline|(?:is|are) due|by (?:mon|tues|wednes|thurs|fri|satur|sun)day|\d{4}-\d\d-\d\d)\b",
            re.I,
        ),
    ),
)
_NO_STATEMENT = re.compile(r"[?]\s*$|^\s*(?:[`|#$]|\{|<)")


class LastingFact(Struct, frozen=True):
    """A fact proposed for memory."""

    quotations: tuple[str, ...]
    """The user's words that state it."""
    kind: Kind = "project"
    note: str = ""
    """Why it matters and how to apply it, in the proposer's words."""
    until: str = ""


def facts(said: Mapping[str, str]) -> Iterator[LastingFact]:
    """The facts in the user's messages, which are given by record id."""
    for words in said.values():
        for sentence in (one.text for one in statements(words)):
            kind = next((kind for kind, rule in _RULES if rule.search(sentence)), None)
            if kind is None or _NO_STATEMENT.search(sentence) or is_temporary(sentence):
                continue
            if LEAST_CHARACTERS <= len(sentence) <= MOST_CHARACTERS:
                yield LastingFact((sentence,), kind)
