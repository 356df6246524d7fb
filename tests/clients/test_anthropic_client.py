"""What the client for Anthropic sends is what it was given, and what it keeps is what came."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.errors import (
    Aborted,
    BoundThinking,
    ModelError,
    NotAuthenticated,
    Overloaded,
    ProviderFailed,
)
from sevenfold.lab.simulator.faults import Fault
from sevenfold.lab.simulator.invariant import extends
from sevenfold.ports import Call, Piece
from sevenfold.providers.anthropic import AnthropicClient, AsyncAnthropicClient
from sevenfold.record.blocks import minify
from sevenfold.wire.messages_request import streaming
from tests.clients.asking import KEY, SAID, Provider, answering, body, words
from tests.clients.making import Style, body_of, calls, events_of, objects, texts, thoughts

PLAIN = Style(ascii=False, spaced=False)
EMPTY = [b"data: " + data + b"\n\n" for data in events_of([], PLAIN)]
NAMED = [b"event: named\n" + each for each in EMPTY]
"""The same with names of events, which the SDK's own reader insists on."""


def mocked(transport: Any, **options: Any) -> anthropic.Anthropic:
    """The official client over a made-up connection."""
    http = httpx2.Client(transport=transport)
    return anthropic.Anthropic(api_key=KEY, base_url="http://mocked", http_client=http, **options)


# The bytes of a request


@given(
    objects.filter(lambda each: "stream" not in each), st.sampled_from([b"", b" ", b"\n\t "]), st.booleans()
)
def test_the_wish_for_a_stream_is_put_in_and_nothing_else_is_touched(
    fields: dict[str, Any], space: bytes, spaced: bool
) -> None:
    raw = Style(ascii=False, spaced=spaced).write(fields)
    sent = streaming(raw[:-1] + space + b"}" + space)
    assert sent.startswith(raw[:-1])
    assert msgspec.json.decode(sent) == {**msgspec.json.decode(raw), "stream": True}


@given(st.text(max_size=20), st.sampled_from([b'{"a": 1.0,  "b":1e2}', b"{}", b'{"\\u00e9":"\\/"}']))
def test_the_bytes_on_the_wire_are_those_of_the_call(text: str, odd: bytes) -> None:
    transport = answering(*EMPTY)
    raw = body(messages=[{"role": "user", "content": text}], metadata=msgspec.Raw(odd))
    AnthropicClient(mocked(transport)).ask(Call(raw))
    assert transport.sent[0].content == raw[:-1] + b',"stream":true}'
    whole = answering(body_of([], PLAIN), kind="application/json")
    AnthropicClient(mocked(whole), stream=False).ask(Call(raw))
    assert whole.sent[0].content == raw


def test_betas_go_into_the_header_and_only_when_there_are_some() -> None:
    transport = answering(*EMPTY)
    client = AnthropicClient(mocked(transport))
    client.ask(Call(body(), betas=("one-2026-01-01", "two-2026-01-02")))
    client.ask(Call(body()))
    assert transport.sent[0].headers["anthropic-beta"] == "one-2026-01-01,two-2026-01-02"
    assert "anthropic-beta" not in transport.sent[1].headers
    assert transport.sent[0].headers["content-type"] == "application/json"
    assert transport.sent[0].headers["anthropic-version"] == "2026-10-21"


def test_a_retry_sends_the_same_bytes(provider: Provider) -> None:
    provider.fails(Fault("rate_limited", retry_after=0.001))
    AnthropicClient(api_key=KEY, base_url=provider.url, max_retries=1).ask(Call(body()))
    first, second = (received.raw for received in provider.simulator.requests)
    assert first == second


def test_an_answer_sent_back_as_it_was_kept_extends_the_request_before(provider: Provider) -> None:
    client = AnthropicClient(api_key=KEY, base_url=provider.url)
    provider.says(SAID)
    talk: list[Any] = [{"role": "user", "content": "hi"}]
    for _ in range(3):
        answer = client.ask(Call(body(messages=talk))).answer
        content = [msgspec.Raw(block.raw) for block in answer.blocks]
        talk = [*talk, {"role": "assistant", "content": content}, {"role": "user", "content": "more"}]
    first, second, third = (msgspec.json.decode(received.raw) for received in provider.simulator.requests)
    assert extends(first, second) is None
    assert extends(second, third) is None


def test_thinking_that_no_longer_fits_is_an_error_of_its_own(provider: Provider) -> None:
    client = AnthropicClient(api_key=KEY, base_url=provider.url)
    answer = client.ask(Call(body())).answer
    content = [msgspec.Raw(block.raw) for block in answer.blocks if block.kind != "tool_use"]
    edited = [
        {"role": "user", "content": "something else"},
        {"role": "assistant", "content": content},
        {"role": "user", "content": "more"},
    ]
    with pytest.raises(BoundThinking) as raised:
        client.ask(Call(body(messages=edited)))
    assert raised.value.status == 400


# The bytes of an answer


@given(st.lists(texts() | thoughts() | calls(), max_size=3), st.integers(1, 200))
def test_an_answer_is_kept_as_it_was_written_wherever_it_was_cut(blocks: Any, size: int) -> None:
    raw = b"".join(b"data: " + data + b"\n\n" for data in events_of(blocks, PLAIN))
    chunks = [raw[place : place + size] for place in range(0, len(raw), size)]
    streamed = AnthropicClient(mocked(answering(*chunks))).ask(Call(body()))
    whole = AnthropicClient(
        mocked(answering(body_of(blocks, PLAIN), kind="application/json")), stream=False
    ).ask(Call(body()))
    assert streamed.answer.blocks == whole.answer.blocks


def test_a_server_may_answer_whole_although_it_was_asked_for_a_stream() -> None:
    seen: list[Piece] = []
    raw = b'{"id":"m","model":"x","content":[{"type": "text", "text":"ok"}],"stop_reason":"end_turn"}'
    reply = AnthropicClient(mocked(answering(raw, kind="application/json"))).ask(Call(body()), seen.append)
    assert [block.raw for block in reply.answer.blocks] == [minify(b'{"type": "text", "text":"ok"}')]
    assert seen == [Piece("text", "ok")]


def test_bytes_that_are_no_text_are_not_kept() -> None:
    broken = b'data: {"type":"message_start","message":{"id":"\xff"}}\n\n'
    with pytest.raises(ProviderFailed, match="UTF-8"):
        AnthropicClient(mocked(answering(broken))).ask(Call(body()))


def test_a_page_in_place_of_an_answer_is_a_failure_of_the_provider() -> None:
    with pytest.raises(ProviderFailed, match="cannot be read"):
        AnthropicClient(mocked(answering(b"<html>hello</html>", kind="text/html"))).ask(Call(body()))


def test_a_connection_that_breaks_after_the_last_word_has_broken_nothing() -> None:
    def pieces() -> Iterator[bytes]:
        yield from EMPTY[:-2]
        raise httpx2.ReadError("gone")

    transport = httpx2.MockTransport(
        lambda request: httpx2.Response(
            200, headers={"content-type": "text/event-stream"}, content=pieces()
        )
    )
    assert AnthropicClient(mocked(transport)).ask(Call(body())).answer.stop_reason == "end_turn"


# Stopping


def test_whoever_watches_can_stop_an_answer_and_keeps_what_was_said(provider: Provider) -> None:
    provider.says(SAID)

    def stop(piece: Piece) -> None:
        raise Aborted("the user pressed escape")

    client = AnthropicClient(api_key=KEY, base_url=provider.url)
    with pytest.raises(Aborted, match="escape") as raised:
        client.ask(Call(body()), stop)
    assert SAID.startswith(words(raised.value.partial))
    assert words(raised.value.partial)


def test_an_interrupt_stays_an_interrupt_and_carries_what_was_said(provider: Provider) -> None:
    provider.says(SAID)

    def interrupt(piece: Piece) -> None:
        raise KeyboardInterrupt

    client = AnthropicClient(api_key=KEY, base_url=provider.url)
    with pytest.raises(KeyboardInterrupt) as raised:
        client.ask(Call(body()), interrupt)
    assert isinstance(raised.value.__cause__, Aborted)
    assert words(raised.value.__cause__.partial)
    assert words(client.ask(Call(body())).answer) == SAID


def test_a_cancelled_task_is_cancelled_and_carries_what_was_said() -> None:
    closed = []

    class Endless(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for data in events_of([], PLAIN)[:1]:
                yield b"data: " + data + b"\n\n"
            yield b'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"so"}}\n\n'
            await asyncio.Event().wait()

        async def aclose(self) -> None:
            closed.append(True)

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=Endless())

    async def ask() -> BaseException | None:
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
        client = AsyncAnthropicClient(anthropic.AsyncAnthropic(api_key=KEY, http_client=http))
        heard = asyncio.Event()
        task = asyncio.create_task(client.ask(Call(body()), lambda piece: heard.set()))
        await heard.wait()
        task.cancel()
        try:
            await task
        except asyncio.CancelledError as stopped:
            return stopped.__cause__
        return None

    cause = asyncio.run(ask())
    assert isinstance(cause, Aborted)
    assert words(cause.partial) == "so"
    assert closed == [True]


def test_a_mistake_of_whoever_watches_is_not_taken_for_the_providers(provider: Provider) -> None:
    def stumble(piece: Piece) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        AnthropicClient(api_key=KEY, base_url=provider.url).ask(Call(body()), stumble)


# Keys and clients of one's own


@pytest.fixture
def keyless(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An environment in which nobody has left a key; gives the folder where the SDK looks for one."""
    for name in [name for name in os.environ if name.startswith("ANTHROPIC_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    return tmp_path


@pytest.mark.parametrize("made", [AnthropicClient, AsyncAnthropicClient])
def test_without_a_key_one_line_says_what_to_do(made: Any, keyless: Path) -> None:
    with pytest.raises(NotAuthenticated) as raised:
        made()
    assert "ANTHROPIC_API_KEY" in str(raised.value)
    assert "sevenfold simulate" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_credentials_that_cannot_be_read_are_named(keyless: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(keyless))
    monkeypatch.setenv("ANTHROPIC_PROFILE", "work")
    with pytest.raises(NotAuthenticated, match=r"work.*ANTHROPIC_API_KEY"):
        AnthropicClient()


def test_a_key_in_the_environment_is_used(monkeypatch: pytest.MonkeyPatch, provider: Provider) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.url)
    assert words(AnthropicClient().ask(Call(body())).answer) == SAID


def test_a_client_that_was_handed_in_is_left_open() -> None:
    sdk = mocked(answering(*EMPTY))
    AnthropicClient(sdk).close()
    assert not sdk.is_closed()
    own = AnthropicClient(api_key=KEY, max_retries=0)
    own.close()
    with pytest.raises((ModelError, RuntimeError)):
        own.ask(Call(body()))


# Other platforms: the SDK rewrites the request, so it gets it decoded


def vertex(transport: Any, *, awaited: bool = False) -> Any:
    given: dict[str, Any] = {"region": "here", "project_id": "p", "access_token": "t", "max_retries": 0}
    if awaited:
        return anthropic.AsyncAnthropicVertex(http_client=httpx2.AsyncClient(transport=transport), **given)
    return anthropic.AnthropicVertex(http_client=httpx2.Client(transport=transport), **given)


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_for_another_platform_gets_the_request_as_values(stream: bool) -> None:
    raw = NAMED if stream else [body_of([], PLAIN)]
    transport = answering(*raw, kind="text/event-stream" if stream else "application/json")
    call = Call(body(), betas=("one-2026-01-01",))
    reply = AnthropicClient(vertex(transport), stream=stream).ask(call)
    assert reply.answer.id == "msg_1"
    assert reply.answer.stop_reason == "end_turn"
    sent = transport.sent[0]
    assert sent.url.path.endswith(":streamRawPredict" if stream else ":rawPredict")
    assert "model" not in msgspec.json.decode(sent.content)
    assert msgspec.json.decode(sent.content)["messages"] == [{"role": "user", "content": "hi"}]


def test_an_error_in_another_platforms_stream_keeps_what_was_said() -> None:
    opened = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "so"}}
    begun = b"event: content_block_start\ndata: " + PLAIN.write(opened) + b"\n\n"
    error = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"busy"}}\n\n'
    for ending, expected in ((error, Overloaded), (b"event: x\ndata: {cut\n\n", ProviderFailed)):
        with pytest.raises(expected) as raised:
            AnthropicClient(vertex(answering(NAMED[0], begun, ending))).ask(Call(body()))
        assert words(raised.value.partial) == "so"


def test_another_platform_can_be_awaited_too() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for each in NAMED:
            yield each

    transport = httpx2.MockTransport(
        lambda request: httpx2.Response(
            200, headers={"content-type": "text/event-stream"}, content=pieces()
        )
    )
    client = AsyncAnthropicClient(vertex(transport, awaited=True))
    assert asyncio.run(client.ask(Call(body()))).answer.id == "msg_1"
