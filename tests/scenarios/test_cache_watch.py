"""What breaks the cache is found, named and priced; what was meant to is not called a break."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from sevenfold.record import blocks
from sevenfold.record.decisions import CompactMetadata, Snip
from sevenfold.request.frame import Frame, Lifetimes
from sevenfold.request.sections import Section, SystemPrompt
from tests.scenarios.conversing import TOOLS, Conversation, conversation
from tests.support import next_request

MODEL = "claude-opus-4-6"
"""Its reasoning is not bound to what precedes it, so a changed prefix costs money and is not refused."""


def _system(held: Conversation) -> None:
    frame = held.exchange.frame
    held.exchange.frame = replace(
        frame, system=(blocks.text("Something else. " * 400).raw, *frame.system[1:])
    )


def _second_block(held: Conversation) -> None:
    frame = held.exchange.frame
    held.exchange.frame = replace(frame, system=(frame.system[0], blocks.text("Other facts. " * 300).raw))


def _one_tool(held: Conversation) -> None:
    frame = held.exchange.frame
    held.exchange.frame = replace(
        frame, tools=(frame.tools[0].replace(b"something", b"anything"), *frame.tools[1:])
    )


def _tool_gone(held: Conversation) -> None:
    held.exchange.frame = replace(held.exchange.frame, tools=held.exchange.frame.tools[:-1])


def _tool_order(held: Conversation) -> None:
    held.exchange.frame = replace(held.exchange.frame, tools=held.exchange.frame.tools[::-1])


def _model(held: Conversation) -> None:
    held.exchange.frame = replace(held.exchange.frame, model="claude-opus-4-7")


def _thinking(held: Conversation) -> None:
    held.exchange.frame = replace(held.exchange.frame, settings=(("thinking", b'{"type":"adaptive"}'),))


def _lifetime(held: Conversation) -> None:
    held.exchange.lifetimes = Lifetimes("1h", "1h")


def _message(held: Conversation) -> None:
    items = held.script.view.items
    held.script.decide(Snip(first=items[0].said.uuid, last=items[0].said.uuid))


def _expiry(held: Conversation) -> None:
    held.clock.advance(301)


def _eviction(held: Conversation) -> None:
    held.simulator.cache.evict()


BREAKS: dict[str, tuple[Callable[[Conversation], None], str, str]] = {
    "the system prompt": (_system, "system", "system block 1"),
    "its second block": (_second_block, "system", "system block 2"),
    "one tool": (_one_tool, "tool", "tool Grep"),
    "a tool taken away": (_tool_gone, "tool", "tool Shell is gone"),
    "the order of tools": (_tool_order, "tool_order", "the order of tools"),
    "the model": (_model, "model", "model"),
    "thinking": (_thinking, "setting", "setting thinking was added"),
    "the lifetime": (_lifetime, "lifetime", "lifetime 5m became 1h"),
    "an earlier message": (_message, "message", "message 1"),
    "an idle gap": (_expiry, "expired", ""),
    "the server": (_eviction, "evicted", ""),
}


@pytest.mark.spec("S6.5", "S6.6", "S6.8")
@pytest.mark.parametrize(("change", "cause", "part"), BREAKS.values(), ids=BREAKS)
def test_a_break_is_found_with_its_cause_and_its_size(change, cause, part):
    with conversation(MODEL) as held:
        held.say("begin")
        for _ in range(8):
            held.ask()
        cached = held.exchange.watched.cached
        change(held)
        outcome = held.ask()
        broken = outcome.broken
        assert broken is not None
        assert (broken.cause, broken.part) == (cause, part)
        assert broken.expected == (cause == "expired")
        assert broken.tokens == cached - _read(held)
        assert broken.usd is not None
        assert broken.usd > 0
        if cause != "evicted":
            assert outcome.prepared.forecast.tokens == pytest.approx(broken.tokens, rel=0.25)
        held.ask()
        assert held.outcomes[-1].broken is None


def _read(held: Conversation) -> int:
    used = list(held.simulator.requests)[-1].usage
    assert used is not None
    return int(used["cache_read_input_tokens"])


@pytest.mark.spec("S6.6")
def test_a_diff_shows_what_changed():
    with conversation(MODEL) as held:
        held.say("begin")
        held.ask()
        _one_tool(held)
        broken = held.ask().broken
        assert broken is not None
        assert "-" in broken.diff
        assert "anything" in broken.diff


@pytest.mark.spec("S6.6")
def test_a_compaction_that_was_announced_is_no_break():
    with conversation(MODEL) as held:
        held.say("begin")
        for _ in range(8):
            held.ask()
        held.exchange.watched = held.exchange.watched.announce("compaction")
        held.script.compact(CompactMetadata(), [blocks.text("in short")])
        outcome = held.ask()
        assert outcome.broken is None or (outcome.broken.expected and outcome.broken.cause == "compaction")


@pytest.mark.spec("S6.6")
def test_a_loss_is_foretold_before_the_request_goes_out():
    with conversation(MODEL) as held:
        held.say("begin")
        for _ in range(4):
            held.ask()
        _system(held)
        forecast = next_request(held.exchange).forecast
        assert forecast.change is not None
        assert forecast.change.part == "system block 1"
        assert forecast.tokens > 2_000
        assert forecast.usd is not None


@pytest.mark.spec("S6.6")
def test_growing_is_never_a_break():
    with conversation(MODEL) as held:
        held.say("begin")
        for _ in range(15):
            held.ask()
        assert not any(outcome.broken for outcome in held.outcomes)


@pytest.mark.spec("S6.5", "S6.1")
def test_the_section_of_the_system_prompt_that_moved_is_named():
    def prompt(day: str) -> SystemPrompt:
        rules = Section("rules", "Be careful. " * 900, "static")
        return SystemPrompt((rules, Section("environment", f"Today is {day}.", "session")))

    with conversation(MODEL) as held:
        held.exchange.frame = held.exchange.wanted = Frame.of(
            MODEL, 4_000, system=prompt("Monday"), tools=TOOLS
        )
        held.say("begin")
        held.ask()
        held.exchange.frame = held.exchange.wanted = Frame.of(
            MODEL, 4_000, system=prompt("Tuesday"), tools=TOOLS
        )
        forecast = next_request(held.exchange).forecast
        assert forecast.change is not None
        assert forecast.change.part == "system section environment"
        assert "Tuesday" in forecast.change.diff()
