"""The nine sections of a summary: their titles, and how to split a text at them.

Other tools number and name the same sections slightly differently. A heading is recognised by its number and the
beginning of its title, so their summaries can be read too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_TITLES = (
    "Primary request and intent",
    "Key technical concepts",
    "Files and code sections",
    "Errors and fixes",
    "Problem solving",
    "All user messages",
    "Pending tasks",
    "Current work",
    "Next step",
)
TITLES: Mapping[int, str] = dict(enumerate(_TITLES, 1))
TITLES_UP_TO: Mapping[int, str] = {**TITLES, 8: "Work completed", 9: "Context for continuing work"}
"""Titles for a summary that is followed by kept messages, and so does not end with the current work."""

_HEADING = re.compile(
    r"^\W{0,6}([1-9])[.)]\s*\**\s*([A-Za-z][^\n:*]{0,60}?)\s*\**\s*(?::\**[ \t]*(.*))?$", re.MULTILINE
)
_BEGINNINGS = (
    *("primary", "key", "files", "errors", "problem", "all user", "pending"),
    ("current work", "work completed"),
    ("next step", "optional next", "context for"),
)
"""How the title of each section may begin, including those of other tools."""


def heading(number: int, titles: Mapping[int, str] = TITLES) -> str:
    """The heading of a section as written in a summary."""
    return f"## {number}. {titles[number]}"


def split(text: str) -> dict[int, str]:
    """Split a summary into its sections, by number; the text before the first heading is 0."""
    texts: dict[int, list[str]] = {}
    section = 0
    start = 0
    for match in _HEADING.finditer(text):
        number = int(match[1])
        title = match[2].lower()
        # A full title counts in any order, as a section may occur twice; a numbered list item is not a heading.
        full = title in (TITLES[number].lower(), TITLES_UP_TO[number].lower())
        if not (full or (number > section and title.startswith(_BEGINNINGS[number - 1]))):
            continue
        texts.setdefault(section, []).append(text[start : match.start()])
        section = number
        start = match.end()
        if match[3]:
            texts.setdefault(number, []).append(match[3] + "\n")
    texts.setdefault(section, []).append(text[start:])
    parts = {number: "".join(parts).strip() for number, parts in texts.items()}
    return {number: part for number, part in parts.items() if part}
