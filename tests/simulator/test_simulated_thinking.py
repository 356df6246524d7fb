"""Bound thinking: which change between two requests leaves later thinking valid, row by row."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.lab.simulator.brains import ScriptedBrain
from sevenfold.lab.simulator.provider import Setup
from tests.simulator.wire import (
    BINDING,
    BY_HAND,
    CLEAR_AT,
    EDITS,
    Answer,
    Wire,
    assistant,
    call,
    mark,
    result,
    simulated,
    system,
    text,
    thinker,
    tool,
    user,
)

Body = dict[str, Any]
Change = Callable[[Body], None]
DROP = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
DIFFERENT = "The block is bound to a different conversation."


def think_and_call(prompt: Any) -> Any:
    """Thinks and reads a file on every other turn, thinks and answers otherwise."""
    asked = prompt.messages[-1]["content"][-1]["type"] == "text"
    thought = {"type": "thinking", "thinking": f"thought {len(prompt.messages)}"}
    said = (
        call(f"t{len(prompt.messages)}", path="a.txt") if asked else text(f"answer {len(prompt.messages)}")
    )
    return [thought, said]


@pytest.fixture
def wire() -> Wire:
    return simulated(ScriptedBrain(think_and_call))


@pytest.fixture
def body(wire: Wire) -> Body:
    """A conversation of two rounds with four thinking blocks, one question open."""
    said: Body = {"system": "be brief", "tools": [tool("Read"), tool("Write")], "messages": [user("first")]}
    for following in (result("t1", "one"), "second", result("t5", "two"), "third"):
        answer = wire.messages(**said)
        assert answer.status == 200, answer.body
        said["messages"] += [assistant(*answer.content), user(following)]
    return said


def thoughts(body: Body) -> list[tuple[int, int]]:
    return [
        (number, index)
        for number, message in enumerate(body["messages"])
        for index, block in enumerate(message["content"])
        if block["type"] == "thinking"
    ]


def drop_thoughts(*which: int) -> Change:
    def change(body: Body) -> None:
        places = thoughts(body)
        for place in sorted(which, reverse=True):
            number, index = places[place]
            del body["messages"][number]["content"][index]

    return change


def changing(**fields: Any) -> Change:
    return lambda body: body.update(fields)


def in_message(number: int, edit: Callable[[list[Any]], Any]) -> Change:
    return lambda body: edit(body["messages"][number]["content"])


def remark(body: Body) -> None:
    body["messages"][0]["content"][0] = mark(body["messages"][0]["content"][0])
    body["system"] = [text("be brief", "-")]
    body["tools"][-1] = mark(body["tools"][-1])


def add_deferred(body: Body) -> None:
    body["tools"].append({**tool("Later"), "defer_loading": True})


def shorten_result(blocks: list[Any]) -> None:
    blocks[0]["content"] = "[cleared]"


def change_input(blocks: list[Any]) -> None:
    blocks[1]["input"] = {"path": "b.txt"}


VALID: dict[str, Change] = {
    "nothing": lambda body: None,
    "effort": changing(output_config={"effort": "low"}),
    "max_tokens": changing(max_tokens=77),
    "tool_choice": changing(tool_choice={"type": "none"}),
    "metadata": changing(metadata={"user_id": "u"}),
    "display": changing(thinking={"type": "adaptive", "display": "summarized"}),
    "cache markers": remark,
    "an unreferenced deferred tool": add_deferred,
    "thinking removed from the start": drop_thoughts(0, 1),
    "thinking removed from the end": drop_thoughts(2, 3),
    "all thinking removed": drop_thoughts(0, 1, 2, 3),
}
INVALID: dict[str, tuple[Change, str]] = {
    "an edited message": (in_message(0, lambda blocks: blocks[0].update(text="First")), "messages"),
    "a deleted round": (lambda body: body["messages"].__delitem__(slice(0, 4)), "messages"),
    "a shortened tool result": (in_message(2, shorten_result), "messages"),
    "a changed tool input": (in_message(1, change_input), "messages"),
    "a text block put into an earlier turn": (in_message(0, lambda b: b.append(text("now"))), "messages"),
    "a changed system prompt": (changing(system="be long"), "system"),
    "a renamed tool": (lambda body: body["tools"][1].update(name="Edit"), "tools"),
    "a removed tool": (lambda body: body["tools"].pop(), "tools"),
    "an added tool": (lambda body: body["tools"].append(tool("More")), "tools"),
    "tools in another order": (lambda body: body["tools"].reverse(), "tools"),
    "thinking dropped from the middle": (drop_thoughts(1), "thinking blocks"),
}


@pytest.mark.parametrize("change", VALID.values(), ids=VALID)
def test_these_changes_leave_thinking_valid(wire: Wire, body: Body, change: Change) -> None:
    changed = deepcopy(body)
    change(changed)
    answer = wire.messages(**changed)
    assert answer.status == 200, answer.body


@pytest.mark.parametrize(("change", "what"), INVALID.values(), ids=INVALID)
def test_these_changes_make_later_thinking_invalid(
    wire: Wire, body: Body, change: Change, what: str
) -> None:
    changed = deepcopy(body)
    change(changed)
    answer = wire.messages(**changed)
    assert answer.status == 400
    assert DIFFERENT in answer.error
    assert what in answer.error.rsplit(". ", 1)[1]


@pytest.mark.parametrize(("change", "_"), INVALID.values(), ids=INVALID)
def test_counting_tokens_makes_the_same_check(wire: Wire, body: Body, change: Change, _: str) -> None:
    changed = deepcopy(body)
    change(changed)
    assert DIFFERENT in wire.count(**changed).error


def test_the_error_names_the_block_and_the_header_that_would_help(wire: Wire, body: Body) -> None:
    body["system"] = "be long"
    assert wire.messages(**body).error == (
        "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different "
        "conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "
        '"drop_block". That setting requires the `thinking-binding-controls-2026-08-01` value in the '
        "`anthropic-beta` header. The `system` prompt differs from the one this block was created with."
    )
    assert "That setting requires" not in wire.messages(**body, betas=[BINDING]).error


def test_what_is_put_back_invalidates_what_was_made_meanwhile(wire: Wire, body: Body) -> None:
    without = deepcopy(body)
    drop_thoughts(0, 1, 2, 3)(without)
    meanwhile = wire.messages(**without)
    again = {**body, "messages": [*body["messages"], assistant(*meanwhile.content), user(result("t9"))]}
    answer = wire.messages(**again)
    assert answer.error.startswith("messages.9.content.0: Invalid `signature`")


def test_a_start_that_is_put_back_invalidates_what_was_made_without_it(wire: Wire, body: Body) -> None:
    without = deepcopy(body)
    drop_thoughts(0)(without)
    meanwhile = wire.messages(**without)
    without["messages"] += [assistant(*meanwhile.content), user(result("t9"))]
    assert wire.messages(**without).status == 200
    again = {**body, "messages": [*body["messages"], assistant(*meanwhile.content), user(result("t9"))]}
    assert "messages.9.content.0" in wire.messages(**again).error


@given(st.sets(st.integers(0, 3)))
def test_what_is_kept_must_be_an_unbroken_run(removed: set[int]) -> None:
    wire = simulated(ScriptedBrain(thinker))
    said = [user("go")]
    for _ in range(4):
        said += [assistant(*wire.messages(said).content), user("on")]
    body = {"messages": said}
    drop_thoughts(*removed)(body)
    kept = sorted({0, 1, 2, 3} - removed)
    unbroken = not kept or kept == list(range(kept[0], kept[-1] + 1))
    assert (wire.messages(**body).status == 200) == unbroken


@given(st.integers(0, 8), st.data())
def test_a_change_invalidates_exactly_the_thinking_after_it(rounds: int, data: st.DataObject) -> None:
    wire = simulated(ScriptedBrain(thinker))
    said = [user("go")]
    for _ in range(rounds):
        said += [assistant(*wire.messages(said).content), user("on")]
    changed = data.draw(st.sampled_from([*range(0, len(said), 2)]))
    said[changed] = user("something else")
    answer = wire.messages(said, thinking=DROP, betas=[BINDING])
    dropped = [entry["path"] for entry in answer.body["input_transformations"]]
    assert dropped == [f"messages.{number}.content.0" for number in range(changed + 1, len(said), 2)]


# Dropping instead of refusing


def test_failing_blocks_can_be_dropped_and_are_listed(wire: Wire, body: Body) -> None:
    body["messages"][2]["content"][0]["content"] = "[cleared]"
    full = wire.count(**body, thinking=DROP, betas=[BINDING])
    answer = wire.messages(**body, thinking=DROP, betas=[BINDING])
    later = [f"messages.{number}.content.{index}" for number, index in thoughts(body)[1:]]
    assert answer.body["input_transformations"] == [
        {"type": "thinking_dropped", "path": path, "reason": "prefix_binding_mismatch"} for path in later
    ]
    drop_thoughts(1, 2, 3)(body)
    assert full.body == wire.count(**body).body
    assert answer.usage["input_tokens"] == full.body["input_tokens"]


def test_after_dropping_the_conversation_goes_on_with_new_thinking(wire: Wire, body: Body) -> None:
    body["system"] = "be long"
    answer = wire.messages(**body, thinking=DROP, betas=[BINDING])
    body["messages"] += [assistant(*answer.content), user(result("t9"))]
    again = wire.messages(**body, thinking=DROP, betas=[BINDING])
    dropped = [entry["path"] for entry in again.body["input_transformations"]]
    assert dropped == [f"messages.{number}.content.0" for number in (1, 3, 5, 7)]


def test_with_the_header_and_nothing_wrong_the_list_is_empty(wire: Wire) -> None:
    assert wire.messages("hi", betas=[BINDING]).body["input_transformations"] == []
    assert "input_transformations" not in wire.messages("hi").body


def test_binding_controls_without_their_header_are_unknown_fields(wire: Wire) -> None:
    answer = wire.messages("hi", thinking=DROP)
    assert answer.error == "thinking.adaptive.block_binding: Extra inputs are not permitted"


def test_an_old_account_is_told_and_not_refused(body: Body) -> None:
    wire = simulated(ScriptedBrain(thinker), setup=Setup(counter=BY_HAND, account="old"))
    body["system"] = "be long"
    answer = wire.messages(**body, betas=[BINDING])
    assert {entry["type"] for entry in answer.body["input_transformations"]} == {
        "thinking_mismatch_allowed"
    }
    strict = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "error"}}
    assert wire.messages(**body, betas=[BINDING], thinking=strict).status == 400


def test_some_models_hold_every_account_to_it() -> None:
    wire = simulated(ScriptedBrain(thinker), setup=Setup(counter=BY_HAND, account="old"))
    first = wire.messages("hi", model="claude-fable-5-2")
    said = [user("ho"), assistant(*first.content), user("and")]
    assert DIFFERENT in wire.messages(said, model="claude-fable-5-2").error


# Signatures


def test_a_tampered_signature_is_refused_and_cannot_be_dropped(wire: Wire, body: Body) -> None:
    block = body["messages"][1]["content"][0]
    block["signature"] = block["signature"][:-8] + "AAAAAAA="
    for fields in ({}, {"thinking": DROP, "betas": [BINDING]}):
        answer = wire.messages(**body, **fields)
        assert answer.error == "messages.1.content.0: Invalid `signature` in `thinking` block"


def test_changed_words_in_the_latest_thinking_are_refused_as_such(wire: Wire, body: Body) -> None:
    body["messages"][7]["content"][0]["thinking"] = "other words"
    assert wire.messages(**body).error == (
        "messages.7.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message "
        "cannot be modified. These blocks must remain as they were in the original response."
    )


def test_signatures_survive_a_restart_with_the_same_secret(body: Body) -> None:
    assert simulated(ScriptedBrain(thinker)).messages(**body).status == 200
    other = simulated(ScriptedBrain(thinker), setup=Setup(counter=BY_HAND, secret=b"another"))
    assert "Invalid `signature`" in other.messages(**body).error


def test_redacted_thinking_is_bound_like_any_other() -> None:
    wire = simulated(ScriptedBrain(lambda prompt: [{"type": "redacted_thinking", "data": ""}, text("ok")]))
    first = wire.messages("hi")
    assert wire.messages([user("hi"), assistant(*first.content), user("and")]).status == 200
    moved = wire.messages([user("ho"), assistant(*first.content), user("and")])
    assert moved.error.startswith("messages.1.content.0: Invalid `data` in `redacted_thinking` block.")


def test_thinking_that_is_not_shown_still_counts_in_full(wire: Wire) -> None:
    first = wire.messages("hi")
    assert (first.content[0]["thinking"], first.usage["output_tokens_details"]) == (
        "",
        {"thinking_tokens": 9},
    )
    said = [user("hi"), assistant(*first.content), user(result("t1", ""), "!")]
    spoken = len("hi") + len("thought 1") + len("Read") + len('{"path":"a.txt"}') + 1
    assert wire.count(said).body["input_tokens"] == spoken


# Who may read whose thinking


@pytest.mark.parametrize(
    ("maker", "reader", "kept"),
    [
        ("claude-opus-5-5", "claude-fable-5-1", True),
        ("claude-opus-5", "claude-fable-5-1", True),
        ("claude-fable-5-1", "claude-opus-5-5", False),
        ("claude-fable-5-2", "claude-fable-5-1", False),
        ("claude-fable-5-2", "claude-mythos-5-2", True),
        ("claude-haiku-5-5", "claude-opus-5-5", True),
        ("claude-opus-5-5", "claude-haiku-5-5", False),
        ("claude-opus-4-8", "claude-opus-5", True),
    ],
)
def test_thinking_another_model_may_not_read_is_dropped_silently(
    maker: str, reader: str, kept: bool
) -> None:
    wire = simulated(ScriptedBrain(thinker))
    first = wire.messages("hi", model=maker)
    said = [user("hi"), assistant(*first.content), user("and")]
    answer = wire.messages(said, model=reader, betas=[BINDING])
    entry = {"path": "messages.1.content.0", "reason": "model_binding_mismatch", "type": "thinking_dropped"}
    assert answer.body["input_transformations"] == ([] if kept else [entry])


def test_thinking_of_another_account_is_dropped_where_it_is_bound_to_one() -> None:
    first = simulated(ScriptedBrain(thinker)).messages("hi")
    said = [user("hi"), assistant(*first.content), user("and")]
    other = simulated(ScriptedBrain(thinker), setup=Setup(counter=BY_HAND, organisation="org_other"))
    told = other.messages(said, betas=[BINDING]).body["input_transformations"]
    assert [entry["reason"] for entry in told] == ["organization_binding_mismatch"]


def test_models_without_bound_thinking_take_an_edited_history() -> None:
    wire = simulated(ScriptedBrain(thinker))
    first = wire.messages("hi", model="claude-opus-5")
    said = [user("ho"), assistant(*first.content), user("and")]
    assert wire.messages(said, model="claude-opus-5", system="changed").status == 200


# What the server does itself does not count as a change


def test_server_side_clearing_leaves_thinking_valid(wire: Wire) -> None:
    edit = {
        "type": "clear_tool_uses_20250919",
        "trigger": {"type": "tool_uses", "value": 1},
        "keep": {"type": "tool_uses", "value": 0},
    }
    fields: Body = {"context_management": {"edits": [edit]}, "betas": [EDITS]}
    said = [user("first")]
    for following in (result("t1", "x" * 500), "second", result("t5", "x" * 500), "third"):
        answer = wire.messages(said, **fields)
        said += [assistant(*answer.content), user(following)]
    answer = wire.messages(said, **fields)
    assert answer.body["context_management"]["applied_edits"][0]["cleared_tool_uses"] == 2


def test_a_reminder_for_one_turn_left_in_place_leaves_thinking_valid() -> None:
    wire = simulated(ScriptedBrain(thinker))
    note = system("only now", clear_at="next_user_message")
    first = wire.messages([user("hi"), note], betas=[CLEAR_AT])
    said = [user("hi"), note, assistant(*first.content), user("and")]
    assert wire.messages(said, betas=[CLEAR_AT]).status == 200
    assert wire.messages([said[0], *said[2:]], betas=[CLEAR_AT]).status == 400


def test_a_reminder_for_one_turn_costs_nothing_later() -> None:
    wire = simulated()
    note = system("x" * 100, clear_at="next_user_message")
    assert wire.count([user("hi"), note], betas=[CLEAR_AT]).body["input_tokens"] == 102
    said = [user("hi"), note, assistant("ok"), user("and")]
    assert wire.count(said, betas=[CLEAR_AT]).body["input_tokens"] == 7


def test_older_models_forget_the_thinking_of_finished_turns() -> None:
    wire = simulated(ScriptedBrain(thinker))
    mode = {"type": "enabled", "budget_tokens": 1_024}
    fields: Body = {"model": "claude-haiku-4-5", "max_tokens": 2_000, "thinking": mode}
    first = wire.messages("hi", **fields)
    assert first.content[0]["thinking"] == "thought 1"
    said = [user("hi"), assistant(*first.content), user("and")]
    assert wire.count(said, model="claude-haiku-4-5").body["input_tokens"] == len("hianswer 1and")
    kept: Answer = wire.count(said, model="claude-opus-4-6")
    assert kept.body["input_tokens"] == len("hithought 1answer 1and")
