"""Foreign text made fit to be shown: nothing in it steers the terminal, and it takes the room it is given.

Tools, models, files and the clipboard may hold anything. Escape sequences are taken out, since without their first
character they would only be noise; all other control characters, and those that turn the direction of writing around,
become visible stand-ins.
"""

from __future__ import annotations

import re

from rich.cells import cell_len, set_cell_size

from sevenfold.cli.transcripts import harmless

_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor, modes
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"  # titles, links, clipboard
    r"|\x1b[ -/]*[0-~]"
)
_OVERWRITTEN = re.compile(r"(?<![^\n\r])[^\n\r]*+\r(?!\n|$)")
_UNSEEN = re.compile(
    "[\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
    "\ud800-\udfff]"
)


def clean(text: str) -> str:
    """The text as it may be printed; of a line that was written over, what was last to be seen."""
    text = _SEQUENCE.sub("", text.replace("\r\n", "\n"))
    text = _OVERWRITTEN.sub("", text).replace("\r", "\n" if text.endswith("\r") else "")
    return harmless(_UNSEEN.sub("\ufffd", text))


def one_line(text: str, room: int = 0, cut: str = "…") -> str:
    """The text on one line; with ``room``, no wider than that many cells."""
    # What is far beyond any line need not be looked at.
    line = " ".join(clean(text[: 4 * room + 4_000] if room else text).split())
    return fitted(line, room, cut) if room else line


def fitted(line: str, room: int, cut: str = "…") -> str:
    """A clean line in no more than ``room`` cells."""
    if cell_len(line) <= room:
        return line
    if room <= cell_len(cut):
        return set_cell_size(line, max(0, room)).rstrip()
    return set_cell_size(line, room - cell_len(cut)).rstrip() + cut


def tokens(number: int) -> str:
    """A number of tokens in four signs or so."""
    if abs(number) < 1_000:
        return str(number)
    if abs(number) < 9_950:
        return f"{number / 1_000:.1f}k"
    if abs(number) < 999_500:
        return f"{number / 1_000:.0f}k"
    return f"{number / 1e6:.2f}M"


def lasted(seconds: float) -> str:
    """How long something took."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"
