"""Whatever a server sends, a client gives an answer or one of our errors, and never anything else."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.errors import ModelError
from sevenfold.lab.simulator.brains import ScriptedBrain
from sevenfold.lab.simulator.chat import chunks, complete
from sevenfold.lab.simulator.provider import Simulator
from sevenfold.lab.simulator.responses import respond
from sevenfold.ports import Call
from sevenfold.record.log import Answer, Place, Stamp, said_by_model
from sevenfold.wire.responses_events import response_events
from tests.clients.asking import (
    KEY,
    MODELS,
    PROVIDERS,
    SAID,
    answering,
    body,
    http_of,
    sdk_client,
    speaking,
)
from tests.clients.making import Style, body_of, calls, events_of, texts, thoughts, values

PLAIN = Style(ascii=False, spaced=False)


def told(api: str) -> list[bytes]:
    """The data of the events of a good answer."""
    sim = Simulator(ScriptedBrain(speaking))
    if api == "chat":
        asked = {"model": "gpt-5", "messages": [{"role": "user", "content": "hi"}]}
        raw = b"".join(chunks(complete(sim, asked), {"stream_options": {"include_usage": True}}, 9))
    else:
        raw = b"".join(response_events(respond(sim, {"model": "gpt-5.6", "input": "hi"}), 9))
    return [line.removeprefix(b"data: ") for line in raw.splitlines() if line.startswith(b"data: ")]


def asked(api: str, *pieces: bytes, **answer: Any) -> Answer | ModelError:
    """What comes of an answer: it, or an error of ours; anything else gets out."""
    provider = PROVIDERS[api]
    transport = answering(*pieces, http=http_of(provider), **answer)
    http = http_of(provider).Client(transport=transport)
    given: dict[str, Any] = {
        "api_key": KEY,
        "base_url": "http://mocked",
        "http_client": http,
        "max_retries": 0,
    }
    client = provider.client(sdk_client(provider, **given))
    try:
        return client.ask(Call(body(MODELS[api])), lambda piece: None).answer
    except ModelError as error:
        return error


def kept(answer: object) -> None:
    """Hold what came to what the log takes."""
    if isinstance(answer, Answer):
        line = said_by_model(Stamp(Place("s"), "u", None, "t"), answer).line
        assert json.loads(line)["message"]["content"] == [json.loads(block.raw) for block in answer.blocks]


@st.composite
def spoilt(draw: st.DrawFn, events: list[bytes]) -> list[bytes]:
    """Events one of which is cut, missing, doubled, or has one of its values replaced by another."""
    place = draw(st.integers(0, len(events) - 1))
    event = events[place]
    match draw(st.sampled_from(["cut", "missing", "doubled", "other", "value"])):
        case "cut":
            spoilt_event = [event[: draw(st.integers(0, len(event) - 1))]]
        case "missing":
            spoilt_event = []
        case "doubled":
            spoilt_event = [event, event]
        case "other":
            spoilt_event = [msgspec.json.encode(draw(values))]
        case _:
            spoilt_event = [_replaced(draw, event)]
    return [*events[:place], *spoilt_event, *events[place + 1 :]]


def _replaced(draw: st.DrawFn, event: bytes) -> bytes:
    try:
        value = json.loads(event)
    except ValueError:
        return event
    inside = value
    while isinstance(inside, dict | list) and inside:
        keys = list(inside) if isinstance(inside, dict) else list(range(len(inside)))
        key = draw(st.sampled_from(keys))
        if not isinstance(inside[key], dict | list) or not inside[key] or draw(st.booleans()):
            inside[key] = draw(values)
            break
        inside = inside[key]
    return json.dumps(value).encode()


@pytest.mark.parametrize("api", PROVIDERS)
@given(data=st.data())
def test_a_spoilt_stream_gives_an_answer_or_an_error_with_what_can_be_kept(
    api: str, data: st.DataObject
) -> None:
    blocks = st.lists(texts() | thoughts() | calls(), min_size=1, max_size=3)
    events = events_of(data.draw(blocks), PLAIN) if api == "messages" else told(api)
    sent = data.draw(spoilt(events))
    outcome = asked(api, *[b"data: " + event + b"\n\n" for event in sent])
    kept(outcome.partial if isinstance(outcome, ModelError) else outcome)


@pytest.mark.parametrize("api", PROVIDERS)
@given(data=st.data())
def test_a_spoilt_body_gives_an_answer_or_an_error(api: str, data: st.DataObject) -> None:
    if api == "messages":
        raw = body_of(data.draw(st.lists(texts() | calls(), max_size=2)), PLAIN)
    else:
        sim = Simulator(ScriptedBrain(speaking))
        asking: dict[str, Any] = {"model": MODELS[api]}
        talk = [{"role": "user", "content": SAID}]
        whole = (
            complete(sim, asking | {"messages": talk})
            if api == "chat"
            else respond(sim, asking | {"input": talk})
        )
        raw = msgspec.json.encode(whole)
    sent = data.draw(spoilt([raw]))
    kept(asked(api, *sent, kind="application/json"))


@pytest.mark.parametrize("api", PROVIDERS)
@given(status=st.integers(400, 599), words=values | st.just({"error": {}}))
def test_a_refusal_in_any_words_is_an_error_of_ours(api: str, status: int, words: Any) -> None:
    error = asked(api, msgspec.json.encode(words), status=status, kind="application/json")
    assert isinstance(error, ModelError)
    assert error.status == status


@pytest.mark.parametrize("api", PROVIDERS)
@pytest.mark.parametrize("streamed", [False, True])
def test_an_answer_nested_too_deeply_to_be_read_is_an_error_of_ours(api: str, *, streamed: bool) -> None:
    deep = b'{"id":"x","error":%b}' % (b"[" * 100_000 + b"]" * 100_000)
    kind = "text/event-stream" if streamed else "application/json"
    came = asked(api, b"data: " + deep + b"\n\n" if streamed else deep, kind=kind)
    assert isinstance(came, ModelError)
    assert "nested too deeply" in str(came)


@pytest.mark.spec("S11.3")
@pytest.mark.parametrize("api", PROVIDERS)
@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("application/json", b"x" * 1_000),
        ("text/event-stream", b"x" * 1_000),
        ("text/event-stream", b": " + b"x" * 10_000 + b"\n\n"),
        ("text/event-stream", b'data: {"x": "' + b"x" * 10_000 + b'"}\n'),
    ],
)
def test_an_answer_without_end_is_given_up(api: str, kind: str, line: bytes) -> None:
    answer = asked(api, *[line * 100] * (70_000_000 // len(line) // 100), kind=kind)
    assert isinstance(answer, ModelError)
    assert "goes on after 64,000,000 bytes" in str(answer)
