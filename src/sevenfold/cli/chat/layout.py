"""The parts of the inline app, one above the other: what is under way, a question, the input, the status line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer, DummyCompleter, DynamicCompleter
from prompt_toolkit.filters import Condition, FilterOrBool, has_completions, is_done
from prompt_toolkit.formatted_text import ANSI, AnyFormattedText
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.layout import (
    AnyContainer,
    BufferControl,
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.styles import BaseStyle, Style
from prompt_toolkit.widgets import SearchToolbar

from sevenfold.cli.chat.input_history import TypedHistory
from sevenfold.cli.chat.signs import Signs

MOST_ROWS = 10
"""Rows the input grows to."""
_STYLE = {
    "prompt": "bold ansicyan",
    "completion-menu": "noreverse bg:default",
    "completion-menu.completion": "noreverse bg:default",
    "completion-menu.completion.current": "reverse",
    "completion-menu.meta.completion": "noreverse bg:default",
    "completion-menu.meta.completion.current": "reverse",
    "scrollbar.background": "bg:default",
    "scrollbar.button": "reverse",
}


class Parts:
    """What can be typed into and looked at."""

    def __init__(self, layout: Layout, typed: Buffer, answer: Buffer, completer: list[Completer]) -> None:
        self.layout = layout
        self.typed = typed
        """Where messages are written…"""
        self.remark = answer
        """…and answers to questions."""
        self.style: BaseStyle = Style.from_dict(_STYLE)
        self._completer = completer

    def complete_with(self, completer: Completer) -> None:
        """Complete what is typed with this one."""
        self._completer[:] = [completer]

    def type(self, words: str) -> None:
        """Put words into the input, in front of what is there."""
        rest = self.typed.text
        self.typed.text = f"{words}\n{rest}" if rest.strip() else words
        self.typed.cursor_position = len(self.typed.text)

    def focus(self, *, writing: bool) -> None:
        """Let the keyboard write an answer, or a message."""
        self.remark.reset()
        self.layout.focus(self.remark if writing else self.typed)


def make(
    signs: Signs,
    history: Path | None,
    *,
    live: Callable[[], str],
    question: Callable[[], str],
    status: Callable[[], str],
    asked: Condition,
    writing: Condition,
) -> Parts:
    """Put the parts together."""
    completer: list[Completer] = [DummyCompleter()]
    typed = Buffer(
        multiline=True,
        history=TypedHistory(history) if history else InMemoryHistory(),
        completer=DynamicCompleter(lambda: completer[0]),
        complete_while_typing=True,
        enable_history_search=False,
        name="typed",
    )
    answer = Buffer(multiline=False, name="answer")
    search = SearchToolbar()
    rows: list[AnyContainer] = [
        _text(live),
        ConditionalContainer(_text(question), asked),
        ConditionalContainer(_input(answer, signs, None), writing),
        ConditionalContainer(_input(typed, signs, search), ~asked),
        ConditionalContainer(CompletionsMenu(max_height=8), has_completions & ~asked),
        search,
        ConditionalContainer(_text(status, height=1), ~is_done),
    ]
    return Parts(Layout(HSplit(rows), focused_element=typed), typed, answer, completer)


def _text(words: Callable[[], str], height: int | None = None) -> ConditionalContainer:
    """Words that change; where there are none they take no room, and none are left when the app ends."""

    def shown() -> AnyFormattedText:
        return ANSI(words())

    window = Window(FormattedTextControl(shown), dont_extend_height=True, wrap_lines=False, height=height)
    there: FilterOrBool = Condition(lambda: bool(words()))
    return ConditionalContainer(ConditionalContainer(window, there), ~is_done)


def _input(buffer: Buffer, signs: Signs, search: SearchToolbar | None) -> ConditionalContainer:
    control = BufferControl(
        buffer,
        input_processors=[BeforeInput(f"{signs.prompt} ", style="class:prompt")],
        search_buffer_control=search.control if search else None,
    )
    window = Window(
        control, height=Dimension(min=1, max=MOST_ROWS), dont_extend_height=True, wrap_lines=True
    )
    return ConditionalContainer(window, ~is_done)
