"""Generations: what memory contained after each change, and the origin of every entry.

The current generation is one file, replaced atomically. The changes that led to it are an append-only list; contents
are stored under their hashes. So a change is applied completely or not at all, and any can be undone to the byte.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Literal, get_args

import msgspec
from msgspec import Struct

Origin = Literal["user", "model", "file", "tool", "web", "agent", "import", "outside"]
"""Whose words state a fact. ``model``: the model's own conclusion. ``outside``: written by something unknown."""

MOST_TRUSTED_FIRST: tuple[Origin, ...] = get_args(Origin)

Author = Literal["user", "agent", "remember", "dream", "import", "outside", "undo"]
"""Who or what made a change."""


def least_trusted(*origins: Origin) -> Origin:
    """The origin of something derived from all of these."""
    return max(origins, key=MOST_TRUSTED_FIRST.index)


class Provenance(Struct, frozen=True, omit_defaults=True):
    """What the engine knows about an entry; nothing in the entry's file can change it."""

    sha256: str
    """The hash of its file."""
    origin: Origin
    evidence: tuple[str, ...] = ()
    """The records that support it, as ``session/record``."""
    source: str = ""
    """Where it was found, for display: a tool and its target, an address, the tool it was imported from."""
    extra: str = ""
    """Additional data from the tool it was imported from, as JSON."""
    created: float = 0.0
    """Seconds since 1970."""
    verified: float = 0.0
    """When the user last stated or confirmed it; 0 if never."""

    @property
    def trusted(self) -> bool:
        """Whether it may be shown to a model as the user's words."""
        return self.origin == "user"


class Generation(Struct, frozen=True):
    """All entries at one time."""

    number: int = 0
    id: str = ""
    """The id of the change that created it; empty before the first."""
    entries: dict[str, Provenance] = {}

    def after(self, change: MemoryChange) -> Generation:
        """The generation that results from a change."""
        entries = dict(self.entries)
        for file, (_, stamp) in change.entries.items():
            if stamp is None:
                entries.pop(file, None)
            else:
                entries[file] = stamp
        return Generation(change.number, change.id, dict(sorted(entries.items())))


class MemoryChange(Struct, frozen=True, omit_defaults=True):
    """One step from a generation to the next."""

    number: int
    parent: str
    at: float
    by: Author
    reason: str
    entries: dict[str, tuple[Provenance | None, Provenance | None]]
    """The provenance of each changed entry, before and after; None if the entry does not exist."""
    session: str = ""
    id: str = ""

    def identified(self) -> MemoryChange:
        """The change with its id set, which is a hash of everything else in it."""
        bare = msgspec.structs.replace(self, id="")
        return msgspec.structs.replace(self, id=hashlib.sha256(msgspec.json.encode(bare)).hexdigest()[:16])

    def reversed(
        self, current: Mapping[str, Provenance], at: float, number: int, parent: str
    ) -> MemoryChange:
        """The change that restores what was there before this one."""
        back = {file: (current.get(file), before) for file, (before, _) in self.entries.items()}
        return MemoryChange(number, parent, at, "undo", f"undo {self.number}", back)


def digest(content: bytes) -> str:
    """The hash under which content is stored."""
    return hashlib.sha256(content).hexdigest()
