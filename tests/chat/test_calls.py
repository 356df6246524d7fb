"""Tool calls are one line each, with what a user wants to see at once."""

from __future__ import annotations

from typing import Any

from sevenfold.agent.executor import NOT_DONE
from sevenfold.agent.programs import STOPPED
from sevenfold.agent.tools.edit import diff
from sevenfold.agent.tools.output import (
    CommandRan,
    FileChanged,
    FileRead,
    TodosChanged,
    ToolOutput,
    denied,
    failed,
)
from sevenfold.cli.chat.lines import MANY_LINES, LineSpec, diff_lines, full_call, result_lines, running_line
from sevenfold.cli.chat.screen import ASCII, UNICODE
from sevenfold.conversation.request import ToolCall

from .printed import printed


def call(name: str = "Shell", **given: Any) -> ToolCall:
    return ToolCall("toolu_1", name, given)


def line(
    one: ToolCall, output: ToolOutput, seconds: float = 0.1, width: int = 80, folder: str = "", **more: Any
) -> str:
    spec = LineSpec(UNICODE, width, folder)
    return printed(result_lines(one, output, seconds, spec, number=3, **more), width=width)


def test_a_call_says_what_it_did_to_what_and_how_long_it_took():
    output = ToolOutput("a\nb\n", facts=(CommandRan("ls", 0),))
    assert (
        line(call(command="ls -l"), output, 2.34).splitlines()[0].rstrip()
        == "✓ Shell ls -l · 2 lines · 2.3 s · [3]"
    )


def test_a_command_that_fails_says_so_with_its_code():
    assert "exit 2" in line(call(command="make"), ToolOutput("no", facts=(CommandRan("make", 2),)))


def test_an_error_is_told_by_a_sign_and_a_word_and_shown_whole():
    shown = line(call(command="make"), failed("\nExit code 1\nmany\n  more\nlines\nAssertionError: 3\n"))
    assert shown.splitlines()[0].startswith("✗ Shell make · failed")
    assert [one.rstrip() for one in shown.splitlines()[1:]] == [
        "  │ Exit code 1",
        "  │ many",
        "  │   more",
        "  │ lines",
        "  │ AssertionError: 3",
    ]


def test_a_long_line_of_an_error_is_folded_and_not_cut():
    words = "Invalid input for Edit: old is missing; new is missing; " * 3
    shown = line(call("Edit", path="a"), failed(words)).splitlines()
    assert " ".join(one.removeprefix("  │ ") for one in shown[1:]).split() == words.split()
    assert len(shown) > 2


def test_a_long_error_is_shown_by_both_its_ends():
    shown = line(call(command="make"), failed("\n".join(f"line {number}" for number in range(100))))
    assert "│ line 0" in shown
    assert "│ line 99" in shown
    assert "70 more lines" in shown


def test_the_first_lines_of_a_result_are_shown_and_how_many_are_left():
    output = ToolOutput("\n".join(f"line {number}" for number in range(9)), facts=(CommandRan("ls", 0),))
    shown = line(call(command="ls"), output).splitlines()
    assert [one.strip() for one in shown[1:]] == ["│ line 0", "│ line 1", "│ line 2", "│ … 6 more lines"]


def test_a_call_that_was_not_permitted_did_not_fail():
    shown = line(call(command="make"), denied("The user declined. Not now."))
    assert shown.splitlines()[0].startswith("⊘ Shell make · denied")
    assert "│ The user declined. Not now." in shown


def test_a_path_in_the_folder_is_named_from_there():
    output = ToolOutput("x", facts=(FileRead("/w/src/a.py", "1"),))
    assert "Read src/a.py · 1 line" in line(call("Read", path="/w/src/a.py"), output, folder="/w")
    assert "Read /else/a.py" in line(call("Read", path="/else/a.py"), output, folder="/w")


def test_an_edit_shows_its_difference_with_signs_and_line_numbers():
    before = "".join(f"{n}\n" for n in range(1, 30))
    change = diff(before, before.replace("15\n", "fifteen\n"), "/w/a.py")
    fact = FileChanged("/w/a.py", "2", change.text, change.added, change.removed)
    shown = line(call("Edit", path="/w/a.py"), ToolOutput("changed", facts=(fact,)), folder="/w")
    assert "✓ Edit a.py · +1 -1 · [3]" in shown
    assert "     15 -15" in shown
    assert "     15 +fifteen" in shown
    assert "     14  14" in shown


def test_a_difference_that_was_seen_before_it_was_permitted_is_not_shown_again():
    change = diff("a\n", "b\n", "x")
    output = ToolOutput("changed", facts=(FileChanged("x", "2", change.text, 1, 1),))
    assert len(line(call("Edit", path="x"), output, seen=True).splitlines()) == 1


def test_a_long_difference_is_cut_and_whole_behind_the_line():
    change = diff("", "".join(f"line {n}\n" for n in range(100)), "a")
    output = ToolOutput("made", facts=(FileChanged("a", "1", change.text, 100, 0, created=True),))
    assert "more lines" in line(call("Write", path="a"), output)
    assert "line 99" not in line(call("Write", path="a"), output)
    assert "line 99" in printed(full_call(call("Write", path="a"), output, 0.1))


def test_the_list_of_things_to_do_is_shown():
    shown = line(call("Todo"), ToolOutput("[>] Sweep\n[ ] Dust", facts=(TodosChanged(2, 0),)))
    assert "2 to do, 0 done" in shown
    assert "[>] Sweep" in shown


def test_no_line_is_wider_than_the_terminal_whatever_the_call():
    wide = call(command="漢" * 500)
    for width in (40, 60, 100):
        shown = line(wide, ToolOutput("x" * 10_000), width=width)
        assert len(shown.splitlines()) == 2
        assert "[3]" in shown


def test_output_with_escape_sequences_is_shown_without_them():
    nasty = "\x1b]0;owned\x07\x1b[31mred\x1b[2J"
    one, output = call(command=nasty), ToolOutput(nasty, facts=(CommandRan(nasty, 0),))
    for shown in (line(one, output), printed(full_call(one, output, 1.0)), line(one, failed(nasty))):
        assert "\x1b" not in shown
        assert "\x07" not in shown


def test_everything_behind_a_line_is_bounded():
    shown = printed(full_call(call(command="x"), ToolOutput("y\n" * (MANY_LINES + 10)), 1.0))
    assert "… 11 more lines" in shown


def test_a_running_call_shows_the_last_line_it_printed():
    shown = printed(running_line(call(command="make"), 3.2, "one\ntwo\n", LineSpec(ASCII, 60)))
    assert "Shell make - 3.2 s" in shown
    assert "| two" in shown
    assert "one" not in shown


def test_a_diff_shows_every_line_that_changes_and_no_other():
    diff = "--- a.sql\n+++ a.sql\n@@ -1,2 +1,2 @@\n--- drop it\n+++ keep it\n same\n"
    assert [printed(one).split(maxsplit=1) for one in diff_lines(diff, 99)] == [
        ["1", "--- drop it\n"],
        ["1", "+++ keep it\n"],
        ["2", "same\n"],
    ]


def test_what_the_user_stopped_is_called_interrupted_and_not_failed():
    """The control: a command that failed by itself is still called failed."""
    stopped = ToolOutput("partial", is_error=True, facts=(CommandRan("make", None, STOPPED, "", 3.0),))
    by_itself = ToolOutput("oops", is_error=True, facts=(CommandRan("make", 2, "", "", 3.0),))
    assert "· interrupted ·" in line(call(command="make"), stopped)
    assert "· failed ·" in line(call(command="make"), by_itself)
    assert "· interrupted ·" in line(call(command="make"), ToolOutput(NOT_DONE, is_error=True))
