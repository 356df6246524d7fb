"""A stream that stays open and says nothing is given up after a time, and what it had said is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sevenfold.clock import ManualClock
from sevenfold.errors import ProviderFailed, Stalled
from sevenfold.ports import Call
from sevenfold.providers.anthropic import MESSAGES
from sevenfold.providers.http_client import HttpClient
from sevenfold.providers.openai.client import CHAT, RESPONSES
from sevenfold.providers.sdk import Incoming, SdkClient, SdkProvider
from sevenfold.record.log import Answer

pytestmark = pytest.mark.spec("S21.9")

STREAM = {"content-type": "text/event-stream"}


def event(**fields: Any) -> bytes:
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def message(**more: Any) -> bytes:
    usage = {"input_tokens": 5, "output_tokens": 1}
    head = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "usage": usage,
    }
    return event(type="message_start", message={**head, **more})


def delta(text: str) -> bytes:
    return event(type="content_block_delta", index=0, delta={"type": "text_delta", "text": text})


BEGUN = [message(), event(type="content_block_start", index=0, content_block={"type": "text", "text": ""})]
NOTHINGS = {
    "pings": event(type="ping"),
    "comments": b": still here\n\n",
    "empty deltas": delta(""),
    "blank text": delta(" \n"),
    "no events": b"\n",
    "one byte": b":",
    "empty reports": event(type="message_delta", delta={}, usage={}),
    "unheard of": event(type="heartbeat", number=1),
    "signatures of nothing": event(
        type="content_block_delta", index=0, delta={"type": "signature_delta", "signature": ""}
    ),
}


def incoming(provider: SdkProvider, clock: ManualClock, seconds: float = 900.0) -> Incoming:
    client = SdkClient(HttpClient("http://localhost", {}), [provider], stream=True, owned=False)
    client.now = clock.now
    body = json.dumps({"model": "m", "messages": [], "max_tokens": 5}).encode()
    return Incoming(client, Call(body, content_seconds=seconds), None)


def stalled(arriving: Incoming, clock: ManualClock, chunk: bytes) -> Stalled:
    """The error with which the answer is given up while the chunk arrives once a minute."""
    for _ in range(100):
        clock.advance(60)
        try:
            with arriving.explained():
                arriving.take(chunk)
        except Stalled as error:
            return error
    raise AssertionError("it was never given up")


def feed(arriving: Incoming, clock: ManualClock, chunk: bytes, minutes: int) -> int:
    """Let the chunk arrive once a minute; returns after how many minutes the answer is given up."""
    for minute in range(1, minutes + 1):
        clock.advance(60)
        try:
            with arriving.explained():
                arriving.take(chunk)
        except Stalled:
            return minute
    return 0


@pytest.mark.parametrize("nothing", NOTHINGS.values(), ids=NOTHINGS)
def test_an_endless_nothing_is_given_up_with_what_had_come(nothing: bytes) -> None:
    clock = ManualClock()
    arriving = incoming(MESSAGES, clock)
    arriving.begin(STREAM)
    for chunk in (*BEGUN, delta("Half an ans")):
        arriving.take(chunk)
    if nothing == NOTHINGS["unheard of"]:
        arriving.take(nothing)
    error = stalled(arriving, clock, nothing)
    assert "added nothing to it for 900 s" in str(error)
    assert isinstance(error, ProviderFailed)
    assert error.retryable
    assert isinstance(error.partial, Answer)
    assert b"Half an ans" in error.partial.blocks[0].raw


@pytest.mark.parametrize("provider", [CHAT, RESPONSES], ids=["chat", "responses"])
@pytest.mark.parametrize(
    "nothing", [b": processing\n\n", b"data: {}\n\n", event(type="keepalive", sequence_number=7)]
)
def test_it_is_so_with_every_api(provider: SdkProvider, nothing: bytes) -> None:
    clock = ManualClock()
    arriving = incoming(provider, clock)
    arriving.begin(STREAM)
    assert feed(arriving, clock, nothing, 100) in (16, 17)


def test_a_body_that_begins_with_endless_blanks_is_given_up() -> None:
    clock = ManualClock()
    arriving = incoming(CHAT, clock)
    arriving.begin({"content-type": "application/json"})
    assert feed(arriving, clock, b"\n", 100) == 16


@pytest.mark.parametrize(
    "chunk",
    [
        delta("word "),
        event(type="content_block_delta", index=0, delta={"type": "thinking_delta", "thinking": "hm"}),
    ],
)
def test_an_answer_that_grows_slowly_is_not_given_up(chunk: bytes) -> None:
    clock = ManualClock()
    arriving = incoming(MESSAGES, clock)
    arriving.begin(STREAM)
    for head in BEGUN:
        arriving.take(head)
    assert feed(arriving, clock, chunk, 100) == 0


def test_how_long_is_a_setting() -> None:
    clock = ManualClock()
    arriving = incoming(MESSAGES, clock, seconds=120.0)
    arriving.begin(STREAM)
    assert feed(arriving, clock, event(type="ping"), 100) == 3


def test_a_long_silence_before_content_is_no_reason_once_the_content_is_there() -> None:
    clock = ManualClock()
    arriving = incoming(MESSAGES, clock)
    arriving.begin(STREAM)
    clock.advance(3_000)
    arriving.take(message())
