"""The app in a real pseudo-terminal, with a provider that speaks the real wire format."""

from __future__ import annotations

import random
import signal
from typing import Any

import msgspec
import pytest

from sevenfold.lab.simulator.provider import Simulator
from sevenfold.stores.home import Home

from .stage import simulated
from .terminal import Terminal

pytestmark = pytest.mark.skipif("sys.platform == 'win32'")


def bare(message: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """A message without cache markers, which move."""
    blocks = message["content"]
    if isinstance(blocks, str):
        blocks = [{"type": "text", "text": blocks}]
    return message["role"], [{k: v for k, v in block.items() if k != "cache_control"} for block in blocks]


def asked(simulator: Simulator) -> list[Any]:
    """The bodies of the conversation's own requests that were answered."""
    bodies = [one.body for one in simulator.requests.answered()]
    return [
        body for body in bodies if "notes" not in msgspec.json.encode(body["messages"][-1]).decode()[:400]
    ]


def test_a_conversation_from_the_first_question_to_a_killed_and_resumed_session(place):
    with simulated() as (url, simulator):
        with Terminal(**place, url=url) as app:
            app.ready().say("read run")
            app.until("Run this command?")
            assert "✓ Read a.txt · 1 line" in app.everything
            assert not (place["folder"] / "ran.txt").exists()
            app.type("y").until("✓ Shell echo ran").until("Done.").ready()
            assert (place["folder"] / "ran.txt").read_text() == "ran\n"
            assert "def hello():" in app.everything

            app.say("write").until("Change ").type("n").until("Esc goes back").say("another name")
            app.until("The user declined. another name").ready()
            assert not (place["folder"] / "new.txt").exists()

            app.say("/context").until("largest items").until("tool descriptions")
            app.say("/compact").until("compact: summarised").ready()
            app.say("/undo").until("undone:")
            app.say("and now").until("You said: and now").ready()
            before = asked(simulator)[-1]
            app.signal(signal.SIGKILL)
            app.ended()
        with Terminal("--continue", **place, url=url, columns=60) as app:
            app.until("› and now").until("You said: and now").until("resumed").ready()
            assert max(map(len, app.shown.splitlines())) <= 60
            app.say("go on").until("You said: go on").ready().press("ctrl-d")
            assert app.ended() == 0
        after = asked(simulator)[-1]
        assert (after["system"], after["tools"]) == (before["system"], before["tools"])
        assert [bare(one) for one in after["messages"][: len(before["messages"])]] == [
            bare(one) for one in before["messages"]
        ]
        assert [one.status for one in simulator.requests if one.status != 200] == []


def test_interrupting_queueing_rewinding_and_leaving(place):
    with simulated() as (url, _), Terminal("--mode", "autonomous", **place, url=url) as app:
        app.ready().say("wait").until("│ begun")
        app.say("also this").until("queued: also this")
        app.press("esc").until("interrupted").until("Heard as well: also this").ready()
        app.press("esc", "esc").until("Go back to before which message?")
        app.press("down", "enter").until("do what?").press("enter").until("rewound")
        app.until(lambda: app.shown.splitlines()[-2].strip() == "› wait")
        app.press("ctrl-c").until(lambda: app.shown.splitlines()[-2].strip() == "›")
        app.press("ctrl-c", "ctrl-c", "ctrl-c", "ctrl-c")
        assert app.ended() == 0
        assert "--resume" in app.everything


@pytest.mark.spec("S37.3")
def test_a_queued_message_is_taken_back_changed_and_sent(place):
    with simulated() as (url, _), Terminal("--mode", "autonomous", **place, url=url) as app:
        app.ready().say("wait").until("│ begun")
        app.say("also this").until("queued: also this")
        app.press("up").until(lambda: "queued: also this" not in app.shown)
        app.type(" and that").press("enter").until("queued: also this and that")
        app.say("second").until("queued: second").say("/queue first 2").until("1. second")
        app.say("/queue drop 1").until("1. also this and that")
        app.press("esc").until("Heard as well: also this and that").ready()
        assert "Heard as well: second" not in app.everything
        assert app.everything.count("› also this and that") == 1


def test_typing_lines_pasting_opening_what_is_folded_and_answering_questions(place):
    with simulated() as (url, _), Terminal(**place, url=url, NO_COLOR="1") as app:
        app.ready().type("one").press("alt-enter").type("two\\").press("enter").type("three")
        app.until("three").press("enter").until("You said: one")
        assert "› one\ntwo\nthree" in app.everything
        app.ready().type("\x1b[200~pasted\nlines \x1b]0;title\x07\x1b[201~").until("lines").press("enter")
        app.until("You said: pasted").ready()
        app.type(f"\x1b[200~{'heap ' * 5_000}\x1b[201~").until("[paste 1: 25,000 characters]")
        # The beginning of so long an answer may have left the screen before it is looked at.
        app.press("enter").until(lambda: "You said: heap" in app.everything).ready()
        app.say("nasty").until("Run this command?").type("y").until("[1]").ready().press("ctrl-o").until(
            "command: printf"
        )
        app.say("/show 99").until("error: There is no [99]")
        app.press("ctrl-c").say("/nonsense").until("unknown command /nonsense")
        # Not the second in a row, so it does not leave.
        app.press("ctrl-c").say("/nonsuch").until("unknown command /nonsuch")
        app.press("shift-tab").until("accept edits")
        app.say("ask").until("Which?").until("Something else")
        app.press("down", "enter").until("→ Coffee").ready()
        app.say("plan").until("✓ PlanStart").ready().until("· plan ·")
        app.resize(60, 30)
        app.say("after the change").until("You said: after the change").ready()
        assert b"\x1b]0;" not in app.raw
        assert b"\x07" not in app.raw
        assert b"\x1b[31m" not in app.raw
        app.press("ctrl-d")
        assert app.ended() == 0


def test_an_unknown_folder_is_asked_about_once_and_without_a_key_that_is_said(tmp_path):
    place = {"home": tmp_path / "home", "folder": tmp_path}
    with Terminal(**place) as app:
        app.until("Do you trust this folder?").type("2")
        app.until("offline model answers").ready().say("hi").until("You said: hi").ready()
        app.press("ctrl-d")
        assert app.ended() == 0
        name = app.session
    assert (Home(place["home"]).project(tmp_path).session(name).transcript).is_file()
    with Terminal("--resume", name, **place) as app:
        app.until("› hi").until("You said: hi").ready().press("ctrl-d")
        assert app.ended() == 0
        assert "Do you trust" not in app.everything


@pytest.mark.spec("S8.14")
def test_a_message_typed_while_the_folder_is_asked_about_answers_nothing_and_is_kept(tmp_path):
    place = {"home": tmp_path / "home", "folder": tmp_path}
    with Terminal(**place) as app:
        app.until("Do you trust this folder?").say("yes, no, you").press("esc")
        app.until("offline model answers").ready().press("enter").until("You said: yes, no, you")
        app.ready().press("ctrl-d")
        assert app.ended() == 0
    with Terminal(**place) as app:
        app.until("Do you trust this folder?")


def test_a_terminal_that_can_do_nothing_still_holds_a_conversation(place):
    with simulated() as (url, _), Terminal(**place, url=url, TERM="dumb") as app:
        app.until("\n›").say("run").until("4. No").say("4").until("what it should do instead").say(
            "rather not"
        )
        app.until("The user declined. rather not").until("Done.").say("/cost").until("prompt tokens")
        app.press("ctrl-d")
        assert app.ended() == 0
        assert b"\x1b" not in app.raw


def test_interrupts_at_any_moment_leave_a_session_that_goes_on(place):
    moments = random.Random(7)
    with simulated() as (url, simulator):
        with Terminal("--mode", "autonomous", **place, url=url) as app:
            app.ready().say("hello").until("You said: hello").ready()
            for turn in range(8):
                app.say(moments.choice(["read run todo", "many", "wait", "think", "read"]))
                app.read(moments.random() * 0.6)
                app.signal(signal.SIGINT)
                app.say(f"/why 99{turn}").until(f"request number 99{turn}").ready()
            app.say("still there").until(": still there").ready()
            app.signal(signal.SIGKILL)
            app.ended()
        with Terminal("--continue", **place, url=url) as app:
            app.ready().say("again").until(": again").ready()
        assert [one.answer for one in simulator.requests if one.status not in (200, 0)] == []


@pytest.mark.spec("S37.11")
def test_a_window_that_becomes_narrower_shows_nothing_twice(place):
    with simulated() as (url, _), Terminal(**place, url=url) as app:
        app.ready().say("wait").until("Run this command?").type("y").until("begun")
        app.say(
            "tell me afterwards what the other command has said, and whether it has ended by itself or not"
        )
        app.until("queued: tell me afterwards")
        for columns in (80, 60, 40):
            app.resize(columns, 40)
            app.until(
                lambda: any(line.startswith("› ") or line == "›" for line in app.shown.split("\n")[-2:])
            )
            app.until("queued: tell me")
            assert app.everything.count("queued:") == 1
            assert app.everything.count("Esc interrupts") == 1


@pytest.mark.spec("S37.11")
def test_what_a_search_in_the_history_matches_is_shown_while_it_is_typed(place):
    with simulated() as (url, _), Terminal(**place, url=url) as app:
        app.ready().say("the bridge is open").until("You said: the bridge").ready()
        app.say("something else").until("You said: something else").ready()
        app.press("ctrl-r").until("search").type("bri")
        app.until("› the bridge is open\nI-search backward: bri")
        app.press("enter").until("› the bridge is open")


@pytest.mark.spec("S37.12")
def test_an_answer_to_the_models_question_is_printed_once(place):
    with simulated() as (url, _), Terminal(**place, url=url) as app:
        app.ready().say("ask").until("Which?").until("Something else")
        app.press("down", "enter").until("✓ AskUser · 1 answer").until("Done.").ready()
        assert app.everything.count("Which?") == 1
        assert app.everything.count("Coffee") == 1
