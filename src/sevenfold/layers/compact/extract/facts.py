"""What can be known of a conversation without asking a model: the shapes of it.

Every fact names the record it was taken from, so that the reader of a summary can go back to the words
themselves. A fact that an earlier summary handed on names its record in the short form that summary used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

WAYS: Final = ("edited", "written", "read", "mentioned")
"""How a file may have been worked with."""


class Words(Struct, frozen=True):
    """A message of the user: whole, or its beginning and end with so many characters left out between."""

    record: str
    head: str
    tail: str = ""
    lost: int = 0


class Quote(Struct, frozen=True):
    """Words of the user or the model, copied from a record."""

    text: str
    record: str


class Permission(Struct, frozen=True):
    """Words in which the user allows or refuses something, and what they answer, if they are a short yes or no."""

    given: bool
    text: str
    record: str
    proposal: str = ""
    proposed: str = ""
    """The record of the proposal."""


class File(Struct, frozen=True):
    """A file that was worked with: how, how often, and the first and last record that did."""

    path: str
    first: str
    last: str = ""
    read: int = 0
    edited: int = 0
    written: int = 0
    mentioned: int = 0

    @property
    def changed(self) -> bool:
        """Did the work change it?"""
        return bool(self.edited or self.written)


class Command(Struct, frozen=True):
    """A command line, how its last run ended, and how often it ran."""

    line: str
    state: str
    """ok, failed, exit N, or no result"""
    record: str
    count: int = 1


class FoundError(Struct, frozen=True):
    """A call that failed: the lines by which the error is known, and whether the like succeeded later."""

    tool: str
    lines: str
    record: str
    settled: bool = False


class Task(Struct, frozen=True):
    """An entry of the to-do list that is not done."""

    text: str
    record: str
    doing: bool = False
    number: str = ""
    """What the list itself calls it, where it numbers its entries."""


class Identifier(Struct, frozen=True):
    """Something that is of use only if it is spelt exactly: an id, an address, a version, a figure."""

    text: str
    kind: str
    record: str
    count: int = 1
    by_user: bool = False


class Facts(Struct, frozen=True):
    """All of it. Messages and outcomes are in the order of the conversation; the rest most telling first."""

    messages: tuple[Words, ...] = ()
    replies: tuple[Quote, ...] = ()
    """What the user answered through a tool, as its result tells it: to a question, or refusing a call."""
    permissions: tuple[Permission, ...] = ()
    """What the user allowed and refused, newest first."""
    corrections: tuple[Quote, ...] = ()
    files: tuple[File, ...] = ()
    commands: tuple[Command, ...] = ()
    problems: tuple[FoundError, ...] = ()
    tasks: tuple[Task, ...] = ()
    pending: tuple[Quote, ...] = ()
    """What the model said, last, was still to be done."""
    identifiers: tuple[Identifier, ...] = ()
    outcomes: tuple[Quote, ...] = ()
    """How the model closed each of its turns."""
    current: tuple[str, ...] = ()
    """The newest rounds, a line for each thing that happened."""
    prose: Mapping[int, str] = {}
    """What an earlier summary says in each of its nine sections, besides such facts."""
    left_out: Mapping[str, int] = {}
    """How many entries of each list earlier summaries had no room for."""
    names: Mapping[str, str] = {}
    """The short form of every record's id."""

    def name(self, record: str) -> str:
        """How a record is cited."""
        return self.names.get(record, record)
