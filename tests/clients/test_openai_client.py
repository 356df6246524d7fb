"""What servers that speak OpenAI's APIs send becomes an answer of the Messages API, however they differ."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import msgspec
import openai
import pytest

from sevenfold.errors import NotAuthenticated, Overloaded, PromptTooLong, ProviderFailed
from sevenfold.ports import Call, Piece, Reply
from sevenfold.providers.failures import transport_of
from sevenfold.providers.openai.client import AsyncOpenAIClient, OpenAIClient
from sevenfold.record.blocks import words_of
from sevenfold.record.usage import Usage
from tests.clients.asking import KEY, SAID, TOOLS, Provider, body, event, words
from tests.clients.asking import answering as any_answering

HTTP = transport_of(openai)
answering = partial(any_answering, http=HTTP)
DONE = b"data: [DONE]\n\n"


def client(transport: Any, url: str = "http://mocked/v1", **dialect: Any) -> OpenAIClient:
    http = HTTP.Client(transport=transport)
    return OpenAIClient(
        openai.OpenAI(api_key=KEY, base_url=url, http_client=http, max_retries=0), **dialect
    )


def chunk(delta: Any = None, reason: str | None = None, **fields: Any) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": reason}]
    return event({"id": "chatcmpl-0123456789abcdef", "model": "local", "choices": choices, **fields})


def called(index: int | None, name: str | None, arguments: str, id_: str | None = None) -> dict[str, Any]:
    function = {
        key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None
    }
    made = {"index": index, "id": id_, "function": function}
    return {"tool_calls": [{key: value for key, value in made.items() if value is not None}]}


def heard(*chunks: bytes, model: str = "local", **dialect: Any) -> Reply:
    return client(answering(*chunks), **dialect).ask(Call(body(model)))


def contents(reply: Reply) -> list[Any]:
    return [msgspec.json.decode(block.raw) for block in reply.answer.blocks]


def test_reasoning_text_and_calls_become_blocks_in_that_order() -> None:
    reply = heard(
        chunk({"role": "assistant", "content": None, "reasoning_content": "hm"}),
        chunk({"content": "Let me "}),
        chunk({"content": "see."}),
        chunk(called(0, "Read", "", "call_a")),
        chunk(called(0, None, '{"path": ')),
        chunk(called(1, "Read", '{"path":"b"}', "call_b")),
        chunk(called(0, None, '"a"}')),
        chunk({}, "tool_calls"),
        DONE,
    )
    assert contents(reply) == [
        {"type": "thinking", "thinking": "hm", "signature": ""},
        {"type": "text", "text": "Let me see."},
        {"type": "tool_use", "id": "call_a", "name": "Read", "input": {"path": "a"}},
        {"type": "tool_use", "id": "call_b", "name": "Read", "input": {"path": "b"}},
    ]
    assert reply.answer.stop_reason == "tool_use"
    assert reply.answer.id == "chatcmpl-0123456789abcdef"


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("stop", "end_turn"), ("length", "max_tokens"), ("content_filter", "refusal"), ("eos", "end_turn")],
)
def test_the_reason_for_stopping_is_translated(reason: str, expected: str) -> None:
    assert heard(chunk({"content": "so"}), chunk({}, reason), DONE).answer.stop_reason == expected


def test_a_call_is_a_reason_to_stop_even_if_the_server_does_not_say_so() -> None:
    reply = heard(chunk(called(0, "Read", "{}", "call_a")), chunk({}, "stop"), DONE)
    assert reply.answer.stop_reason == "tool_use"


def test_a_refusal_is_heard() -> None:
    reply = heard(chunk({"refusal": "No."}), chunk({}, "stop"), DONE)
    assert (words(reply.answer), reply.answer.stop_reason) == ("No.", "refusal")


def test_calls_that_all_have_the_same_number_are_told_apart_by_id() -> None:
    reply = heard(
        chunk(called(0, "Read", '{"path":"a"}', "call_a")),
        chunk(called(0, "Read", '{"path":"b"}', "call_b")),
        chunk({}, "tool_calls"),
        DONE,
    )
    assert [(block["id"], block["input"]["path"]) for block in contents(reply)] == [
        ("call_a", "a"),
        ("call_b", "b"),
    ]


def test_calls_without_a_number_follow_each_other() -> None:
    reply = heard(
        chunk(called(None, "Read", '{"path":', "call_a")),
        chunk(called(None, None, '"a"}')),
        chunk(called(None, "Read", '{"path":"b"}', "call_b")),
        chunk({}, "tool_calls"),
        DONE,
    )
    assert [(block["id"], block["input"]["path"]) for block in contents(reply)] == [
        ("call_a", "a"),
        ("call_b", "b"),
    ]


def test_names_nobody_gave_are_made_from_the_request_and_are_the_same_each_time() -> None:
    stream = [
        event({"id": "chatcmpl-7", "choices": [{"delta": called(None, "Read", "{}")}]}),
        event({"id": "chatcmpl-7", "choices": [{"delta": {}, "finish_reason": "tool_calls"}]}),
        DONE,
    ]
    first, second = heard(*stream), heard(*stream)
    other = client(answering(*stream)).ask(Call(body("local", system="other")))
    assert first.answer == second.answer
    assert first.answer.blocks[0].id
    assert first.answer.id.startswith("chatcmpl-7-")
    assert len({first.answer.id, other.answer.id}) == 2
    assert len({first.answer.blocks[0].id, other.answer.blocks[0].id}) == 2


def test_cached_tokens_stand_beside_the_fresh_ones() -> None:
    counts = {
        "prompt_tokens": 100,
        "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 20},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    reply = heard(chunk({"content": "so"}), chunk({}, "stop"), chunk(usage=counts), DONE)
    reported = msgspec.json.decode(reply.answer.usage, type=dict)
    usage = Usage.of(reported)
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.cache_creation_5m) == (16, 64, 20)
    assert (usage.prompt, usage.output_tokens) == (100, 7)
    assert reported["output_tokens_details"] == {"thinking_tokens": 3}


@pytest.mark.parametrize(
    "counts",
    [
        {"prompt_tokens": "12", "completion_tokens": 3.0},
        {"prompt_tokens": -1, "completion_tokens": True},
        {"prompt_tokens": [1], "prompt_tokens_details": "none"},
        {"prompt_tokens_details": [], "completion_tokens_details": {"reasoning_tokens": {}}},
        "unknown",
        [],
    ],
)
def test_no_answer_is_lost_for_a_report_that_is_no_count(counts: Any) -> None:
    reply = heard(chunk({"content": "so"}, usage=counts), chunk({}, "stop", usage=counts), DONE)
    assert [words_of(block) for block in reply.answer.blocks] == ["so"]
    assert Usage.of(msgspec.json.decode(reply.answer.usage, type=dict)) == Usage()


def test_a_server_that_does_not_count_is_no_trouble() -> None:
    reply = heard(chunk({"content": "so"}), chunk({}, "stop"), DONE)
    assert Usage.of(msgspec.json.decode(reply.answer.usage, type=dict)).prompt == 0


def test_arguments_that_are_no_object_are_kept_as_text() -> None:
    reply = heard(chunk(called(0, "Read", '{"path": "a', "call_a")), chunk({}, "length"), DONE)
    assert contents(reply)[0]["input"] == {"INVALID_JSON": '{"path": "a'}


def test_an_error_in_the_stream_keeps_the_text_and_the_calls_that_were_followed() -> None:
    error = event({"error": {"message": "The server is busy", "type": "overloaded_error", "code": 503}})
    with pytest.raises(Overloaded) as raised:
        heard(
            chunk({"reasoning": "hm"}),
            chunk({"content": "so"}),
            chunk(called(0, "Read", '{"path":"a"}', "call_a")),
            chunk(called(1, "Read", '{"path":', "call_b")),
            error,
        )
    partial: Any = raised.value.partial
    assert [block.kind for block in partial.blocks] == ["thinking", "text", "tool_use"]
    assert partial.blocks[-1].id == "call_a"
    assert partial.stop_reason is None


def test_reasoning_that_nothing_followed_is_not_kept() -> None:
    with pytest.raises(ProviderFailed) as raised:
        heard(chunk({"reasoning_content": "hm, cut in the mid"}))
    partial: Any = raised.value.partial
    assert partial.blocks == ()


def test_a_stream_without_the_mark_at_its_end_is_whole_once_the_reason_has_come() -> None:
    assert words(heard(chunk({"content": "so"}), chunk({}, "stop")).answer) == "so"


def test_nothing_at_all_is_a_failure_of_the_provider() -> None:
    with pytest.raises(ProviderFailed):
        heard(DONE)


def test_a_chunk_that_cannot_be_is_a_failure_of_the_provider() -> None:
    with pytest.raises(ProviderFailed, match="cannot be read") as raised:
        heard(chunk({"content": "so"}), b'data: {"choices":[{"del\n\n')
    assert words(raised.value.partial) == "so"


# What goes out


def test_openai_itself_is_told_the_room_for_an_answer_by_its_newer_name() -> None:
    for url, name in (
        ("https://api.openai.com/v1", "max_completion_tokens"),
        ("http://mocked/v1", "max_tokens"),
    ):
        transport = answering(chunk({"content": "so"}), chunk({}, "stop"), DONE)
        client(transport, url).ask(Call(body("gpt-5")))
        assert msgspec.json.decode(transport.sent[0].content)[name] == 1_000


def test_the_profile_chooses_the_api_unless_the_caller_does(provider: Provider) -> None:
    given: dict[str, Any] = {"api_key": KEY, "base_url": f"{provider.url}/v1"}
    cases: list[tuple[str, Literal["chat", "responses"] | None, str]] = [
        ("gpt-5", None, "/v1/chat/completions"),
        ("gpt-5.6", None, "/v1/responses"),
        ("gpt-5.6", "chat", "/v1/chat/completions"),
        ("gpt-5", "responses", "/v1/responses"),
    ]
    for model, api, path in cases:
        assert words(OpenAIClient(**given, api=api).ask(Call(body(model, tools=TOOLS))).answer) == SAID
        assert provider.simulator.requests[-1].path == path


def test_thinking_goes_back_in_the_field_the_server_has_for_it() -> None:
    transport = answering(chunk({"content": "so"}), chunk({}, "stop"), DONE)
    thought = {"type": "thinking", "thinking": "hm", "signature": ""}
    talk = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [thought, {"type": "text", "text": "ok"}]},
        {"role": "user", "content": "more"},
    ]
    client(transport, reasoning_field="reasoning_content").ask(Call(body("local", messages=talk)))
    assert msgspec.json.decode(transport.sent[0].content)["messages"][1]["reasoning_content"] == "hm"


def test_a_growing_talk_is_read_from_the_servers_cache(provider: Provider) -> None:
    asking = OpenAIClient(api_key=KEY, base_url=f"{provider.url}/v1")
    provider.says(SAID)
    talk: list[Any] = [{"role": "user", "content": "words to fill the cache with " * 400}]
    shares = []
    for _ in range(3):
        answer = asking.ask(Call(body("gpt-5", messages=talk))).answer
        usage = Usage.of(msgspec.json.decode(answer.usage, type=dict))
        shares.append(usage.cache_read_input_tokens / usage.prompt)
        content = [msgspec.Raw(block.raw) for block in answer.blocks]
        talk = [*talk, {"role": "assistant", "content": content}, {"role": "user", "content": "more"}]
    assert shares[0] == 0
    assert min(shares[1:]) > 0.8


# The Responses API


def responding(*events: Any) -> Reply:
    return heard(*map(event, events), model="gpt-5.6")


def test_encrypted_reasoning_is_kept_and_goes_back_as_it_came() -> None:
    item = {"type": "reasoning", "id": "rs_1", "encrypted_content": "xyz", "summary": []}
    said = {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "so"}]}
    reply = responding(
        {"type": "response.created", "response": {"id": "resp_1", "model": "gpt-5.6"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 1, "item": said},
        {
            "type": "response.completed",
            "response": {"id": "resp_1", "model": "gpt-5.6", "status": "completed"},
        },
    )
    assert contents(reply)[0] == {"type": "redacted_thinking", "data": "xyz", "id": "rs_1"}
    transport = answering(
        event({"type": "response.completed", "response": {"id": "r", "status": "completed"}})
    )
    talk = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": contents(reply)},
        {"role": "user", "content": "more"},
    ]
    client(transport).ask(Call(body("gpt-5.6", messages=talk)))
    sent = msgspec.json.decode(transport.sent[0].content)
    assert item in sent["input"]
    assert sent["include"] == ["reasoning.encrypted_content"]


def test_a_response_that_failed_is_an_error_with_what_was_said() -> None:
    begun = [
        {"type": "response.created", "response": {"id": "resp_1"}},
        {"type": "response.output_text.delta", "output_index": 0, "delta": "so"},
    ]
    error = {"code": "context_length_exceeded", "message": "Your input exceeds the context window"}
    ended = {"type": "response.failed", "response": {"id": "resp_1", "status": "failed", "error": error}}
    for last in (ended, {"type": "error", **error}):
        with pytest.raises(PromptTooLong) as raised:
            responding(*begun, last)
        assert words(raised.value.partial) == "so"


@pytest.mark.parametrize(
    ("reason", "expected"), [("max_output_tokens", "max_tokens"), ("content_filter", "refusal")]
)
def test_an_incomplete_response_says_why_it_stopped(reason: str, expected: str) -> None:
    response = {"id": "resp_1", "status": "incomplete", "incomplete_details": {"reason": reason}}
    reply = responding({"type": "response.incomplete", "response": response})
    assert reply.answer.stop_reason == expected


def test_a_summary_of_the_reasoning_can_be_watched() -> None:
    seen: list[Piece] = []
    events = [
        {"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "hm"},
        {"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}},
    ]
    client(answering(*map(event, events))).ask(Call(body("gpt-5.6")), seen.append)
    assert seen == [Piece("thinking", "hm")]


# Keys


@pytest.mark.parametrize("made", [OpenAIClient, AsyncOpenAIClient])
def test_without_a_key_one_line_says_what_to_do(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(NotAuthenticated) as raised:
        made()
    assert "OPENAI_API_KEY" in str(raised.value)
    assert "sevenfold simulate" in str(raised.value)


def test_a_server_of_ones_own_needs_no_key(monkeypatch: pytest.MonkeyPatch, provider: Provider) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    provider.simulator.setup = msgspec.structs.replace(provider.simulator.setup, api_key=None)
    assert words(OpenAIClient(base_url=f"{provider.url}/v1").ask(Call(body("gpt-5"))).answer) == SAID
