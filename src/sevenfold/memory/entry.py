"""A memory entry: one fact in a Markdown file.

The front matter has ``name``, ``description`` and ``type``; keys of other tools are kept unchanged. The body begins
with the user's own words, on lines quoted with ``>``; the rest is a note. Who stated an entry is not stored in its
file, which anyone may edit, but in the current generation: the list of all entries with their origins at one time
(`sevenfold.memory.generation`).
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Container, Iterable
from itertools import groupby
from typing import Literal, NamedTuple, get_args

from msgspec import Struct

from sevenfold.errors import InputError
from sevenfold.memory.front_matter import Page, split

Kind = Literal["user", "feedback", "project", "reference"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""``user``: who the user is; ``feedback``: how they want things done; ``project``: goals, decisions and dates;
``reference``: external places to look."""

PINNED = "pinned/"
"""The folder that nothing automatic changes."""

MAX_BYTES = 100_000
"""The largest size of an entry."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")
_MAX_SHOWN_NAME = 80
_MAX_SLUG_CHARS = 48
"""A file name of this length still fits a line of a listing, and says what the entry is about."""
_MAX_STEM_CHARS = 70
"""Characters of a name that are kept when a number is added: this leaves room for 9 digits within the 80 of a name."""


class _Body(NamedTuple):
    quoted: list[str]
    note: list[str]


class MemoryEntry(Struct, frozen=True):
    """One entry, as stored in its file."""

    file: str
    """Its path relative to the memory folder."""
    page: Page

    @property
    def name(self) -> str:
        """The name shown to people."""
        return self.file.removeprefix(PINNED).removesuffix(".md")

    @property
    def pinned(self) -> bool:
        """Whether only the user may change it."""
        return self.file.startswith(PINNED)

    @property
    def kind(self) -> Kind:
        """Its type; an unknown one counts as ``project``."""
        kind = self.page.values.get("type", "")
        return kind if kind in KINDS else "project"

    @property
    def description(self) -> str:
        """One line about it; if it has none, the beginning of its body."""
        description = self.page.values.get("description", "") or " ".join([*self.quotations, self.note])
        return shortened(_clean(description), 150)

    @property
    def until(self) -> str:
        """The last day on which it is valid, as YYYY-MM-DD; empty if there is no limit."""
        return self.page.values.get("valid_until", "")

    def has_expired(self, today: str) -> bool:
        """Whether its last day has passed; ``today`` is YYYY-MM-DD.

        Days in this form sort as text. Whatever else somebody wrote as its last day compares as text, too.
        """
        return bool(self.until) and self.until < today

    @property
    def body(self) -> str:
        """The text below the front matter."""
        return _clean(self.page.body).strip()

    @property
    def quotations(self) -> tuple[str, ...]:
        """The user's words in it, one text per block of quoted lines."""
        quotations = []
        for is_quoted, lines in groupby(self._lines.quoted, key=lambda line: line.startswith(">")):
            if is_quoted:
                quotations.append(" ".join(line[1:].strip() for line in lines).strip())
        return tuple(filter(None, quotations))

    @property
    def statement(self) -> str:
        """The text that states its fact: the user's words, if it has any, otherwise its body."""
        return "\n".join(self.quotations) or self.body

    @property
    def note(self) -> str:
        """Everything in the body other than the user's words."""
        return "\n".join(self._lines.note).strip()

    @property
    def _lines(self) -> _Body:
        # Quotes count only before the first other line, so text in the note cannot pass for the user's words.
        lines = self.body.splitlines()
        end = next((at for at, line in enumerate(lines) if line.strip() and line[0] != ">"), len(lines))
        return _Body(lines[:end], lines[end:])

    def render(self) -> bytes:
        """The content of its file."""
        return self.page.render().encode(errors="surrogateescape")

    def with_until(self, day: str) -> MemoryEntry:
        """The entry with this as its last valid day."""
        return MemoryEntry(self.file, self.page.with_value("valid_until", day))


def parse_entry(file: str, content: bytes) -> MemoryEntry:
    """Parse a file of any content as an entry; bytes that are not text are preserved."""
    return MemoryEntry(file, split(content.decode(errors="surrogateescape")))


def is_entry(file: str) -> bool:
    """Whether a file of this name can be an entry; the index, logs and files of other kinds cannot."""
    name = file.removeprefix(PINNED).removesuffix(".md")
    # Where upper and lower case make no difference, memory.md is the index, MEMORY.md.
    return file.endswith(".md") and bool(_NAME.fullmatch(name)) and file != "memory.md"


def new_entry(name: str, kind: Kind, description: str, body: str, *, pinned: bool = False) -> MemoryEntry:
    """A new entry; raises `InputError` if the name is not allowed."""
    # The name is checked alone: with a folder before it, it could make a pinned entry of one that is not.
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{_shown_name(name)} is not a valid entry name; use 1 to 80 characters: a to z, digits, dots, dashes and "
            "underscores; begin with a letter or digit"
        )
    file = f"{PINNED if pinned else ''}{name}.md"
    if not is_entry(file):
        raise InputError(f"{name!r} is the index and cannot be an entry; choose another name")
    page = Page((), f"\n{_clean(body).strip()}\n").with_value("name", name)
    page = page.with_value("description", shortened(_clean(description), 150)).with_value("type", kind)
    return MemoryEntry(file, page)


def _shown_name(name: str) -> str:
    if len(name) <= _MAX_SHOWN_NAME:
        return repr(name)
    return f"{name[:_MAX_SHOWN_NAME] + '…'!r} ({len(name):,} characters)"


def quoted(statements: Iterable[str]) -> str:
    """The user's words as quoted lines of an entry."""
    return "\n\n".join(map(_quoted_lines, statements))


def _quoted_lines(statement: str) -> str:
    return "\n".join(f"> {line}" for line in statement.strip().splitlines())


def slug(text: str) -> str:
    """A name for an entry, made from its text."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    plain = " ".join(re.findall(r"[a-z0-9]+", plain))
    first = textwrap.shorten(plain, _MAX_SLUG_CHARS, placeholder="", break_long_words=False)
    return first.replace(" ", "-") or "entry"


def free_file(file: str, taken_files: Container[str]) -> str:
    """This file name if it is free, otherwise the first free one with a number appended."""
    stem = file.removesuffix(".md")
    number = 2
    while file in taken_files:
        file = f"{stem[:_MAX_STEM_CHARS]}-{number}.md"
        number += 1
    return file


def _clean(text: str) -> str:
    """The text with ``?`` for unpaired surrogates, which cannot be sent."""
    return text.encode(errors="replace").decode()


def shortened(text: str, limit: int) -> str:
    """The text on one line, cut at a space and marked with an ellipsis if too long."""
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    return f"{line[: limit - 1].rsplit(' ', 1)[0]}…"
