"""Vectors of texts, from a table of word vectors, and the search among those of a session.

The table is that of the `wordllama` package. Its two files are read here and the package itself is never imported:
that takes half a second, sets up logging, and looks for its own files in the wrong place. A text's vector is the mean
of those of the parts its words are made of; which parts a word has is found out once.

The vectors of a session's passages are kept in its recall index. They are made when a search first asks for meaning,
and from then on for what is new, a few at a time: a search waits for them a moment only and looks among those there
are, and a session goes on with the rest in the background. In the index each takes a byte a dimension: directions are
all that counts, and that is enough to keep them. Whatever is not as it should be (made with other weights, or no
vectors at all) is made again; where the index cannot be written, they live in memory.
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
from sevenfold.recall.meaning import ORDINARY, Likeness, VectorTrust
from sevenfold.recall.tables import Tables

AT_ONCE = 1_000
"""Passages that are read and compared in one go."""
PATIENCE = 2.0
"""Seconds that a search waits for vectors that are not made yet."""
STRETCH = 320
"""Characters that are compared when it is to be shown where in a passage the match is."""
FINEST = 127
"""The largest number a byte holds."""
CANDIDATES = 400
"""Pieces that are looked at any further."""
WEIGHTS = "l2_supercat_256.safetensors"
WORDS = "l2_supercat_tokenizer_config.json"
MOST_KNOWN = 200_000
"""Words whose parts are remembered."""
LONGEST_WORD = 40
"""Characters: longer ones are keys and digests, not words."""

_WORD = re.compile(r"[^\W_]+")
_LENGTH = 8
"""Bytes before the header of a safetensors file that say how long it is."""
BEGINNING = "▁"
"""What a word begins with."""
TINY = 1e-9

Floats = NDArray[np.float32]
Bytes = NDArray[np.int8]


class Rows(NamedTuple):
    """Vectors in bytes, of the pieces with these numbers."""

    pieces: NDArray[np.int64]
    numbers: Bytes
    lengths: Floats
    total: Floats
    """The sum of their directions."""

    @classmethod
    def of(cls, pieces: Sequence[int], numbers: Bytes) -> Rows:
        """With their lengths and sum."""
        exact = numbers.astype(np.float32)
        lengths = np.maximum(np.linalg.norm(exact, axis=1), TINY).astype(np.float32)
        total: Floats = (exact / lengths[:, None]).sum(axis=0)
        return cls(np.array(pieces, np.int64), numbers, lengths, total)

    @classmethod
    def empty(cls, dimensions: int) -> Rows:
        """None."""
        return cls.of([], np.empty((0, dimensions), np.int8))

    @classmethod
    def together(cls, several: Sequence[Rows]) -> Rows:
        """All of them, in order."""
        pieces, numbers, lengths, totals = zip(*several, strict=True)
        total = np.sum(totals, axis=0)
        return cls(np.concatenate(pieces), np.concatenate(numbers), np.concatenate(lengths), total)

    @property
    def last(self) -> int:
        """The highest number of a piece; 0 if there is none."""
        return int(self.pieces[-1]) if len(self.pieces) else 0

    def along(self, directions: Floats) -> Floats:
        """How far each row goes in each of the directions, which are columns; a part of the rows at a time."""
        parts = range(0, len(self.pieces), AT_ONCE)
        far = [self.numbers[start : start + AT_ONCE].astype(np.float32) @ directions for start in parts]
        none = np.empty((0, directions.shape[1]), np.float32)
        made: Floats = np.divide(np.concatenate([none, *far]), self.lengths[:, None], dtype=np.float32)
        return made


class Embedder(Protocol):
    """Turns texts into vectors."""

    fingerprint: str
    """Changes whenever the same text would get another vector."""
    dimensions: int
    trust: VectorTrust
    """When the likeness of its vectors is trusted."""
    at_once: int
    """Texts that are turned into vectors in a moment."""

    def vectors(self, texts: Sequence[str]) -> Floats:
        """A row of length 1 for each text; of length 0 for one that says nothing."""

    def query(self, text: str) -> Floats:
        """The vector of a query."""


class Meaning:
    """Scores by what a query means; a `sevenfold.recall.search.Scorer`. For one index at a time."""

    name = "meaning"

    def __init__(self, embedder: Embedder, most: int = meaning.MOST) -> None:
        """``most``: passages of an index that get a vector, the first ones."""
        self.weight, self.enough = embedder.trust.weight, embedder.trust.apart
        self.embedder = embedder
        self._most = most
        self._pieces: Tables | None = None
        self._rows = Rows.empty(embedder.dimensions)

    def scores(self, pieces: Tables, query: str) -> Mapping[int, float]:
        """A score for each piece that is alike enough, by its number."""
        least = meaning.enough(query, self.embedder.trust)
        if least is None:
            return {}
        until = monotonic() + PATIENCE
        while self.prepare(pieces) and monotonic() < until:
            pass
        found = self._likeness(self.embedder.query(query))
        return meaning.trusted(found, least, self.embedder.trust.behind)

    def prepare(self, pieces: Tables) -> bool:
        """Make the vectors of a few pieces that have none yet; True if there are more."""
        if self._pieces is not pieces:
            self._rows, self._pieces = self._kept(pieces), pieces
        room = min(self.embedder.at_once, self._most - len(self._rows.pieces))
        found = pieces.spoken_after(self._rows.last, room) if room > 0 else []
        if found:
            numbers = _coarse(self.embedder.vectors([text for _, text in found]))
            made = Rows.of([piece for piece, _ in found], numbers)
            pieces.add_vectors(zip(made.pieces.tolist(), map(bytes, numbers), strict=True))
            self._rows = Rows.together([self._rows, made])
        return 0 < room == len(found)

    def place(self, query: str, text: str) -> int:
        """Where in a text the stretch begins that is most alike."""
        starts = range(0, max(1, len(text) - STRETCH // 2), STRETCH // 2)
        if not 1 < len(starts) <= self.embedder.at_once:
            return 0
        rows = self.embedder.vectors([text[start : start + STRETCH] for start in starts])
        return starts[int(np.argmax(rows @ self.embedder.query(query)))]

    def _likeness(self, query: Floats) -> list[Likeness]:
        """Of the pieces that are most alike; see `sevenfold.recall.meaning` for the two likenesses."""
        shared = self._rows.total / (len(self._rows.pieces) + ORDINARY)
        near, common = self._rows.along(np.stack([query, shared], axis=1)).T
        amount, turned = float(shared @ shared), float(shared @ query)
        own = np.sqrt(np.maximum(TINY, 1 - 2 * common + amount))
        apart = (near - common - turned + amount) / (own * max(TINY, 1 - 2 * turned + amount) ** 0.5)
        alike = np.argsort(-apart)[:CANDIDATES]
        taken = zip(self._rows.pieces[alike], near[alike], apart[alike], strict=True)
        return [Likeness(int(piece), float(as_is), float(rest)) for piece, as_is, rest in taken]

    # -- the table -------------------------------------------------------------------------

    def _kept(self, pieces: Tables) -> Rows:
        """What the index holds; nothing if that is of other weights, or damaged."""
        with suppress(TypeError, ValueError):
            found = pieces.vectors(self.embedder.fingerprint)
            if found is not None:
                flat = np.frombuffer(b"".join(numbers for _, numbers in found), np.int8)
                numbers = flat.reshape(len(found), self.embedder.dimensions)
                return Rows.of([piece for piece, _ in found], numbers)
        pieces.begin_vectors(self.embedder.fingerprint)
        return Rows.empty(self.embedder.dimensions)


def _coarse(rows: Floats) -> Bytes:
    """The rows in bytes; each as large as a byte can hold, since their lengths say nothing."""
    most = np.abs(rows).max(axis=1, keepdims=True)
    made: Bytes = np.rint(rows * (FINEST / np.where(most > 0, most, 1))).astype(np.int8)
    return made


# -- word vectors ------------------------------------------------------------------------------


class StaticVectors:
    """Texts as vectors of length 1; of length 0 if there is no word in them."""

    trust = VectorTrust(least=0.27, longer=0.1, behind=0.5, weight=1.0, same=0.6)
    at_once = AT_ONCE

    def __init__(self, folder: Path) -> None:
        """Raises `OSError` or `ValueError` if the folder does not hold the two files in a form known here."""
        weights, parts = _found(folder, WEIGHTS), _found(folder, WORDS)
        self._table = table(weights)
        self._parts = WordParts(parts)
        self._known: dict[str, list[int]] = {}
        self.dimensions = int(self._table.shape[1])
        self.fingerprint = _digest(weights, parts)

    def vectors(self, texts: Sequence[str]) -> Floats:
        """A row for each text."""
        words = [_words(text) for text in texts]
        known = self._learn(chain.from_iterable(words))
        rows = np.zeros((len(texts), self.dimensions), np.float32)
        for row, held in zip(rows, words, strict=True):
            if parts := [part for word in held for part in known[word]]:
                row[:] = self._table.take(parts, axis=0).sum(axis=0)
        return unit(rows)

    def query(self, text: str) -> Floats:
        """The vector of a query, which is a text like any other."""
        found: Floats = self.vectors([text])[0]
        return found

    def _learn(self, words: Iterable[str]) -> dict[str, list[int]]:
        """The parts of these words, and of others; nothing is taken out, since another thread may look at it."""
        if len(self._known) > MOST_KNOWN:
            self._known = {}
        known = self._known
        for word in set(words):
            if word not in known:
                known[word] = [part for part in self._parts.of(word) if part < len(self._table)]
        return known


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


class WordParts:
    """The parts that words are made of, as a `tokenizer.json` of the byte-pair kind describes them.

    Only words are ever taken apart here, never texts, so the few rules that matter fit on a page and no tokenizer has
    to be installed for them: a word begins with a mark, unknown characters become their bytes, and of all neighbouring
    parts those that come first in the list of merges are joined first, until none can be joined.
    """

    def __init__(self, path: Path) -> None:
        """Raises `ValueError` if the file does not describe parts in the way that is known here."""
        described: Any = json.loads(path.read_bytes())
        try:
            model = described["model"]
            self._numbers: dict[str, int] = model["vocab"]
            pairs = (merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"])
            self._ranks = {(left, right): rank for rank, (left, right) in enumerate(pairs)}
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path}: it does not say which parts words have") from error

    def of(self, word: str) -> list[int]:
        """The numbers of a word's parts."""
        parts = [part for character in BEGINNING + word for part in self._known(character)]
        while len(parts) > 1:
            first = min(pairwise(parts), key=lambda pair: self._ranks.get(pair, len(self._ranks)))
            if first not in self._ranks:
                break
            parts = _joined(parts, first)
        return [self._numbers[part] for part in parts if part in self._numbers]

    def _known(self, character: str) -> list[str]:
        if character in self._numbers:
            return [character]
        return [f"<0x{byte:02X}>" for byte in character.encode(errors="replace")]


def _joined(parts: list[str], pair: tuple[str, str]) -> list[str]:
    """The parts with every occurrence of the pair as one."""
    made: list[str] = []
    for part in parts:
        # What was just joined is longer than the left half, so it is never joined a second time here.
        if made and (made[-1], part) == pair:
            made[-1] += part
        else:
            made.append(part)
    return made
