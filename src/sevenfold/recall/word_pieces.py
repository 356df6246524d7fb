"""The parts that words are made of, as a `tokenizer.json` of the byte-pair kind describes them.

Only words are ever taken apart here, never texts, so the few rules that matter fit on a page and no tokenizer has to be
installed for them: a word begins with a mark, characters nobody knows become their bytes, and of all neighbouring parts
those that come first in the list of merges are joined first, until none can be joined.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

BEGINNING = "▁"
"""What a word begins with."""


class Parts:
    """Takes words apart."""

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
