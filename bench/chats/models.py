"""Simulated models that summarise a chat: what they answer depends on the request alone.

Their summaries say nothing of what the user said, so whatever the next request has of it was put there by code.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from sevenfold.archive.fidelity.reader import strings
from sevenfold.layers.compact.extract.outline import TITLES, heading
from sevenfold.ports import Call, Reply, Watcher
from sevenfold.record import blocks
from sevenfold.record.log import Answer

Json = Mapping[str, Any]
NOTICED = 0.9
MISTAKEN = 0.05
RECOGNISABLE = 12
"""Characters of a part of a statement by which the model still knows it."""
CUT = " … "
_OFFERED = re.compile(r"^\[([0-9a-f][0-9a-f-]{3,}(?:\.\d+)?)\] (.*)$", re.MULTILINE)
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
    """A model that names nine in ten of the statements that the request offers to it, and one in twenty of the rest.

    Only the messages offered in the instruction can be named. Where the list cuts one, the model knows the rest from
    the conversation, if that is in the request. A stubborn model overlooks the same statements each time.
    """

    def __init__(self, statements: Sequence[str], seed: int, *, stubborn: bool = False) -> None:
        super().__init__()
        self._texts = list(statements)
        self._chance = random.Random(seed)
        self._overlooked = set(self._texts[seed % 10 :: 10]) if stubborn else None
        self.offered = 0
        self.named = 0

    def answer(self, request: Json) -> str:
        """Return a summary that says nothing, and the ids of the messages that last."""
        names: list[str] = []
        conversation = _Conversation(request)
        for name, line in offered(request):
            text = line if CUT not in line else conversation.whole(name, line)
            statement = next((known for known in self._texts if speaks(text, known)), None)
            self.offered += statement is not None
            if self._names(statement):
                names.append(f"[{name}] decides")
                self.named += statement is not None
        return "\n".join((summary(), "<lasting>", *names, "</lasting>"))

    def _names(self, statement: str | None) -> bool:
        if statement is None:
            return self._chance.random() < MISTAKEN
        if self._overlooked is not None:
            return statement not in self._overlooked
        return self._chance.random() < NOTICED


def offered(request: Json) -> list[tuple[str, str]]:
    """The messages that the instruction offers to be named, each with its id."""
    return _OFFERED.findall(instruction(request))


class _Conversation:
    """The user's messages in a request, to look up one of which the beginning and the end are known."""

    def __init__(self, request: Json) -> None:
        self._by_beginning: dict[str, list[str]] = {}
        for message in request["messages"][:-1]:
            if message["role"] == "user":
                for text in strings(message["content"]):
                    bare = " ".join(text.split())
                    self._by_beginning.setdefault(bare[:RECOGNISABLE], []).append(bare)

    def whole(self, name: str, line: str) -> str:
        """The message that a cut line stands for; of a sentence of a longer message only what the line shows."""
        head, _, tail = line.partition(CUT)
        if "." in name:
            return line
        for text in self._by_beginning.get(head[:RECOGNISABLE], ()):
            if text.startswith(head) and text.endswith(tail):
                return text
        return line


def speaks(line: str, statement: str) -> bool:
    """Whether a line, which may be one sentence of a message or cut, is or contains a statement."""
    bare = " ".join(statement.split())
    return bare in line or any(len(part) >= RECOGNISABLE and part in bare for part in line.split(CUT))
