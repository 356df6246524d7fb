"""The English words and phrases by which a claim is recognised, from `claims.toml`. Other languages have no list."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

_ENTRY = re.compile(r"(?:\[[^\]]*\]|\S)+")
_NAME = re.compile("<([A-Z]+)>")
_ENDING = re.compile(r"(?<=\w\w)(?:ing|ed|es|s|e)\Z")
_VOWEL = re.compile("[aeiouy]")


@cache
def _lists() -> Mapping[str, Any]:
    return tomllib.loads(resource("claims.toml"))


def resource(name: str) -> str:
    """The text of a file of this package."""

    return Path(__file__).with_name(name).read_text("utf-8")


@cache
def words(name: str) -> frozenset[str]:
    """The words of a list."""
    return frozenset(_lists()[name].split())


@cache
def roots(name: str) -> frozenset[str]:
    """The roots of the words of a list."""
    return frozenset(map(root, words(name)))


@cache
def pairs(name: str) -> Mapping[str, str]:
    """A list of words, each with the word it goes back to."""
    return dict(pair.split(":") for pair in _lists()[name].split())


@cache
def root(word: str) -> str:
    """The word without its ending."""
    first, _, last = pairs("irregular").get(word, word).removesuffix("'s").removesuffix("'").rpartition("-")
    word = last if first in ("", "self", "bulk", "mass", "force", "hard") else f"{first}-{last}"
    bare = _ENDING.sub("", word)
    bare = re.sub(r"(\w)\1\Z", r"\1", bare if _VOWEL.search(bare) else word)
    return f"{bare[:-1]}i" if bare.endswith("y") else bare


@cache
def _acts() -> Mapping[str, str]:
    """The listed acts, each with the first of those that are alike."""
    lines = map(str.split, _lists()["acts"].strip().splitlines())
    return {root(act): root(line[0]) for line in lines for act in line}


def is_act(word: str) -> bool:
    """Is a word, by its root, one of the listed acts?"""
    return word in _acts()


@cache
def alike(word: str) -> str:
    """One root for all words that mean the same: evidence for one is evidence for the others."""
    word = root(pairs("same").get(word, word))
    return _acts().get(word, word)


@cache
def pattern(name: str) -> re.Pattern[str]:
    """A pattern for any entry of a list."""
    body = _filled(name)
    whole_words = isinstance(_lists()[name], str)
    return re.compile(rf"(?<![\w-]){body}(?!\w)" if whole_words else body, re.IGNORECASE)


def _filled(name: str) -> str:
    entries = _lists()[name]
    text = "|".join(_ENTRY.findall(entries) if isinstance(entries, str) else entries)
    text = re.sub(r"\((?!\?)", "(?:", text).replace("_", " ")
    return f"(?:{_NAME.sub(lambda found: _filled(found[1].lower()), text)})"
