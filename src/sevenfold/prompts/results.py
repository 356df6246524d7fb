"""The texts that stand in for a tool result: where it was too big, could not be stored, or was nothing."""

from __future__ import annotations

from sevenfold.prompts.text import KB, Text


class StoredResult(Text, frozen=True):
    """The beginning of a result that was stored, and the way to the rest."""

    file = "stored_result"
    role = "user"
    tag = "persisted-output"
    body = "text"
    cap = 256 * KB

    characters: int
    path: str
    reader: str
    text: str


class CutResult(Text, frozen=True):
    """The beginning of a result that is too big and could not be stored either."""

    file = "cut_result"
    role = "user"
    tag = "cut-output"
    body = "text"
    cap = 256 * KB

    shown: int
    characters: int
    problem: str
    text: str


class EmptyResult(Text, frozen=True):
    """A result of nothing; without a word in it a model may take its turn for finished."""

    file = "empty_result"
    role = "user"
    cap = 200
