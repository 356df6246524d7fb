"""A closer look at the passages that vectors find: every word of the question against every word of a passage.

One vector for a whole passage says what it is about, but not whether it has all that a question asks for. A language
model gives each word a vector of its own, in its context. Here each word of the question is compared with the most
similar word of a passage, less what it finds in ordinary passages of the same session, and the differences are added.
On long conversations this finds a third more of the evidence than whole vectors, and its sum tells better whether
anything answers the question at all. It takes the model milliseconds per passage, so only the best few are looked at.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from sevenfold.recall.tables import Tables
    from sevenfold.recall.vectors import Floats

LOOKED_AT = 32
"""The most passages that are looked at."""
MOST_CHARACTERS = 12_000
"""The most text that is looked at, so that a search stays below a second or two."""
LONGEST = 1_500
"""The characters of a passage that are looked at."""
ORDINARY = 24
"""The ordinary passages that others are compared with, taken at even distances."""
UNRELATED = (
    "Thanks, that is what I meant. What do we do next?",
    "It rained all weekend, so we stayed at home and played cards.",
    "I opened the file, but there is nothing in it that looks unusual.",
    "Good morning! Did you sleep well?",
    "The command finished without an error. All checks are green.",
    "My sister calls every Sunday, and then we talk for an hour.",
    "Let me look at the function that reads the settings.",
    "We had soup for lunch, and a piece of cake afterwards.",
    "Please do not change anything before I have seen it.",
    "The train was full, and I had to stand the whole way.",
    "There are three ways to do this; the second one is the simplest.",
    "He has bought a new coat, a green one with large buttons.",
    "I will write the test first, and then the code that makes it pass.",
    "Could you say that again in other words?",
    "They have lived in the same street for twenty years.",
    "The result is a list with one row for each name.",
    "I was so tired that I fell asleep in front of the television.",
    "The server answers slowly because it has too much to do.",
    "Her garden is small, but there are roses in it until October.",
    "I am not sure; let us ask somebody who knows.",
    "The page shows an old version until you load it again.",
    "We are going to the sea in summer, as we do every year.",
    "That did not work. I have put everything back as it was.",
    "The shop is closed on Mondays, and opens at nine on other days.",
)
"""Passages about nothing in particular, which a session with few passages of its own is compared with."""
KEPT = 1_000
"""The passages whose word vectors are kept in memory."""


class WordsInContext(Protocol):
    """Gives each word part of a text a vector."""

    def passage_words(self, text: str) -> Floats:
        """A row of length 1 for each word part."""

    def query_words(self, text: str) -> Floats:
        """A row of length 1 for each word part that carries content."""


class CloserLook:
    """Compares a query with passages word by word. For one index at a time."""

    weight = 1.5
    enough = 0.37
    """From this score on, a passage alone justifies an answer: few questions about nothing reach it."""

    def __init__(self, model: WordsInContext) -> None:
        self._model = model
        self._index: Tables | None = None
        self._word_vectors: OrderedDict[int, Floats] = OrderedDict()
        self._aside: list[Floats] = []

    def scores(
        self, index: Tables, query: str, candidates: Sequence[int], everything: Sequence[int]
    ) -> dict[int, float]:
        """The scores above 0 of the first candidates; ``everything`` are the pieces to compare them with."""
        if self._index is not index:
            self._index = index
            self._word_vectors.clear()
        question_words = self._model.query_words(query)
        if not len(question_words):
            return {}
        step = max(1, len(everything) // ORDINARY)
        ordinary = [self._words_of(piece) for piece in everything[::step][:ORDINARY]]
        ordinary += self._unrelated()[len(ordinary) :]
        usual = np.mean([_similar(question_words, rows) for rows in ordinary], axis=0)
        room = MOST_CHARACTERS
        scores: dict[int, float] = {}
        for piece in candidates[:LOOKED_AT]:
            # With the root of their number, questions of few and of many words have comparable scores.
            score = (
                float((_similar(question_words, self._words_of(piece)) - usual).sum())
                / len(question_words) ** 0.5
            )
            if score > 0:
                scores[piece] = score
            room -= min(LONGEST, len(index.text(piece)))
            if room <= 0:
                break
        return scores

    def _unrelated(self) -> list[Floats]:
        if not self._aside:
            self._aside = [self._model.passage_words(text) for text in UNRELATED]
        return self._aside

    def _words_of(self, piece: int) -> Floats:
        rows = self._word_vectors.get(piece)
        if rows is None:
            assert self._index is not None
            rows = self._model.passage_words(self._index.text(piece)[:LONGEST])
            self._word_vectors[piece] = rows
            if len(self._word_vectors) > KEPT:
                self._word_vectors.popitem(last=False)
        return rows


def _similar(question_words: Floats, rows: Floats) -> Floats:
    """The similarity of each word asked to the most similar one of a passage."""
    best: Floats = (question_words @ rows.T).max(axis=1)
    return best
