"""Text vectors from a table of word vectors, and the search among the vectors of a session.

The table comes from the `wordllama` package. Only its two files are read. The package itself is never imported, because
that takes half a second, sets up logging, and looks for its own files in the wrong place. A text's vector is the mean
of the vectors of its word parts; the parts of each word are cached.

The vectors of a session's passages are stored in its recall index. They are computed when a search first asks for
meaning, and from then on for new passages, a few at a time: a search waits only briefly and compares the vectors
available, and the session computes the rest in the background. The index stores one byte per dimension, which is enough
because only directions count. Vectors that are damaged, or were made with other weights, are recomputed; if the index
cannot be written, they live in memory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import chain, pairwise
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sevenfold.recall import meaning
from sevenfold.recall.closer import CloserLook
from sevenfold.recall.meaning import ORDINARY, Likeness, VectorTrust
from sevenfold.recall.tables import Tables

AT_ONCE = 1_000
"""Vectors compared, and texts converted, in one step."""
PATIENCE = 2.0
"""Seconds that a search waits for missing vectors."""
STRETCH = 320
"""Characters compared at a time to locate the match inside a passage."""
FINEST = 127
"""The largest value of a signed byte."""
CANDIDATES = 400
"""Pieces that are considered further."""
WEIGHTS = "l2_supercat_256.safetensors"
WORDS = "l2_supercat_tokenizer_config.json"
MAX_CACHED_WORDS = 200_000
"""Words whose parts are cached."""
LONGEST_WORD = 40
"""Characters; anything longer is a key or a digest, not a word."""

_WORD = re.compile(r"[^\W_]+")
_LENGTH = 8
"""Size, in bytes, of the length field before the header of a safetensors file."""
BEGINNING = "▁"
"""The marker that the tokenizer puts before a word."""
TINY = 1e-9

Floats = NDArray[np.float32]
Bytes = NDArray[np.int8]


class Rows(NamedTuple):
    """Vectors quantised to bytes, with the numbers of their pieces."""

    pieces: NDArray[np.int64]
    numbers: Bytes
    lengths: Floats
    total: Floats
    """The sum of the unit vectors."""

    @classmethod
    def of(cls, pieces: Sequence[int], numbers: Bytes) -> Rows:
        """Build rows, computing their lengths and sum."""
        exact = numbers.astype(np.float32)
        lengths = np.maximum(np.linalg.norm(exact, axis=1), TINY).astype(np.float32)
        total: Floats = (exact / lengths[:, None]).sum(axis=0)
        return cls(np.array(pieces, np.int64), numbers, lengths, total)

    @classmethod
    def empty(cls, dimensions: int) -> Rows:
        """No rows."""
        return cls.of([], np.empty((0, dimensions), np.int8))

    @classmethod
    def together(cls, several: Sequence[Rows]) -> Rows:
        """Several sets of rows joined into one, in order."""
        pieces, numbers, lengths, totals = zip(*several, strict=True)
        total = np.sum(totals, axis=0)
        return cls(np.concatenate(pieces), np.concatenate(numbers), np.concatenate(lengths), total)

    @property
    def last(self) -> int:
        """The highest piece number; 0 if there are no rows."""
        return int(self.pieces[-1]) if len(self.pieces) else 0

    def along(self, directions: Floats) -> Floats:
        """The projection of each unit vector on each direction (a column); computed in chunks to save memory."""
        chunk_starts = range(0, len(self.pieces), AT_ONCE)
        far = [
            self.numbers[start : start + AT_ONCE].astype(np.float32) @ directions for start in chunk_starts
        ]
        none = np.empty((0, directions.shape[1]), np.float32)
        shares: Floats = np.divide(np.concatenate([none, *far]), self.lengths[:, None], dtype=np.float32)
        return shares


class Embedder(Protocol):
    """Turns texts into vectors."""

    fingerprint: str
    """Changes whenever the same text would get a different vector."""
    dimensions: int
    trust: VectorTrust
    """When the similarity of its vectors is trusted."""
    at_once: int
    """Texts that it can convert without a noticeable delay."""

    def vectors(self, texts: Sequence[str]) -> Floats:
        """A row of length 1 for each text; of length 0 for a text without words."""

    def query(self, text: str) -> Floats:
        """The vector of a query."""


class Meaning:
    """Scores pieces by meaning; a `sevenfold.recall.search.Scorer`. For one index at a time."""

    name = "meaning"

    def __init__(
        self, embedder: Embedder, max_passages: int = meaning.MAX_PASSAGES, closer: CloserLook | None = None
    ) -> None:
        """``max_passages``: only this many passages of an index, from the beginning, get a vector.

        ``closer`` looks at the best passages word by word; its scores replace those of whole passages.
        """
        self.weight = closer.weight if closer is not None else embedder.trust.weight
        self.enough = closer.enough if closer is not None else embedder.trust.apart
        self.embedder = embedder
        self._closer = closer
        self._max_passages = max_passages
        self._pieces: Tables | None = None
        self._rows = Rows.empty(embedder.dimensions)

    def scores(self, index: Tables, query: str) -> Mapping[int, float]:
        """A score for each piece that is similar enough, by the piece's number."""
        required = meaning.required_similarity(query, self.embedder.trust)
        if required is None:
            return {}
        until = monotonic() + PATIENCE
        while self.prepare(index) and monotonic() < until:
            pass
        likenesses = self._likeness(self.embedder.query(query))
        if self._closer is not None:
            best = [likeness.piece for likeness in likenesses]
            return self._closer.scores(index, query, best, self._rows.pieces.tolist())
        return meaning.trusted(likenesses, required, self.embedder.trust.behind)

    def prepare(self, index: Tables) -> bool:
        """Compute vectors for a few pieces that have none; True if there may be more."""
        if self._pieces is not index:
            self._rows = self._stored_rows(index)
            self._pieces = index
        room = min(self.embedder.at_once, self._max_passages - len(self._rows.pieces))
        pending = index.spoken_after(self._rows.last, room) if room > 0 else []
        if pending:
            numbers = _coarse(self.embedder.vectors([text for _, text in pending]))
            computed = Rows.of([piece for piece, _ in pending], numbers)
            index.add_vectors(zip(computed.pieces.tolist(), map(bytes, numbers), strict=True))
            self._rows = Rows.together([self._rows, computed])
        return 0 < room == len(pending)

    def place(self, query: str, text: str) -> int:
        """Where the most similar stretch of a text begins; 0 if the text is too short or too long to compare."""
        starts = range(0, max(1, len(text) - STRETCH // 2), STRETCH // 2)
        if not 1 < len(starts) <= self.embedder.at_once:
            return 0
        rows = self.embedder.vectors([text[start : start + STRETCH] for start in starts])
        return starts[int(np.argmax(rows @ self.embedder.query(query)))]

    def _likeness(self, query: Floats) -> list[Likeness]:
        """The similarities of the best pieces; `sevenfold.recall.meaning` explains the two kinds."""
        shared = self._rows.total / (len(self._rows.pieces) + ORDINARY)
        near, common = self._rows.along(np.stack([query, shared], axis=1)).T
        amount = float(shared @ shared)
        turned = float(shared @ query)
        lengths = np.sqrt(np.maximum(TINY, 1 - 2 * common + amount))
        apart = (near - common - turned + amount) / (lengths * max(TINY, 1 - 2 * turned + amount) ** 0.5)
        alike = np.argsort(-apart)[:CANDIDATES]
        best = zip(self._rows.pieces[alike], near[alike], apart[alike], strict=True)
        return [
            Likeness(int(piece), float(as_is), float(apart_from_common))
            for piece, as_is, apart_from_common in best
        ]

    # -- stored vectors --------------------------------------------------------------------

    def _stored_rows(self, index: Tables) -> Rows:
        """The vectors in the index; if damaged or made with other weights, drops them and returns none."""
        with suppress(TypeError, ValueError):
            stored = index.vectors(self.embedder.fingerprint)
            if stored is not None:
                flat = np.frombuffer(b"".join(numbers for _, numbers in stored), np.int8)
                numbers = flat.reshape(len(stored), self.embedder.dimensions)
                return Rows.of([piece for piece, _ in stored], numbers)
        index.begin_vectors(self.embedder.fingerprint)
        return Rows.empty(self.embedder.dimensions)


def _coarse(rows: Floats) -> Bytes:
    """Quantise rows to bytes, each scaled to the full range of a byte, since lengths do not matter."""
    largest = np.abs(rows).max(axis=1, keepdims=True)
    rounded: Bytes = np.rint(rows * (FINEST / np.where(largest > 0, largest, 1))).astype(np.int8)
    return rounded


# -- word vectors ------------------------------------------------------------------------------


class StaticVectors:
    """Mean word vectors, scaled to length 1; of length 0 for a text without words. An `Embedder`."""

    trust = VectorTrust(required=0.27, longer=0.1, behind=0.5, weight=1.0, same=0.6)
    at_once = AT_ONCE

    def __init__(self, folder: Path) -> None:
        """Read the files; raises `OSError` or `ValueError` if they are missing or have an unknown format."""
        weights = _found(folder, WEIGHTS)
        tokenizer = _found(folder, WORDS)
        self._table = table(weights)
        self._parts = WordParts(tokenizer)
        self._parts_of_words: dict[str, list[int]] = {}
        self.dimensions = int(self._table.shape[1])
        self.fingerprint = _digest(weights, tokenizer)

    def vectors(self, texts: Sequence[str]) -> Floats:
        """A row for each text."""
        words_of_texts = [_words(text) for text in texts]
        parts_of = self._learn(chain.from_iterable(words_of_texts))
        rows = np.zeros((len(texts), self.dimensions), np.float32)
        for row, held in zip(rows, words_of_texts, strict=True):
            parts = list(chain.from_iterable(parts_of[word] for word in held))
            if parts:
                row[:] = self._table.take(parts, axis=0).sum(axis=0)
        return unit(rows)

    def words(self, text: str) -> set[str]:
        """The different words of a text that can have a vector."""
        return set(_words(text))

    def query(self, text: str) -> Floats:
        """The vector of a query, which is treated like any other text."""
        vector: Floats = self.vectors([text])[0]
        return vector

    def _learn(self, words: Iterable[str]) -> dict[str, list[int]]:
        """A cache with at least the parts of these words; never shrunk in place, as other threads may read it."""
        if len(self._parts_of_words) > MAX_CACHED_WORDS:
            self._parts_of_words = {}
        parts_of = self._parts_of_words
        for word in set(words):
            if word not in parts_of:
                parts_of[word] = [part for part in self._parts.of(word) if part < len(self._table)]
        return parts_of


def unit(rows: Floats) -> Floats:
    """The rows scaled to length 1; rows of length 0 stay as they are."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    normalised: Floats = np.divide(rows, np.maximum(lengths, TINY), dtype=np.float32)
    return normalised


def table(path: Path) -> Floats:
    """Read the only table in a safetensors file: the length of a JSON header, the header, then the numbers."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(_LENGTH), "little")
        if size > path.stat().st_size:
            raise ValueError(f"{path}: this is not a safetensors file")
        header: Any = json.loads(file.read(size))
        numbers = file.read()
    try:
        (held,) = (entry for name, entry in header.items() if name != "__metadata__")
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


class WordParts:
    """Splits words into parts, following a byte-pair `tokenizer.json`.

    It splits only single words, never whole texts, so the few rules that matter fit on a page and no tokenizer need be
    installed: a word begins with a marker, unknown characters become their bytes, and of all neighbouring parts, those
    that come first in the list of merges are joined first, until none can be joined.
    """

    def __init__(self, path: Path) -> None:
        """Read the file; raises `ValueError` if it does not describe word parts in the known format."""
        described: Any = json.loads(path.read_bytes())
        try:
            model = described["model"]
            self._numbers: dict[str, int] = model["vocab"]
            pairs = (merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"])
            self._ranks = {(left, right): rank for rank, (left, right) in enumerate(pairs)}
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path}: it does not say which parts words have") from error

    def of(self, word: str) -> list[int]:
        """The ids of a word's parts."""
        parts = list(chain.from_iterable(map(self._smallest_parts, BEGINNING + word)))
        while len(parts) > 1:
            first = min(pairwise(parts), key=lambda pair: self._ranks.get(pair, len(self._ranks)))
            if first not in self._ranks:
                break
            parts = _joined(parts, first)
        return [self._numbers[part] for part in parts if part in self._numbers]

    def _smallest_parts(self, character: str) -> list[str]:
        """The character, or its bytes if the vocabulary does not have it."""
        if character in self._numbers:
            return [character]
        return [f"<0x{byte:02X}>" for byte in character.encode(errors="replace")]


def _joined(parts: list[str], pair: tuple[str, str]) -> list[str]:
    """The parts with every occurrence of the pair joined."""
    joined: list[str] = []
    for part in parts:
        # A part just joined is longer than the left half, so it is never joined again in this pass.
        if joined and (joined[-1], part) == pair:
            joined[-1] += part
        else:
            joined.append(part)
    return joined
