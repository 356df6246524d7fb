"""A program that sends requests itself with OpenAI's SDK: both APIs, waiting or not, whole or streamed."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from msgspec.structs import replace

import sevenfold
from sevenfold.errors import InputError
from sevenfold.events import SteppedAside
from sevenfold.lab.simulator.provider import Setup
from sevenfold.profiles import find
from sevenfold.providers.anthropic import AnthropicClient
from sevenfold.providers.openai.client import OpenAIClient
from tests.session.openai_talking import (
    KEY,
    MODELS,
    PARAMETERS,
    READ,
    World,
    ask,
    asked,
    both,
    completion,
    go_on,
    response,
    results,
    said,
    started,
    world,
)

# Sending


pytestmark = pytest.mark.usefixtures("compactions_of_any_size")


@pytest.mark.spec("S9.7")
@both
def test_the_request_goes_into_the_sdks_plain_method_whole_or_streamed(wire: str) -> None:
    with world() as here, here.session(wire) as session:
        session.user("begin")
        for turn in range(6):
            request = session.prepare()
            assert request.wire == wire
            go_on(session, session.observe(ask(here.sdk, request, stream=bool(turn % 2))))
            assert asked(here.bodies[-1]) == json.loads(request.body) == json.loads(session.at(-1))
        assert session.gauge.requests == len(here.taken) == 6


@pytest.mark.spec("S9.7", "S8.4")
@both
def test_our_own_client_sends_the_same_bytes(wire: str) -> None:
    """The same conversation twice: once in an own loop by bytes, once with `complete`."""
    with world() as here, here.session(wire) as session:
        session.user("begin")
        for _ in range(5):
            request = session.prepare()
            path = "/responses" if wire == "responses" else "/chat/completions"
            headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
            came = httpx2.post(here.url + path, content=request.body, headers=headers | request.headers)
            assert came.status_code == 200, came.text
            go_on(session, session.observe(came.content))
        by_hand = [request.raw for request in here.taken]
    with world() as here:
        ours = OpenAIClient(here.sdk, stream=False)
        with here.session(wire, client=ours) as session:
            session.user("begin")
            for _ in range(5):
                go_on(session, session.complete())
        by_client = [request.raw for request in here.taken]
    assert by_hand == by_client
    assert len(by_hand) == 5


@pytest.mark.spec("S9.7")
def test_a_chat_request_is_written_like_this() -> None:
    with started(tools=[READ], system="Be brief.", max_tokens=50, client=None) as session:
        session.observe(
            completion(
                {
                    "content": "I look.",
                    "tool_calls": [
                        {
                            "id": "call_1",
                            "type": "function",
                            "function": {"name": "read", "arguments": "{}"},
                        }
                    ],
                },
                "tool_calls",
            )
        )
        session.tool_results({"role": "tool", "tool_call_id": "call_1", "content": "x = 1"})
        assert (
            session.prepare().body
            == json.dumps(
                {
                    "model": "gpt-5",
                    "messages": [
                        {"role": "system", "content": "Be brief."},
                        {"role": "user", "content": "begin"},
                        {
                            "role": "assistant",
                            "content": "I look.",
                            "tool_calls": [
                                {
                                    "id": "call_1",
                                    "type": "function",
                                    "function": {"name": "read", "arguments": "{}"},
                                }
                            ],
                        },
                        {"role": "tool", "tool_call_id": "call_1", "content": "x = 1"},
                    ],
                    "tools": [
                        {
                            "type": "function",
                            "function": {"name": "read", "parameters": PARAMETERS, "description": "reads"},
                        }
                    ],
                    "max_completion_tokens": 50,
                    "prompt_cache_key": session.conversation.cache_key,
                },
                separators=(",", ":"),
            ).encode()
        )


@pytest.mark.spec("S9.7")
def test_a_responses_request_is_written_like_this_and_reasoning_goes_back_as_it_came() -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "encrypted_content": "c2VhbGVk", "summary": []}
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read", "arguments": "{}"}
    with started(model="gpt-5.6", tools=[READ], system="Be brief.", max_tokens=50) as session:
        session.observe(response(reasoning, said({"type": "output_text", "text": "I look."}), call))
        session.tool_results([{"type": "function_call_output", "call_id": "call_1", "output": "x = 1"}])
        assert (
            session.prepare().body
            == json.dumps(
                {
                    "model": "gpt-5.6",
                    "store": False,
                    "prompt_cache_key": session.conversation.cache_key,
                    "include": ["reasoning.encrypted_content"],
                    "instructions": "Be brief.",
                    "tools": [
                        {
                            "type": "function",
                            "strict": False,
                            "name": "read",
                            "parameters": PARAMETERS,
                            "description": "reads",
                        }
                    ],
                    "max_output_tokens": 50,
                    "input": [
                        {"role": "user", "content": [{"type": "input_text", "text": "begin"}]},
                        {"type": "reasoning", "id": "rs_1", "encrypted_content": "c2VhbGVk", "summary": []},
                        {"role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
                        {"type": "function_call", "call_id": "call_1", "name": "read", "arguments": "{}"},
                        {"type": "function_call_output", "call_id": "call_1", "output": "x = 1"},
                    ],
                },
                separators=(",", ":"),
            ).encode()
        )


@pytest.mark.spec("S9.7")
def test_reasoning_the_provider_sealed_is_sent_back_and_accepted() -> None:
    with world() as here, here.session("responses") as session:
        session.user("begin")
        for _ in range(4):
            go_on(session, session.observe(ask(here.sdk, session.prepare())))
        kinds = [item.get("type", "message") for item in here.bodies[-1]["input"]]
        assert kinds.count("reasoning") == 3
        for before, now in pairwise(here.bodies):
            assert now["input"][: len(before["input"])] == before["input"]


@pytest.mark.spec("S8.4", "S9.7")
@both
def test_a_session_that_is_opened_again_writes_the_same_request(wire: str, tmp_path: Path) -> None:
    with world() as here:
        with here.open(tmp_path / "s.jsonl", wire) as session:
            session.user("begin")
            go_on(session, session.observe(ask(here.sdk, session.prepare())))
            go_on(session, session.observe(ask(here.sdk, session.prepare(), stream=True)))
            before = session.prepare().body
        with here.open(tmp_path / "s.jsonl", wire) as session:
            assert session.prepare().body == before
            session.observe(ask(here.sdk, session.prepare()))


# Which API


@pytest.mark.spec("S9.7")
def test_the_client_decides_the_api_then_the_program_then_the_model() -> None:
    with world() as here:
        theirs = anthropic.Anthropic(api_key=KEY)
        cases: list[tuple[str, dict[str, Any], str]] = [
            ("gpt-5", {}, "chat"),
            ("gpt-5.6", {}, "responses"),
            ("claude-sonnet-5-5", {}, "messages"),
            ("gpt-5.6", {"wire": "chat"}, "chat"),
            ("gpt-5", {"wire": "responses", "client": here.sdk}, "responses"),
            ("gpt-5.6", {"client": OpenAIClient(here.sdk, api="chat")}, "chat"),
            ("some-model", {"client": theirs}, "messages"),
            ("some-model", {"client": AnthropicClient(theirs)}, "messages"),
            ("some-model", {"wire": "messages"}, "messages"),
        ]
        for model, options, wire in cases:
            with sevenfold.Session.in_memory(model=model, **options) as session:
                session.user("hi")
                assert session.prepare().wire == wire, (model, options)
        theirs.close()


@pytest.mark.spec("S9.7", "S9.2")
def test_a_model_behind_another_api_than_its_own_is_asked_for_nothing_only_its_own_has() -> None:
    with world() as here, here.session("chat", model="claude-sonnet-5-5") as session:
        session.user("begin")
        for turn in range(4):
            go_on(session, session.observe(ask(here.sdk, session.prepare(), stream=bool(turn % 2))))
        assert set(here.bodies[0]) == {"model", "messages", "tools", "max_tokens"}
        assert session.compact() is not None
        assert session.complete().text


@pytest.mark.parametrize(
    ("wire", "words"), [("messages", "the client given speaks chat"), ("soap", "one of messages, chat")]
)
def test_an_api_the_client_does_not_speak_is_refused_and_holds_no_lock(
    wire: Any, words: str, tmp_path: Path
) -> None:
    with world() as here:
        for _ in range(2):
            with pytest.raises(InputError, match=words):
                here.open(tmp_path / "s.jsonl", "chat", wire=wire)
        with here.open(tmp_path / "s.jsonl", "chat") as session:
            assert session.user("hi")


@pytest.mark.parametrize(("url", "room"), [(None, "max_completion_tokens"), ("http://x/v1", "max_tokens")])
def test_the_room_for_an_answer_is_called_what_the_server_calls_it(
    url: str | None, room: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    if url:
        monkeypatch.setenv("OPENAI_BASE_URL", url)
    with sevenfold.Session.in_memory(model="gpt-5", max_tokens=50) as session:
        session.user("hi")
        assert session.prepare()[room] == 50


# Failures


@pytest.mark.spec("S4.13", "S9.7")
@both
def test_a_prompt_that_is_too_long_is_made_shorter(wire: str) -> None:
    model = MODELS[wire]
    setup = Setup(models={model: replace(find(model), window=12_000)})
    settings = {"offload": False, "size_keep": 1, "notes": False}
    with world(setup=setup) as here, here.session(wire, settings=settings) as session:
        session.user("begin")
        for _ in range(30):
            try:
                reply = ask(here.sdk, session.prepare())
            except openai.BadRequestError as error:
                refused = error
                break
            done = session.observe(reply)
            if done.calls:
                session.tool_results(results(done, "def f(): return 1\n" * 200))
            else:
                session.user("Go on.")
        assert refused.code == "context_length_exceeded"
        assert session.failed(refused)
        session.observe(ask(here.sdk, session.prepare()))


@pytest.mark.spec("S8.5")
def test_other_errors_of_the_sdk_are_the_callers() -> None:
    with world(setup=Setup(api_key=KEY)) as here, here.session("chat") as session:
        session.user("begin")
        request = session.prepare()
        wrong = openai.OpenAI(api_key="wrong", base_url=here.url, max_retries=0)
        nowhere = openai.OpenAI(api_key=KEY, base_url="http://127.0.0.1:9/v1", max_retries=0)
        for sdk in (wrong, nowhere):
            with pytest.raises(openai.APIError) as caught:
                ask(sdk, request)
            assert session.failed(caught.value) is False
            sdk.close()
        session.observe(ask(here.sdk, request))


@pytest.mark.spec("S4.12", "S8.5")
def test_a_compaction_without_a_client_says_once_that_code_makes_it() -> None:
    told: list[Any] = []
    with started(listen=[told.append]) as session:
        session.observe(completion({"content": "A"}))
        for words in ("more", "and more"):
            session.user(words)
            _ = session.prepare().body
            session.observe(completion({"content": "B"}, id=f"chatcmpl-of-{words}-0123456789"))
            session.compact()
        [aside] = [one for one in told if isinstance(one, SteppedAside)]
        assert "no client" in aside.reason
        assert "client=" in aside.reason


# Awaited


@pytest.mark.spec("S9.7")
@both
def test_an_awaited_session_takes_everything_an_asynchronous_client_gives(wire: str) -> None:
    async def talk(here: World) -> list[str]:
        words = []
        async with (
            here.awaited() as sdk,
            sevenfold.AsyncSession.in_memory(**here.options(wire, client=sdk, tools=[])) as session,
        ):
            await session.user("begin")
            for turn in range(4):
                request = await session.prepare()
                home = sdk.responses if wire == "responses" else sdk.chat.completions
                if turn == 2:
                    async with home.stream(**request) as stream:
                        done = await session.observe(stream)
                else:
                    done = await session.observe(await ask(sdk, request, stream=bool(turn % 2)))
                words.append(done.text)
                assert asked(here.bodies[-1]) == json.loads(await session.at(-1))
                if done.calls:
                    await session.tool_results(results(done))
                else:
                    await session.user("Go on.")
        return words

    with world() as here:
        assert asyncio.run(talk(here)) == [f"Part {n}." for n in range(1, 5)]


@pytest.mark.spec("S8.4")
def test_an_awaited_session_is_opened_by_awaiting_or_by_entering_it(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"

    async def both_ways() -> None:
        opening = sevenfold.AsyncSession.open("s", model="gpt-5", file=file, folder=tmp_path)
        async with opening as session:
            await session.user("hi", key="k")
        session = await sevenfold.AsyncSession.open("s", model="gpt-5", file=file, folder=tmp_path)
        assert len((await session.prepare())["messages"]) == 1
        await session.close()
        async with await sevenfold.AsyncSession.in_memory(model="gpt-5") as session:
            await session.user("hi")
        with pytest.raises(InputError, match="one of messages, chat"):
            await sevenfold.AsyncSession.open(
                "s",
                model="gpt-5",
                file=file,
                folder=tmp_path,
                wire="soap",
            )
        async with sevenfold.AsyncSession.open("s", model="gpt-5", file=file, folder=tmp_path) as session:
            assert await session.user("hi", key="k")

    asyncio.run(both_ways())
