"""Effort and thinking are chosen at the start and in mid-session, with what the change will cost."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

import pytest

from sevenfold.cli.chat import command, slash_commands, start
from sevenfold.cli.chat.chat import Chat
from sevenfold.cli.chat.history import sessions
from sevenfold.cli.chat.menu import MenuAnswer
from sevenfold.errors import InputError

from .printed import Page
from .stage import simulated


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "simulated-key")
    work = tmp_path / "work"
    work.mkdir()
    return work


def flags(folder: Path, *given: str) -> Namespace:
    parser = ArgumentParser()
    command.arguments(parser)
    return parser.parse_args(["--folder", str(folder), *given])


def opened(folder: Path, page: Page, *given: str) -> Chat:
    return Chat(page, start.open_agent, start.choose(flags(folder, *given), folder, page))


def sent(simulator: Any) -> list[dict[str, Any]]:
    """The requests that answered the user, without those made on the side."""
    bodies = [json.loads(one.raw) for one in simulator.requests.answered() if one.method == "POST"]
    return [body for body in bodies if body["messages"][-1]["content"][-1].get("text") in SAID]


SAID = ("hello", "again", "and again", "once more", "think")


@pytest.mark.spec("S22.16", "S22.17")
def test_a_change_in_mid_session_is_priced_before_anything_is_sent_and_stays_after_a_resume(
    folder, monkeypatch
):
    page = Page(lambda _: MenuAnswer((0,)))
    with simulated() as (url, simulator):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        chat = opened(folder, page)
        chat.turn("hello")
        slash_commands.run(chat, "/effort low")
        assert len(sent(simulator)) == 1
        assert "effort is low from now on: with your next message" in " ".join(page.text.split())
        assert "$0." in page.text
        chat.turn("again")
        slash_commands.run(chat, "/thinking hidden")
        chat.turn("and again")
        chat.close()
        chat = opened(folder, page, "--continue")
        chat.turn("once more")
        chat.close()
        first, second, third, resumed = sent(simulator)
        assert "output_config" not in first
        assert second["output_config"] == {"effort": "low"}
        assert third["thinking"] == {"type": "adaptive", "display": "omitted"}
        assert (resumed["output_config"], resumed["thinking"]) == (
            third["output_config"],
            third["thinking"],
        )
    assert len(sessions(folder)) == 1


@pytest.mark.spec("S22.18")
def test_a_model_that_thinks_shows_its_thinking_as_a_line_that_opens(folder, monkeypatch):
    page = Page()
    with simulated() as (url, simulator):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        chat = opened(folder, page)
        chat.turn("think")
        assert sent(simulator)[0]["thinking"] == {"type": "adaptive", "display": "summarized"}
        assert "thought: Let me see. This is easy. [1]" in page.text
        slash_commands.run(chat, "/show 1")
        assert "Let me see.\nThis is easy." in page.text
        chat.close()


@pytest.mark.spec("S22.16")
def test_a_value_the_model_does_not_take_is_refused_with_those_it_does(folder, monkeypatch):
    page = Page()
    with simulated() as (url, _):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        chat = opened(folder, page)
        slash_commands.run(chat, "/effort none")
        assert "it takes low, medium, high, xhigh, max" in " ".join(page.text.split())
        slash_commands.run(chat, "/thinking loud")
        assert "it takes shown, hidden, off" in " ".join(page.text.split())
        chat.close()
        with pytest.raises(InputError, match="it takes low"):
            opened(folder, page, "--effort", "minimal")
        with pytest.raises(InputError, match="it takes shown, hidden"):
            opened(folder, page, "--thinking", "off", "--model", "claude-opus-5-5")


@pytest.mark.spec("S22.13", "S22.16")
def test_flags_set_the_length_of_answers_effort_and_thinking(folder, monkeypatch):
    page = Page()
    with simulated() as (url, simulator):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        chat = opened(folder, page, "--effort", "max", "--thinking", "off", "--max-tokens", "777")
        chat.turn("hello")
        chat.close()
        (body,) = sent(simulator)
        assert body["output_config"] == {"effort": "max"}
        assert body["thinking"] == {"type": "between_tools"}
        assert body["max_tokens"] == 777


@pytest.mark.spec("S22.16")
def test_another_model_gets_only_what_it_takes(folder, monkeypatch):
    page = Page(lambda _: MenuAnswer((0,)))
    with simulated() as (url, simulator):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        chat = opened(folder, page, "--effort", "low", "--thinking", "off")
        slash_commands.run(chat, "/model claude-haiku-4-5")
        chat.turn("hello")
        chat.close()
        (body,) = sent(simulator)
        assert "output_config" not in body
        assert body["thinking"] == {"type": "disabled"}


@pytest.mark.spec("S37.10")
def test_a_switch_to_another_model_is_priced_before_anything_is_sent(folder, monkeypatch):
    page = Page(lambda _: MenuAnswer((0,)))
    with simulated() as (url, simulator):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        chat = opened(folder, page)
        slash_commands.run(chat, "/model opus")
        assert "its cache has to be written first" in " ".join(page.text.split())
        chat.turn("hello")
        slash_commands.run(chat, "/model sonnet")
        assert len(sent(simulator)) == 1
        told = " ".join(page.text.split())
        assert "claude-sonnet-5-5 answers from now on: with your next message" in told
        assert "tokens are written to its cache, $0." in told
        chat.close()


@pytest.mark.spec("S37.10")
def test_the_list_of_models_says_where_longer_prompts_cost_more():
    items = {item.value: item.about for item in start.model_menu("claude-sonnet-5-5", ()).items}
    assert "window 1.00M, 100k in use: longer prompts cost 5 times as much" in items["claude-haiku-5-5"]
    assert "in use" not in items["claude-sonnet-5-5"]
