"""Draws docs/profile.svg: the output of `sevenfold profile --example`, without a web font."""

from __future__ import annotations

import io
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console

from sevenfold.archive.profile import files
from sevenfold.cli import profile_terminal as terminal
from sevenfold.lab.examples import coding_session

WIDTH, TOP = 96, 4
PICTURE = Path(__file__).parent.parent / "docs" / "profile.svg"
FRAME = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, monospace; font-size: {char_height}px;
 line-height: {line_height}px; font-variant-east-asian: full-width; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""


def draw() -> str:
    """Return the picture as SVG: the session's report with the file name only and few of its largest items."""
    profile = files.profile(files.find([coding_session()]), jobs=1)
    largest = profile.sessions[0].largest_items[:TOP]
    session = replace(profile.sessions[0], file="coding-session.jsonl", largest_items=largest)
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False)
    console.print(terminal.session_page(session, WIDTH))
    return console.export_svg(title="sevenfold profile --example", code_format=FRAME, unique_id="profile")


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
