"""Splits text into sentences and words, loads the patterns that find facts, and prepares texts for comparison."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

_TEXTS = tomllib.loads(Path(__file__).with_name("patterns.toml").read_text("utf-8"))


def pattern(name: str) -> re.Pattern[str]:
    """Compile a pattern from `patterns.toml` by its name."""
    return re.compile("".join(_TEXTS[name].splitlines()))


_FENCE = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1|\Z)", re.M | re.S)
_END = re.compile(r"(?<=[.!?;])\s+|\n+|(?<=[。！？])")
_LEAD = re.compile(r"^(?:[-*•>#\s]+|\(?\d{1,2}[.)]\s)+")
_UNSPACED = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[^\W_{_UNSPACED}]+(?:'[a-z]+)?|(?=([{_UNSPACED}]{{2}}))[{_UNSPACED}]")
"""In scripts without spaces between words, any two adjacent characters count as a word."""
_ENDINGS = ("ings", "ing", "ed", "es", "'s", "s", "ly", "e")
_SMALL = frozenset(_TEXTS["small"].split())

LONGEST_SENTENCE = 400
"""How many characters of a sentence are looked for."""


def folded(text: str) -> str:
    """The text with normalized whitespace and case."""
    return " ".join(text.split()).casefold()


def prose(text: str) -> str:
    """The text without fenced code."""
    return _FENCE.sub("\n", text) if "```" in text or "~~~" in text else text


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text outside fenced code, as written, but without list markers."""
    for fragment in _END.split(prose(text)):
        sentence = _LEAD.sub("", fragment).strip()
        if sentence:
            yield shortened(sentence)


def shortened(sentence: str) -> str:
    """Cut a long sentence at the end of a word."""
    if len(sentence) <= LONGEST_SENTENCE:
        return sentence
    cut = sentence[:LONGEST_SENTENCE]
    return cut[: cut.rfind(" ")] if " " in cut else cut


def content_stems(text: str) -> frozenset[str]:
    """The stems of the meaningful words; negations are among them."""
    distinct = {match[1] or match[0] for match in _WORD.finditer(text.casefold())}
    return frozenset([stem for word in distinct if (stem := _stem(word))])


@lru_cache(maxsize=100_000)
def _stem(word: str) -> str:
    """The word without common endings, a rough stem for comparison; empty for words without meaning."""
    if word in _SMALL:
        return ""
    if len(word) > 4:
        for ending in _ENDINGS:
            if word.endswith(ending):
                word = word[: -len(ending)]
                return word[:-1] if word[-1:] == word[-2:-1] else word
    return word
