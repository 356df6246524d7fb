"""Comparing what was said: to the letter, and by the words that carry it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from sevenfold.recall.ranking import DENSE_RUN, FILLERS, folded

_WORD = re.compile(r"\w+(?:[./:@-]\w+)*")
_PASSING = re.compile(
    r"\b(?:(?:just )?this (?:once|time)|just now|for now|today only|in this (?:file|session|case))\b",
    re.IGNORECASE,
)
_FINISHED = re.compile(
    r"\b(?:(?:is|are|was|were|got) (?:now |finally )?(?:fixed|solved|resolved)|fixed (?:it|that|now)"
    r"|works? (?:again|now)|turned out to be|the (?:bug|problem|culprit|root cause) was)\b",
    re.IGNORECASE,
)
_WISH = re.compile(
    r"\b(?:always|never|from now on|in future|prefer|must|should|do not|don['’]t|remember)\b", re.IGNORECASE
)
_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?](?!\s|$)[^.!?\n]*)*")
_NUMBER = re.compile(r"\d")
ROOT = 4
"""Letters that two forms of a word have in common at least."""
ENDING = 3
"""Letters in which they may differ at the end."""
_NEGATION = re.compile(r"\b(?:no|not|never|none|without|nor|cannot|\w+n['’]t)\b", re.IGNORECASE)


def passing(words: str) -> bool:
    """Do these words say that they hold for the moment only?"""
    return bool(_PASSING.search(words))


def finished(words: str) -> bool:
    """Do these words report that something was debugged, and ask for nothing from now on?"""
    return bool(_FINISHED.search(words)) and not _WISH.search(words)


def says(text: str, words: str) -> bool:
    """Does the text hold these words, or a sentence that says the same in nearly the same ones?"""
    return holds(text, words) or any(same_fact(one.strip(" -*#>|\t"), words) for one in _sentences(text))


@lru_cache(maxsize=64)
def _sentences(text: str) -> tuple[str, ...]:
    return tuple(_SENTENCE.findall(text))


def holds(text: str, words: str) -> bool:
    """Are these words in the text to the letter, white space and case aside?"""
    return bool(words.strip()) and folded(words) in folded(text)


@lru_cache(maxsize=4096)
def telling(text: str) -> frozenset[str]:
    """The words that carry a text; of scripts without spaces, all pairs of characters."""
    found = {
        word
        for word in _WORD.findall(text.casefold())
        if word not in FILLERS and (len(word) > 1 or word.isdigit())
    }
    for run in DENSE_RUN.findall(text):
        found |= {run[place : place + 2] for place in range(len(run) - 1)}
    return frozenset(found)


def shared(some: Iterable[str], others: frozenset[str]) -> frozenset[str]:
    """Those of the first words that the others hold as well, whatever their endings."""
    beginnings = _by_beginning(others)
    return frozenset(
        word for word in some if any(same_word(word, other) for other in beginnings.get(word[:ROOT], ()))
    )


@lru_cache(maxsize=4096)
def _by_beginning(words: frozenset[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for word in words:
        found.setdefault(word[:ROOT], []).append(word)
    return found


def same_word(one: str, other: str) -> bool:
    """Are these the same word, or two forms of it?"""
    if one == other:
        return True
    if names_something(one) or names_something(other) or min(len(one), len(other)) < ROOT:
        return False
    return (
        one[: max(ROOT, len(one) - ENDING)] == other[: max(ROOT, len(one) - ENDING)]
        and abs(len(one) - len(other)) <= ENDING
    )


@lru_cache(maxsize=4096)
def names_something(word: str) -> bool:
    """Is this a name, a path, a flag or a figure rather than a word of the language?"""
    return bool(_NUMBER.search(word)) or any(sign in word for sign in "./:@_")


def same_fact(one: str, other: str) -> bool:
    """Do two texts say the same in nearly the same words?

    Figures, names and negations must agree: they are what a small difference in words changes most.
    """
    if folded(one) == folded(other):
        return True
    left, right = telling(one), telling(other)
    both = shared(left, right)
    apart = (left - both) | (right - shared(right, left))
    if any(map(names_something, apart)) or bool(_NEGATION.search(one)) != bool(_NEGATION.search(other)):
        return False
    return len(both) >= 3 and len(apart) <= (len(both) + len(apart)) * 0.25
