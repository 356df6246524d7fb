"""While the provider cannot answer, one line says why, how long, and how to stop; nothing shown turns out untrue."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sevenfold import events
from sevenfold.agent import agent_events
from sevenfold.agent.agent import Agent
from sevenfold.cli.chat import print_mode
from sevenfold.cli.chat.chat import ANSWER_DROPPED, Chat
from sevenfold.cli.chat.lines import Activity, LineSpec, draw_activity
from sevenfold.cli.chat.reports import event_line, wait_line
from sevenfold.cli.chat.screen import ASCII, UNICODE
from sevenfold.cli.chat.start import ChatOptions, agent_options, open_agent
from sevenfold.lab.simulator.faults import Fault, Faults

from .printed import Page, printed
from .stage import simulated

WAIT = events.Waiting(
    attempt=4,
    of=40,
    status=529,
    until=112.0,
    seconds=12.0,
    request_id="req_1",
    what="API overloaded (529)",
    error="Overloaded",
    reason="Overloaded",
)
LINE = "API overloaded (529) · retrying in 12 s · attempt 4/40 · Ctrl-C stops"


@pytest.mark.spec("S22.11")
def test_the_line_says_why_how_long_how_often_and_how_to_stop():
    assert wait_line(WAIT, 12.0) == LINE
    assert wait_line(WAIT, 11.2) == LINE
    assert "retrying in 2 min 05 s" in wait_line(WAIT, 125)
    assert "retrying in 0 s" in wait_line(WAIT, -3)


@pytest.mark.spec("S22.11")
def test_the_activity_counts_the_pause_down_in_place():
    live = Activity(doing="working", since=0.0, waiting=WAIT, waits_until=112.0)
    shown = draw_activity(live, [], LineSpec(UNICODE, 80), 100.0)
    assert shown is not None
    assert LINE in printed(shown)
    assert "working" not in printed(shown)
    later = draw_activity(live, [], LineSpec(UNICODE, 80), 109.0)
    assert later is not None
    assert "retrying in 3 s" in printed(later)
    plain = draw_activity(live, [], LineSpec(ASCII, 80), 100.0)
    assert plain is not None
    assert printed(plain).isascii() or "·" in printed(plain)


@pytest.mark.spec("S22.11")
def test_if_nothing_arrives_the_line_says_for_how_long():
    live = Activity(doing="working", since=0.0, heard=40.0)
    spec = LineSpec(UNICODE, 100)
    soon = draw_activity(live, [], spec, 54.0)
    late = draw_activity(live, [], spec, 87.0)
    assert soon is not None
    assert late is not None
    assert "nothing new" not in printed(soon)
    assert "working · 1 min 27 s · nothing new for 47 s · Esc interrupts" in printed(late)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "simulated-key")
    return tmp_path


def chatted(folder: Path, faults: Faults, prompt: str, monkeypatch: pytest.MonkeyPatch, page: Page) -> Chat:
    with simulated(faults) as (url, _):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        chat = Chat(page, open_agent, ChatOptions(name="here", model="claude-sonnet-5-5", folder=folder))
        try:
            chat.turn(prompt)
        finally:
            chat.close()
    return chat


class Looking(Page):
    """A page that looks, at each change, whether an answer is awaited."""

    chat: Chat | None = None

    def __init__(self) -> None:
        super().__init__()
        self.awaited: set[bool] = set()

    def changed(self) -> None:
        if self.chat is not None:
            self.awaited.add(self.chat.live.heard is not None)


@pytest.mark.spec("S22.11")
def test_silence_is_counted_while_an_answer_is_awaited_and_at_no_other_time(folder, monkeypatch):
    page = Looking()
    with simulated(Faults({1: Fault("overloaded")})) as (url, _):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        chat = Chat(page, open_agent, ChatOptions(name="here", model="claude-sonnet-5-5", folder=folder))
        page.chat = chat
        try:
            chat.turn("hello")
            assert page.awaited == {True, False}
            assert chat.live.heard is None
        finally:
            chat.close()


@pytest.mark.spec("S22.11")
def test_a_part_of_an_answer_that_was_shown_before_it_broke_off_is_taken_back(folder, monkeypatch):
    page = Page()
    chatted(folder, Faults({1: Fault("cut_stream", after=30)}), "one line\n\n" * 60, monkeypatch, page)
    assert "the provider answers again, after" in page.text
    assert " ".join(page.text.split()).count(ANSWER_DROPPED) == 1
    assert page.text.count("You said") == 2


@pytest.mark.spec("S22.11")
def test_a_screen_that_cannot_redraw_prints_a_line_for_each_pause(folder, monkeypatch):
    page = Page()
    page.redraws = False
    chatted(folder, Faults({1: Fault("overloaded"), 2: Fault("overloaded")}), "hello", monkeypatch, page)
    assert page.text.count("API overloaded (529)") == 2
    assert "attempt 2/40" in page.text
    assert "You said: hello" in page.text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.spec("S22.11")
def test_a_run_for_scripts_counts_down_on_a_terminal_and_cleans_up_after_itself():
    stream = Terminal()
    waits = print_mode.WaitLines(stream)
    waits.show(agent_events.Happened(WAIT))
    waits.end()
    assert stream.getvalue().startswith(f"\r\x1b[K{LINE}")
    assert stream.getvalue().endswith("\r\x1b[K")


@pytest.mark.spec("S22.11")
@pytest.mark.parametrize("how", ["text", "stream-json"])
def test_a_run_for_scripts_tells_each_pause_on_the_error_stream(how: Any, folder, monkeypatch, capsys):
    with simulated(Faults({1: Fault("overloaded")})) as (url, _):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        options = ChatOptions(name="here", model="claude-sonnet-5-5", folder=folder)
        with Agent(options.model, **agent_options(options)) as agent:
            out = io.StringIO()
            print_mode.run(agent, "hello", how, session="s", offline=False, out=out)
    assert "API overloaded (529) · retrying in" in capsys.readouterr().err
    if how == "stream-json":
        lines = [msgspec.json.decode(line) for line in out.getvalue().splitlines()]
        (wait,) = [line for line in lines if line["type"] == "waiting"]
        assert (wait["attempt"], wait["of"], wait["status"]) == (1, 40, 529)
        assert wait["until"] > 0
        assert wait["text"].startswith("API overloaded (529)")
    else:
        assert out.getvalue() == "You said: hello\n"


@pytest.mark.spec("S22.12")
def test_a_suggestion_that_fails_is_not_told():
    assert (
        event_line(events.SteppedAside(layer="suggestion", reason="Overloaded", error="Overloaded")) is None
    )
