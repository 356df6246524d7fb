"""The patterns and key names, from `patterns.toml`, by which code finds facts in a conversation."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any


@cache
def _texts() -> Mapping[str, Any]:

    return tomllib.loads(Path(__file__).with_name("patterns.toml").read_text("utf-8"))


@cache
def pattern(name: str) -> re.Pattern[str]:
    """The compiled pattern of this name."""
    return re.compile("".join(_texts()[name].splitlines()))


@cache
def keys(name: str) -> tuple[str, ...]:
    """The names that tools use for something in their input; for to-do lists, also the states of an entry."""
    return tuple(_texts()["keys"][name].split())
