"""The patterns and names by which code finds facts in what was said, from `patterns.toml`."""

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
    """A pattern by its name."""
    return re.compile("".join(_texts()[name].splitlines()))


@cache
def keys(name: str) -> tuple[str, ...]:
    """What tools of any program call something in their input."""
    return tuple(_texts()["keys"][name].split())
