"""What today's clients send that no rule of the APIs' documentation had prepared the simulator for."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import anthropic
import httpx2
import jsonschema
import openai
import pytest
from pydantic import BaseModel, Field

from sevenfold.lab.simulator.brains import ModelPrompt, ModelReply, ScriptedBrain, text, tool_use
from sevenfold.lab.simulator.instances import instance
from sevenfold.lab.simulator.provider import Setup, Simulator
from sevenfold.lab.simulator.server import create_app, serve
from tests.simulator.wire import EFFORT, Answer, Wire, headers, simulated, user

pytestmark = pytest.mark.spec("S15.1")
BEARER = {"authorization": "Bearer any"}
SHELL = {"type": "custom", "custom": {"name": "shell", "description": "Runs a command."}}
NAMES = ["gpt-4o", "gpt-5-mini", "gpt-5.1", "gpt-5.3-codex", "qwen3:8b", "my-own", "claude-opus-9"]


def chat(wire: Wire, *messages: Any, model: str = "gpt-5", **fields: Any) -> Answer:
    return wire.post("/v1/chat/completions", {"model": model, "messages": messages, **fields}, BEARER)


def respond(wire: Wire, given: Any, model: str = "gpt-5.6", **fields: Any) -> Answer:
    return wire.post("/v1/responses", {"model": model, "input": given, **fields}, BEARER)


@pytest.mark.parametrize("model", NAMES)
def test_any_model_name_is_served_by_all_three_apis(model: str) -> None:
    wire = simulated(setup=Setup())
    assert wire.messages("hi", model=model).status == 200
    assert chat(wire, user("hi"), model=model).status == 200
    assert respond(wire, "hi", model=model).status == 200
    assert wire.get(f"/v1/models/{model}", BEARER).body["id"] == model


def test_a_local_model_holds_the_window_of_the_readmes_line() -> None:
    wire = simulated()
    assert chat(wire, user("x" * 30_000), model="qwen3").status == 200
    assert chat(wire, user("x" * 33_000), model="qwen3").body["error"]["code"] == "context_length_exceeded"


def test_any_key_is_taken_unless_one_is_set_and_none_is_not() -> None:
    assert chat(simulated(), user("hi")).status == 200
    assert simulated().post("/v1/chat/completions", {}, {}).status == 401


def test_a_probe_of_the_address_needs_no_key() -> None:
    async def probe() -> int:
        transport = httpx2.ASGITransport(create_app(Simulator()))
        async with httpx2.AsyncClient(transport=transport, base_url="http://s") as client:
            return (await client.head("/")).status_code

    assert asyncio.run(probe()) == 200


def test_a_custom_tool_of_chat_is_called_with_a_text_and_its_result_read() -> None:
    wire = simulated(ScriptedBrain([[tool_use("shell", {"input": "ls -l"})], "Done.", "Done."]))
    message = chat(wire, user("list"), tools=[SHELL]).body["choices"][0]["message"]
    call = message["tool_calls"][0]
    assert (call["type"], call["custom"]) == ("custom", {"name": "shell", "input": "ls -l"})
    result = {"role": "tool", "tool_call_id": call["id"], "content": "a.txt"}
    assert chat(wire, user("list"), message, result, tools=[SHELL]).status == 200
    wrong = chat(wire, user("list"), tools=[{"type": "telepathy"}])
    assert "'function' and 'custom'" in wrong.error


def test_a_custom_tool_of_responses_is_streamed_and_its_result_read() -> None:
    with serve(Simulator(ScriptedBrain([[tool_use("shell", {"input": "ls"})], "Done."]))) as url:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="any")
        tools: Any = [{"type": "custom", "name": "shell"}]
        with client.responses.stream(model="gpt-5.6", input="list", tools=tools) as stream:
            kinds = {event.type for event in stream}
            final = stream.get_final_response()
        call: Any = final.output[0]
        assert (call.type, call.input) == ("custom_tool_call", "ls")
        assert "response.custom_tool_call_input.delta" in kinds
        result = {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "a.txt"}
        talk: Any = [{"role": "user", "content": "list"}, call.to_dict(), result]
        assert client.responses.create(model="gpt-5.6", input=talk, tools=tools).output_text == "Done."


def test_responses_compact_at_their_threshold_and_answer_from_the_summary() -> None:
    seen: list[ModelPrompt] = []

    def brain(prompt: ModelPrompt) -> str:
        seen.append(prompt)
        return "ok"

    wire = simulated(ScriptedBrain(brain), summarise=lambda request: "SUMMARY")
    management = [{"type": "compaction", "compact_threshold": 1_000}]
    talk = [
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": "x" * 2_000},
        {"role": "user", "content": "second"},
    ]
    small = respond(wire, "hi", context_management=management).body
    assert [item["type"] for item in small["output"]] == ["message"]
    large = respond(wire, talk, context_management=management).body
    assert [item["type"] for item in large["output"]] == ["compaction", "message"]
    said = str(seen[-1].messages)
    assert ["SUMMARY" in said, "second" in said, "xxx" in said] == [True, True, False]
    follow = [*talk, *large["output"], {"role": "user", "content": "third"}]
    assert len(respond(wire, follow, context_management=management).body["output"]) == 1
    assert "xxx" not in str(seen[-1].messages)
    assert respond(wire, talk, model="gpt-5", context_management=management).status == 400


def test_a_response_in_the_background_is_refused_not_pretended() -> None:
    answer = respond(simulated(), "hi", background=True)
    assert answer.status == 400
    assert answer.body["error"]["param"] == "background"


def test_a_compaction_trigger_as_last_item_is_answered_with_the_summary_alone() -> None:
    with serve(Simulator()) as url:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="any")
        talk: Any = [{"role": "user", "content": "hi"}, {"type": "compaction_trigger"}]
        with client.responses.stream(model="gpt-5.6", input=talk) as stream:
            kinds = [event.type for event in stream]
            item: Any = stream.get_final_response().output[0]
        assert "response.compaction.compacting" in kinds
        assert item.type == "compaction"
        again: Any = [{"role": "user", "content": "hi"}, item.to_dict(), {"role": "user", "content": "so?"}]
        assert client.responses.create(model="gpt-5.6", input=again).output_text == "You said: so?"
    first: Any = [{"type": "compaction_trigger"}, {"role": "user", "content": "hi"}]
    assert respond(simulated(), first).status == 400


@pytest.mark.parametrize("beta", [EFFORT, "per-turn-control-2026-07-01"])
def test_both_names_of_the_beta_allow_an_effort_on_a_system_message(beta: str) -> None:
    system = {"role": "system", "content": "Hurry.", "output_config": {"effort": "low"}}
    answer = simulated().messages([user("hi"), system], betas=[beta], model="claude-opus-5")
    assert answer.status == 200, answer.error
    assert simulated().messages([user("hi"), system], model="claude-opus-5").status == 400


def test_sonnet_5_takes_system_messages_under_the_beta_that_claude_code_sends() -> None:
    talk = [user("hi"), {"role": "system", "content": "Be brief."}]
    beta = "mid-conversation-system-2026-04-07"
    assert simulated().messages(talk, model="claude-sonnet-5", betas=[beta]).status == 200
    assert simulated().messages(talk, model="claude-sonnet-5").status == 400


class Title(BaseModel):
    title: str
    tags: list[str]


class Step(BaseModel):
    name: str = Field(min_length=3)
    seconds: float = Field(gt=0, lt=1)


class Plan(BaseModel):
    title: str = Field(max_length=5)
    steps: list[Step] = Field(min_length=2)
    owner: Step | None
    urgency: int = Field(ge=3, multiple_of=5)
    within: Plan | None


def test_structured_output_fits_the_schema_in_all_three_apis() -> None:
    with serve(Simulator()) as url:
        claude = anthropic.Anthropic(base_url=url, api_key="any")
        asked: Any = {"max_tokens": 900, "messages": [user("plan it")], "model": "claude-sonnet-5-5"}
        assert claude.messages.parse(**asked, output_format=Title).parsed_output is not None
        gpt = openai.OpenAI(base_url=f"{url}/v1", api_key="any")
        question: Any = [user("plan it")]
        made = gpt.chat.completions.parse(model="gpt-5", messages=question, response_format=Plan)
        assert made.choices[0].message.parsed is not None
        assert gpt.responses.parse(model="gpt-5.6", input="plan it", text_format=Plan).output_parsed


def test_a_brain_that_answers_in_the_schema_is_not_overruled() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    wire = simulated(ScriptedBrain(['{"a": 7}', '{"a": "seven"}']))
    said = [chat(wire, user("a?"), response_format=form) for _ in range(2)]
    assert [one.body["choices"][0]["message"]["content"] for one in said] == ['{"a": 7}', '{"a":0}']


def test_a_forced_tool_is_called_with_an_input_that_fits() -> None:
    tool = {"name": "plan", "input_schema": Plan.model_json_schema()}
    choice = {"type": "tool", "name": "plan"}
    answer = simulated().messages("go", model="claude-sonnet-4-5", tools=[tool], tool_choice=choice)
    assert Plan.model_validate(answer.content[0]["input"])
    assert answer.body["stop_reason"] == "tool_use"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "number", "exclusiveMinimum": 0, "maximum": 0.1},
        {"type": "integer", "exclusiveMaximum": -3},
        {"type": "integer", "minimum": 7, "maximum": 8},
        {
            "anyOf": [
                {"type": "null"},
                {"type": "object", "required": ["x"], "properties": {"x": {"const": 1}}},
            ]
        },
        {
            "allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}],
            "required": ["b"],
            "type": "object",
        },
        {"type": ["null", "string"]},
        {"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "string"}, "minItems": 3},
        {"enum": ["red", "blue"]},
        {"type": "string", "format": "date-time"},
        {},
    ],
)
def test_an_instance_fits_its_schema(schema: Any) -> None:
    jsonschema.validate(instance(schema), schema)


def test_a_slow_brain_keeps_no_other_request_waiting() -> None:
    arrived, answered = threading.Event(), threading.Event()

    def brain(prompt: ModelPrompt) -> ModelReply:
        if prompt.last_text == "slow":
            arrived.set()
            assert answered.wait(20)
        return ModelReply([text(prompt.last_text)])

    async def both() -> list[str]:
        transport = httpx2.ASGITransport(create_app(Simulator(ScriptedBrain(brain))))
        async with httpx2.AsyncClient(
            transport=transport, base_url="http://s", headers=headers(), timeout=30
        ) as client:

            async def ask(words: str) -> str:
                body = {"model": "claude-sonnet-5-5", "max_tokens": 9, "messages": [user(words)]}
                return str((await client.post("/v1/messages", json=body)).json()["content"][0]["text"])

            slow = asyncio.create_task(ask("slow"))
            await asyncio.to_thread(arrived.wait, 20)
            quick = await ask("quick")
            answered.set()
            return [quick, await slow]

    assert asyncio.run(both()) == ["quick", "slow"]
