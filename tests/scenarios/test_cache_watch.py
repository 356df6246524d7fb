"""What breaks the cache is found, named and priced; what was meant to is not called a break."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from sevenfold.profiles import find
from sevenfold.record import blocks
from sevenfold.record.blocks import encode_json
from sevenfold.record.decisions import CompactMetadata, Snip
from sevenfold.record.wire import Message
from sevenfold.request import cache_rules
from sevenfold.request.frame import Frame, Lifetimes
from sevenfold.request.sections import Section, SystemPrompt
from sevenfold.request.watch import Sent, first_change
from tests.scenarios.conversing import TOOLS, Conversation, conversation
from tests.support import next_request

PICTURE = blocks.read(b'{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}')
MODEL = "claude-opus-4-6"
"""Its reasoning is not bound to what precedes it, so a changed prefix costs money and is not refused."""


def _frame(held: Conversation, frame: Frame) -> None:
    """Send another frame, without a word about it."""
    held.exchange.set_epoch(replace(held.exchange.epoch, frame=frame))


def _send(held: Conversation, frame: Frame) -> None:
    """Send another frame, as the one that is wanted."""
    held.exchange.set_epoch(replace(held.exchange.epoch, frame=frame, wanted=frame))


def _system(held: Conversation) -> None:
    frame = held.exchange.epoch.frame
    _frame(held, replace(frame, system=(blocks.text("Something else. " * 400).raw, *frame.system[1:])))


def _second_block(held: Conversation) -> None:
    frame = held.exchange.epoch.frame
    _frame(held, replace(frame, system=(frame.system[0], blocks.text("Other facts. " * 300).raw)))


def _one_tool(held: Conversation) -> None:
    frame = held.exchange.epoch.frame
    _frame(
        held, replace(frame, tools=(frame.tools[0].replace(b"something", b"anything"), *frame.tools[1:]))
    )


def _tool_gone(held: Conversation) -> None:
    _frame(held, replace(held.exchange.epoch.frame, tools=held.exchange.epoch.frame.tools[:-1]))


def _tool_order(held: Conversation) -> None:
    _frame(held, replace(held.exchange.epoch.frame, tools=held.exchange.epoch.frame.tools[::-1]))


def _model(held: Conversation) -> None:
    _frame(held, replace(held.exchange.epoch.frame, model="claude-opus-4-7"))


def _thinking(held: Conversation) -> None:
    _frame(held, replace(held.exchange.epoch.frame, settings=(("thinking", b'{"type":"adaptive"}'),)))


def _lifetime(held: Conversation) -> None:
    held.exchange.set_epoch(replace(held.exchange.epoch, lifetimes=Lifetimes("1h", "1h")))


def _message(held: Conversation) -> None:
    items = held.script.view.items
    held.script.decide(Snip(first=items[0].record.uuid, last=items[0].record.uuid))


def _first_image(held: Conversation) -> None:
    held.script.user([PICTURE, blocks.text("What is on it?")])


def _citations(held: Conversation) -> None:
    source = {"type": "text", "media_type": "text/plain", "data": "The harbour closes at eight."}
    document = {"type": "document", "source": source, "citations": {"enabled": True}}
    held.script.user([blocks.read(encode_json(document)), blocks.text("When does it close?")])


def _expiry(held: Conversation) -> None:
    held.clock.advance(301)


def _eviction(held: Conversation) -> None:
    held.simulator.cache.evict()


BREAKS: dict[str, tuple[Callable[[Conversation], None], str, str]] = {
    "the system prompt": (_system, "system", "system prompt: +6,398 −8,698 characters, in block 1"),
    "its second block": (_second_block, "system", "system prompt: +3,898 −4,598 characters, in block 2"),
    "one tool": (_one_tool, "tool", "tool Read"),
    "a tool taken away": (_tool_gone, "tool", "tool Shell is gone"),
    "the order of tools": (_tool_order, "tool_order", "the order of tools"),
    "the model": (_model, "model", "model"),
    "thinking": (_thinking, "setting", "setting thinking was added"),
    "the lifetime": (_lifetime, "lifetime", "lifetime 5m became 1h"),
    "the first image": (_first_image, "image", "the first image"),
    "the first citations": (_citations, "citations", "the first document with citations"),
    "an earlier message": (_message, "message", "message 1"),
    "an idle gap": (_expiry, "expired", ""),
    "the server": (_eviction, "unexplained", ""),
}


@pytest.mark.spec("S6.5", "S6.6", "S6.8")
@pytest.mark.parametrize(("change", "cause", "part"), BREAKS.values(), ids=BREAKS)
def test_a_break_is_found_with_its_cause_and_its_size(change, cause, part):
    with conversation(MODEL) as held:
        held.say("begin")
        for _ in range(8):
            held.ask()
        cached = held.exchange.epoch.watched.cached
        change(held)
        outcome = held.ask()
        broken = outcome.broken
        assert broken is not None
        assert (broken.cause, broken.part) == (cause, part)
        assert broken.expected == (cause == "expired")
        assert broken.tokens == cached - _read(held)
        assert broken.usd is not None
        assert broken.usd > 0
        if cause != "unexplained":
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
        held.exchange.announce("compaction")
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
        _send(held, Frame.of(MODEL, 4_000, system=prompt("Monday"), tools=TOOLS))
        held.say("begin")
        held.ask()
        _send(held, Frame.of(MODEL, 4_000, system=prompt("Tuesday"), tools=TOOLS))
        forecast = next_request(held.exchange).forecast
        assert forecast.change is not None
        assert forecast.change.part == "system section environment"
        assert "Tuesday" in forecast.change.diff()


@pytest.mark.spec("S17.5")
def test_only_the_first_image_costs_the_cache_and_is_foretold_with_its_price():
    with conversation(MODEL) as held:
        held.say("begin")
        for _ in range(8):
            held.ask()
        _first_image(held)
        forecast = next_request(held.exchange).forecast
        assert forecast.change is not None
        assert (forecast.change.cause, forecast.change.words) == ("image", "the first image")
        assert forecast.tokens > 2_000
        assert forecast.usd is not None
        assert forecast.usd > 0
        held.ask()
        _first_image(held)
        assert next_request(held.exchange).forecast.change is None
        assert held.ask().broken is None


@pytest.mark.spec("S17.5")
def test_reasoning_that_a_model_leaves_out_of_earlier_turns_is_the_cause_of_what_that_loses():
    before = [
        said("user", "Begin."),
        thought("Look."),
        said("user", "tool_result"),
        said("assistant", "Done."),
    ]
    now = [*before, said("user", "And now?")]
    loss = cache_rules.first_loss(before, now, find("claude-haiku-4-5"))
    assert loss is not None
    assert (loss.cause, loss.messages) == ("reasoning", 1)
    assert cache_rules.first_loss(before, now, find(MODEL)) is None, "it keeps all reasoning"
    later = [*now, said("assistant", "Well."), said("user", "Go on.")]
    assert cache_rules.first_loss(now, later, find("claude-haiku-4-5")) is None, "it is left out once"


@pytest.mark.spec("S17.6")
def test_a_loss_that_nothing_explains_blames_nobody_and_says_what_was_ruled_out():
    with conversation(MODEL) as held:
        held.say("begin")
        for _ in range(8):
            held.ask()
        held.clock.advance(120)
        _eviction(held)
        broken = held.ask().broken
        assert broken is not None
        assert (broken.cause, broken.expected) == ("unexplained", False)
        assert "sent again unchanged" in broken.diff
        assert "within the cache's lifetime of 300 s" in broken.diff
        assert "likely cause is on the provider's side" in broken.diff


@pytest.mark.spec("S17.6")
def test_after_an_expiry_neither_a_decision_nor_a_change_is_called_the_cause():
    with conversation(MODEL) as held:
        held.say("begin")
        for _ in range(8):
            held.ask()
        _one_tool(held)
        held.exchange.announce("clear")
        _expiry(held)
        broken = held.ask().broken
        assert broken is not None
        assert (broken.cause, broken.part, broken.expected) == ("expired", "tool Read", True)


@pytest.mark.spec("S17.7")
def test_a_changed_system_prompt_is_told_in_characters_and_with_its_section():
    def prompt(day: str) -> Frame:
        rules = Section("rules", "Be careful. " * 90, "static")
        sections = (rules, Section("environment", f"A machine. Today is {day}. It rains.", "session"))
        return Frame.of(MODEL, 100, system=SystemPrompt(sections))

    before, now = (Sent(prompt(day), (), Lifetimes(), 0.0) for day in ("Monday", "a holiday"))
    change = first_change(before, now)
    assert change is not None
    assert change.words == "system prompt: +6 −3 characters, in section environment"
    assert "+Today is a holiday." in change.diff().splitlines()
    assert "Be careful" not in change.diff(), "of a prompt in one line, only the sentence that changed"


def said(role: str, words: str) -> Message:
    part = blocks.result("toolu_1", "a line") if words == "tool_result" else blocks.text(words)
    return Message.of(role, [part])


def thought(words: str) -> Message:
    thinking = {"type": "thinking", "thinking": words, "signature": "s"}
    return Message.of("assistant", [blocks.read(encode_json(thinking)), blocks.text("Looking.")])
