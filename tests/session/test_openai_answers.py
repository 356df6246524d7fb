"""What OpenAI's APIs answer, in every shape a program may hold it, and what their callers hand in."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import openai
import pytest
from msgspec.structs import replace

import sevenfold
from sevenfold.conversation.request import provider_says
from sevenfold.errors import InputError
from sevenfold.events import Answered, CacheBroke
from sevenfold.providers.openai.client import RESPONSES, OpenAIClient
from sevenfold.record import blocks
from sevenfold.record.decisions import Request
from tests.session.openai_talking import (
    KEY,
    PARAMETERS,
    READ,
    World,
    ask,
    both,
    completion,
    go_on,
    response,
    said,
    started,
    world,
)

# What the provider says about its cache


@pytest.mark.spec("S17.20", "S8.11")
@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
def test_what_openai_says_about_a_miss_stands_beside_our_own_cause(streams: bool) -> None:
    with world() as here:
        client = OpenAIClient(here.sdk, stream=streams)
        with here.session("responses", client=client) as session:
            session.conversation.diagnoses = True
            session.user("begin")
            go_on(session, session.complete())
            go_on(session, session.complete())
            asked = [body.get("prompt_cache_options") for body in here.bodies]
            first = next(event.response for event in here.events if isinstance(event, Answered))
            assert asked == [None, {"comparison_response_id": first}]
            assert not [event for event in here.events if isinstance(event, CacheBroke)]
            epoch = session.conversation.epoch
            session.conversation.set_epoch(replace(epoch, frame=replace(epoch.frame, tools=())))
            session.complete()
            (broke,) = [event for event in here.events if isinstance(event, CacheBroke)]
            assert broke.cause == "tool"
            assert broke.provider_says.startswith("tools changed, ")
            requests = [made for _, made in session.conversation.transcript.log.decisions(Request)]
            second = next(made for made in requests if made.number == 1)
            assert (
                bytes(second.parameters["diagnostics"]) == b'{"previous_message_id":"%b"}' % first.encode()
            )


@pytest.mark.spec("S17.20")
@pytest.mark.parametrize(
    ("report", "told"),
    [
        ({"type": "cache_hit"}, ""),
        ({"type": "unavailable"}, "unavailable"),
        ({"type": "comparison_response_not_found"}, "comparison response not found"),
        (
            {"type": "cache_miss", "reason": "context_compacted", "cache_missed_tokens": 4_100},
            "context compacted, 4,100 tokens",
        ),
        ({"type": "cache_miss"}, "cache miss"),
        (["nonsense"], ""),
        (None, ""),
    ],
)
def test_every_report_on_the_cache_is_read_and_none_spoils_the_answer(report: Any, told: str) -> None:
    body = json.dumps(
        response(said({"type": "output_text", "text": "Yes."}), prompt_cache_diagnostics=report)
    )
    reply = RESPONSES.read(body.encode())
    assert blocks.text_of(reply.answer.blocks) == "Yes."
    assert provider_says(bytes(reply.diagnostics)) == told


# Taking answers in


@pytest.mark.spec("S9.7", "S8.4")
@both
@pytest.mark.parametrize(
    "shape", ["object", "dict", "bytes", "text", "events", "dicts", "stream", "helper"]
)
def test_an_answer_may_come_in_any_shape(wire: str, shape: str) -> None:
    with world() as here, here.session(wire, tools=[]) as session:
        session.user("begin")
        request = session.prepare()
        done = session.observe(_shaped(here.sdk, request, shape))
        assert (done.text, [call.input for call in done.calls]) == (
            "Part 1.",
            [{"path": "a"}, {"path": "b"}],
        )
        assert done.stop_reason == "tool_use"
        assert done.outcome.usage.prompt == _billed(here)
        go_on(session, done)
        again = session.prepare()
        session.observe(ask(here.sdk, again))
        assert done.outcome.usage.prompt < session.why(-1).actual_tokens  # type: ignore[operator]


def _shaped(sdk: Any, request: Any, shape: str) -> Any:
    home = sdk.responses if request.wire == "responses" else sdk.chat.completions
    match shape:
        case "object":
            return home.create(**request)
        case "dict":
            return home.create(**request).to_dict()
        case "bytes":
            return home.with_raw_response.create(**request).content
        case "text":
            return home.with_raw_response.create(**request).content.decode()
        case "events":
            return list(ask(sdk, request, stream=True))
        case "dicts":
            return [one.to_dict() for one in ask(sdk, request, stream=True)]
        case "stream":
            return ask(sdk, request, stream=True)
    more = {"stream_options": {"include_usage": True}} if request.wire == "chat" else {}
    with home.stream(**request, **more) as stream:
        for _ in stream:
            pass
    return stream


def _billed(here: World) -> int:
    usage: Any = here.simulator.requests[-1].usage
    return int(usage.get("prompt_tokens") or usage["input_tokens"])


@pytest.mark.spec("S9.7", "S9.6")
@both
def test_cached_tokens_stand_beside_the_prompt(wire: str) -> None:
    with world() as here, here.session(wire) as session:
        session.user("begin")
        go_on(session, session.observe(ask(here.sdk, session.prepare())))
        done = session.observe(ask(here.sdk, session.prepare(), stream=True))
        usage = done.outcome.usage
        assert usage.cache_read_input_tokens >= 1_024
        assert usage.input_tokens + usage.cache_read_input_tokens == _billed(here)


@pytest.mark.spec("S9.7")
def test_a_completion_is_taken_in_by_a_session_whose_requests_have_another_shape() -> None:
    for model in ("gpt-5.6", "claude-sonnet-5-5"):
        with started(model=model) as session:
            done = session.observe(completion({"content": "IMPORTANT"}))
            usage = done.outcome.usage
            assert (done.text, done.stop_reason) == ("IMPORTANT", "end_turn")
            assert (usage.prompt, usage.cache_read_input_tokens, usage.output_tokens) == (900, 640, 7)
    with started(model="gpt-5") as session:
        block = {"type": "text", "text": "hello"}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [block]}
        assert session.observe({**message, "model": "m", "stop_reason": "end_turn"}).text == "hello"


@pytest.mark.spec("S9.7")
@pytest.mark.parametrize(
    ("reply", "text", "stop"),
    [
        (completion({"content": "I was"}, "length"), "I was", "max_tokens"),
        (completion({"refusal": "No."}), "No.", "refusal"),
        (completion({"content": None}, "content_filter"), "", "refusal"),
        (
            response(
                said({"type": "output_text", "text": "I was"}),
                status="incomplete",
                incomplete_details={"reason": "max_output_tokens"},
            ),
            "I was",
            "max_tokens",
        ),
        (response(said({"type": "refusal", "refusal": "No."})), "No.", "refusal"),
    ],
)
def test_why_an_answer_ended_is_known(reply: dict[str, Any], text: str, stop: str) -> None:
    with started() as session:
        done = session.observe(reply)
        assert (done.text, done.stop_reason) == (text, stop)


FOREIGN: list[tuple[Any, str]] = [
    ({}, "fields none is not an answer"),
    ([], "the list is empty"),
    ({"role": "assistant", "content": "hi"}, "fields role, content is not an answer"),
    ({"object": "list", "data": []}, "a list is not an answer"),
    ({"type": "message", "id": "msg_1"}, "a message is not an answer"),
    (completion({}, choices=[]), "no choice with a message"),
    ({"object": "text_completion", "choices": [{"text": "hi"}]}, "a text_completion is not an answer"),
    ({"choices": [{"text": "hi"}]}, "no choice with a message"),
    (completion({}, object="chat.completion.chunk"), "a chat.completion.chunk is not an answer"),
    ({"error": {"message": "no such thing", "type": "invalid_request_error"}}, r"an error.*no such thing"),
    ({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, r"an error.*busy"),
    (response(status="failed", error={"code": "server_error", "message": "broke"}), r"an error.*broke"),
    (response(status="in_progress"), "its status is in_progress"),
    (response(output=None), "it has no output"),
    (b"<html>", "cannot be read as an answer"),
    (7, "a int is not an answer"),
    (object(), "a object is not an answer"),
    (type("Row", (), {"to_dict": lambda row: {}})(), "a Row is not an answer"),
    ([{"type": "ping"}], "a ping is not an answer"),
    ([object()], "a object is not an answer"),
]


@pytest.mark.spec("S9.7", "S8.4")
@pytest.mark.parametrize(("reply", "words"), FOREIGN, ids=[words for _, words in FOREIGN])
def test_what_is_no_answer_is_refused_and_the_request_still_waits(reply: Any, words: str) -> None:
    with started() as session:
        with pytest.raises(InputError, match=words):
            session.observe(reply)
        assert session.observe(completion({"content": "here"})).text == "here"


@pytest.mark.spec("S8.5", "S9.7")
@both
def test_of_a_stream_that_broke_off_what_is_whole_is_kept(wire: str) -> None:
    with world() as here, here.session(wire) as session:
        session.user("begin")
        events = list(ask(here.sdk, session.prepare(), stream=True))
        half = events[: next(place for place, one in enumerate(events) if "call_1_a" in one.to_json()) + 1]
        with pytest.raises(InputError, match="pass partial=True"):
            session.observe(half)
        done = session.observe(half, partial=True)
        assert (done.text, done.calls) == ("Part 1.", ())
        session.user("go on")
        session.observe(ask(here.sdk, session.prepare()))


@pytest.mark.spec("S8.4")
def test_names_nobody_gave_are_those_our_own_client_would_make() -> None:
    call = {"type": "function", "function": {"name": "read", "arguments": "{}"}}
    nameless = completion({"content": None, "tool_calls": [call]}, "tool_calls", id=None)
    found = []
    for _ in range(2):
        with started() as session:
            found.append(session.observe(nameless).calls[0].id)
    assert found[0] == found[1]
    transport = httpx2.MockTransport(lambda request: httpx2.Response(200, json=nameless))
    sdk = openai.OpenAI(
        api_key=KEY, http_client=httpx2.Client(transport=transport), base_url="https://api.openai.com/v1"
    )
    with sevenfold.Session.in_memory(model="gpt-5", client=sdk) as session:
        session.user("begin")
        assert session.complete().calls[0].id == found[0]
    sdk.close()


# Tools and results


@pytest.mark.spec("S9.7", "S2.1")
def test_a_tool_may_be_given_in_the_shape_of_any_api() -> None:
    schema = {"name": "read", "description": "reads", "input_schema": PARAMETERS}
    flat = {"type": "function", "name": "read", "description": "reads", "parameters": PARAMETERS}
    bodies = set()
    for shape in (schema, READ, flat):
        for given in (shape, sevenfold.tool(shape, kind="read")):
            with sevenfold.Session.in_memory(model="claude-sonnet-5-5", tools=[given]) as session:
                session.user("hi")
                [made] = session.prepare()["tools"]
                bodies.add(json.dumps({name: made[name] for name in schema}))
                assert session.conversation.kinds == {"read": "" if given is shape else "read"}
    assert bodies == {json.dumps(schema)}


def test_a_function_may_have_no_parameters_and_must_have_a_name() -> None:
    bare = sevenfold.tool({"type": "function", "function": {"name": "now", "strict": True}})
    empty = {"type": "object", "properties": {}}
    assert bare.schema == {"name": "now", "input_schema": empty, "strict": True}
    for wrong in ({"type": "function"}, {"type": "function", "function": "now"}):
        with pytest.raises(InputError, match='a tool of type "function" has a name'):
            sevenfold.tool(wrong)


@pytest.mark.spec("S9.7", "S1.1")
def test_results_may_be_given_in_the_shape_of_any_api() -> None:
    names = [f"call_{letter}" for letter in "abcde"]
    calls = [
        {"id": name, "type": "function", "function": {"name": "read", "arguments": "{}"}} for name in names
    ]
    with started(tools=[READ]) as session:
        session.observe(completion({"content": None, "tool_calls": calls}, "tool_calls"))
        given: list[Any] = [
            {"role": "tool", "tool_call_id": "call_a", "content": "one"},
            [{"role": "tool", "tool_call_id": "call_b", "content": [{"type": "text", "text": "two"}]}],
            {
                "type": "function_call_output",
                "call_id": "call_c",
                "output": [{"type": "input_text", "text": "three"}],
            },
            {"type": "tool_result", "tool_use_id": "call_d", "content": "four"},
            {"call_e": "five"},
        ]
        left = [session.tool_results(one) for one in given]
        assert left == [names[place:] for place in range(1, 6)]
        told = [one["content"] for one in session.prepare()["messages"] if one["role"] == "tool"]
        assert told == ["one", "two", "three", "four", "five"]


def test_pictures_may_be_given_as_openais_apis_have_them() -> None:
    held = "data:image/png;base64,aGk="
    with sevenfold.Session.in_memory(model="gpt-5") as session:
        session.user(
            [
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": held}},
                {"type": "input_image", "image_url": "https://x/y.png"},
            ]
        )
        [message] = session.prepare()["messages"]
        assert [part.get("image_url", {}).get("url") for part in message["content"]] == [
            None,
            held,
            "https://x/y.png",
        ]
