"""Finds the few entries that are relevant to the user's message.

Requests are short, and say what is to be done rather than what the rule is about: often a single word meets the entry.
So an entry is relevant if it shares with the message one name, path, flag or figure; one word that few entries have and
that is not in requests about anything; two other distinctive words; or, less surely, words for the same matter
(`related_words.toml`). If vectors are installed, also if it is as similar in meaning as recall requires. Below that
threshold nothing is returned. Entries are ranked by the rarity of the shared words, plus similarity. Those with the
user's own words come first: unconfirmed ones only take places that are left.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from sevenfold.memory.entry import MemoryEntry
from sevenfold.memory.memory import KnownEntry
from sevenfold.memory.words import distinctive_words, names_something, shared
from sevenfold.recall import meaning
from sevenfold.recall.ranking import DENSE_RUN, fused, rarity

if TYPE_CHECKING:
    from sevenfold.recall.vectors import Embedder, Floats

_ENDING = re.compile(r"(?:ings?|ies|ied|es|ed|e|s|y)$")

MAX_ENTRIES = 3
REQUIRED_WORDS = 2
NAME_COUNTS = 2.0
"""How many words a name counts for; also a word that few entries have."""
RELATED_COUNTS = 2.0
"""How many words a matter counts for that is named in other words and that few entries are about."""
FEW_ENTRIES = 0.1
"""The share of all entries that may have a word for it to count as much as a name; two may in any case."""
SHORTEST = 3
"""The fewest letters of a word that counts as much as a name."""


class FittingEntry(Struct, frozen=True):
    """A relevant entry, and why it is."""

    known_entry: KnownEntry
    score: float
    words: tuple[str, ...]
    """The words that relate the entry to the message; empty if they are similar only in meaning."""


class StatementVectors:
    """Compares messages with memory entries by meaning; each entry's vector is cached."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._rows: dict[str, Floats] = {}
        self.weight = embedder.trust.weight

    def prepare(self, texts: Sequence[str]) -> bool:
        """Compute vectors for a few texts that have none; True if there are more."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._rows]
        batch = missing[: self._embedder.at_once]
        if batch:
            self._rows.update(zip(batch, self._embedder.vectors(batch), strict=True))
        return len(batch) < len(missing)

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """The similarity of each text to a query; 0 if it is too low, or if the text has no vector yet."""
        required = meaning.required_similarity(query, self._embedder.trust)
        if required is None or not self._rows:
            return [0.0] * len(texts)
        query_vector = self._embedder.query(query)
        near = (
            float(row @ query_vector) if (row := self._rows.get(text)) is not None else 0.0
            for text in texts
        )
        return [score if score >= required else 0.0 for score in near]

    def alike(self, statement: str, other: str) -> bool:
        """Whether two statements mean the same, judging by similarity."""
        left, right = self._embedder.vectors([statement, other])
        return float(left @ right) >= self._embedder.trust.same


def fitting(
    query: str,
    entries: Sequence[KnownEntry],
    today: str,
    likeness: StatementVectors | None = None,
    *,
    limit: int = MAX_ENTRIES,
) -> list[FittingEntry]:
    """The most relevant entries, best first; entries that are no longer valid are skipped."""
    query_words = distinctive_words(query)
    entry_words = [_words_of(candidate.entry) for candidate in entries]
    # By index, because an entry of the project and one of the user may have the same name.
    valid = [number for number, candidate in enumerate(entries) if not candidate.entry.has_expired(today)]
    matches = _matches(query_words, entry_words)
    relevant = {number: matches[number] for number in valid if matches[number].counts >= REQUIRED_WORDS}
    opinions = [(1.0, {number: match.rarity for number, match in relevant.items()})]
    if likeness is not None:
        scores = likeness.scores(query, [entries[number].entry.statement for number in valid])
        near = {number: score for number, score in zip(valid, scores, strict=True) if score}
        opinions.append((likeness.weight, near))
    total = fused(opinions)

    def rank(number: int) -> tuple[bool, float, str]:
        return not entries[number].stamp.trusted, -total[number], entries[number].entry.file

    best = sorted(total, key=rank)[:limit]
    return [
        FittingEntry(entries[number], total[number], tuple(sorted(matches[number].words)))
        for number in best
    ]


def _words_of(entry: MemoryEntry) -> frozenset[str]:
    """The distinctive words of an entry, those of its name included."""
    return distinctive_words(f"{entry.name.replace('-', ' ')}\n{entry.body}")


class _Match(Struct, frozen=True):
    """What relates an entry to a message."""

    words: frozenset[str]
    counts: float
    rarity: float


def _matches(query_words: frozenset[str], entries: Sequence[frozenset[str]]) -> list[_Match]:
    """What relates each entry to a message of these words."""
    literal_matches = [shared(entry_words, query_words) for entry_words in entries]
    few = max(2.0, FEW_ENTRIES * len(entries))
    holding = Counter(chain.from_iterable(entries))
    asked_matters = _matters(query_words)
    matters = [_matters(entry_words) & asked_matters for entry_words in entries]
    about = Counter(chain.from_iterable(matters))
    related = related_words()
    matches = []
    for entry_words, literal, shared_matters in zip(entries, literal_matches, matters, strict=True):
        values = {
            entry_word: _counts(entry_word, query_words, few=holding[entry_word] <= few)
            for entry_word in literal
        }
        counts = sum(values.values())
        rare = sum(rarity(holding[entry_word], len(entries)) for entry_word in literal)
        reasons = set(literal)
        counted = _matters(entry_word for entry_word, value in values.items() if value >= NAME_COUNTS)
        for matter in shared_matters - counted:
            counts += RELATED_COUNTS if about[matter] <= few else 1.0
            # Other words for a matter are weaker evidence than the word itself.
            rare += rarity(about[matter], len(entries)) / 2
            reasons |= {
                entry_word for entry_word in entry_words if matter in related.matters.get(entry_word, ())
            }
        matches.append(_Match(frozenset(reasons), counts, rare))
    return matches


def _matters(words: Iterable[str]) -> frozenset[int]:
    """The matters that these words name, by number."""
    matters_of = related_words().matters
    return frozenset(chain.from_iterable(matters_of.get(word, ()) for word in words))


def _counts(word: str, query_words: frozenset[str], *, few: bool) -> float:
    """How many words a word of an entry counts for that is also asked, in this or another form."""
    if names_something(word):
        return NAME_COUNTS
    if not few or len(word) < SHORTEST or DENSE_RUN.search(word):
        return 1.0
    # A word that stands alone must be the same word, not just begin alike, as "station" and "statistics" do.
    ordinary = related_words().ordinary
    forms = {query_word for query_word in query_words if _root(query_word) == _root(word)}
    return NAME_COUNTS if forms and not ordinary & {word, *forms} else 1.0


def _root(word: str) -> str:
    """A word without its ending, roughly."""
    return _ENDING.sub("", word) or word


class RelatedWords(Struct, frozen=True):
    """The content of `related_words.toml`."""

    matters: dict[str, frozenset[int]]
    """The numbers of the groups that a word is in."""
    ordinary: frozenset[str]


@cache
def related_words() -> RelatedWords:
    """The words that name the same matter, and those that are in requests about anything."""
    content = tomllib.loads(Path(__file__).with_name("related_words.toml").read_text(encoding="utf-8"))
    matters: dict[str, set[int]] = {}
    for number, group in enumerate(content["related"]):
        for word in group.split():
            matters.setdefault(word, set()).add(number)
    fixed = {word: frozenset(numbers) for word, numbers in matters.items()}
    return RelatedWords(fixed, frozenset(content["ordinary"].split()))


def taken_up(entry: MemoryEntry, question: str, answer: str) -> bool:
    """Whether an answer says something that is in the entry and was not in the question."""
    entry_words = distinctive_words(entry.body)
    return _enough(
        shared(entry_words - shared(entry_words, distinctive_words(question)), distinctive_words(answer))
    )


def _enough(words: Iterable[str]) -> bool:
    return sum(NAME_COUNTS if names_something(word) else 1.0 for word in words) >= REQUIRED_WORDS
