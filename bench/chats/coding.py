"""Recorded coding sessions, with statements said in the middle of the work."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from bench.chats.statements import Statement
from bench.trials.cut import Cut, cuts
from bench.trials.trial import open_session

FEWEST = 20
"""Sessions with fewer messages are too short to say something in the middle of them."""
Message = Mapping[str, Any]


class Work(Struct, frozen=True):
    """The messages of a recorded session, and the statements said in some of them."""

    name: str
    messages: tuple[Message, ...]
    said: dict[int, Statement]


def with_statements(path: Path, statements: Sequence[Statement], seed: int) -> Work | None:
    """Say the statements at random moments of a recorded session; None if it is too short."""
    recorded = _messages(cuts(path, 1)[-1:])
    if len(recorded) < FEWEST:
        return None
    chance = random.Random(f"{path.name} {seed}")
    moments: dict[int, list[Statement]] = {}
    # After a message of the user, so that no call is parted from its result.
    usable = [number for number, message in enumerate(recorded) if message["role"] == "user"]
    for statement in statements:
        moments.setdefault(chance.choice(usable), []).append(statement)
    messages: list[Message] = []
    said: dict[int, Statement] = {}
    for number, message in enumerate(recorded):
        messages.append(message)
        for statement in moments.get(number, ()):
            if statement.earlier:
                messages.append({"role": "user", "content": statement.earlier})
            said[len(messages)] = statement
            messages.append({"role": "user", "content": statement.text})
    return Work(path.stem, tuple(messages), said)


def _messages(last: Sequence[Cut]) -> list[Message]:
    """The messages of a recorded session as a request would contain them, without reasoning."""
    if not last:
        return []
    session, _ = open_session(last[0])
    with session:
        shown = [
            msgspec.json.decode(message.raw) for message in session.conversation.transcript.view.messages()
        ]
    messages: list[Message] = []
    for message in shown:
        content = [
            part for part in message["content"] if part["type"] in ("text", "tool_use", "tool_result")
        ]
        if content:
            messages.append({"role": message["role"], "content": content})
    return messages
