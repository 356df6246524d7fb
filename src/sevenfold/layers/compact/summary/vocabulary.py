"""The English words and phrases by which a claim is recognised, from `claims.toml`. Other languages have no list."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from typing import Any

_ENTRY = re.compile(r"(?:\[[^\]]*\]|\S)+")
_NAME = re.compile("<([A-Z]+)>")
_ENDING = re.compile(r"(?<=\w\w)(?:ing|ed|es|s|e)\Z")
_VOWEL = re.compile("[aeiouy]")
_WITH_THE_USER = ("permits", "orders", "asks", "moves")


@cache
def _lists() -> Mapping[str, Any]:
    from importlib import resources  # takes time to load, and not every conversation is compacted

    return tomllib.loads(resources.files(__package__).joinpath("claims.toml").read_text("utf-8"))


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
def _acts() -> Mapping[tuple[str, bool], tuple[str, int]]:
    """The listed acts, as verbs and as nouns: the first of those that are alike, and their points."""
    found = {}
    for line in _lists()["acts"].strip().splitlines():
        for noun, entries in enumerate(line.split("|")):
            for entry in entries.split():
                act = root(entry.rstrip("!"))
                found[act, bool(noun)] = root(line.split()[0].rstrip("!")), 1 + entry.endswith("!")
    return found


def listed(word: str, *, noun: bool = False) -> int:
    """The points of an act of the list, 0 for other words."""
    return _acts().get((root(word), noun), ("", 0))[1]


@cache
def alike(word: str) -> str:
    """One root for all words that mean the same: evidence for one is evidence for the others."""
    word = root(pairs("same").get(word, word))
    return next((_acts()[word, noun][0] for noun in (False, True) if (word, noun) in _acts()), word)


@cache
def pattern(name: str) -> re.Pattern[str]:
    """A pattern for any entry of a list; for what the user does, together with the user."""
    body = _filled(name)
    if name in _WITH_THE_USER:
        body = rf"{_filled('who')}\s+(?:[^.;:,?]{{0,40}}? and )?{_filled('barely')}{body}"
    whole_words = isinstance(_lists()[name], str)
    return re.compile(rf"(?<![\w-]){body}(?!\w)" if whole_words else body, re.IGNORECASE)


def _filled(name: str) -> str:
    entries = _lists()[name]
    text = "|".join(_ENTRY.findall(entries) if isinstance(entries, str) else entries)
    text = re.sub(r"\((?!\?)", "(?:", text).replace("_", " ")
    return f"(?:{_NAME.sub(lambda found: _filled(found[1].lower()), text)})"
