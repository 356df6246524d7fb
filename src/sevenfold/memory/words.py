"""Comparing what was said: to the letter, and by the words that carry it."""

from __future__ import annotations

import re

from sevenfold.recall.ranking import DENSE_RUN, FILLERS, folded, stem

_WORD = re.compile(r"\w+(?:[./:@-]\w+)*")
_NUMBER = re.compile(r"\d")
_NEGATION = re.compile(r"\b(?:no|not|never|none|without|nor|cannot|\w+n['’]t)\b", re.IGNORECASE)


def holds(text: str, words: str) -> bool:
    """Are these words in the text to the letter, white space and case aside?"""
    return bool(words.strip()) and folded(words) in folded(text)


def telling(text: str) -> frozenset[str]:
    """The words that carry a text, without their endings; of scripts without spaces, all pairs of characters."""
    found = {stem(word) for word in _WORD.findall(text.casefold()) if word not in FILLERS and len(word) > 1}
    for run in DENSE_RUN.findall(text):
        found |= {run[place : place + 2] for place in range(len(run) - 1)}
    return frozenset(found)


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
    apart = left ^ right
    if any(map(names_something, apart)) or bool(_NEGATION.search(one)) != bool(_NEGATION.search(other)):
        return False
    return len(left & right) >= 3 and len(apart) <= len(left | right) * 0.25
