"""Sentences and words, the patterns by which facts are found in them, and how far one text says what another does."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

_TEXTS = tomllib.loads(Path(__file__).with_name("patterns.toml").read_text("utf-8"))


def pattern(name: str) -> re.Pattern[str]:
    """A pattern of `patterns.toml` by its name."""
    return re.compile("".join(_TEXTS[name].splitlines()))


_FENCE = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1|\Z)", re.M | re.S)
_END = re.compile(r"(?<=[.!?;])\s+|\n+|(?<=[。！？])")
_LEAD = re.compile(r"^(?:[-*•>#\s]+|\(?\d{1,2}[.)]\s)+")
_UNSPACED = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[^\W_{_UNSPACED}]+(?:'[a-z]+)?|(?=([{_UNSPACED}]{{2}}))[{_UNSPACED}]")
"""In scripts that do not set words apart, any two signs in a row are taken for one."""
_ENDINGS = ("ings", "ing", "ed", "es", "'s", "s", "ly", "e")
_SMALL = frozenset(_TEXTS["small"].split())

LONGEST_SENTENCE = 400
"""Characters of a sentence that are looked for."""


def folded(text: str) -> str:
    """The text with white space and upper case evened out."""
    return " ".join(text.split()).casefold()


def prose(text: str) -> str:
    """The text without fenced code."""
    return _FENCE.sub("\n", text) if "```" in text or "~~~" in text else text


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text outside fenced code, each as written, without list marks before it."""
    for part in _END.split(prose(text)):
        sentence = _LEAD.sub("", part).strip()
        if sentence:
            yield shortened(sentence)


def shortened(sentence: str) -> str:
    """Its beginning, up to the end of a word."""
    if len(sentence) <= LONGEST_SENTENCE:
        return sentence
    cut = sentence[:LONGEST_SENTENCE]
    return cut[: cut.rfind(" ")] if " " in cut else cut


def telling(text: str) -> frozenset[str]:
    """The stems of the words that carry the meaning; negations do."""
    words = {found[1] or found[0] for found in _WORD.finditer(text.casefold())}
    return frozenset([stem for word in words if (stem := _stem(word))])


@lru_cache(maxsize=100_000)
def _stem(word: str) -> str:
    """The word without its commonest endings, near enough to compare; empty for those that carry no meaning."""
    if word in _SMALL:
        return ""
    if len(word) > 4:
        for ending in _ENDINGS:
            if word.endswith(ending):
                word = word[: -len(ending)]
                return word[:-1] if word[-1:] == word[-2:-1] else word
    return word
