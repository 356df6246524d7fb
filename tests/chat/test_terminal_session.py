"""The course of a session in a real pseudo-terminal: compactions stopped, rewinds across them, plans, mentions."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from sevenfold.lab.simulator.faults import Fault, Faults
from sevenfold.lab.simulator.provider import Simulator

from .stage import PLAN, simulated
from .terminal import Terminal

pytestmark = pytest.mark.skipif("sys.platform == 'win32'")
ALONE: dict[str, Any] = {"SEVENFOLD_NOTES": "false"}
"""No requests but those that are asked for."""


def said(simulator: Simulator) -> list[list[str]]:
    """The words of each message of the newest request that was answered."""
    body: dict[str, Any] = simulator.requests.answered()[-1].body
    return [
        [part["text"] for part in message["content"] if part["type"] == "text"]
        if isinstance(message["content"], list)
        else [message["content"]]
        for message in body["messages"]
    ]


@pytest.mark.spec("S4.16")
@pytest.mark.spec("S8.6")
def test_a_compaction_is_stopped_made_and_rewound_across_and_the_books_span_runs(place):
    faults = Faults()
    with simulated(faults) as (url, simulator):
        with Terminal(**place, url=url, **ALONE) as app:
            app.ready().say("alpha").until("You said: alpha").ready()
            app.say("beta").until("You said: beta").ready()
            before = said(simulator)
            faults.then(Fault("slow_first_byte", seconds=60.0))
            app.say("/compact").until("compacting: writing the summary")
            app.say("gamma").until("queued: gamma").press("esc")
            app.until("compacting was interrupted; nothing has changed")
            app.until("You said: gamma").ready()
            assert said(simulator)[: len(before)] == before

            app.say("/compact").until("compact: summarised").ready()
            app.say("delta").until("You said: delta").ready()
            assert said(simulator)[0] != before[0]
            app.press("esc", "esc").until("Go back to before which message?").until("compacted  alpha")
            app.press("end", "enter").until("to before the compaction")
            app.until(lambda: app.everything.count("› alpha") == 2)
            app.say(" again").until("You said: alpha again").ready()
            assert said(simulator) == [["alpha again"]]
            app.press("ctrl-d")
            assert app.ended() == 0
        with Terminal("--continue", **place, url=url, **ALONE) as app:
            app.until("› alpha again").until("resumed").ready()
            app.say("omega").until("You said: omega").ready()
            app.say("/model claude-opus-4-6").until("answers from now on").until("opus-4-6 ·").ready()
            app.say("psi").until("You said: psi").ready()
            app.say("/cache").until("model changed, ")
            app.say("/cost").until("session").until("this run").until("output tokens")
            rows = {line[:14].strip(): line[14:].split() for line in app.shown.splitlines()}
            assert int(rows["answers"][0]) > int(rows["answers"][1]) == 2
            app.press("ctrl-d")
            assert app.ended() == 0


def test_a_plan_is_refused_with_a_reason_then_approved_and_outlives_a_compaction(place):
    with simulated() as (url, simulator), Terminal(**place, url=url, **ALONE) as app:
        app.ready().press("shift-tab", "shift-tab").until("· plan ·")
        app.say("run").until("⊘ Shell").ready()
        assert not (place["folder"] / "ran.txt").exists()
        app.say("propose").until("Carry out this plan?").until("Lay the stones")
        app.type("n").until("Esc goes back").say("of wood rather")
        app.until("The user says: of wood rather").ready()
        app.until("· plan ·")
        app.say("propose").until("Carry out this plan?").type("y").until("✓ PlanReady").ready()
        app.until("· ask ·").say("/compact").until("compact: summarised").ready()
        app.say("what now?").until("You said: what now?").ready()
        sent = "\n".join(text for words in said(simulator) for text in words)
        assert PLAN in sent
        app.press("ctrl-d")
        assert app.ended() == 0


def test_files_that_are_mentioned_are_read_and_what_cannot_be_is_told(place):
    (place["folder"] / "blob.bin").write_bytes(b"\x00\x01")
    with simulated() as (url, simulator), Terminal(**place, url=url, **ALONE, columns=60) as app:
        app.ready().type("what is in @a").until("a.txt").type(".txt and @blob.bin and @../x.md")
        app.press("enter").until("read a.txt (1 line) [1]").until("@blob.bin was not read")
        app.until("@../x.md was not read: There is no such file.").ready()
        words = said(simulator)[0]
        assert words[0] == "what is in @a.txt and @blob.bin and @../x.md"
        assert "hello" in words[1]
        app.say("/show 1").until("1  hello")
        app.press("ctrl-d")
        assert app.ended() == 0


@pytest.mark.spec("S13.1")
def test_a_rewind_shows_what_the_agent_changed_and_brings_it_back_but_asks_about_the_users_changes(place):
    folder = place["folder"]
    with (
        simulated() as (url, simulator),
        Terminal("--mode", "autonomous", **place, url=url, **ALONE) as app,
    ):
        app.ready().say("write").until("✓ Write new.txt").ready()
        app.say("run").until("✓ Shell").ready()
        assert (folder / "ran.txt").read_text() == "ran\n"
        (folder / "new.txt").write_text("one\nmine\n")
        app.say("/rewind").until("Go back to before which message?").press("down", "enter")
        app.until("do what?").press("enter")
        app.until("remove new.txt").until("remove ran.txt").until("changed 2 files since")
        app.press("enter").until("you have changed it since").until("Restore new.txt too?").press("enter")
        app.until("removed ran.txt").until("rewound").until(lambda: app.everything.count("› write") == 2)
        assert not (folder / "ran.txt").exists()
        assert (folder / "new.txt").read_text() == "one\nmine\n"
        app.press("ctrl-c").say("run").until(lambda: app.everything.count("✓ Shell") == 2).ready()
        app.say("/rewind").until("Go back to before which message?").press("enter")
        app.until("do what?").press("enter")
        app.until("changed 1 file since").press("down", "down", "enter").until("removed ran.txt").ready()
        app.say("go on").until("You said: go on").ready()
        assert "The user restored these files" in str(simulator.requests.answered()[-1].body["messages"])
        app.press("ctrl-d")
        assert app.ended() == 0


@pytest.mark.spec("S7.10")
def test_a_suggested_prompt_is_shown_and_taken_with_tab(place):
    with (
        simulated() as (url, _),
        Terminal(**place, url=url, SEVENFOLD_PROMPT_SUGGESTION="1", **ALONE) as app,
    ):
        app.ready().say("alpha").until("You said: alpha").until("check it again")
        app.type("\t\r").until("You said: check it again")


@pytest.mark.spec("S8.12")
def test_a_session_that_was_killed_shows_the_conversation_again_and_what_was_cut_off(place):
    with simulated() as (url, _):
        with Terminal("--mode", "autonomous", **place, url=url, **ALONE) as app:
            app.ready().say("many").until("✓ Shell seq 1 9000").until("more lines").ready()
            app.say("wait").until("│ begun").signal(signal.SIGKILL)
            app.ended()
        with Terminal("--continue", "--mode", "autonomous", **place, url=url, **ALONE) as app:
            app.until("› many").until("✓ Shell seq 1 9000").until("What I found").until("› wait")
            app.until("cut off when the session ended: Shell echo begun").ready()
            app.press("ctrl-d")
            assert app.ended() == 0
