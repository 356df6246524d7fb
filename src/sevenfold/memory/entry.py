"""A memory entry: one fact in a Markdown file.

The head has ``name``, ``description`` and ``type``; heads of other tools are kept unchanged. The body
begins with the user's own words, on lines quoted with ``>``; the rest is a note. An entry's origin is stored not in its
file, which anyone may edit, but in the generation that contains it.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Container, Iterable
from itertools import groupby
from typing import Literal, get_args

from msgspec import Struct

from sevenfold.errors import InputError
from sevenfold.memory.front_matter import Page, split

Kind = Literal["user", "feedback", "project", "reference"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""Who the user is; how they want things done; goals, decisions and dates; external places to look."""

PINNED = "pinned/"
"""The folder that nothing automatic changes."""

MOST_BYTES = 100_000
"""The largest size of an entry."""

_FILE = re.compile(r"(?:pinned/)?[a-z0-9][a-z0-9._-]{0,79}\.md")
_SLUG = 48
_LONGEST = 70
"""Characters of a name that are kept when a number is added."""


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
        description = self.page.values.get("description", "") or " ".join(self.body.split()).lstrip("> ")
        return shortened(_clean(description), 150)

    @property
    def until(self) -> str:
        """The last day on which it is valid, as YYYY-MM-DD; empty if there is no limit."""
        return self.page.values.get("valid_until", "")

    def over(self, today: str) -> bool:
        """Whether its last day has passed."""
        return bool(self.until) and self.until < today

    @property
    def body(self) -> str:
        """The text below the head."""
        return _clean(self.page.body).strip()

    @property
    def quotations(self) -> tuple[str, ...]:
        """The user's words in it, one text per block of quoted lines."""
        quotations = []
        for is_quoted, lines in groupby(self._parts[0], key=lambda line: line.startswith(">")):
            if is_quoted:
                quotations.append(" ".join(line[1:].strip() for line in lines).strip())
        return tuple(filter(None, quotations))

    @property
    def words(self) -> str:
        """The words that state its fact: the user's, if it has any, otherwise its body."""
        return "\n".join(self.quotations) or self.body

    @property
    def note(self) -> str:
        """Everything in the body other than the user's words."""
        return "\n".join(self._parts[1]).strip()

    @property
    def _parts(self) -> tuple[list[str], list[str]]:
        """The lines of the quotations, which come first, and those of the note: a note cannot add a quotation."""
        lines = self.body.splitlines()
        end = next((at for at, line in enumerate(lines) if line.strip() and line[0] != ">"), len(lines))
        return lines[:end], lines[end:]

    def render(self) -> bytes:
        """The content of its file."""
        return self.page.render().encode(errors="surrogateescape")

    def until_day(self, day: str) -> MemoryEntry:
        """The entry with this as its last valid day."""
        return MemoryEntry(self.file, self.page.with_value("valid_until", day))


def read_entry(file: str, content: bytes) -> MemoryEntry:
    """Parse a file of any content as an entry; bytes that are not text are preserved."""
    return MemoryEntry(file, split(content.decode(errors="surrogateescape")))


def is_entry(file: str) -> bool:
    """Whether a file of this name can be an entry; the index, logs and files of other kinds cannot."""
    return bool(_FILE.fullmatch(file)) and file != "memory.md"


def write_entry(name: str, kind: Kind, description: str, body: str, *, pinned: bool = False) -> MemoryEntry:
    """A new entry; raises `InputError` if the name is not allowed."""
    file = f"{PINNED if pinned else ''}{name}.md"
    if not is_entry(file):
        raise InputError(f"{name[:80]!r} is not a valid entry name; use a to z, digits, dots and dashes")
    page = Page((), f"\n{_clean(body).strip()}\n").with_value("name", name)
    page = page.with_value("description", shortened(_clean(description), 150)).with_value("type", kind)
    return MemoryEntry(file, page)


def quoted(statements: Iterable[str]) -> str:
    """The user's words as quoted lines of an entry."""
    return "\n\n".join(map(_quoted_lines, statements))


def _quoted_lines(statement: str) -> str:
    return "\n".join(f"> {line}" for line in statement.strip().splitlines())


def slug(text: str) -> str:
    """A file name made from the words."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    plain = " ".join(re.findall(r"[a-z0-9]+", plain))
    first = textwrap.shorten(plain, _SLUG, placeholder="", break_long_words=False)
    return first.replace(" ", "-") or "entry"


def free_name(file: str, taken_names: Container[str]) -> str:
    """This file name if it is free, otherwise the first free one with a number appended."""
    stem = file.removesuffix(".md")
    number = 2
    while file in taken_names:
        file = f"{stem[:_LONGEST]}-{number}.md"
        number += 1
    return file


def _clean(text: str) -> str:
    """The text without unpaired surrogates, which cannot be sent."""
    return text.encode(errors="replace").decode()


def shortened(text: str, limit: int) -> str:
    """The words on one line, cut at a space and marked with an ellipsis if too long."""
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    return f"{line[: limit - 1].rsplit(' ', 1)[0]}…"
