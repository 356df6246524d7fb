"""Conversations that a follower keeps, without HTTP: requests that are prepared and answered."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from sevenfold.clock import RandomIds, SystemClock
from sevenfold.doors.follower.follower import CallEnd, ClientCall, FollowedCall
from sevenfold.doors.follower.keeper import KeepingFollower, KeepingOptions
from sevenfold.ports import Client
from sevenfold.providers.registry import client_for
from sevenfold.record import blocks
from sevenfold.record.log import Answer
from sevenfold.session.factory import OFFLINE_JOBS
from sevenfold.settings import Settings
from sevenfold.stores.memory import MemoryStore

MODEL = "claude-opus-4-6"
TOOLS = [{"name": "Read", "input_schema": {"type": "object"}}]


def offline(call: ClientCall, address: str) -> Client:
    return client_for(MODEL, None, OFFLINE_JOBS)


def following(
    failures: list[Exception],
    client: Callable[[ClientCall, str], Client] = offline,
    note: Callable[[str], None] = lambda sentence: None,
    window: int = 10_000,
) -> KeepingFollower:
    return KeepingFollower(
        MemoryStore(),
        "",
        b"secret",
        KeepingOptions(
            Settings(context_window=window),
            client=client,
            failed=failures.append,
            note=note,
        ),
        clock=SystemClock(),
        ids=RandomIds(),
    )


def prepared(
    follower: KeepingFollower, messages: Sequence[dict[str, Any]], headers: Mapping[str, str]
) -> tuple[FollowedCall, bytes]:
    """A request that was taken in, and what is sent for it."""
    body = {"model": MODEL, "max_tokens": 100, "system": "s", "tools": TOOLS, "messages": messages}
    call = ClientCall("messages", "/v1/messages", {"x-api-key": "k", **headers}, json.dumps(body).encode())
    followed = follower.prepare(call, "http://127.0.0.1:9")
    return followed, followed.body or call.body


def answered(
    follower: KeepingFollower,
    followed: FollowedCall,
    sent: bytes,
    name: str,
    answer: Sequence[dict[str, Any]],
) -> None:
    """Give the answer to a request, and wait for what is made beside the conversation."""
    usage = {"input_tokens": len(sent) // 4, "output_tokens": 50}
    parts = tuple(blocks.read(json.dumps(block).encode()) for block in answer)
    reply = Answer(name, MODEL, parts, msgspec.Raw(json.dumps(usage).encode()), "end_turn")
    follower.ended(followed, CallEnd(200, reply))
    follower.settle()
