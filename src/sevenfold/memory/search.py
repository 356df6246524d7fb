"""Finds the few entries that are relevant to the user's message.

An entry is relevant if it shares at least two distinctive words with the message, or one name, path, flag or figure; if
vectors are installed, also if it is as similar in meaning as recall requires. Below that threshold nothing is returned.
Entries are ranked as in recall: by the rarity of the shared words, plus similarity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from sevenfold.memory.entry import MemoryEntry
from sevenfold.memory.memory import KnownEntry
from sevenfold.memory.words import distinctive_words, names_something, shared
from sevenfold.recall import meaning
from sevenfold.recall.ranking import fused, rarity

if TYPE_CHECKING:
    from sevenfold.recall.vectors import Embedder, Floats

MOST = 3
LEAST_WORDS = 2
NAME_COUNTS = 2.0
"""How many words a name counts for."""


class FittingEntry(Struct, frozen=True):
    """A relevant entry, and why it is."""

    known: KnownEntry
    score: float
    words: tuple[str, ...]
    """The words that the entry and the message share; empty if they are similar only in meaning."""


class StatementVectors:
    """Compares messages with memory entries by meaning; each entry's vector is cached."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._rows: dict[str, Floats] = {}
        self.weight = embedder.trust.weight

    def prepare(self, texts: Sequence[str]) -> bool:
        """Compute vectors for a few texts that have none; True if there are more."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._rows]
        some = missing[: self._embedder.at_once]
        if some:
            self._rows.update(zip(some, self._embedder.vectors(some), strict=True))
        return len(some) < len(missing)

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """The similarity of each text to a query; 0 if it is too low, or if the text has no vector yet."""
        least = meaning.required_similarity(query, self._embedder.trust)
        if least is None or not self._rows:
            return [0.0] * len(texts)
        asked = self._embedder.query(query)
        near = (float(row @ asked) if (row := self._rows.get(text)) is not None else 0.0 for text in texts)
        return [score if score >= least else 0.0 for score in near]

    def alike(self, one: str, other: str) -> bool:
        """Whether two statements mean the same, judging by similarity."""
        left, right = self._embedder.vectors([one, other])
        return float(left @ right) >= self._embedder.trust.same


def fitting(
    query: str,
    known: Sequence[KnownEntry],
    today: str,
    likeness: StatementVectors | None = None,
    *,
    most: int = MOST,
) -> list[FittingEntry]:
    """The most relevant entries, best first; entries that are no longer valid are skipped."""
    asked = distinctive_words(query)
    words = [distinctive_words(f"{one.entry.name.replace('-', ' ')}\n{one.entry.body}") for one in known]
    holding = Counter(word for held in words for word in held)
    # By index, because an entry of the project and one of the user may have the same name.
    valid = [place for place, one in enumerate(known) if not one.entry.over(today)]
    shares = {place: both for place in valid if _enough(both := shared(words[place], asked))}
    rare = {
        place: sum(rarity(holding[word], len(known)) for word in both) for place, both in shares.items()
    }
    opinions = [(1.0, rare)]
    if likeness is not None:
        scores = likeness.scores(query, [known[place].entry.words for place in valid])
        near = {place: score for place, score in zip(valid, scores, strict=True) if score}
        opinions.append((likeness.weight, near))
    total = fused(opinions)
    best = sorted(total, key=lambda place: (-total[place], known[place].entry.file))[:most]
    return [
        FittingEntry(known[place], total[place], tuple(sorted(shares.get(place, ())))) for place in best
    ]


def taken_up(entry: MemoryEntry, asked: str, answer: str) -> bool:
    """Whether an answer says something that is in the entry and was not in the question."""
    said = distinctive_words(entry.body)
    return _enough(shared(said - shared(said, distinctive_words(asked)), distinctive_words(answer)))


def _enough(words: Iterable[str]) -> bool:
    return sum(NAME_COUNTS if names_something(word) else 1.0 for word in words) >= LEAST_WORDS
