"""Markdown that arrives piece by piece: complete parts are printed permanently, the rest is redrawn as it grows.

`MarkdownStream` cuts a growing text where nothing that follows can change its rendering: at blank lines outside code
and lists, and at line ends inside long code. `render_markdown` turns such a part into a rich renderable.
"""

from __future__ import annotations

import re
from typing import ClassVar

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.padding import Padding
from rich.syntax import Syntax
from rich.text import Text

from sevenfold.cli.text import clean

LONGEST_CODE = 60
"""Lines of a code block held back until it ends; longer code is printed in parts."""
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_INSIDE = re.compile(r"( {2,}|\t|\s*([-*+]|\d{1,9}[.)])(\s|$)|\s*\||\s*>)")
"""Lines that may continue a list, a table or a quotation."""


class MarkdownStream:
    """A growing Markdown text, cut into parts that can be printed."""

    def __init__(self) -> None:
        self.pending = ""
        """The part that may still change."""

    def feed(self, words: str) -> str:
        """Add words; returns the part that is now complete, possibly empty."""
        self.pending += words
        if "\n" not in words:
            return ""
        cut = _complete(self.pending)
        done = self.pending[:cut]
        self.pending = self.pending[cut:]
        if not done and (parts := _part_of_code(self.pending)):
            done, self.pending = parts
        return done

    def end(self) -> str:
        """End the text; returns the rest."""
        rest = self.pending
        self.pending = ""
        return rest


def _complete(text: str) -> int:
    """How many characters at the start of the text can no longer change their rendering."""
    settled = 0
    position = 0
    fence = ""
    after_blank = False
    for line in text.splitlines(keepends=True):
        opens = _FENCE.match(line)
        if fence:
            closes = opens and opens[1].startswith(fence) and not opens[2].strip()
            if closes:
                fence = ""
                # A line without its end may still become longer, and then it closes nothing.
                settled = position + len(line) if line.endswith("\n") else settled
        elif opens:
            fence = opens[1]
            settled = position
        elif not line.strip():
            after_blank = True
        elif after_blank:
            # Only the line after a blank line shows whether the paragraph or list before it has ended.
            if line.endswith("\n") and not _INSIDE.match(line):
                settled = position
            after_blank = False
        position += len(line)
    return settled


def _part_of_code(text: str) -> tuple[str, str] | None:
    """The start of a long code block, closed, and the rest with the opening line repeated; None if it is not long."""
    first, _, rest = text.partition("\n")
    opens = _FENCE.match(first)
    lines = rest.splitlines(keepends=True)
    if not opens or len(lines) <= LONGEST_CODE:
        return None
    unfinished_line = "" if rest.endswith("\n") else lines.pop()
    return f"{first}\n{''.join(lines)}{opens[1]}\n", f"{first}\n{unfinished_line}"


class _Code(CodeBlock):
    """A code block without a background colour, so that it is readable on any terminal."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip("\n")
        syntax = Syntax(
            code, self.lexer_name, theme="ansi_dark", background_color="default", word_wrap=True
        )
        yield Padding(syntax, (0, 0, 0, 2))


class _Heading(Heading):
    """A left-aligned heading that keeps its number signs, which show its level even without bold."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        level = int(self.tag.removeprefix("h"))
        yield Text.assemble(("#" * level + " ", "bold cyan"), self.text, style="bold")


class ChatMarkdown(Markdown):
    """Markdown as the chat shows it."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "fence": _Code,
        "code_block": _Code,
        "heading_open": _Heading,
    }

    def __init__(self, text: str) -> None:
        # Links show their address, because the user should see what the terminal would open.
        super().__init__("", hyperlinks=False, inline_code_theme="ansi_dark")
        # HTML tags are parsed as text: rich would drop them, and with them half of `List<String>`.
        syntax = MarkdownIt().enable(["strikethrough", "table"]).disable(["html_inline", "html_block"])
        self.parsed = syntax.parse(text)


def render_markdown(text: str) -> ChatMarkdown:
    """A part of an answer, made safe for a terminal, as a rich renderable."""
    return ChatMarkdown(clean(text))
