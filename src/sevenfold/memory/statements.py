"""The user's own statements in a message, each complete.

Half a sentence can say the opposite of the whole: "push on Fridays" is in "Never push on Fridays", in "Should we push
on Fridays?" and in 'The page says "push on Fridays"'. So a quotation of the user is never less than a sentence, and a
list item comes with the line that introduces the list. Text that a message only quotes is not the user's statement;
`sevenfold.record.authorship` says what that is.

In doubt, a statement is made longer than necessary: that loses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from msgspec import Struct

from sevenfold.memory.entry import Kind
from sevenfold.memory.words import is_temporary
from sevenfold.recall.ranking import DENSE_RUN
from sevenfold.record.authorship import PASTED, QUOTED, typed_lines

LONGEST = 1_500
"""Characters. Anything longer without an end was pasted, and is not a statement."""
_ITEM = re.compile(r"(\s*)(?:[-*+•]|(?P<number>\d{1,3})[.)])\s+(?=\S)")
_END = re.compile(r"[.!?…]+[\"'”’»)\]*_`]*(?= (?![a-z])|$)|[。！？]+[」』”]?")
_ABBREVIATED = re.compile(r"\b(?:al|approx|cf|dr|e\.g|i\.e|mrs?|ms|prof|st|vs)\.$", re.IGNORECASE)
_ORDINAL = re.compile(r"(?<![\w.,/:-])\d{1,2}\.$")
"""A short number with a full stop: "the 15. of November" goes on, and so does the number of an item."""
_MARKS = re.compile('["“”„«»「」『』]')
_OPENS_LIST = (":", "：")
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
    complete: list[Statement] = []
    leads: list[tuple[int, str]] = []
    """The indentation and the introducing line of each list that the current line is in."""
    for indent, paragraph in _parts(message):
        while leads and (indent is None or leads[-1][0] >= indent):
            leads.pop()
        lead = leads[-1][1] if leads else ""
        parts = [Statement(sentence, lead) for sentence in _sentences(paragraph)]
        if leads and not lead.endswith(_GAP):
            leads[-1] = (leads[-1][0], lead + _GAP)  # for the items after this one
        if paragraph.endswith(_OPENS_LIST):
            leads.append((-1 if indent is None else indent, parts[-1].text))
        # With a paste in the middle of it, a sentence says what others wrote.
        complete += (statement for statement in parts if PASTED not in statement.text)
    return tuple(complete)


def strip_marker(line: str) -> str:
    """A line without the mark of a list item at its beginning."""
    item = _ITEM.match(line)
    return line[item.end() :] if item else line


def _parts(message: str) -> Iterator[tuple[int | None, str]]:
    """Paragraphs (indent None) and list items; a paragraph that ends in a colon continues after a blank line."""
    indent: int | None = None
    held = ""
    numbers = {0}
    """The numbers of the items so far, and what may come before the first one."""
    for line in (*typed_lines(message), "", ""):
        item = _item(line, numbers)
        blank = not line.strip() and (line == QUOTED or not held.endswith(_OPENS_LIST))
        if held and (item or blank):
            yield indent, held
            held = ""
        if item or not held:
            indent = len(item[1]) if item else None
        held = " ".join((held, *line[item.end() if item else 0 :].split())).strip()
    if held:
        yield indent, held


def _item(line: str, numbers: set[int]) -> re.Match[str] | None:
    """The mark of a list item at the beginning of a line; "15. November" without a 14th item is none."""
    item = _ITEM.match(line)
    if item is None or item["number"] is None:
        return item
    number = int(item["number"])
    if number > 1 and number - 1 not in numbers:
        return None
    numbers.add(number)
    return item


def _sentences(paragraph: str) -> Iterator[str]:
    """The sentences of a paragraph; none ends inside quotation marks or after an abbreviation."""
    start = looked = marks = 0
    for end in _END.finditer(paragraph):
        marks += len(_MARKS.findall(paragraph, looked, end.end()))
        looked = end.end()
        unfinished = _ABBREVIATED.search(paragraph, max(start, looked - 8), looked) or (
            looked < len(paragraph) and _ORDINAL.search(paragraph, max(start, looked - 4), looked)
        )
        if marks % 2 == 0 and not unfinished:
            yield paragraph[start:looked].strip()
            start = looked
    yield from filter(None, [paragraph[start:].strip()])


# -- facts worth remembering, without a model --------------------------------------------------------
# Sentences in which the user says how things should be from now on. The offline model uses this, so that memory can be
# tried without an API key. It supports only English, and copies the user's sentences unchanged.

LEAST_CHARACTERS = 8
"""Shorter quotations prove nothing: anyone says "yes" or "do it"."""
DENSE_CHARACTER = 3
"""How many characters one of a script without spaces counts for: it is a syllable or a word."""
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


def too_short(text: str) -> bool:
    """Whether words are too few to prove who said them."""
    bare = text.strip()
    dense = sum(map(len, DENSE_RUN.findall(bare)))
    return len(bare) + (DENSE_CHARACTER - 1) * dense < LEAST_CHARACTERS


class LastingFact(Struct, frozen=True):
    """A fact proposed for memory, or a wish that an earlier one no longer counts."""

    quotations: tuple[str, ...]
    """The user's words that state it."""
    kind: Kind = "project"
    note: str = ""
    """Why it matters and how to apply it, in the proposer's words."""
    until: str = ""
    message: str = ""
    """The record that the words are said to be from; empty: any."""
    dates: tuple[tuple[str, str], ...] = ()
    """Phrases in the user's words that name a day, each with the date that the proposer takes it for."""
    replaces: tuple[str, ...] = ()
    """Earlier statements of the user's that it ends, by the name of an entry or in the user's words."""
    lifts_only: bool = False
    """Whether it states nothing itself and only ends others."""


def facts(messages: Mapping[str, str]) -> Iterator[LastingFact]:
    """The facts in the user's messages, which are given by record id."""
    for message in messages.values():
        for sentence in (statement.text for statement in statements(message)):
            kind = next((kind for kind, rule in _RULES if rule.search(sentence)), None)
            if kind is None or _NO_STATEMENT.search(sentence) or is_temporary(sentence):
                continue
            if LEAST_CHARACTERS <= len(sentence) <= MOST_CHARACTERS:
                yield LastingFact((sentence,), kind)
