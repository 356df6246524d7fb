"""Vectors for texts from a table of word vectors, as the `wordllama` package carries one.

Its two files are read here and the package itself is never imported: that takes half a second, sets up logging, and
looks for its own files in the wrong place. A text's vector is the mean of those of the parts its words are made of;
which parts a word has is found out once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sevenfold.recall.word_pieces import Parts

WEIGHTS = "l2_supercat_256.safetensors"
WORDS = "l2_supercat_tokenizer_config.json"
MOST_KNOWN = 200_000
"""Words whose parts are remembered."""
LONGEST_WORD = 40
"""Characters: longer ones are keys and digests, not words."""

TINY = 1e-9
_WORD = re.compile(r"[^\W_]+")
_LENGTH = 8
"""Bytes before the header of a safetensors file that say how long it is."""

Floats = NDArray[np.float32]


class StaticVectors:
    """Texts as vectors of length 1; of length 0 if there is no word in them."""

    def __init__(self, folder: Path) -> None:
        """Raises `OSError` or `ValueError` if the folder does not hold the two files in a form known here."""
        weights, parts = _found(folder, WEIGHTS), _found(folder, WORDS)
        self._table = table(weights)
        self._parts = Parts(parts)
        self._known: dict[str, list[int]] = {}
        self.dimensions = int(self._table.shape[1])
        self.fingerprint = _digest(weights, parts)

    def vectors(self, texts: Sequence[str]) -> Floats:
        """A row for each text."""
        words = [_words(text) for text in texts]
        self._learn(chain.from_iterable(words))
        rows = np.zeros((len(texts), self.dimensions), np.float32)
        for row, held in zip(rows, words, strict=True):
            if parts := [part for word in held for part in self._known[word]]:
                row[:] = self._table.take(parts, axis=0).sum(axis=0)
        return unit(rows)

    def _learn(self, words: Iterable[str]) -> None:
        wanted = set(words)
        if len(self._known) > MOST_KNOWN:
            self._known = {word: parts for word, parts in self._known.items() if word in wanted}
        for word in (word for word in wanted if word not in self._known):
            self._known[word] = [part for part in self._parts.of(word) if part < len(self._table)]


def unit(rows: Floats) -> Floats:
    """The rows with length 1, but those of length 0."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    made: Floats = np.divide(rows, np.maximum(lengths, TINY), dtype=np.float32)
    return made


def table(path: Path) -> Floats:
    """The only table in a safetensors file: a header in JSON with its length before it, then the numbers."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(_LENGTH), "little")
        if size > path.stat().st_size:
            raise ValueError(f"{path}: this is not a safetensors file")
        header: Any = json.loads(file.read(size))
        numbers = file.read()
    try:
        (held,) = (one for name, one in header.items() if name != "__metadata__")
        kind = {"F16": "<f2", "F32": "<f4"}[held["dtype"]]
        start, end = held["data_offsets"]
        rows, columns = held["shape"]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: it does not hold one table of numbers") from error
    return np.frombuffer(numbers[start:end], kind).reshape(rows, columns).astype(np.float32)


def _words(text: str) -> list[str]:
    return [word for word in _WORD.findall(text) if len(word) <= LONGEST_WORD]


def _found(folder: Path, name: str) -> Path:
    for path in sorted(folder.glob(f"*/{name}")):
        return path
    raise FileNotFoundError(f"{folder}: there is no {name} in it")


def _digest(*paths: Path) -> str:
    digest = blake2b(digest_size=16)
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()
