"""Brains, counting, the log of requests and the prefix invariant."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.lab.simulator.brains import (
    ModelReply,
    RecordedBrain,
    ScriptedBrain,
    ScriptUnfinished,
    thinking,
    tool_use,
)
from sevenfold.lab.simulator.invariant import extends
from sevenfold.lab.simulator.provider import Setup
from sevenfold.lab.simulator.tokens import Counter
from tests.simulator.wire import (
    BY_HAND,
    assistant,
    call,
    mark,
    result,
    simulated,
    small,
    system,
    text,
    tool,
    user,
)

# Brains


def test_the_default_brain_repeats_the_user() -> None:
    assert simulated().messages("good morning").content == [text("You said: good morning")]


def test_a_script_is_played_step_by_step() -> None:
    steps: list[Any] = ["one", [text("two")], ModelReply([text("three")], "refusal"), lambda p: p.last_text]
    brain = ScriptedBrain(steps)
    wire = simulated(brain)
    answers = [wire.messages("four") for _ in steps]
    assert [answer.content[0]["text"] for answer in answers] == ["one", "two", "three", "four"]
    assert answers[2].body["stop_reason"] == "refusal"
    brain.check_finished()


def test_a_script_can_tell_that_steps_are_left() -> None:
    brain = ScriptedBrain(["one", "two"])
    simulated(brain).messages()
    with pytest.raises(ScriptUnfinished, match="1 of 2 steps"):
        brain.check_finished()


def test_a_recorded_conversation_is_played_with_its_thinking_signed_anew() -> None:
    foreign = {"type": "thinking", "thinking": "hm", "signature": "from elsewhere"}
    wire = simulated(RecordedBrain([[foreign, call("t1", path="a")], [foreign, text("done")]]))
    first = wire.messages("go")
    assert first.content[0]["signature"] != "from elsewhere"
    assert first.body["stop_reason"] == "tool_use"
    second = wire.messages([user("go"), assistant(*first.content), user(result("t1"))])
    assert second.content[1] == text("done")


def test_calls_without_an_id_get_one_that_is_unique() -> None:
    brain = ScriptedBrain(lambda prompt: [tool_use("Read", {"n": 1}), tool_use("Read", {"n": 1})])
    wire = simulated(brain)
    first = wire.messages("go")
    names = [block["id"] for block in first.content]
    said = [user("go"), assistant(*first.content), user(*[result(name) for name in names])]
    more = [block["id"] for block in wire.messages(said).content]
    assert len({*names, *more}) == 4


def test_thinking_that_is_switched_off_is_not_heard() -> None:
    wire = simulated(ScriptedBrain([[thinking("hm"), text("ok")]]))
    answer = wire.messages(model="claude-opus-5", thinking={"type": "disabled"})
    assert answer.content == [text("ok")]


# Counting


def test_the_current_tokenizer_counts_about_a_third_more() -> None:
    words = "the quick brown fox jumps over the lazy dog " * 50
    counter = Counter()
    assert 1.25 < counter.text(words, "claude-b") / counter.text(words, "claude-a") < 1.35
    assert 2.0 < len(words) / counter.text(words, "claude-b") < 3.0


def test_a_ratio_can_be_set() -> None:
    wire = simulated(setup=Setup(counter=Counter(ratios={"claude-b": 10.0}, per_message=0)))
    assert wire.count("one two three").body["input_tokens"] == 30


def test_tools_bring_a_prompt_of_their_own() -> None:
    wire = simulated(setup=Setup())
    with_tools = wire.count(tools=[tool("a"), tool("b")]).body["input_tokens"]
    single = wire.count(tools=[tool("a")]).body["input_tokens"]
    assert single > 286
    assert with_tools - single < 100


def test_images_and_documents_weigh_the_same_whatever_their_bytes() -> None:
    wire = simulated()
    sizes = {
        wire.count([user({"type": "image", "source": {"type": "base64", "data": "A" * size}})]).body[
            "input_tokens"
        ]
        for size in (10, 10_000)
    }
    assert sizes == {100}


def test_a_document_of_plain_text_weighs_its_text() -> None:
    source = {"type": "text", "media_type": "text/plain", "data": "x" * 77}
    assert simulated().count([user({"type": "document", "source": source})]).body["input_tokens"] == 77


@given(st.lists(st.text(max_size=40), min_size=1, max_size=6))
def test_counts_add_up_block_by_block(texts: list[str]) -> None:
    said = [words for words in texts if words.strip()] or ["x"]
    wire = simulated(setup=Setup(counter=Counter(per_message=0)))
    whole = wire.count([user(*said)]).body["input_tokens"]
    assert whole == sum(wire.count([user(words)]).body["input_tokens"] for words in said)


# The log


def test_the_log_keeps_bytes_headers_status_and_usage() -> None:
    wire = simulated()
    wire.messages("hi")
    wire.messages([assistant("no")])
    first, second = wire.simulator.requests
    assert first.raw.startswith(b'{"model":"claude-sonnet-5-5"')
    assert first.headers["x-api-key"] == "simulated-key"
    assert first.usage is not None
    assert first.usage["input_tokens"] == 2
    assert (first.status, second.status, second.usage) == (200, 400, None)
    assert [each.number for each in wire.simulator.requests.answered()] == [1]


def test_the_log_forgets_the_oldest_requests_first() -> None:
    wire = simulated(setup=Setup(counter=BY_HAND, log_bytes=500))
    for number in range(10):
        wire.messages(f"question {number}")
    kept = [each.body["messages"][0]["content"][0]["text"] for each in wire.simulator.requests]
    assert kept == [f"question {number}" for number in range(10 - len(kept), 10)]
    assert 0 < len(kept) < 10


# The prefix invariant


def body(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "system": "s", "tools": [tool("a")], "messages": list(messages), **fields}


BEFORE = body(user("one"), assistant(call("t", path="p", line=1)), user(result("t")))


@pytest.mark.parametrize(
    "after",
    [
        BEFORE,
        body(*BEFORE["messages"], assistant("two"), user("three")),
        body({"role": "user", "content": "one"}, *BEFORE["messages"][1:], assistant("x")),
        body(
            user(mark(text("one"))),
            *BEFORE["messages"][1:],
            tools=[mark(tool("a"))],
            system=[text("s", "1h")],
        ),
        body(*BEFORE["messages"], max_tokens=5, tool_choice={"type": "none"}),
    ],
    ids=["the same", "longer", "a string for a block", "markers moved", "other settings"],
)
def test_a_request_that_extends_the_one_before_is_accepted(after: dict[str, Any]) -> None:
    assert extends(BEFORE, after) is None


@pytest.mark.parametrize(
    ("after", "explanation"),
    [
        (body(*BEFORE["messages"], model="n"), "model changed from m to n"),
        (body(*BEFORE["messages"], tools=[tool("a"), tool("b")]), "tools.1 was added"),
        (body(*BEFORE["messages"], tools=[]), "tools.0 is gone"),
        (
            body(*BEFORE["messages"], system="t"),
            'system.0 changed from {"type":"text","text":"s"} to {"type":"text","text":"t"}',
        ),
        (body(*BEFORE["messages"][:2]), "messages.2 is gone"),
        (
            body(user("one", "more"), *BEFORE["messages"][1:]),
            "messages.0.content.1 was put in before messages.1",
        ),
        (
            body(system("one"), *BEFORE["messages"][1:]),
            'messages.0 changed from {"role":"user"} to {"role":"system"}',
        ),
    ],
)
def test_the_first_part_that_moved_is_named(after: dict[str, Any], explanation: str) -> None:
    assert extends(BEFORE, after) == explanation


def test_the_order_of_keys_in_an_input_counts() -> None:
    swapped = body(BEFORE["messages"][0], assistant(call("t", line=1, path="p")), user(result("t")))
    assert str(extends(BEFORE, swapped)).startswith("messages.1.content.0 changed from")


def test_the_invariant_can_be_read_off_the_log() -> None:
    wire = simulated()
    said = [user("one")]
    for _ in range(3):
        said += [assistant(*wire.messages(said).content), user("more")]
    sent = [each.raw for each in wire.simulator.requests]
    assert [extends(one, other) for one, other in pairwise(sent)] == [None, None]


def test_a_model_of_ones_own_can_be_served() -> None:
    wire = simulated(setup=Setup(counter=BY_HAND, models={"mine": small(window=50)}))
    assert wire.messages("x" * 51, model="mine").error == "prompt is too long: 51 tokens > 50 maximum"
