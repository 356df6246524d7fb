"""Summaries made by the simulated server: on demand with a signed block, and at a threshold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sevenfold.lab.simulator.brains import NoSummary, ScriptedBrain, SummaryRequest
from sevenfold.lab.simulator.provider import Setup
from tests.simulator.wire import (
    BINDING,
    BY_HAND,
    EDITS,
    ON_DEMAND,
    THRESHOLD,
    TOOL_CHANGES,
    Answer,
    Wire,
    Witness,
    always,
    assistant,
    call,
    result,
    simulated,
    small,
    system,
    text,
    thinker,
    tool,
    user,
)

Messages = list[dict[str, Any]]
SUMMARIZE = {"compaction": {"type": "summarize"}, "betas": [ON_DEMAND]}
MANY_TOOLS = [
    user("a"),
    assistant(*[call(f"t{number}", f"tool{number}") for number in range(1_001)]),
    user(*[result(f"t{number}") for number in range(1_001)]),
]
DIFFERENT = "The block is bound to a different conversation."


def say_nothing_new(request: SummaryRequest) -> str:
    return f"summary of {len(request.messages)}"


@pytest.fixture
def wire() -> Wire:
    return simulated(ScriptedBrain(thinker), summarise=say_nothing_new)


def talk(wire: Wire, rounds: int, messages: Messages | None = None, **fields: Any) -> Messages:
    """A conversation of so many answered questions, then one more question."""
    messages = list(messages or [user("question 0")])
    for number in range(rounds):
        answer = wire.messages(messages, **fields)
        assert answer.status == 200, answer.body
        messages += [assistant(*answer.content), user(f"question {number + 1}")]
    return messages


def compact(wire: Wire, messages: Messages, **fields: Any) -> dict[str, Any]:
    answer = wire.messages(messages, **{**SUMMARIZE, **fields})
    assert answer.body["stop_reason"] == "compaction", answer.body
    return answer.content[0]


def go_on(wire: Wire, *messages: dict[str, Any], **fields: Any) -> Answer:
    return wire.messages(list(messages), **{"betas": [ON_DEMAND], **fields})


# On demand


def test_a_summary_on_demand_is_the_whole_answer(wire: Wire) -> None:
    answer = wire.messages(talk(wire, 2), **SUMMARIZE)
    block = answer.content[0]
    assert {key: value for key, value in block.items() if key != "signature"} == {
        "type": "compaction",
        "content": "summary of 5",
        "tool_changes": [],
    }
    assert (len(answer.content), answer.body["stop_reason"]) == (1, "compaction")


def test_its_cost_stands_in_an_iteration_and_not_above(wire: Wire) -> None:
    messages = talk(wire, 2)
    usage = wire.messages(messages, **SUMMARIZE).usage
    assert (usage["input_tokens"], usage["output_tokens"]) == (0, 0)
    [iteration] = usage["iterations"]
    assert iteration["type"] == "compaction"
    assert iteration["input_tokens"] == wire.count(messages).body["input_tokens"]
    assert iteration["output_tokens"] == len("summary of 5")


def test_a_compaction_request_reads_the_warm_cache(wire: Wire) -> None:
    betas = {"betas": [ON_DEMAND]}
    messages = [user(text("q" * 900, "-"))]
    wire.messages(messages, **betas)
    [iteration] = wire.messages(messages, **SUMMARIZE).usage["iterations"]
    assert iteration["cache_read_input_tokens"] == 900


def test_counting_ignores_the_wish_to_compact(wire: Wire) -> None:
    assert wire.count("hello", **SUMMARIZE).body == {"input_tokens": 5}
    assert wire.count([user("a"), assistant("b")], **SUMMARIZE).body == {"input_tokens": 2}


def test_the_summary_can_be_streamed_whole(wire: Wire) -> None:
    streamed = wire.messages(talk(wire, 1), **SUMMARIZE, stream=True).events
    kinds = [kind for kind, _ in streamed]
    assert "content_block_delta" not in kinds
    [opened] = [data["content_block"] for kind, data in streamed if kind == "content_block_start"]
    assert opened["content"] == "summary of 3"
    assert opened["signature"]


def test_instructions_reach_the_summariser_and_blank_ones_do_not() -> None:
    asked: list[str | None] = []

    def listen(request: SummaryRequest) -> str:
        asked.append(request.instructions)
        return "s"

    wire = simulated(summarise=listen)
    for instructions in ("be short", "  ", None):
        wire.messages(**SUMMARIZE | {"compaction": {"type": "summarize", "instructions": instructions}})
    assert asked == ["be short", None, None]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"context_management": {"edits": []}, "betas": [ON_DEMAND, EDITS]},
            "context_management: cannot be combined with `compaction`",
        ),
        ({"stop_sequences": ["x"]}, "stop_sequences: cannot be combined with `compaction`"),
        (
            {"output_config": {"format": {"type": "json_schema", "schema": {}}}},
            "output_config.format: cannot be combined with `compaction`",
        ),
        (
            {"model": "claude-haiku-5-5", "tools": [tool("a")], "tool_choice": {"type": "any"}},
            "tool_choice: cannot be combined with `compaction`",
        ),
        (
            {"compaction": {"type": "forget"}},
            "compaction.type: Input is not one of the values known here: 'forget'",
        ),
        (
            {"compaction": {"type": "summarize", "instructions": "x" * 16_385}},
            "compaction.instructions: String should have at most 16384 characters",
        ),
        (
            {"compaction": {"type": "summarize", "trigger": 5}},
            "compaction.trigger: Extra inputs are not permitted",
        ),
    ],
)
def test_what_does_not_go_with_compaction_is_refused(wire: Wire, fields: Any, words: str) -> None:
    assert wire.messages(**{**SUMMARIZE, **fields}).error == words


@pytest.mark.parametrize(
    ("messages", "code"),
    [
        ([user("a"), assistant(call("x"))], "compaction_incomplete_turn"),
        (
            [user("a"), assistant({"type": "server_tool_use", "id": "s", "name": "web", "input": {}})],
            "compaction_incomplete_turn",
        ),
        (MANY_TOOLS, "compaction_too_many_tool_references"),
    ],
    ids=["an open call", "an open server call", "too many tools"],
)
def test_a_range_that_cannot_be_summarised_is_refused(wire: Wire, messages: Messages, code: str) -> None:
    answer = wire.messages(messages, **SUMMARIZE)
    assert (answer.status, answer.code) == (400, code)


def test_a_summary_alone_leaves_nothing_to_summarise(wire: Wire) -> None:
    block = compact(wire, talk(wire, 1))
    assert wire.messages([assistant(block)], **SUMMARIZE).code == "compaction_nothing_to_summarize"


def test_a_finished_answer_may_end_a_compaction_request(wire: Wire) -> None:
    assert compact(wire, [user("a"), assistant("b")])["content"] == "summary of 2"


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        ("", "end_turn"),
        (NoSummary("tool_use"), "tool_use"),
        (NoSummary("refusal"), "refusal"),
        ("x" * 2_000, "max_tokens"),
    ],
)
def test_without_a_summary_the_answer_is_empty_and_says_why(outcome: Any, reason: str) -> None:
    wire = simulated(summarise=lambda request: outcome)
    answer = wire.messages(**SUMMARIZE)
    assert (answer.status, answer.content, answer.body["stop_reason"]) == (200, [], reason)


def test_a_summary_that_no_longer_fits_the_window_is_not_made() -> None:
    setup = Setup(counter=BY_HAND, models={"tiny": small(window=100)})
    wire = simulated(setup=setup, summarise=lambda request: "s" * 50)
    answer = wire.messages("x" * 80, model="tiny", **SUMMARIZE)
    assert answer.body["stop_reason"] == "model_context_window_exceeded"


# Going on from a signed block


def test_the_block_stands_for_what_it_summarised() -> None:
    witness = Witness()
    wire = simulated(witness, summarise=say_nothing_new)
    block = compact(wire, [user("a" * 500), assistant("b")])
    answer = go_on(wire, assistant(block), user("next"))
    assert answer.usage["input_tokens"] == len("summary of 2next")
    assert witness.prompts[-1].messages[0]["content"][0]["content"] == "summary of 2"


def test_the_block_may_be_the_first_block_of_the_first_message(wire: Wire) -> None:
    block = compact(wire, [user("a"), assistant("b")])
    assert go_on(wire, user(block, "next")).status == 200


def test_the_block_needs_its_header_on_every_request(wire: Wire) -> None:
    block = compact(wire, [user("a"), assistant("b")])
    answer = wire.messages([assistant(block), user("next")])
    assert answer.error.startswith("messages.0.content.0: Input tag 'compaction' found using 'type'")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda block: block.update(content="another summary"), "compaction_content_mismatch"),
        (lambda block: block.update(tool_changes=[{}]), "compaction_tool_changes_mismatch"),
        (lambda block: block.pop("tool_changes"), "compaction_tool_changes_mismatch"),
        (lambda block: block.update(signature="c2lnbmVk"), "compaction_signature_invalid"),
    ],
    ids=["content", "tool changes", "no tool changes", "signature"],
)
def test_the_block_must_come_back_as_it_went_out(
    wire: Wire, change: Callable[[dict[str, Any]], Any], code: str
) -> None:
    block = compact(wire, [user("a"), assistant("b")])
    change(block)
    assert go_on(wire, assistant(block), user("next")).code == code


def test_a_null_that_was_not_there_is_an_unknown_field(wire: Wire) -> None:
    block = {**compact(wire, [user("a"), assistant("b")]), "encrypted_content": None}
    answer = go_on(wire, assistant(block), user("next"))
    where = "messages.0.content.0.compaction.encrypted_content"
    assert answer.error == f"{where}: Extra inputs are not permitted"


def test_a_block_in_the_middle_or_twice_is_refused(wire: Wire) -> None:
    block = compact(wire, [user("a"), assistant("b")])
    assert go_on(wire, user("x"), assistant(block), user("y")).code == "compaction_block_misplaced"
    assert go_on(wire, assistant(block), assistant(block), user("y")).code == "compaction_block_ambiguous"


def test_a_remaining_task_budget_does_not_go_with_a_block(wire: Wire) -> None:
    block = compact(wire, [user("a"), assistant("b")])
    budget = {"type": "tokens", "total": 20_000, "remaining": 5}
    fields: dict[str, Any] = {
        "output_config": {"task_budget": budget},
        "betas": [ON_DEMAND, "task-budgets-2026-03-13"],
    }
    answer = go_on(wire, assistant(block), user("c"), **fields)
    assert answer.error == "output_config.task_budget.remaining: not allowed with a `compaction` block"
    asked = wire.messages("x", compaction={"type": "summarize"}, **fields)
    assert asked.error == "output_config.task_budget.remaining: cannot be combined with `compaction`"


def test_a_second_compaction_covers_the_first(wire: Wire) -> None:
    block = compact(wire, [user("a"), assistant("b")])
    again = compact(wire, [assistant(block), user("c"), assistant("d")])
    assert go_on(wire, assistant(again), user("e")).usage["input_tokens"] == len("summary of 3e")


def test_changes_of_tools_inside_the_range_come_with_the_block(wire: Wire) -> None:
    added = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "Later"}}
    removed = {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "Read"}}
    betas = [ON_DEMAND, TOOL_CHANGES]
    messages = [user("a"), system(removed, added), assistant("b"), user("c")]
    block = compact(wire, messages, betas=betas)
    assert block["tool_changes"] == [removed, added]
    assert go_on(wire, assistant(block), user("d"), betas=betas).status == 200


# Keeping a tail with its thinking


def test_a_tail_that_follows_the_range_directly_keeps_its_thinking(wire: Wire) -> None:
    messages = talk(wire, 4)
    block = compact(wire, messages[:5])
    answer = go_on(wire, assistant(block), *messages[5:], betas=[ON_DEMAND, BINDING])
    assert answer.body["input_transformations"] == []
    more = [assistant(block), *messages[5:], assistant(*answer.content), user("and")]
    assert go_on(wire, *more).status == 200


def test_a_tail_may_be_kept_through_two_compactions(wire: Wire) -> None:
    messages = talk(wire, 4)
    first = compact(wire, messages[:3])
    second = compact(wire, [assistant(first), *messages[3:5]])
    assert go_on(wire, assistant(second), *messages[5:]).status == 200


def test_background_compaction_swaps_exactly_what_it_was_given(wire: Wire) -> None:
    messages = talk(wire, 2)
    sent = len(messages)
    block = compact(wire, messages)
    messages = talk(wire, 2, messages)
    assert go_on(wire, assistant(block), *messages[sent:]).status == 200


INVALID: dict[str, Callable[[Messages], tuple[Messages, Messages]]] = {
    "a message skipped": lambda m: (m[:3], m[5:]),
    "a message inserted": lambda m: (m[:5], [assistant("never said"), user("nor this"), *m[5:]]),
    "a kept message changed": lambda m: (m[:3], [m[3], user("another question"), *m[5:]]),
    "a tail that begins with the role the range ended with": lambda m: (m[:4], [*m[5:]]),
    "an overlap": lambda m: (m[:5], m[3:]),
}


@pytest.mark.parametrize("cut", INVALID.values(), ids=INVALID)
def test_a_tail_that_does_not_fit_fails_on_the_first_request_that_carries_it(
    wire: Wire, cut: Callable[[Messages], tuple[Messages, Messages]]
) -> None:
    summarised, kept = cut(talk(wire, 4))
    block = compact(wire, summarised)
    answer = go_on(wire, assistant(block), *kept)
    assert (answer.status, DIFFERENT in answer.error) == (400, True)


@pytest.mark.parametrize("change", [{"system": "changed"}, {"tools": [tool("New")]}])
def test_a_tail_is_invalid_when_system_or_tools_changed(wire: Wire, change: dict[str, Any]) -> None:
    messages = talk(wire, 4)
    block = compact(wire, messages[:5])
    assert DIFFERENT in go_on(wire, assistant(block), *messages[5:], **change).error


def test_a_tail_whose_summary_comes_from_a_model_without_bound_thinking_is_invalid(wire: Wire) -> None:
    messages = talk(wire, 4)
    bare = [
        {**message, "content": [block for block in message["content"] if block["type"] == "text"]}
        for message in messages[:5]
    ]
    block = compact(wire, bare, model="claude-opus-5")
    assert DIFFERENT in go_on(wire, assistant(block), *messages[5:]).error


def test_a_tail_of_one_role_with_the_range_is_invalid_even_if_nothing_is_missing(wire: Wire) -> None:
    first = wire.messages([user("a"), user("b")])
    block = compact(wire, [user("a")])
    answer = go_on(wire, assistant(block), user("b"), assistant(*first.content), user("c"))
    assert DIFFERENT in answer.error


def test_going_back_to_the_full_history_invalidates_what_was_made_after_the_summary(wire: Wire) -> None:
    messages = talk(wire, 2)
    block = compact(wire, messages)
    after = go_on(wire, assistant(block), user("and"))
    restored = [*messages, assistant("fine"), user("and"), assistant(*after.content), user("so")]
    assert DIFFERENT in wire.messages(restored).error


# At a threshold


def at_threshold(pause: bool = False, betas: tuple[str, ...] = (THRESHOLD,)) -> dict[str, Any]:
    trigger = {"type": "input_tokens", "value": 50_000}
    edit = {"type": "compact_20260112", "trigger": trigger, "pause_after_compaction": pause}
    return {"context_management": {"edits": [edit]}, "betas": list(betas)}


def test_below_the_threshold_nothing_happens(wire: Wire) -> None:
    answer = wire.messages("x" * 49_999, **at_threshold())
    assert [block["type"] for block in answer.content] == ["thinking", "text"]


def test_at_the_threshold_the_answer_begins_with_a_summary(wire: Wire) -> None:
    answer = wire.messages("x" * 50_000, **at_threshold())
    assert answer.content[0] == {"type": "compaction", "content": "summary of 1"}
    assert [block["type"] for block in answer.content] == ["compaction", "thinking", "text"]
    usage = answer.usage
    assert [(each["type"], each["input_tokens"]) for each in usage["iterations"]] == [
        ("compaction", 50_000),
        ("message", len("summary of 1")),
    ]
    assert usage["input_tokens"] == len("summary of 1")
    assert answer.body["context_management"] == {"applied_edits": []}


@pytest.mark.parametrize("keeps_history", [True, False])
def test_what_stands_before_the_summary_may_be_kept_or_dropped(wire: Wire, keeps_history: bool) -> None:
    answer = wire.messages("x" * 50_000, **at_threshold())
    history = [user("x" * 50_000)] if keeps_history else []
    said = [*history, assistant(*answer.content), user("next")]
    again = wire.messages(said, **at_threshold())
    assert again.status == 200, again.body
    assert again.usage["input_tokens"] == len("summary of 1thought 1answer 1next")


def test_a_pause_gives_the_summary_alone(wire: Wire) -> None:
    answer = wire.messages("x" * 50_000, **at_threshold(pause=True))
    assert (answer.content, answer.body["stop_reason"]) == (
        [{"type": "compaction", "content": "summary of 1"}],
        "compaction",
    )
    resumed = wire.messages([user("x"), assistant(*answer.content)], **at_threshold())
    assert resumed.status == 200


def test_thinking_put_back_after_a_pause_is_invalid(wire: Wire) -> None:
    messages = talk(wire, 1, [user("x" * 50_000)])
    answer = wire.messages(messages, **at_threshold(pause=True))
    put_back = [assistant(*answer.content), user("go on"), *messages[1:]]
    assert DIFFERENT in wire.messages(put_back, **at_threshold()).error


def test_a_summary_that_failed_is_null_and_changes_nothing() -> None:
    wire = simulated(ScriptedBrain(thinker), summarise=lambda request: NoSummary())
    answer = wire.messages("x" * 50_000, **at_threshold())
    assert answer.content[0] == {"type": "compaction", "content": None}
    assert answer.usage["input_tokens"] == 50_000
    said = [user("x" * 50_000), assistant(*answer.content), user("next")]
    assert wire.count(said, **at_threshold()).body["input_tokens"] > 50_000


def test_the_summary_is_streamed_in_one_delta(wire: Wire) -> None:
    streamed = wire.messages("x" * 50_000, **at_threshold(), stream=True).events
    deltas = [data["delta"] for kind, data in streamed if kind == "content_block_delta"]
    assert deltas[0] == {"type": "compaction_delta", "content": "summary of 1"}


def test_the_default_summary_says_that_it_is_simulated() -> None:
    wire = simulated(always(text("ok")))
    block = compact(wire, [user("please sort the list"), assistant("done")])
    assert block["content"].splitlines() == [
        "[Simulated summary of 2 messages, made without a model]",
        "- asked: please sort the list",
    ]
