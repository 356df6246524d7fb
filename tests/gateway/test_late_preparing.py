"""A request that is not prepared in time goes out as the program wrote it."""

from __future__ import annotations

import asyncio
import json
import threading
from functools import partial
from pathlib import Path

import pytest

from sevenfold.clock import RandomIds, SystemClock
from sevenfold.doors.follower.follower import ClientCall, FollowedCall
from sevenfold.doors.follower.keeper import KeepingFollower, KeepingOptions
from sevenfold.doors.follower.keeping import KeptConversation
from sevenfold.doors.gateway import keeper
from sevenfold.doors.gateway.keeper import GatewayKeeper
from sevenfold.doors.gateway.recorder import Recorder
from sevenfold.settings import Settings
from sevenfold.stores.jsonl.store import JsonlStore

SESSION = {"x-sevenfold-session": "late"}


async def no_ping() -> None:
    raise AssertionError("nothing is waited for")


def call(*texts: str) -> ClientCall:
    messages = [
        {"role": ("user", "assistant")[number % 2], "content": text} for number, text in enumerate(texts)
    ]
    body = {"model": "claude-opus-4-6", "max_tokens": 9, "tools": [{"name": "Read"}], "messages": messages}
    return ClientCall("messages", "/v1/messages", SESSION, json.dumps(body).encode())


def _waited_for(event: threading.Event) -> None:
    event.wait()


@pytest.mark.spec("S40.7")
def test_a_decision_takes_no_longer_than_reading_the_request_without_a_cache_would() -> None:
    assert [keeper.patience(size) for size in (0, 50_000, 250_000, 5_000_000)] == [2.0, 2.0, 5.0, 10.0]


@pytest.mark.spec("S40.12")
def test_a_late_request_goes_out_untouched_and_its_conversation_is_left_alone_until_the_next_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "LEAST_SECONDS", 0.0)
    said: list[str] = []
    follower = KeepingFollower(
        JsonlStore(tmp_path),
        "",
        b"s" * 32,
        KeepingOptions(Settings()),
        clock=SystemClock(),
        ids=RandomIds(),
    )
    recorder = Recorder(follower, said.append)
    door = GatewayKeeper(recorder, follower)
    is_free = threading.Event()
    taken_in = threading.Event()
    recorder.submit(0, partial(_waited_for, is_free))

    async def prepare() -> FollowedCall | None:
        prepared = await door.prepare(call("Look after the pier."), "http://127.0.0.1:9", no_ping)
        is_free.set()
        recorder.submit(0, taken_in.set)
        await asyncio.to_thread(taken_in.wait)
        return prepared

    assert asyncio.run(prepare()) is None
    (conversation,) = follower._open.values()
    assert isinstance(conversation, KeptConversation)
    assert conversation._is_left_alone()
    assert follower._under_way["late"] == 0
    follower.prepare(call("Look after the pier.", "Yes.", "And the crane."), "http://127.0.0.1:9")
    assert not conversation._is_left_alone()
    recorder.close()
    assert len(said) == 1
    assert "sent as it came" in said[0]
