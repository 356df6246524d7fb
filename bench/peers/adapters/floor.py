"""The floor: what the same work costs when done directly in plain Python, with nothing else around it."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from bench.peers.adapters import SYSTEM
from bench.peers.sessions import Message, Session, characters
from bench.peers.timing import Adapter, Bench, Case

_encode = msgspec.json.Encoder().encode


def _count_new(session: Session, bench: Bench) -> None:
    total = sum(characters(block) for message in session.history for block in message["content"])
    messages = list(session.history)

    def step(turn: list[Message]) -> tuple[int, list[Message]]:
        nonlocal total
        messages.extend(turn)
        total += sum(characters(block) for message in turn for block in message["content"])
        return total // 4, list(messages)

    bench.loop(step, lambda turn: session.turns[turn])


def _count_all(session: Session, bench: Bench) -> None:
    messages = list(session.history)

    def step(turn: list[Message]) -> tuple[int, list[Message]]:
        messages.extend(turn)
        total = sum(characters(block) for message in messages for block in message["content"])
        return total // 4, list(messages)

    bench.loop(step, lambda turn: session.turns[turn])


def _append(session: Session, bench: Bench) -> None:
    file = os.open(bench.folder / "floor.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def step(turn: list[Message]) -> None:
        for message in turn:
            os.write(file, _encode(message) + b"\n")

    bench.loop(step, lambda turn: session.turns[turn])
    os.close(file)


def _body(messages: list[Message]) -> Message:
    said = [{"role": message["role"], "content": message["content"]} for message in messages]
    return {"model": "claude-sonnet-5-5", "max_tokens": 8192, "system": SYSTEM, "messages": said}


def _encode_all(session: Session, bench: Bench) -> None:
    messages = list(session.history)

    def prepare(turn: int) -> list[Message]:
        messages.extend(session.turns[turn])
        return messages

    bench.loop(lambda said: _encode(_body(said)), prepare)


def _join(session: Session, bench: Bench) -> None:
    parts = [_encode(message) for message in session.history]

    def step(turn: list[Message]) -> bytes:
        parts.extend(_encode(message) for message in turn)
        return b",".join(parts)

    bench.loop(step, lambda turn: session.turns[turn])


def _read_all(session: Session, bench: Bench) -> None:
    path = bench.folder / "floor.jsonl"
    path.write_bytes(b"".join(_encode(message) + b"\n" for message in session.all))
    bench.loop(_lines, lambda turn: path, turns=6)


def _lines(path: Path) -> int:
    decode = msgspec.json.Decoder().decode
    with path.open("rb") as file:
        return len([decode(line) for line in file])


ADAPTER = Adapter(
    "floor",
    (
        Case(
            "turn: count new", "characters / 4 of the two new messages, and a copy of the list", _count_new
        ),
        Case("turn: count all", "characters / 4 of all messages, and a copy of the list", _count_all),
        Case("turn: append", "the two new messages encoded and appended to a file", _append),
        Case("request: join", "the body from parts encoded before", _join),
        Case("request: encode", "the body encoded anew from objects", _encode_all),
        Case("resume: whole", "every line of the file decoded", _read_all),
    ),
)
