"""Servers that name a call like an earlier one: `call_0` in every answer, or the tool's own name."""

from __future__ import annotations

import json
from pathlib import Path
from time import process_time
from typing import Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sevenfold
from sevenfold.errors import InputError
from sevenfold.lab.simulator.brains import ModelPrompt, ScriptedBrain
from sevenfold.lab.simulator.provider import Setup, Simulator
from sevenfold.lab.simulator.server import serve
from sevenfold.profiles import find
from sevenfold.record import blocks, calls
from sevenfold.record.blocks import Block
from sevenfold.record.decisions import CompactMetadata
from sevenfold.record.log import Answer
from tests.session.talking import ALONE, FREE, alone, calling, fake_reply, hear, said, world

pytestmark = pytest.mark.spec("S9.7")

LOCAL = "qwen3:8b"
NAMES = [("call_0",), ("functions.ping:0",), ("Shell", "Shell")]


def counting(answers: int, *names: str) -> ScriptedBrain:
    """A model that gives its calls these same names so many times, then says that it is done."""
    left = [answers]

    def reply(prompt: ModelPrompt) -> Any:
        left[0] -= 1
        if left[0] < 0:
            return "Done."
        return [calling(name, number=f"{left[0]}{place}") for place, name in enumerate(names)]

    return ScriptedBrain(reply)


def pong(number: str) -> str:
    return f"pong {number}"


SHELL = sevenfold.function_tool(pong, name="Shell", description="Answers.")


def expected(answers: int, names: tuple[str, ...]) -> list[str]:
    turns = reversed(range(answers))
    return [pong(f"{turn}{place}") for turn in turns for place in range(len(names))]


def heard(body: bytes) -> list[Any]:
    """What each result says that the model is sent, in order."""
    found = [block for message in said(body) for block in message["content"]]
    return [block["content"] for block in found if block["type"] == "tool_result"]


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize(("model", "path"), [(LOCAL, "/v1/chat/completions"), ("gpt-5.6", "/v1/responses")])
def test_an_agent_works_on_with_an_openai_server_that_counts_its_calls_anew(
    tmp_path: Path, model: str, path: str, names: tuple[str, ...]
) -> None:
    simulator = Simulator(counting(3, *names), Setup(models={model: find(model)}))
    with (
        serve(simulator) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="simulated-key", max_retries=0) as client,
        sevenfold.Agent(
            model,
            client=client,
            folder=tmp_path,
            tools=[SHELL],
            mode="autonomous",
            system="Be brief.",
            settings=ALONE,
        ) as agent,
    ):
        assert agent.run("go").end == "done"
        sent = json.loads(simulator.requests.answered(path)[-1].raw)
    if "messages" in sent:
        told = [(one["tool_call_id"], one["content"]) for one in sent["messages"] if one["role"] == "tool"]
        asked = [call["id"] for message in sent["messages"] for call in message.get("tool_calls") or ()]
    else:
        items = sent["input"]
        told = [
            (one["call_id"], one["output"]) for one in items if one.get("type") == "function_call_output"
        ]
        asked = [one["call_id"] for one in items if one.get("type") == "function_call"]
    assert [output for _, output in told] == expected(3, names)
    assert [name for name, _ in told] == asked
    assert len(set(asked)) == len(asked)


@pytest.mark.parametrize("names", NAMES)
def test_the_same_on_the_anthropic_wire(tmp_path: Path, names: tuple[str, ...]) -> None:
    with (
        world(counting(3, *names)) as here,
        sevenfold.Agent(
            FREE,
            client=here.sdk,
            folder=tmp_path,
            tools=[SHELL],
            mode="autonomous",
            system="Be brief.",
            settings=ALONE,
        ) as agent,
    ):
        assert agent.run("go").end == "done"
        assert heard(here.bodies[-1]) == expected(3, names)


def test_the_callers_own_loop_answers_with_the_names_it_got_also_after_a_resume(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with world(counting(3, "call_0", "call_0")) as here:
        with here.open(file, model=FREE) as session:
            session.user("begin")
            for turn in ("a", "b"):
                reply: Any = here.sdk.messages.create(**session.prepare())
                session.observe(reply)
                assert [block.id for block in reply.content] == ["call_0", "call_0"]
                results = [
                    {"type": "tool_result", "tool_use_id": block.id, "content": f"{turn}{place}"}
                    for place, block in enumerate(reply.content)
                ]
                assert session.tool_results(results) == []
            session.observe(here.sdk.messages.create(**session.prepare()))
            assert len(session.tool_results({"call_0": "c0"})) == 1
        with here.open(file, model=FREE) as session:
            assert session.tool_results({"call_0": "c1"}) == []
            assert session.tool_results({"call_0": "said again"}) == []
            session.complete()
        assert heard(here.bodies[-1]) == ["a0", "a1", "b0", "b1", "c0", "c1"]


def test_a_name_used_before_a_compaction_is_another_call_when_the_compaction_is_undone(
    tmp_path: Path,
) -> None:
    file = tmp_path / "s.jsonl"
    with world(counting(2, "call_0")) as here:
        with here.open(file, model=FREE) as session:
            session.user("begin")
            session.complete()
            session.tool_results({"call_0": "before"})
            session.conversation.transcript.compact(CompactMetadata(), [blocks.text("in short")])
        with here.open(file, model=FREE) as session:
            session.user("go on")
            (call,) = session.complete().calls
            assert call.id != "call_0"
            session.tool_results({"call_0": "after"})
            session.undo()
            assert heard(session.prepare().body) == ["before", "after"]
            assert session.fetch("call_0") == b"before"
            assert session.fetch(call.id) == b"after"


def test_a_branch_is_not_given_the_results_of_another() -> None:
    with alone() as session:
        start = session.user("begin")
        hear(session, fake_reply(calling("call_0"), number=1))
        session.tool_results({"call_0": "left"})
        session.rewind(start)
        hear(session, fake_reply(calling("call_0"), number=2))
        session.tool_results({"call_0": "right"})
        assert heard(session.prepare().body) == ["right"]


def test_a_list_with_reused_names_is_taken_in_followed_and_branched_off() -> None:
    def asked(content: str) -> list[dict[str, Any]]:
        result = {"type": "tool_result", "tool_use_id": "call_0", "content": content}
        return [
            {"role": "assistant", "content": [calling("call_0")]},
            {"role": "user", "content": [result]},
        ]

    begin = {"role": "user", "content": "begin"}
    with alone() as session:
        messages = [begin, *asked("one"), *asked("two")]
        session.messages(messages)
        assert heard(session.prepare().body) == ["one", "two"]
        assert session.sync(messages) == 0
        assert session.sync([*messages, *asked("three")]) == 2
        assert heard(session.prepare().body) == ["one", "two", "three"]
        otherwise = [{"role": "user", "content": "begin otherwise"}, *asked("uno"), *asked("due")]
        session.sync(otherwise)
        assert heard(session.prepare().body) == ["uno", "due"]
        assert session.sync(otherwise) == 0


def test_an_interrupted_answer_with_a_reused_name_is_in_order() -> None:
    with alone() as session:
        session.user("begin")
        hear(session, fake_reply(calling("call_0"), number=1))
        session.tool_results({"call_0": "one"})
        partial = Answer("msg_2", FREE, (blocks.read(json.dumps(calling("call_0")).encode()),))
        session.conversation.interrupted(partial)
        assert session.tool_results({"call_0": "not done"}) == []
        assert heard(session.prepare().body) == ["one", "not done"]


def test_a_result_nobody_asked_for_is_still_refused() -> None:
    with alone() as session:
        session.user("begin")
        hear(session, fake_reply(calling("call_0"), number=1))
        with pytest.raises(InputError, match="no call 'call_1' waits for a result; those that do: call_0"):
            session.tool_results({"call_1": "x"})


def test_a_server_that_makes_names_up_keeps_them() -> None:
    for name in ("toolu_01AbCdEfGhJk", "call_9f8e7d6c5b4a", "D681PevKs", "chatcmpl-tool-8a9b0c1d2e3f4a5b"):
        assert calls.is_random_id(name)
    for name in ("call_0", "functions.ping:12", "get_weather", "call_00000012", "0", "toolu_1_1"):
        assert not calls.is_random_id(name)


@given(st.lists(st.sampled_from(["call_0", "call_1", "x"]), max_size=8), st.sets(st.just("call_0")))
def test_calls_get_names_of_their_own_and_results_find_them(names: list[str], taken: set[str]) -> None:
    made = tuple(Block("tool_use", json.dumps(calling(name)).encode(), name) for name in names)
    ids = iter(map(str, range(100)))
    answer = calls.distinct(Answer("a", "m", made), taken.__contains__, lambda: next(ids))
    recorded = [block.id for block in answer.blocks]
    assert len(set(recorded)) == len(recorded)
    assert taken.isdisjoint(recorded)
    assert [calls.original_id(name) for name in recorded] == names
    assert [json.loads(block.raw) for block in answer.blocks] == [calling(name) for name in recorded]
    found, others = calls.matched([blocks.result(name, "r") for name in names], recorded)
    assert list(found) == recorded
    assert others == []


@pytest.mark.spec("S12.3")
@pytest.mark.parametrize("name", ["toolu_{:05}", "call_0"])
@pytest.mark.parametrize("at_a_time", [1, 10_000])
def test_a_message_of_ten_thousand_calls_is_answered_in_seconds(name: str, at_a_time: int) -> None:
    """Time that grew with the square of their number would be more than a minute."""
    count = 10_000
    names = [name.format(number) for number in range(count)]
    called = [{"type": "tool_use", "id": one, "name": "Read", "input": {}} for one in names]
    tool = sevenfold.tool({"name": "Read", "input_schema": {"type": "object"}}, kind="read")
    with sevenfold.Session.in_memory(model=FREE, tools=[tool]) as session:
        session.user("go")
        _ = session.prepare().body
        began = process_time()
        session.observe(
            {
                "id": "m",
                "type": "message",
                "role": "assistant",
                "model": FREE,
                "content": called,
                "stop_reason": "tool_use",
                "usage": {"input_tokens": 9, "output_tokens": 9},
            }
        )
        results = [{"type": "tool_result", "tool_use_id": one, "content": "r"} for one in names]
        for place in range(0, count, at_a_time):
            left = session.tool_results(results[place : place + at_a_time])
        assert left == []
        session.rewind(session.conversation.transcript.view.tip)
        assert len(session.conversation.transcript.view) == 2 + count // at_a_time
        _ = session.prepare().body
        assert process_time() - began < 30
