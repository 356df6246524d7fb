"""The patterns and words by which facts are found, from `patterns.toml`."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

_TEXTS = tomllib.loads(Path(__file__).with_name("patterns.toml").read_text("utf-8"))


def pattern(name: str) -> re.Pattern[str]:
    """A pattern by its name."""
    return re.compile("".join(_TEXTS[name].splitlines()))


def words(name: str) -> frozenset[str]:
    """A list of words by its name."""
    return frozenset(_TEXTS[name].split())
