"""Files a message mentions: ``@src/app.py``, ``@"a name with spaces.md"``, ``@docs/`` for what a folder holds.

Text that is pasted is full of other uses of the sign (decorators, packages, addresses), so what is no path that
exists is only worth a remark where it can hardly be anything else.
"""

from __future__ import annotations

import os
import re
from itertools import islice
from pathlib import Path

from sevenfold.agent.tools import files
from sevenfold.agent.tools.context import Context
from sevenfold.agent.tools.output import ToolOutput
from sevenfold.agent.tools.read import Read, ReadInput
from sevenfold.errors import Refused

MOST_MENTIONS = 20
"""Paths of one message that are looked at."""
MOST_ENTRIES = 200
"""Entries of a folder that are listed."""
_MENTION = re.compile(r"""(?<![^\s(\[{'"`])@(?:"([^"\n]+)"|([^\s"'`<>(){}\[\],;|]+))""")
_MOST_LOOKED_AT = 1_000
_ENDING = ".:!?"
"""What ends a sentence rather than a path."""
_PLAINLY_A_PATH = re.compile(r"~?[\w./+-]*(?:/[\w+-]*\.\w+|/)|[\w+-]+\.[a-z]{1,4}")


def mentioned(text: str) -> tuple[str, ...]:
    """The words behind the signs, each once, in order."""
    found: dict[str, None] = {}
    for match in islice(_MENTION.finditer(text), _MOST_LOOKED_AT):
        if word := match[1] or match[2].rstrip(_ENDING):
            found[word] = None
    return tuple(found)


def plainly_a_path(word: str) -> bool:
    """Can it hardly be anything else, so that its absence should be told?"""
    return _PLAINLY_A_PATH.fullmatch(word) is not None


class Look(Read):
    """Shows a file as Read does, and of a folder what is in it; the same rules and hooks hold for both."""

    def act(self, given: ReadInput, context: Context) -> ToolOutput:
        """Show it, by what it is."""
        path = context.wish.subject if context.wish else files.place(given.path, context).real
        return _entries(path) if Path(path).is_dir() else super().act(given, context)


def _entries(path: str) -> ToolOutput:
    try:
        with os.scandir(path) as found:
            names = sorted(f"{one.name}/" if one.is_dir() else one.name for one in found)
    except OSError as error:
        raise Refused(f"{path} cannot be listed: {error.strerror}.") from error
    if not names:
        return ToolOutput(f"{path} is empty.")
    more = len(names) - MOST_ENTRIES
    note = [f"(and {more:,} more)"] if more > 0 else []
    return ToolOutput("\n".join([*names[:MOST_ENTRIES], *note]))
