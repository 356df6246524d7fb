"""What a user said and expects to hold, with the question somebody would ask for it later."""

from __future__ import annotations

import tomllib
from itertools import groupby
from pathlib import Path

import msgspec
from msgspec import Struct

HERE = Path(__file__).parent
COMPARED, BLIND = HERE / "statements.toml", HERE / "blind.toml"


class Statement(Struct, frozen=True, forbid_unknown_fields=True):
    """A statement of the user that must outlive every compaction."""

    language: str
    kind: str
    """Rule, decision, preference, permission, definition, or change: a changed mind."""
    signal: bool
    """Whether it has a word in it like "always", "never", "must", "don't"."""
    text: str
    question: str
    """What somebody would ask for it later."""
    other_words: str
    """A question for it that shares few words with it, or none."""
    earlier: str = ""
    """What was said first and is replaced by it."""


def read_statements(path: Path = COMPARED) -> list[Statement]:
    """Read the statements of a file."""
    tables = tomllib.loads(path.read_text("utf-8"))
    return msgspec.convert(tables["statements"], list[Statement])


def by_language(statements: list[Statement]) -> dict[str, list[Statement]]:
    """Sort statements by their language."""
    languages = groupby(sorted(statements, key=_language), key=_language)
    return {language: list(group) for language, group in languages}


def _language(statement: Statement) -> str:
    return statement.language
