"""Simulated models that summarise a chat: what they answer depends on the request alone.

Their summaries say nothing of what the user said, so whatever the next request has of it was put there by code.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from bench.chats.statements import Statement
from sevenfold.lab.fidelity.reader import strings
from sevenfold.layers.compact.extract.outline import TITLES, heading
from sevenfold.ports import Call, Reply, Watcher
from sevenfold.record import blocks
from sevenfold.record.log import Answer

Json = Mapping[str, Any]
NOTHING = "Several things were talked about, and the conversation goes on."


class Forgetful:
    """A client whose model writes a whole summary without any of the user's words."""

    def __init__(self) -> None:
        self.asked = 0

    def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        """Answer a request for a summary, as a provider's compaction block if one is asked for."""
        self.asked += 1
        request = msgspec.json.decode(call.body)
        text = self.answer(request)
        block = blocks.text(text)
        stop_reason = "end_turn"
        if "compaction" in request:
            shown = {"type": "compaction", "content": text, "signature": "simulated"}
            block = blocks.read(msgspec.json.encode(shown))
            stop_reason = "compaction"
        usage = Raw(b'{"input_tokens":1000,"output_tokens":100}')
        return Reply(Answer(f"msg_{self.asked}", request["model"], (block,), usage, stop_reason))

    def answer(self, request: Json) -> str:
        """The answer's text."""
        return summary()

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


def summary(extra: Sequence[str] = ()) -> str:
    """A summary in nine sections that says nothing, with further lines at its end."""
    sections = [f"{heading(number)}\n{NOTHING}" for number in TITLES]
    return "\n".join(("<summary>", *sections, *extra, "</summary>"))


def instruction(request: Json) -> str:
    """The texts of a request's last message."""
    return "\n".join(strings(request["messages"][-1]["content"]))


class Naming(Forgetful):
    """A model that names nine in ten of the statements that the request offers to it, and one in twenty of the rest."""

    def __init__(self, statements: Sequence[Statement], seed: int) -> None:
        super().__init__()
        self._texts = [statement.text for statement in statements]
        self._chance = random.Random(seed)

    def answer(self, request: Json) -> str:
        """Return a summary that names messages by their ids."""
        return summary()
