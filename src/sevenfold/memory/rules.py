"""Finding facts worth remembering without a model: sentences in which the user says how things should be from now on.

This is what the offline model remembers by, so that memory can be tried without a key. It knows English only, and takes
the user's sentences as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from sevenfold.memory.entry import Kind
from sevenfold.memory.statements import statements
from sevenfold.memory.words import passing

LEAST_CHARACTERS = 8
"""Shorter quotations prove nothing: anyone says "yes" or "do it"."""
MOST_CHARACTERS = 400
"""A longer sentence is a pasted text, not a wish."""

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
    """Something worth remembering, as it was proposed."""

    quotations: tuple[str, ...]
    """The words of the user that carry it."""
    kind: Kind = "project"
    note: str = ""
    """Why it matters and how to apply it, in the words of the one who proposes it."""
    until: str = ""


def facts(said: Mapping[str, str]) -> Iterator[LastingFact]:
    """The facts in what the user said, by record."""
    for words in said.values():
        for sentence in (one.text for one in statements(words)):
            kind = next((kind for kind, rule in _RULES if rule.search(sentence)), None)
            if kind is None or _NO_STATEMENT.search(sentence) or passing(sentence):
                continue
            if LEAST_CHARACTERS <= len(sentence) <= MOST_CHARACTERS:
                yield LastingFact((sentence,), kind)
