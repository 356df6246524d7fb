"""The sessions of a folder: their titles, age and size, found without reading more than both their ends."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from msgspec import Struct

from sevenfold.cli.chat.words import one_line
from sevenfold.cli.phrases import duration
from sevenfold.errors import TranscriptError
from sevenfold.record import blocks, entries
from sevenfold.record.entries import Label, Said
from sevenfold.record.log import title_of
from sevenfold.stores.home import Project
from sevenfold.stores.jsonl.log import JsonlLog

LOOKED_AT = 200
"""Records at the beginning in which the user's first words are looked for."""
LONGEST_TITLE = 200
TAIL_BYTES = 256 * 1024
"""At the end, in which a title is looked for."""


class Kept(Struct, frozen=True):
    """A session that is kept."""

    name: str
    title: str
    modified: float
    size: int
    path: Path

    def age(self, now: float) -> str:
        """How long ago it was last written to."""
        return f"{duration(max(0.0, now - self.modified))} ago"


def sessions(project: Project) -> list[Kept]:
    """The sessions of a project in which something was said, the newest first."""
    found = (
        Kept(file.path.stem, title(file.path), file.modified, file.size, file.path)
        for file in project.sessions()
    )
    return [one for one in found if one.title]


def title(path: Path) -> str:
    """What it is called, or the first words of the user; empty if nothing was said yet."""
    try:
        if called := _called(path):
            return one_line(called, LONGEST_TITLE)
        for line in JsonlLog(path).head(LOOKED_AT):
            match entries.read(line):
                case Said(role="user", meta=False, summary=False, sidechain=False, attachment="") as said:
                    if words := spoken(said):
                        return one_line(words, LONGEST_TITLE)
    except (TranscriptError, OSError) as error:
        return f"(cannot be read: {one_line(str(error), 80)})"
    return ""


def _called(path: Path) -> str:
    """The title at the end of a transcript, where every compaction writes it again; empty if there is none."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL_BYTES))
        found = [entries.read(line) for line in file.read(TAIL_BYTES).splitlines() if b'title"' in line]
    return title_of({one.kind: one.text for one in found if isinstance(one, Label)})


def spoken(said: Said) -> str:
    """The user's own words in a record; empty for results of tools."""
    if said.answers:
        return ""
    texts = (blocks.words_of(block) for block in said.blocks if block.kind == "text")
    return "\n".join(text for text in texts if text.strip())


def size(number: int) -> str:
    """Bytes as people read them."""
    if number < 1_000:
        return f"{number} B"
    if number < 1_000_000:
        return f"{number / 1_000:.0f} kB"
    return f"{number / 1e6:.1f} MB"


def new_name(now: datetime, digits: str) -> str:
    """A name for a new session: when it began, and something that no other has."""
    return f"{now:%Y-%m-%d-%H%M%S}-{digits}"
