"""Markdown that arrives piece by piece: what is complete is printed for good, the rest is shown until it is.

`Stream` cuts a growing text where nothing that follows can change how it looks: at blank lines outside of code and
lists, and inside long code at line ends. `rendered` makes of such a part what a terminal shows.
"""

from __future__ import annotations

import re
from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.padding import Padding
from rich.syntax import Syntax
from rich.text import Text

from sevenfold.cli.text import clean

LONGEST_CODE = 60
"""Lines of code that are held back until the code ends; longer code is printed in parts."""
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_INSIDE = re.compile(r"( {2,}|\t|\s*([-*+]|\d{1,9}[.)])(\s|$)|\s*\||\s*>)")
"""Lines that may belong to a list, a table or a quotation that goes on."""


class Stream:
    """A text that grows."""

    def __init__(self) -> None:
        self._pending = ""

    @property
    def pending(self) -> str:
        """What may still change."""
        return self._pending

    def feed(self, words: str) -> str:
        """Add words; returns what is complete now, possibly nothing."""
        self._pending += words
        if "\n" not in words:
            return ""
        cut = _complete(self._pending)
        done, self._pending = self._pending[:cut], self._pending[cut:]
        if not done and (parts := _part_of_code(self._pending)):
            done, self._pending = parts
        return done

    def end(self) -> str:
        """Nothing more comes; returns the rest."""
        rest, self._pending = self._pending, ""
        return rest


def _complete(text: str) -> int:
    """How far the text is settled."""
    settled, place, fence, after_blank = 0, 0, "", False
    for line in text.splitlines(keepends=True):
        opens = _FENCE.match(line)
        if fence:
            if opens and opens[1].startswith(fence) and not opens[2].strip():
                fence = ""
                settled = place + len(line) if line.endswith("\n") else settled
        elif opens:
            fence = opens[1]
            settled = place
        elif not line.strip():
            after_blank = True
        elif after_blank:
            # What comes after a blank line says whether what was before it has ended.
            if line.endswith("\n") and not _INSIDE.match(line):
                settled = place
            after_blank = False
        place += len(line)
    return settled


def _part_of_code(text: str) -> tuple[str, str] | None:
    """The beginning of a long piece of code, and the rest with its opening line again."""
    first, _, rest = text.partition("\n")
    opens = _FENCE.match(first)
    lines = rest.splitlines(keepends=True)
    if not opens or len(lines) <= LONGEST_CODE:
        return None
    whole = lines if rest.endswith("\n") else lines[:-1]
    left = "" if rest.endswith("\n") else lines[-1]
    return f"{first}\n{''.join(whole)}{opens[1]}\n", f"{first}\n{left}"


class _Code(CodeBlock):
    """Code without a coloured ground, so that it can be copied and read anywhere."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip("\n")
        syntax = Syntax(
            code, self.lexer_name, theme="ansi_dark", background_color="default", word_wrap=True
        )
        yield Padding(syntax, (0, 0, 0, 2))


class _Heading(Heading):
    """A heading on the left, its signs kept: they say the level where bold does not show."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        level = int(self.tag.removeprefix("h"))
        yield Text.assemble(("#" * level + " ", "bold cyan"), self.text, style="bold")


class Rendered(Markdown):
    """Markdown as this app shows it."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "fence": _Code,
        "code_block": _Code,
        "heading_open": _Heading,
    }


def rendered(text: str) -> Rendered:
    """A part of an answer; links show their address, since what a terminal would open should be seen."""
    return Rendered(clean(text), hyperlinks=False, inline_code_theme="ansi_dark")
