"""Signs and colours follow what the terminal can show."""

from __future__ import annotations

import pytest
from rich.text import Text

from sevenfold.cli.chat.screen import ASCII, UNICODE, Renderer, Signs, colours_of, signs_for


@pytest.mark.parametrize(
    ("environ", "colours"),
    [
        ({"TERM": "xterm-256color"}, "many"),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, "all"),
        ({"TERM": "screen"}, "some"),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, "plain"),
        ({"TERM": "dumb", "COLORTERM": "truecolor"}, "none"),
        ({}, "none"),
    ],
)
def test_the_environment_says_how_much_colour_there_is(environ, colours):
    assert colours_of(environ) == colours


def test_without_colour_nothing_is_coloured_and_without_anything_nothing_is_styled():
    red = Text("wrong", style="bold red")
    assert "\x1b[1;31m" in Renderer("some").ansi(red, width=40)
    assert Renderer("plain").ansi(red, width=40).strip() == "\x1b[1mwrong\x1b[0m"
    assert Renderer("none").ansi(red, width=40).strip() == "wrong"


def test_a_terminal_without_unicode_gets_signs_it_can_write():
    assert signs_for("utf-8") is UNICODE
    assert signs_for("ascii") is ASCII
    assert signs_for("latin-1") is ASCII
    assert signs_for(None) is ASCII
    assert all(str(getattr(ASCII, name)).isascii() for name in Signs.__struct_fields__)
