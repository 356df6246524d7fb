"""The nine sections of a summary: their titles, and how a text is taken apart along them.

Other tools number and name the same sections in their own way; a heading is known by its number and the
beginning of its title, so their summaries are understood too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

TITLES: Final[Mapping[int, str]] = MappingProxyType(
    {
        1: "Primary request and intent",
        2: "Key technical concepts",
        3: "Files and code sections",
        4: "Errors and fixes",
        5: "Problem solving",
        6: "All user messages",
        7: "Pending tasks",
        8: "Current work",
        9: "Next step",
    }
)
TITLES_UP_TO: Final[Mapping[int, str]] = MappingProxyType(
    {**TITLES, 8: "Work completed", 9: "Context for continuing work"}
)
"""When what follows the summary stays in view, the summary does not end with the current work."""

_HEADING = re.compile(
    r"^\W{0,6}([1-9])[.)]\s*\**\s*([A-Za-z][^\n:*]{0,60}?)\s*\**\s*(?::\**[ \t]*(.*))?$", re.MULTILINE
)
_FIRST_WORDS: Final = MappingProxyType(
    {
        1: ("primary",),
        2: ("key",),
        3: ("files",),
        4: ("errors",),
        5: ("problem",),
        6: ("all user",),
        7: ("pending",),
        8: ("current work", "work completed"),
        9: ("next step", "optional next", "context for"),
    }
)


_TITLES: Final = MappingProxyType(
    {number: (TITLES[number].lower(), TITLES_UP_TO[number].lower()) for number in TITLES}
)
"""In full they are known in any order: a section may come twice, and an item of a list is none."""


def heading(number: int, titles: Mapping[int, str] = TITLES) -> str:
    """A section's heading as it is written."""
    return f"## {number}. {titles[number]}"


def split(text: str) -> dict[int, str]:
    """The text of each section by its number; the text before the first is 0."""
    found: dict[int, list[str]] = {}
    here, place = 0, 0
    for match in _HEADING.finditer(text):
        number, title = int(match[1]), match[2].lower()
        if not (title in _TITLES[number] or (number > here and title.startswith(_FIRST_WORDS[number]))):
            continue
        found.setdefault(here, []).append(text[place : match.start()])
        here, place = number, match.end()
        if match[3]:
            found.setdefault(number, []).append(match[3] + "\n")
    found.setdefault(here, []).append(text[place:])
    parts = {number: "".join(parts).strip() for number, parts in found.items()}
    return {number: part for number, part in parts.items() if part}
