"""Edits the simulated server makes, the extension for pinned edits, and cache diagnostics."""

from __future__ import annotations

from typing import Any

import pytest

from sevenfold.lab.simulator.brains import ScriptedBrain
from sevenfold.lab.simulator.provider import Setup
from tests.simulator.wire import (
    BY_HAND,
    EDITS,
    Wire,
    Witness,
    always,
    assistant,
    call,
    mark,
    result,
    simulated,
    text,
    thinker,
    tool,
    user,
)

CLEARED = "[Old tool result content cleared by the simulated server]"
LEFT = len(CLEARED)


def rounds(count: int, size: int = 1_000, tool: str = "Read") -> list[dict[str, Any]]:
    """A conversation with that many tool calls, whose results are that long."""
    messages = [user("go")]
    for number in range(count):
        name = f"t{number}"
        messages += [assistant(call(name, tool, path="p")), user(result(name, "x" * size))]
    return messages


def edit(**fields: Any) -> dict[str, Any]:
    every = {"type": "clear_tool_uses_20250919", "trigger": {"type": "tool_uses", "value": 1}, **fields}
    return {"context_management": {"edits": [every]}, "betas": [EDITS]}


def keep(value: int) -> dict[str, Any]:
    return {"type": "tool_uses", "value": value}


@pytest.fixture
def wire() -> Wire:
    return simulated(always(text("ok")))


def test_all_results_but_the_newest_are_cleared(wire: Wire) -> None:
    before = wire.count(rounds(5)).body["input_tokens"]
    answer = wire.messages(rounds(5), **edit(keep=keep(2)))
    freed = 3 * (1_000 - LEFT)
    assert answer.body["context_management"]["applied_edits"] == [
        {"type": "clear_tool_uses_20250919", "cleared_tool_uses": 3, "cleared_input_tokens": freed}
    ]
    assert answer.usage["input_tokens"] == before - freed


def test_three_results_are_kept_when_nothing_is_said(wire: Wire) -> None:
    applied = wire.messages(rounds(5), **edit()).body["context_management"]["applied_edits"]
    assert applied[0]["cleared_tool_uses"] == 2


def test_nothing_is_cleared_below_the_trigger(wire: Wire) -> None:
    tokens = edit(trigger={"type": "input_tokens", "value": 10_000})
    assert wire.messages(rounds(5), **tokens).body["context_management"] == {"applied_edits": []}
    assert wire.messages(rounds(12), **tokens).body["context_management"]["applied_edits"]


def test_the_trigger_is_a_hundred_thousand_tokens_when_nothing_is_said(wire: Wire) -> None:
    plain = {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}, "betas": [EDITS]}
    assert not wire.messages(rounds(9, 11_000), **plain).body["context_management"]["applied_edits"]
    assert wire.messages(rounds(10, 11_000), **plain).body["context_management"]["applied_edits"]


def test_an_edit_that_would_free_too_little_is_left_out(wire: Wire) -> None:
    freed = 2 * (1_000 - LEFT)
    for least, applied in ((freed, 1), (freed + 1, 0)):
        told = wire.messages(rounds(5), **edit(clear_at_least={"type": "input_tokens", "value": least}))
        assert len(told.body["context_management"]["applied_edits"]) == applied


def test_results_of_excluded_tools_stay(wire: Wire) -> None:
    told = wire.messages(rounds(5), **edit(exclude_tools=["Read"]))
    assert told.body["context_management"]["applied_edits"] == []


@pytest.mark.parametrize(
    ("inputs", "cleared"), [(True, True), (["Read"], True), (["Write"], False), (None, False)]
)
def test_inputs_are_cleared_where_asked_for(inputs: Any, cleared: bool) -> None:
    witness = Witness()
    wire = simulated(witness)
    wire.messages(rounds(4), **edit(clear_tool_inputs=inputs))
    first_call = witness.prompts[0].messages[1]["content"][0]
    assert first_call["input"] == ({} if cleared else {"path": "p"})


def test_the_model_sees_the_edited_prompt_and_the_log_keeps_the_sent_one() -> None:
    witness = Witness()
    wire = simulated(witness)
    wire.messages(rounds(4), **edit())
    assert witness.prompts[0].messages[2]["content"][0]["content"] == CLEARED
    assert wire.simulator.requests[-1].body["messages"][2]["content"][0]["content"] == "x" * 1_000


def test_clearing_spoils_the_cache_from_where_it_clears(wire: Wire) -> None:
    messages = rounds(3)
    messages[0] = user(text("g" * 600, "-"))
    messages[-1]["content"][0] = mark(messages[-1]["content"][0])
    whole = wire.count(messages).body["input_tokens"]
    fields = edit(keep=keep(3))
    assert wire.messages(messages, **fields).usage["cache_creation_input_tokens"] == whole
    longer = [*messages, assistant(call("t3")), user(mark(result("t3", "y")))]
    del longer[6]["content"][0]["cache_control"]
    usage = wire.messages(longer, **fields).usage
    assert usage["cache_read_input_tokens"] == 600


def test_counting_tells_both_sizes(wire: Wire) -> None:
    told = wire.count(rounds(5), **edit()).body
    whole = wire.count(rounds(5)).body["input_tokens"]
    assert told == {
        "input_tokens": whole - 2 * (1_000 - LEFT),
        "context_management": {"original_input_tokens": whole},
    }


def test_thinking_of_all_but_the_newest_turns_can_be_cleared() -> None:
    wire = simulated(ScriptedBrain(thinker))
    messages = [user("go")]
    for _ in range(3):
        messages += [assistant(*wire.messages(messages).content), user("on")]
    whole = wire.count(messages).body["input_tokens"]
    kept = {"type": "thinking_turns", "value": 1}
    config = {"edits": [{"type": "clear_thinking_20251015", "keep": kept}]}
    answer = wire.messages(messages, context_management=config, betas=[EDITS])
    freed = 2 * len("thought 1")
    assert answer.body["context_management"]["applied_edits"] == [
        {"type": "clear_thinking_20251015", "cleared_thinking_turns": 2, "cleared_input_tokens": freed}
    ]
    assert answer.usage["input_tokens"] == whole - freed
    for everything in ("all", {"type": "all"}):
        config = {"edits": [{"type": "clear_thinking_20251015", "keep": everything}]}
        told = wire.messages(messages, context_management=config, betas=[EDITS])
        assert told.body["context_management"] == {"applied_edits": []}


def test_edits_are_told_at_the_end_of_a_stream(wire: Wire) -> None:
    streamed = wire.messages(rounds(5), **edit(), stream=True)
    plain = wire.messages(rounds(5), **edit()).body["context_management"]
    assert [data["context_management"] for kind, data in streamed.events if kind == "message_delta"] == [
        plain
    ]
    assert "context_management" not in streamed.events[0][1]["message"]


# The simulator's own extension


def pinned(*deleted: str) -> list[dict[str, Any]]:
    messages = rounds(3)
    for message in messages[2::2]:
        block = message["content"][0]
        block["cache_reference"] = block["tool_use_id"]
    edits = [{"type": "delete", "cache_reference": name} for name in deleted]
    last: Any = [{"type": "cache_edits", "edits": edits}] if deleted else []
    return [*messages, assistant("on"), user(*last, text("next", "-"))]


def test_deleting_by_reference_keeps_the_cache_and_frees_the_tokens() -> None:
    wire = simulated(always(text("ok")), setup=Setup(counter=BY_HAND, pinned_edits=True))
    messages = pinned()
    messages[6]["content"][0] = mark(messages[6]["content"][0])
    first = wire.messages(messages[:7]).usage
    assert first["cache_creation_input_tokens"] == wire.count(messages[:7]).body["input_tokens"]
    usage = wire.messages(pinned("t0", "t1")).usage
    assert usage["cache_deleted_input_tokens"] == 2_000
    assert usage["cache_read_input_tokens"] == first["cache_creation_input_tokens"] - 2_000
    again = wire.messages([*pinned("t0", "t1"), assistant("ok"), user(text("more", "-"))]).usage
    assert again["cache_creation_input_tokens"] == len("okmore")


def test_an_unknown_reference_is_refused() -> None:
    wire = simulated(setup=Setup(counter=BY_HAND, pinned_edits=True))
    assert "no result has that cache_reference" in wire.messages(pinned("t9")).error


# Diagnostics


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"model": "claude-opus-5-5"}, {"type": "model_changed", "cache_missed_input_tokens": 4_000}),
        ({"speed": "fast"}, {"type": "model_changed", "cache_missed_input_tokens": 4_000}),
        ({"tools": [tool("Other")]}, {"type": "tools_changed", "cache_missed_input_tokens": 4_000}),
        ({"system": "t" * 1_000}, {"type": "system_changed", "cache_missed_input_tokens": 4_000}),
        (
            {"messages": [user("a" * 1_000), assistant("B" * 1_000), user("c" * 1_000)]},
            {"type": "messages_changed", "cache_missed_input_tokens": 2_000},
        ),
        ({"tool_choice": {"type": "none"}}, {"type": "unavailable"}),
        ({"betas": [EDITS]}, {"type": "unavailable"}),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_divergence_is_named_with_what_it_costs(wire: Wire, change: Any, reason: Any) -> None:
    fields: dict[str, Any] = {
        "system": "s" * 1_000,
        "messages": [user("a" * 1_000), assistant("b" * 1_000), user("c" * 1_000)],
    }
    first = wire.messages(**fields, diagnostics={"previous_message_id": None})
    assert first.body["diagnostics"] is None
    asks = {"diagnostics": {"previous_message_id": first.body["id"]}}
    assert wire.messages(**{**fields, **change}, **asks).body["diagnostics"] == {
        "cache_miss_reason": reason
    }
    grown = [*fields["messages"], assistant("d"), user("e")]
    assert wire.messages(**{**fields, "messages": grown}, **asks).body["diagnostics"] is None


def test_a_predecessor_nobody_remembers_is_said_to_be_unknown(wire: Wire) -> None:
    answer = wire.messages(diagnostics={"previous_message_id": "msg_lost"})
    assert answer.body["diagnostics"] == {"cache_miss_reason": {"type": "previous_message_not_found"}}


@pytest.mark.parametrize(("holds", "cleared"), [(False, [3, 4, 5, 6, 7, 8]), (True, [3, 3, 3, 6, 6, 6])])
def test_the_cut_moves_with_every_call_or_holds_until_enough_more_can_go(
    holds: bool, cleared: list[int]
) -> None:
    wire = simulated(always(text("ok")), setup=Setup(counter=BY_HAND, edits_hold=holds))
    least = {"type": "input_tokens", "value": 3 * (1_000 - LEFT)}
    asked = edit(keep=keep(2), clear_at_least=least)
    reports = [
        wire.messages(rounds(count), **asked).body["context_management"]["applied_edits"][0]
        for count in range(5, 11)
    ]
    assert [report["cleared_tool_uses"] for report in reports] == cleared
