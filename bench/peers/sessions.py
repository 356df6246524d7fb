"""The session that every engine gets: an agent at work, in the format of the Messages API, from a fixed seed.

A prompt, then answers that call a tool and results of 2 to 8 KB, every hundredth one of 100 KB; after ten such rounds
the model answers in words and the user asks again. Results are source code of the standard library (three in five),
log lines and listings, so that token counters get realistic input. Only the same interpreter generates the same
session, so the session is written to a file once, which every environment reads.
"""

from __future__ import annotations

import json
import math
import random
import string
import sysconfig
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

Message = dict[str, Any]

SPARE = 40
"""Messages beyond the length of a session, for the measured turns."""
TURNS = SPARE // 2
TOOLS = ("read_file", "bash", "grep", "edit_file", "list_dir", "web_fetch")
CHARACTERS_PER_TOKEN = 3.6


class _Author:
    """Generates texts."""

    def __init__(self) -> None:
        self.chance = random.Random(7)
        library = Path(sysconfig.get_paths()["stdlib"])
        files = [
            *sorted(library.glob("*.py")),
            *(path for folder in ("asyncio", "email") for path in sorted((library / folder).glob("*.py"))),
        ]
        self._source = "\n".join(path.read_text("utf-8", "replace") for path in files)

    def code(self, size: int) -> str:
        """A piece of source code, from the start of a line."""
        start = self._source.find("\n", self.chance.randrange(len(self._source) - size - 200)) + 1
        return self._source[start : start + size]

    def code_between(self, least: int, most: int) -> str:
        """A piece of source code, of a random size in that range."""
        return self.code(self.chance.randrange(least, most))

    def result(self, size: int) -> str:
        """A plausible tool result."""
        kind = self.chance.random()
        if kind < 0.6:
            return self.code(size)
        line, joint = (self._log_line, "\n") if kind < 0.8 else (self._listed, ",\n")
        made: list[str] = []
        while sum(map(len, made)) < size:
            made += [line() for _ in range(20)]
        return joint.join(made)[:size]

    def _log_line(self) -> str:
        pick = self.chance
        return (
            f"2026-11-15T{pick.randrange(24):02}:{pick.randrange(60):02}:{pick.randrange(60):02}Z "
            f"{pick.choice(('INFO', 'WARN', 'ERROR'))} [worker-{pick.randrange(64)}] "
            f"request={pick.getrandbits(64):016x} path=/v1/items/{pick.randrange(10**6)} "
            f"status={pick.choice((200, 201, 404, 500))} ms={pick.random() * 500:.2f}"
        )

    def _listed(self) -> str:
        pick = self.chance
        entry = {
            "id": pick.randrange(10**9),
            "name": self.code(30).strip(),
            "tags": pick.choices(("beta", "prod", "eu"), k=3),
            "score": round(pick.random(), 6),
        }
        return json.dumps(entry, indent=1)


def _contents() -> Iterator[tuple[str, list[Message]]]:
    """The messages of an endless session, as roles and contents."""
    author, results = _Author(), 0
    while True:
        yield "user", [_text("Please look at this and continue:\n" + author.code_between(200, 800))]
        for _ in range(10):
            call = "toolu_01" + "".join(author.chance.choices(string.ascii_letters + string.digits, k=22))
            given = {
                "path": f"/repo/src/module_{author.chance.randrange(500)}.py",
                "command": author.code_between(20, 120).strip(),
            }
            if author.chance.random() < 0.1:
                given["new_text"] = author.code_between(1_000, 4_000)
            name = author.chance.choice(TOOLS)
            use = {"type": "tool_use", "id": call, "name": name, "input": given}
            yield "assistant", [_text(author.code_between(80, 500)), use]
            results += 1
            size = int(math.exp(author.chance.uniform(math.log(2_000), math.log(8_000))))
            said = author.result(100_000 if results % 100 == 50 else size)
            yield "user", [{"type": "tool_result", "tool_use_id": call, "content": said}]
        yield "assistant", [_text(author.code_between(300, 2_000))]


def _text(words: str) -> Message:
    return {"type": "text", "text": words}


def characters(block: Message) -> int:
    """How many characters of a block the model reads."""
    size = len(block.get("text") or "") + len(block.get("content") or "")
    return size + (len(json.dumps(block["input"])) if "input" in block else 0)


def write(path: Path, messages: int) -> None:
    """Write a session of that many messages, followed by the spare ones."""
    total = 0
    with path.open("w", encoding="utf-8") as file:
        for number, (role, content) in enumerate(islice(_contents(), messages + SPARE)):
            size = sum(map(characters, content))
            message: Message = {"id": f"m{number:06}", "role": role, "content": content}
            if role == "assistant":
                prompt, output = int(total / CHARACTERS_PER_TOKEN), int(size / CHARACTERS_PER_TOKEN)
                message["usage"] = {"input_tokens": prompt, "output_tokens": max(1, output)}
            total += size
            file.write(json.dumps(message, ensure_ascii=False) + "\n")


class Session:
    """A session of about ``length`` messages, and the measured turns to add to it."""

    def __init__(self, path: Path, length: int) -> None:
        with path.open(encoding="utf-8") as file:
            messages: list[Message] = [json.loads(line) for line in file]
        self.length = length
        self.all = messages[:length]
        start = next(
            number for number in range(max(0, length - TURNS), length) if calls_a_tool(messages[number])
        )
        self.history = messages[:start]
        """The messages before the first measured turn."""
        rest = messages[start:]
        self.turns = [rest[number : number + 2] for number in range(0, 2 * TURNS, 2)]
        """The measured turns, two messages each."""

    @property
    def finished(self) -> list[Message]:
        """The session up to its last answer in words, so that no tool call is left open."""
        ends = [
            number
            for number, one in enumerate(self.all)
            if one["role"] == "assistant" and not calls_a_tool(one)
        ]
        return self.all[: ends[-1] + 1]


def calls_a_tool(message: Message) -> bool:
    """Whether a message is an answer that ends in a tool call."""
    return message["role"] == "assistant" and bool(message["content"][-1]["type"] == "tool_use")
