"""Whether a later statement ends an earlier one.

Closing a fact that is still valid loses it; leaving open one that was replaced costs little, because the later one is
there as well. So only three forms count, and in each the two statements agree word for word except in one place:

- the later one denies what the earlier one says ("We deploy on Fridays", "We no longer deploy on Fridays");
- it names what it replaces ("Use port 9090 instead of 8080");
- it gives the same single thing another figure, name or path ("The deadline is 2026-12-15").

Words alone do not show whether "Bug 12 is closed" and "Bug 13 is closed" exclude each other; the form does. Hedges,
conditions and questions end nothing. Only English is supported; in other languages nothing is closed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from sevenfold.memory.words import names_something, same_word

_WORD = re.compile(r"\w+(?:[./:@-]\w+)*")
_SHORT = re.compile(r"\b(?:ca(?=n't)|wo(?=n't))n't\b|n't\b|\bcannot\b")
_DENIALS = re.compile(r"\b(?:no longer|not|never|no)\b")
_EMPTY = re.compile(r"\b(?:from now on|as of now|now|please|currently|always|do|does|did|any ?more)\b")
"""Words that do not affect what is stated."""
_OPEN = re.compile(
    r"\?|\b(?:if|unless|when|whenever|while|until|except|only|just|about|roughly|maybe|perhaps|possibly|probably|likely"
    r"|may|might|could|would|usually|often|sometimes|mostly|rarely|think|thinks|guess|believe|believes|seems?|apparently"
    r"|suppose|wonder|was|were|used to|that|which|who|whose|where)\b"
)
"""Words that allow both statements to be valid: hedges, conditions, the past, and clauses that narrow the meaning."""
_INSTEAD = re.compile(
    r",? ?\b(?:instead of|rather than|no longer|not) (?:port |version )?([^\s,;]+?)(?:,? but|[.,;]*)(?=\s|$)"
)
_THE_ONE = frozenset(("the", "my", "our", "your", "his", "her", "their", "its"))
_STATES = frozenset(("is", "listens", "lives", "expires", "ends", "starts", "begins"))
_BETWEEN = frozenset(_WORD.findall("on at in by to the a an set due called named port version number"))
"""Words that may come between one of these verbs and its value."""
LEAST_WORDS = 2


def ends(older: str, newer: str) -> bool:
    """Whether the later of two texts says that the earlier one is no longer valid."""
    earlier = _plain(older)
    later = _plain(newer)
    if _OPEN.search(earlier) or _OPEN.search(later):
        return False
    return _denies(earlier, later) or _replaces(earlier, later) or _gives_other_value(earlier, later)


@lru_cache(maxsize=4096)
def _plain(text: str) -> str:
    text = " ".join(text.casefold().replace("’", "'").split())
    return _SHORT.sub(
        lambda contraction: {"can't": "can", "won't": "will"}.get(contraction[0], "") + " not", text
    )


@lru_cache(maxsize=4096)
def _words(plain: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(_EMPTY.sub(" ", plain)))


def _denies(earlier: str, later: str) -> bool:
    """Whether they say the same, except that one of them is negated."""
    if len(_DENIALS.findall(earlier)) % 2 == len(_DENIALS.findall(later)) % 2:
        return False
    left, right = (_words(_DENIALS.sub(" ", plain)) for plain in (earlier, later))
    return len(left) >= LEAST_WORDS and _differing(left, right) == []


def _replaces(earlier: str, later: str) -> bool:
    """Whether the later one names what it replaces."""
    instead = _INSTEAD.search(later)
    if instead is None:
        return False
    left = _words(earlier)
    right = _words(later[: instead.start()] + " " + later[instead.end() :])
    positions = _differing(left, right)
    replaced = _WORD.findall(instead[1])
    return positions is not None and len(positions) == 1 and [left[positions[0]]] == replaced


def _gives_other_value(earlier: str, later: str) -> bool:
    """Whether they give the same single thing ("the …" or "my …") two different values."""
    left = _words(earlier)
    right = _words(later)
    positions = _differing(left, right)
    if not positions or len(positions) > 1 or left[0] not in _THE_ONE:
        return False
    position = positions[0]
    if not (names_something(left[position]) and names_something(right[position])):
        return False
    verb = position - 1
    while verb > 0 and left[verb] in _BETWEEN:
        verb -= 1
    return left[verb] in _STATES


def _differing(left: Sequence[str], right: Sequence[str]) -> list[int] | None:
    """The indexes at which they differ; None if their lengths differ."""
    if len(left) != len(right):
        return None
    return [position for position, pair in enumerate(zip(left, right, strict=True)) if not same_word(*pair)]
