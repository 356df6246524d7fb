"""The few entries that fit what the user just said.

An entry fits if it shares at least two telling words with the message, or one name, path, flag or figure. That is a
floor: where nothing fits, nothing is recalled. What fits is put in order as recall does it, each word by its rarity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from sevenfold.memory.memory import KnownEntry
from sevenfold.memory.words import names_something, shared, telling
from sevenfold.recall.ranking import rarity

MOST = 3
LEAST_WORDS = 2
NAME_COUNTS = 2.0
"""A name counts as much as this many words."""


class FittingEntry(Struct, frozen=True):
    """An entry that fits, and why."""

    known: KnownEntry
    score: float
    words: tuple[str, ...]
    """What the entry and the message share."""


def fitting(query: str, known: Sequence[KnownEntry], today: str, *, most: int = MOST) -> list[FittingEntry]:
    """The entries that fit best, the best first; those whose validity is over do not."""
    asked = telling(query)
    words = {
        one.entry.file: telling(f"{one.entry.name.replace('-', ' ')}\n{one.entry.body}") for one in known
    }
    holding = Counter(word for held in words.values() for word in held)
    found = []
    for one in known:
        both = shared(words[one.entry.file], asked)
        weight = sum(NAME_COUNTS if names_something(word) else 1.0 for word in both)
        if weight >= LEAST_WORDS and not (one.entry.until and one.entry.until < today):
            rare = sum(rarity(holding[word], len(known)) for word in both)
            found.append(FittingEntry(one, rare, tuple(sorted(both))))
    return sorted(found, key=lambda fit: (-fit.score, fit.known.entry.file))[:most]
