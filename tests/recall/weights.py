"""Word vectors made by hand, in the two files and the form in which the installed ones come."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path

from sevenfold.recall.vectors import BEGINNING, WEIGHTS, WORDS

TOPICS = (
    "boat vessel ship ferry steamer",
    "clock time hour minute midnight noon late",
    "wrong bug mistake broken error incorrect",
    "tide water sea level harbour port",
    "rule never forbid prohibited touch alter",
    "file generated machine output build artefacts",
)


def by_topic(*topics: str) -> dict[str, list[float]]:
    """Words of one topic point the same way, and each a little its own."""
    several = [topic.split() for topic in topics]
    vectors: dict[str, list[float]] = {}
    for number, words in enumerate(several):
        for place, word in enumerate(words):
            vectors[word] = [0.1 * (place % 3)] * len(several)
            vectors[word][number] += 1.0
    return vectors


def write(folder: Path, vectors: Mapping[str, Sequence[float]], dtype: str = "F32") -> Path:
    """Both files, below the folder of a package; all words are whole parts, as are single characters."""
    characters = sorted({character for word in vectors for character in BEGINNING + word})
    begun = [step for word in vectors for step in accumulate(BEGINNING + word) if len(step) > 1]
    parts = list(dict.fromkeys([*characters, *begun]))
    merges = [[part[:-1], part[-1]] for part in parts if len(part) > 1]
    described = {
        "model": {"type": "BPE", "vocab": {part: n for n, part in enumerate(parts)}, "merges": merges}
    }
    size = len(next(iter(vectors.values())))
    rows = [vectors.get(part.removeprefix(BEGINNING), [0.0] * size) for part in parts]
    write_table(folder / "weights" / WEIGHTS, rows, dtype)
    (folder / "tokenizers").mkdir()
    (folder / "tokenizers" / WORDS).write_text(json.dumps(described), encoding="utf-8")
    return folder


def write_table(path: Path, rows: Sequence[Sequence[float]], dtype: str) -> None:
    """A safetensors file with one table."""
    numbers = [number for row in rows for number in row]
    raw = struct.pack(f"<{len(numbers)}{'e' if dtype == 'F16' else 'f'}", *numbers)
    held = {"dtype": dtype, "shape": [len(rows), len(rows[0])], "data_offsets": [0, len(raw)]}
    header = json.dumps({"__metadata__": {"made": "by hand"}, "embedding.weight": held}).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(len(header).to_bytes(8, "little") + header + raw)
