"""Foreign text is shown without harm, and in the room it is given."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from sevenfold.cli.tasks import task_line
from sevenfold.cli.text import clean, fit, one_line, short_count, stopwatch
from sevenfold.conversation.tasks import Task

STEERING = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@given(st.text())
def test_nothing_that_is_shown_can_steer_the_terminal(text):
    shown = clean(text)
    assert not STEERING.search(shown)
    shown.encode()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;a title\x07after", "after"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]52;c;Y2xpcGJvYXJk\x07copied", "copied"),
        ("10%\r50%\r100%\ndone", "100%\ndone"),
        ("one\r\ntwo", "one\ntwo"),
        ("a\tb", "a   b"),
        ("bell\x07", "bell\ufffd"),
        ("user\u202etxt.exe", "user\ufffdtxt.exe"),
        ("漢字 🙂", "漢字 🙂"),
    ],
)
def test_escape_sequences_go_and_other_control_characters_become_visible(text, shown):
    assert clean(text) == shown


def test_an_unfinished_sequence_does_not_swallow_the_lines_behind_it():
    assert clean("\x1b]0;never ends\nstill here") == "\nstill here"


@given(st.text(), st.integers(1, 40))
def test_a_line_never_takes_more_cells_than_it_has(text, room):
    line = one_line(text, room)
    assert "\n" not in line
    assert cell_len(line) <= room


def test_wide_characters_count_twice():
    assert fit("漢字漢字", 5) == "漢字…"


def test_a_very_long_line_is_cut_without_reading_all_of_it():
    assert one_line("x" * 10_000_000, 10) == "x" * 9 + "…"


@pytest.mark.parametrize(
    ("number", "shown"),
    [(999, "999"), (1_234, "1.2k"), (12_345, "12k"), (967_000, "967k"), (1_500_000, "1.50M")],
)
def test_tokens_are_short(number, shown):
    assert short_count(number) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (45, "45 s"), (125, "2 min 05 s"), (7_500, "2 h 05 min")],
)
def test_durations_are_short(seconds, shown):
    assert stopwatch(seconds) == shown


def test_a_task_says_how_long_ago_it_started_and_its_name_once():
    notes = Task("notes-1", kind="notes", name="notes", state="completed", started=100.0)
    assert task_line(notes, 1_315.0) == "notes-1  completed, started 20 min ago  notes"
    build = Task("shell-1", kind="command", name="make\n all", state="working", started=100.0)
    assert task_line(build, 105.0) == "shell-1  working, started 5 s ago  command: make all"
