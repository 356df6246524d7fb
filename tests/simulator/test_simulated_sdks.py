"""The official SDKs, plain and unmodified, against the simulator over a real socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from anthropic import beta_tool

from sevenfold.lab.simulator.brains import ModelPrompt, ModelReply, ScriptedBrain, text, thinking, tool_use
from sevenfold.lab.simulator.faults import Fault
from sevenfold.lab.simulator.invariant import extends
from sevenfold.lab.simulator.provider import Setup, Simulator
from sevenfold.lab.simulator.server import serve
from tests.simulator.wire import BINDING, EDITS, KEY, ON_DEMAND, THRESHOLD

MODEL = "claude-opus-5-5"
READ: Any = {
    "name": "read",
    "description": "reads a file",
    "input_schema": {"type": "object", "properties": {}},
}
FUNCTION: Any = {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}


def helper(prompt: ModelPrompt) -> ModelReply:
    """Thinks, reads when asked to, and tells what it read."""
    last = prompt.messages[-1]["content"][-1]
    if last["type"] == "tool_result":
        content = last["content"]
        read = content if isinstance(content, str) else content[0]["text"]
        return ModelReply([thinking("now I know"), text(f"It says: {read}")])
    if "read" in prompt.last_text:
        return ModelReply(
            [thinking("I should read it"), text("Reading."), tool_use("read", {"path": "a.txt"})]
        )
    return ModelReply([text("Hello! " * 10)])


@pytest.fixture(scope="module")
def sim() -> Simulator:
    return Simulator(ScriptedBrain(helper), Setup(api_key=KEY, any_model=False))


@pytest.fixture(scope="module")
def url(sim: Simulator) -> Iterator[str]:
    with serve(sim) as address:
        yield address


@pytest.fixture
def claude(url: str) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=url, api_key=KEY) as client:
        yield client


@pytest.fixture
def gpt(url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key=KEY) as client:
        yield client


# anthropic


def ask(words: str) -> dict[str, Any]:
    return {"model": MODEL, "max_tokens": 1_000, "messages": [{"role": "user", "content": words}]}


def test_anthropic_chats(claude: anthropic.Anthropic) -> None:
    message = claude.messages.create(**ask("hi"))
    assert (message.content[0].type, message.stop_reason) == ("text", "end_turn")
    assert message.usage.output_tokens > 0


def test_anthropic_streams_what_it_would_have_said(claude: anthropic.Anthropic) -> None:
    whole = claude.messages.create(**ask("please read"), tools=[READ])
    with claude.messages.stream(**ask("please read"), tools=[READ]) as stream:
        kinds = [event.type for event in stream]
        streamed = stream.get_final_message()
    assert streamed.to_dict()["content"] == whole.to_dict()["content"]
    assert (streamed.stop_reason, streamed.usage.to_dict()) == (whole.stop_reason, whole.usage.to_dict())
    assert {"message_start", "content_block_delta", "message_delta", "message_stop"} <= set(kinds)


@pytest.mark.parametrize("streaming", [False, True])
def test_anthropic_runs_a_tool_round_with_thinking(claude: anthropic.Anthropic, streaming: bool) -> None:
    request = ask("please read") | {"tools": [READ]}
    message: anthropic.types.Message
    for _ in range(2):
        if streaming:
            with claude.messages.stream(**request) as stream:
                message = stream.get_final_message()
        else:
            message = claude.messages.create(**request)
        calls = [block for block in message.content if block.type == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": each.id, "content": "42"} for each in calls]
        request["messages"] = [
            *request["messages"],
            {"role": "assistant", "content": message.content},
            {"role": "user", "content": results or "thanks"},
        ]
    assert message.content[-1].to_dict() == {"type": "text", "text": "It says: 42"}
    assert claude.messages.create(**request).stop_reason == "end_turn"


def test_anthropic_counts_what_a_request_then_costs(claude: anthropic.Anthropic) -> None:
    counted = claude.messages.count_tokens(model=MODEL, messages=ask("hi")["messages"], system="be brief")
    usage = claude.messages.create(**ask("hi"), system="be brief").usage
    assert counted.input_tokens == usage.input_tokens


def test_anthropic_lists_models(claude: anthropic.Anthropic) -> None:
    names = [model.id for model in claude.models.list()]
    assert MODEL in names
    model = claude.beta.models.retrieve(MODEL)
    assert (model.max_input_tokens, model.line) == (1_000_000, "opus")
    assert model.capabilities is not None
    assert model.capabilities.compaction is not None
    assert model.capabilities.compaction.summarize.supported


def test_anthropic_caches(claude: anthropic.Anthropic) -> None:
    system: Any = [
        {"type": "text", "text": "word " * 900, "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    ]
    first = claude.messages.create(**ask("hi"), system=system).usage
    second = claude.messages.create(**ask("ho"), system=system).usage
    assert first.cache_creation is not None
    assert first.cache_creation.ephemeral_1h_input_tokens == second.cache_read_input_tokens
    assert second.cache_read_input_tokens


def test_anthropic_uses_beta_features(claude: anthropic.Anthropic) -> None:
    create = claude.beta.messages.create
    edits: Any = {"edits": [{"type": "clear_tool_uses_20250919"}]}
    edited = create(**ask("hi"), context_management=edits, betas=[EDITS, BINDING])
    assert edited.context_management is not None
    assert (edited.context_management.applied_edits, edited.input_transformations) == ([], [])
    traced = create(**ask("hi"), diagnostics={"previous_message_id": edited.id})
    assert traced.diagnostics is not None
    assert traced.diagnostics.cache_miss_reason is not None
    assert traced.diagnostics.cache_miss_reason.type == "unavailable"


@pytest.mark.parametrize("streaming", [False, True])
def test_anthropic_compacts_on_demand_and_goes_on(claude: anthropic.Anthropic, streaming: bool) -> None:
    request: Any = {**ask("remember the milk"), "betas": [ON_DEMAND], "compaction": {"type": "summarize"}}
    if streaming:
        with claude.beta.messages.stream(**request) as stream:
            compacted = stream.get_final_message()
    else:
        compacted = claude.beta.messages.create(**request)
    block: Any = compacted.content[0]
    assert (compacted.stop_reason, block.type) == ("compaction", "compaction")
    assert "remember the milk" in block.content
    assert compacted.usage.iterations is not None
    assert [each.type for each in compacted.usage.iterations] == ["compaction"]
    kept = block.to_dict()
    following: Any = [{"role": "assistant", "content": [kept]}, {"role": "user", "content": "hi"}]
    answer = claude.beta.messages.create(model=MODEL, max_tokens=100, messages=following, betas=[ON_DEMAND])
    assert answer.stop_reason == "end_turn"


def test_anthropic_compacts_at_a_threshold(claude: anthropic.Anthropic) -> None:
    trigger = {"type": "input_tokens", "value": 50_000}
    config: Any = {"edits": [{"type": "compact_20260112", "trigger": trigger}]}
    request = ask("word " * 40_000)
    with claude.beta.messages.stream(**request, context_management=config, betas=[THRESHOLD]) as stream:
        message = stream.get_final_message()
    assert [block.type for block in message.content] == ["compaction", "text"]
    assert message.usage.iterations is not None
    assert [each.type for each in message.usage.iterations] == ["compaction", "message"]


def test_anthropics_own_tool_runner_works_and_extends_its_requests(
    claude: anthropic.Anthropic, sim: Simulator
) -> None:
    @beta_tool
    def read(path: str) -> str:
        """Read a file.

        Args:
            path: where it is
        """
        return f"content of {path}"

    sim.requests.clear()
    messages: Any = ask("please read")["messages"]
    runner = claude.beta.messages.tool_runner(
        model=MODEL, max_tokens=1_000, messages=messages, tools=[read]
    )
    final = runner.until_done()
    assert final.content[-1].to_dict() == {"type": "text", "text": "It says: content of a.txt"}
    sent = [each.raw for each in sim.requests.answered()]
    assert [extends(one, other) for one, other in pairwise(sent)] == [None]


def test_anthropic_raises_its_own_errors(claude: anthropic.Anthropic, url: str) -> None:
    with pytest.raises(anthropic.NotFoundError, match="model: claude-none"):
        claude.messages.create(**ask("hi") | {"model": "claude-none"})
    with pytest.raises(anthropic.BadRequestError, match="text content blocks must contain"):
        claude.messages.create(**ask(" "))
    with (
        anthropic.Anthropic(base_url=url, api_key="wrong") as stranger,
        pytest.raises(anthropic.AuthenticationError, match="invalid x-api-key"),
    ):
        stranger.messages.create(**ask("hi"))


def test_anthropic_retries_what_can_be_retried(claude: anthropic.Anthropic, sim: Simulator) -> None:
    sim.faults.then(Fault("rate_limited", retry_after=0.01))
    assert claude.messages.create(**ask("hi")).stop_reason == "end_turn"
    sim.faults.then(Fault("overloaded"))
    with pytest.raises(anthropic.APIStatusError) as raised:
        claude.with_options(max_retries=0).messages.create(**ask("hi"))
    assert raised.value.status_code == 529


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault("cut_stream", after=4), httpx2.RemoteProtocolError),
        (Fault("error_event", after=4), anthropic.APIStatusError),
        (Fault("malformed_event", after=4), json.JSONDecodeError),
    ],
)
def test_anthropic_meets_a_broken_stream_with_what_came_before(
    claude: anthropic.Anthropic, sim: Simulator, fault: Fault, error: type[Exception]
) -> None:
    sim.faults.then(fault)
    with claude.messages.stream(**ask("hi")) as stream:
        with pytest.raises(error):
            stream.until_done()
        assert stream.current_message_snapshot.content[0].to_dict()["text"] == "Hello! Hello! Hello! Hel"


def test_anthropic_takes_a_stream_that_ends_early_for_a_message_without_a_stop_reason(
    claude: anthropic.Anthropic, sim: Simulator
) -> None:
    sim.faults.then(Fault("cut_stream", after=4, clean=True))
    with claude.messages.stream(**ask("hi")) as stream:
        stream.until_done()
        assert stream.current_message_snapshot.stop_reason is None


def test_both_sdks_meet_a_body_cut_in_half(
    claude: anthropic.Anthropic, gpt: openai.OpenAI, sim: Simulator
) -> None:
    sim.faults.then(Fault("truncated_body"), requests=2)
    with pytest.raises(json.JSONDecodeError):
        claude.messages.create(**ask("hi"))
    with pytest.raises(json.JSONDecodeError):
        gpt.chat.completions.create(model="gpt-5", messages=[{"role": "user", "content": "hi"}])


def test_an_address_that_is_not_simulated_is_not_found(
    claude: anthropic.Anthropic, gpt: openai.OpenAI
) -> None:
    with pytest.raises(anthropic.NotFoundError, match="/v1/messages/batches: not simulated"):
        claude.messages.batches.list()
    with pytest.raises(openai.NotFoundError, match="/v1/embeddings: not simulated"):
        gpt.embeddings.create(model="gpt-5", input="hi")


def test_anthropic_works_asynchronously(url: str) -> None:
    async def talk() -> tuple[str, str, int]:
        async with anthropic.AsyncAnthropic(base_url=url, api_key=KEY) as client:
            first, second = await asyncio.gather(
                client.messages.create(**ask("hi")), client.messages.create(**ask("ho"))
            )
            async with client.messages.stream(**ask("hi")) as stream:
                words = "".join([piece async for piece in stream.text_stream])
            counted = await client.messages.count_tokens(model=MODEL, messages=ask("hi")["messages"])
            assert second.stop_reason == "end_turn"
            return str(first.content[0].to_dict()["text"]), words, counted.input_tokens

    whole, streamed, tokens = asyncio.run(talk())
    assert (whole, tokens > 0) == (streamed, True)


# openai


def test_openai_chats_and_calls_tools(gpt: openai.OpenAI) -> None:
    messages: Any = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "please read"},
    ]
    tools: Any = [FUNCTION]
    first = gpt.chat.completions.create(model="gpt-5", messages=messages, tools=tools)
    assert first.choices[0].finish_reason == "tool_calls"
    calls = first.choices[0].message.tool_calls
    assert calls
    assert first.choices[0].message.content == "Reading."
    messages += [
        first.choices[0].message,
        {"role": "tool", "tool_call_id": calls[0].id, "content": "42"},
    ]
    second = gpt.chat.completions.create(model="gpt-5", messages=messages, tools=tools)
    assert (second.choices[0].message.content, second.choices[0].finish_reason) == ("It says: 42", "stop")


def test_openai_streams_what_it_would_have_said(gpt: openai.OpenAI) -> None:
    request: Any = {
        "model": "gpt-5",
        "messages": [{"role": "user", "content": "please read"}],
        "tools": [FUNCTION],
    }
    whole = gpt.chat.completions.create(**request)
    chunks = list(
        gpt.chat.completions.create(**request, stream=True, stream_options={"include_usage": True})
    )
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    calls = [call for delta in deltas for call in delta.tool_calls or ()]
    assert "".join(delta.content or "" for delta in deltas) == whole.choices[0].message.content
    assert (
        "".join((call.function and call.function.arguments) or "" for call in calls) == '{"path":"a.txt"}'
    )
    assert chunks[-1].usage is not None
    assert whole.usage is not None
    assert chunks[-1].usage.prompt_tokens == whole.usage.prompt_tokens
    assert [chunk.usage for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    plain = list(gpt.chat.completions.create(**request, stream=True))
    assert all(chunk.choices for chunk in plain)


def test_openai_caches_prefixes_by_itself_in_steps(gpt: openai.OpenAI) -> None:
    def cached(*texts: str) -> int:
        said: Any = [{"role": "user", "content": words} for words in texts]
        usage = gpt.chat.completions.create(model="gpt-5", messages=said).usage
        assert usage is not None
        assert usage.prompt_tokens_details is not None
        return usage.prompt_tokens_details.cached_tokens or 0

    long = "some words of a long prompt " * 400
    assert cached(long) == 0
    hit = cached(long, "and more")
    assert hit >= 1_024
    assert hit % 128 == 0
    assert cached("other " + long) == 0
    assert cached("a short prompt") == cached("a short prompt") == 0


def test_openai_says_when_a_prompt_is_too_long(gpt: openai.OpenAI) -> None:
    said: Any = [{"role": "user", "content": "word " * 20_000}]
    with pytest.raises(openai.BadRequestError) as raised:
        gpt.chat.completions.create(model="local-8k", messages=said)
    assert raised.value.code == "context_length_exceeded"
    assert (
        "maximum context length is 8192 tokens. However, your messages resulted in" in raised.value.message
    )
    with pytest.raises(openai.BadRequestError) as raised:
        gpt.responses.create(model="local-8k", input="word " * 20_000)
    assert raised.value.code == "context_length_exceeded"


def test_openai_takes_pictures_and_arguments_that_are_no_object(gpt: openai.OpenAI) -> None:
    picture = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    function = {"name": "read", "arguments": "not json"}
    said: Any = [
        {"role": "user", "content": [{"type": "text", "text": "look"}, picture]},
        {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "c", "content": "42"},
    ]
    answer = gpt.chat.completions.create(model="gpt-5", messages=said)
    assert answer.choices[0].message.content == "It says: 42"
    assert answer.usage is not None
    assert answer.usage.prompt_tokens > 1_600


def test_openai_limits_the_answer(gpt: openai.OpenAI) -> None:
    said: Any = [{"role": "user", "content": "hi"}]
    cut = gpt.chat.completions.create(model="gpt-5", messages=said, max_completion_tokens=5)
    assert cut.choices[0].finish_reason == "length"
    response = gpt.responses.create(model="gpt-5.6", input="hi", max_output_tokens=5)
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        (
            [{"role": "tool", "tool_call_id": "x", "content": "y"}],
            "must be a response to a preceeding message",
        ),
        (
            [
                {
                    "role": "assistant",
                    "tool_calls": [
                        {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}
                    ],
                },
                {"role": "user", "content": "hm"},
            ],
            "did not have response messages: c",
        ),
        ([{"role": "robot", "content": "y"}], "Invalid value: 'robot'"),
    ],
)
def test_openai_refuses_a_broken_structure(gpt: openai.OpenAI, messages: Any, words: str) -> None:
    with pytest.raises(openai.BadRequestError, match=words):
        gpt.chat.completions.create(model="gpt-5", messages=messages)


MODELS_BY_API = {"chat": "gpt-5", "responses": "gpt-5.6"}
ANTHROPICS = {"name": "read", "input_schema": {"type": "object"}}
NESTED = {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}
FLAT = {"type": "function", "name": "read", "parameters": {"type": "object"}}


@pytest.mark.spec("S9.7")
@pytest.mark.parametrize(
    ("api", "tool", "words"),
    [
        ("chat", ANTHROPICS, r"Missing required parameter: 'tools\[1\]\.type'"),
        ("chat", FLAT, r"Missing required parameter: 'tools\[1\]\.function'"),
        ("chat", {"type": "function", "function": {}}, r"parameter: 'tools\[1\]\.function\.name'"),
        ("chat", {"type": "bash_20250124"}, "Invalid value: 'bash_20250124'"),
        ("chat", {"type": "function", "function": {"name": "a b"}}, "does not match pattern"),
        (
            "chat",
            {"type": "function", "function": {"name": "read", "parameters": {"type": "string"}}},
            "Invalid schema for function 'read'.*got 'type: \"string\"'",
        ),
        ("responses", ANTHROPICS, r"Missing required parameter: 'tools\[1\]\.type'"),
        ("responses", NESTED, r"Missing required parameter: 'tools\[1\]\.name'"),
    ],
)
def test_openai_refuses_tools_in_the_shape_of_another_api(
    gpt: openai.OpenAI, api: str, tool: Any, words: str
) -> None:
    create: Any = gpt.chat.completions.create if api == "chat" else gpt.responses.create
    said: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "tools": [NESTED, tool]}
    if api == "responses":
        said = {"input": "hi", "tools": [FLAT, tool]}
    with pytest.raises(openai.BadRequestError, match=words):
        create(model=MODELS_BY_API[api], **said)


@pytest.mark.spec("S9.7")
def test_openai_refuses_content_blocks_of_another_api(gpt: openai.OpenAI) -> None:
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}
    said: Any = [{"role": "user", "content": [{"type": "text", "text": "hi"}, result]}]
    with pytest.raises(openai.BadRequestError, match="Invalid value: 'tool_result'") as raised:
        gpt.chat.completions.create(model="gpt-5", messages=said)
    assert raised.value.param == "messages[0].content[1].type"


@pytest.mark.spec("S9.7")
def test_openai_seals_reasoning_on_request_and_refuses_seals_it_did_not_make() -> None:
    brain = ScriptedBrain(lambda prompt: [{"type": "thinking", "thinking": "hm"}, text("ok")])
    with (
        serve(Simulator(brain)) as own,
        openai.OpenAI(base_url=f"{own}/v1", api_key="simulated-key", max_retries=0) as gpt,
    ):
        plain = gpt.responses.create(model="gpt-5.6", input="hi")
        assert [item.type for item in plain.output] == ["reasoning", "message"]
        wanted: Any = {"include": ["reasoning.encrypted_content"], "store": False}
        first = gpt.responses.create(model="gpt-5.6", input="hi", **wanted)
        [thought, words] = [item.to_dict() for item in first.output]
        talk: Any = [{"role": "user", "content": "hi"}, thought, words, {"role": "user", "content": "so?"}]
        assert gpt.responses.create(model="gpt-5.6", input=talk, **wanted).output_text == "ok"
        talk[1] = {**thought, "encrypted_content": "c2VhbGVk"}
        with pytest.raises(openai.BadRequestError) as raised:
            gpt.responses.create(model="gpt-5.6", input=talk, **wanted)
        assert raised.value.code == "invalid_encrypted_content"


def test_openai_raises_its_own_errors(gpt: openai.OpenAI, url: str) -> None:
    with pytest.raises(openai.NotFoundError) as raised:
        gpt.chat.completions.create(model="no-such", messages=[{"role": "user", "content": "hi"}])
    assert raised.value.code == "model_not_found"
    with (
        openai.OpenAI(base_url=f"{url}/v1", api_key="wrong") as stranger,
        pytest.raises(openai.AuthenticationError),
    ):
        stranger.models.list()


def test_openai_responds_calls_and_streams(gpt: openai.OpenAI) -> None:
    tools: Any = [{"type": "function", "name": "read", "parameters": {"type": "object"}}]
    items: Any = [{"role": "user", "content": "please read"}]
    first = gpt.responses.create(model="gpt-5.6", input=items, tools=tools, instructions="be brief")
    call = first.output[-1]
    assert call.type == "function_call"
    assert (first.output_text, call.arguments) == ("Reading.", '{"path":"a.txt"}')
    with gpt.responses.stream(model="gpt-5.6", input=items, tools=tools, instructions="be brief") as stream:
        told = stream.get_final_response()
    assert [item.type for item in told.output] == [item.type for item in first.output]
    assert told.usage == first.usage
    items += [item.to_dict() for item in first.output]
    items += [{"type": "function_call_output", "call_id": call.call_id, "output": "42"}]
    with gpt.responses.stream(model="gpt-5.6", input=items, tools=tools) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert final.output_text == "It says: 42"
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"
    assert final.usage is not None
    assert final.usage.total_tokens == final.usage.input_tokens + final.usage.output_tokens


def test_openai_responses_refuse_open_calls_and_held_state(gpt: openai.OpenAI) -> None:
    open_call: Any = [{"type": "function_call", "call_id": "c", "name": "read", "arguments": "{}"}]
    with pytest.raises(openai.BadRequestError, match="No tool output found for function call c"):
        gpt.responses.create(model="gpt-5.6", input=open_call)
    stray: Any = [{"type": "function_call_output", "call_id": "c", "output": "x"}]
    with pytest.raises(openai.BadRequestError, match="No tool call found for function call output"):
        gpt.responses.create(model="gpt-5.6", input=stray)
    strange: Any = [{"type": "telepathy"}]
    with pytest.raises(openai.BadRequestError, match="Invalid value: 'telepathy'"):
        gpt.responses.create(model="gpt-5.6", input=strange)
    with pytest.raises(openai.NotFoundError, match="`no-such` does not exist"):
        gpt.responses.create(model="no-such", input="hi")
    with pytest.raises(openai.BadRequestError, match="Missing required parameter: 'input'"):
        gpt.responses.create(model="gpt-5.6")
    with pytest.raises(openai.BadRequestError, match="previous_response_id"):
        gpt.responses.create(model="gpt-5.6", input="hi", previous_response_id="resp_1")


def test_openai_lists_models(gpt: openai.OpenAI) -> None:
    assert "gpt-5" in [model.id for model in gpt.models.list()]
    assert gpt.models.retrieve("gpt-5").owned_by == "simulated"


def test_openai_works_asynchronously(url: str) -> None:
    async def talk() -> tuple[str | None, str]:
        said: Any = [{"role": "user", "content": "hi"}]
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY) as client:
            whole = await client.chat.completions.create(model="gpt-5", messages=said)
            stream = await client.chat.completions.create(model="gpt-5", messages=said, stream=True)
            words = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
            return whole.choices[0].message.content, words

    whole, streamed = asyncio.run(talk())
    assert whole == streamed
