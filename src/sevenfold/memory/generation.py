"""Generations: what memory held after each change, and where every entry in it comes from.

The current generation is one file, replaced in one step. What led to it is a list of changes that is only appended to;
contents are kept under their hashes. So a change is there as a whole or not at all, and any can be undone to the byte.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Literal, get_args

import msgspec
from msgspec import Struct

Origin = Literal["user", "model", "file", "tool", "web", "agent", "import", "outside"]
"""Whose words carry a fact. ``model``: a conclusion of the model's own. ``outside``: written by something unknown."""

MOST_TRUSTED_FIRST: tuple[Origin, ...] = get_args(Origin)

Author = Literal["user", "agent", "remember", "dream", "import", "outside", "undo"]
"""What made a change."""


def least_trusted(*origins: Origin) -> Origin:
    """The origin of what is derived from all of these."""
    return max(origins, key=MOST_TRUSTED_FIRST.index)


class Provenance(Struct, frozen=True, omit_defaults=True):
    """What the engine knows of an entry; nothing in its file can change it."""

    sha256: str
    """Of its file."""
    origin: Origin
    evidence: tuple[str, ...] = ()
    """The records it rests on, as ``session/record``."""
    source: str = ""
    """Where it was found, for people: a tool and its target, an address, the tool it was imported from."""
    extra: str = ""
    """What else the tool it was imported from keeps with it, as JSON."""
    created: float = 0.0
    """Seconds since 1970."""
    verified: float = 0.0
    """When the user last said so, or confirmed it; 0 if never."""

    @property
    def trusted(self) -> bool:
        """May it be put before a model as the user's word?"""
        return self.origin == "user"


class Generation(Struct, frozen=True):
    """All entries at one time."""

    number: int = 0
    id: str = ""
    """Of the change that made it; empty before the first."""
    entries: dict[str, Provenance] = {}

    def after(self, change: MemoryChange) -> Generation:
        """The generation a change makes of this one."""
        entries = dict(self.entries)
        for file, (_, now) in change.entries.items():
            if now is None:
                entries.pop(file, None)
            else:
                entries[file] = now
        return Generation(change.number, change.id, dict(sorted(entries.items())))


class MemoryChange(Struct, frozen=True, omit_defaults=True):
    """One step from a generation to the next."""

    number: int
    parent: str
    at: float
    by: Author
    reason: str
    entries: dict[str, tuple[Provenance | None, Provenance | None]]
    """What each entry was before, and what it is now."""
    session: str = ""
    id: str = ""

    def identified(self) -> MemoryChange:
        """With an id that follows from everything it says."""
        bare = msgspec.structs.replace(self, id="")
        return msgspec.structs.replace(self, id=hashlib.sha256(msgspec.json.encode(bare)).hexdigest()[:16])

    def reversed(self, now: Mapping[str, Provenance], at: float, number: int, parent: str) -> MemoryChange:
        """The change that brings back what was before this one."""
        back = {file: (now.get(file), before) for file, (before, _) in self.entries.items()}
        return MemoryChange(number, parent, at, "undo", f"undo {self.number}", back)


def digest(content: bytes) -> str:
    """The hash a content is kept under."""
    return hashlib.sha256(content).hexdigest()
