"""``MEMORY.md``: one line for each entry a model may rely on.

The index is part of the system prompt, which a model obeys. So it is made from entries that hold the user's words, and
names only those; what came from tools, pages and other places is counted, not quoted.
"""

from __future__ import annotations

from collections.abc import Iterable

from sevenfold.memory.entry import MemoryEntry, shortened
from sevenfold.memory.generation import Provenance

FILE = "MEMORY.md"
MOST_LINES = 200
MOST_BYTES = 25_000
LINE = 150
_HEADING = "# Memory\n\n"


def index(entries: Iterable[tuple[MemoryEntry, Provenance]], today: str) -> str:
    """The index of these entries; within its limits, with a note about what they cut off."""
    held = [(entry, stamp.trusted) for entry, stamp in entries if not entry.over(today)]
    trusted = [one for one, is_users in held if is_users]
    trusted.sort(key=lambda one: (not one.pinned, one.file))
    others, last = len(held) - len(trusted), list[str]()
    if others:
        noun = "entries" if others > 1 else "entry"
        last.append(f"{others} unconfirmed {noun}: see `sevenfold memory list`.")
    room = MOST_BYTES - len(_HEADING.encode()) - 200
    shown: list[str] = []
    for entry in trusted:
        line = _line(entry)
        room -= len(line.encode()) + 1
        if room < 0 or len(shown) == MOST_LINES - 6:
            break
        shown.append(line)
    if len(shown) < len(trusted):
        last.insert(0, f"{len(trusted) - len(shown)} more entries are not listed: the index is full.")
    if not shown and not last:
        return ""
    return _HEADING + "\n".join([*shown, *([""] if last and shown else []), *last]) + "\n"


def _line(entry: MemoryEntry) -> str:
    start = f"- [{entry.name}]({entry.file}) — "
    gist = entry.quotations[0] if entry.quotations else entry.description
    return start + shortened(gist, max(LINE - len(start), 40))
