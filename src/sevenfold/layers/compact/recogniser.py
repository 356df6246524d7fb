"""Recognises statements of the user that look lasting, by word lists in several languages.

It only orders: beyond the budget of the user's words, what it recognises gets room before what it does not. No list
finds most rules, as most are said without any word that gives them away, so nothing is ever left out, and nothing
stays, because of it alone while there is room.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

Recogniser = Callable[[str], bool]
"""Whether a statement looks lasting."""


def by_word_lists(statement: str) -> bool:
    """Whether a statement has a word or a phrase of `lasting.toml`."""
    return bool(_pattern().search(statement))


def nothing(statement: str) -> bool:
    """The recogniser that recognises nothing, for measuring what is kept without one."""
    return False


@cache
def _pattern() -> re.Pattern[str]:
    table = tomllib.loads(Path(__file__).with_name("lasting.toml").read_text("utf-8"))
    spaced = _lines(table["spaced"].values())
    unspaced = _lines(table["unspaced"].values())
    # The border of a word is checked once for all of them, so a search skips the inside of words.
    return re.compile(rf"(?<!\w)(?:{'|'.join(spaced)})(?!\w)|{'|'.join(unspaced)}", re.IGNORECASE)


def _lines(phrases: Iterable[str]) -> list[str]:
    lines = "\n".join(phrases).split("\n")
    return [f"(?:{line})" for line in lines if line.strip()]
