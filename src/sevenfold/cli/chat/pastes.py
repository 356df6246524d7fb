"""Large pastes: a few words stand for them in the input line until the message is sent."""

from __future__ import annotations

import re

from sevenfold.cli.phrases import plural

MOST_LINES = 20
MOST_CHARACTERS = 2_000
"""What has more than either is not shown where the user types."""
_STAND_IN = re.compile(r"\[paste (\d+): [\d,]+ (?:lines?|characters)\]")


class Pastes:
    """What was pasted in this run, by number."""

    def __init__(self) -> None:
        self._kept: list[str] = []

    def taken(self, text: str) -> str:
        """What to put into the input line for a paste."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.count("\n") + (not text.endswith("\n"))
        if lines <= MOST_LINES and len(text) <= MOST_CHARACTERS:
            return text
        self._kept.append(text)
        size = plural(lines, "line") if lines > 1 else f"{len(text):,} characters"
        return f"[paste {len(self._kept)}: {size}]"

    def whole(self, text: str) -> str:
        """The message with every paste in its place."""
        return _STAND_IN.sub(self._pasted, text)

    def _pasted(self, match: re.Match[str]) -> str:
        place = int(match[1]) - 1
        return self._kept[place] if place < len(self._kept) else match[0]
