"""The English words and phrases by which a claim is recognised, from `claims.toml`. Other languages have no list."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from typing import Any

_NAME = re.compile("<([A-Z_]+)>")


@cache
def _lists() -> dict[str, dict[str, Any]]:
    from importlib import resources  # takes time to load, and not every conversation is compacted

    return tomllib.loads(resources.files(__package__).joinpath("claims.toml").read_text("utf-8"))


def text(name: str) -> str:
    """A list as it is written."""
    return str(_lists()["words"][name]).strip()


@cache
def word_set(name: str) -> frozenset[str]:
    """The words of a list."""
    return frozenset(text(name).split())


@cache
def word(name: str) -> re.Pattern[str]:
    """A pattern for any entry of a list as a whole word."""
    return re.compile(rf"\b{any_of(name)}\b", re.IGNORECASE)


@cache
def phrase(name: str) -> re.Pattern[str]:
    """A pattern for any phrase of this name."""
    return re.compile("|".join(map(_filled, _lists()["phrases"][name])), re.IGNORECASE)


def any_of(name: str) -> str:
    """A pattern for any entry of a list."""
    entries = (re.sub(r"\((?!\?)", "(?:", entry).replace("_", " ") for entry in text(name).split())
    return f"(?:{'|'.join(entries)})"


def _filled(pattern: str) -> str:
    phrases = _lists()["phrases"]
    return _NAME.sub(
        lambda name: _filled(phrases[name[1]][0]) if name[1] in phrases else any_of(name[1]), pattern
    )
