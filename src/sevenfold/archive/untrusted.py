"""Makes text from untrusted sources safe to show: recorded sessions may hold anything, and none of it may control the
terminal or hide what it says.
"""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor, modes
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"  # titles, links, clipboard
    r"|\x1b[ -/]*[0-~]"
)
_OVERWRITTEN = re.compile(r"(?<![^\n\r])[^\n\r]*+\r(?!\n|$)")
_INVISIBLE = re.compile(
    "[\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
    "\ud800-\udfff]"
)


def printable(text: str) -> str:
    """The text with all characters replaced that control a terminal or hide text, except line feeds."""
    text = text.expandtabs(4)
    return text if text.isprintable() else _INVISIBLE.sub("\ufffd", _CONTROL.sub("\ufffd", text))


def clean(text: str) -> str:
    """The text made safe to show in a terminal.

    Escape sequences are removed whole, because the rest of one is noise. Other control characters, and those that
    reverse the writing direction, are replaced. If a line was overwritten, only its last version is kept.
    """
    text = _SEQUENCE.sub("", text.replace("\r\n", "\n"))
    text = _OVERWRITTEN.sub("", text).replace("\r", "\n" if text.endswith("\r") else "")
    return printable(text)


def one_line(text: str, limit: int) -> str:
    """The clean text on one line of at most ``limit`` characters."""
    # Text far beyond the end of the line need not be cleaned.
    line = " ".join(clean(text[: 4 * limit + 4_000]).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"
