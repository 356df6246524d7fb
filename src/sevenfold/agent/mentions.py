"""Files the user mentions, put beside the message that mentions them.

They are read as the model would read them: by the same reader, within the same limits, past the same permissions,
hooks and consent. What cannot be read is told and left out; the message itself is sent as it was typed. Mentions are
``@src/app.py``, ``@"a name with spaces.md"``, or ``@docs/`` for what a folder holds. Text that is pasted is full of
other uses of the sign (decorators, packages, addresses), so a path that does not exist is only worth a remark if it can
hardly be anything else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from sevenfold.agent.executor import Hands
from sevenfold.agent.loop import Call
from sevenfold.agent.tools import files
from sevenfold.agent.tools.context import Context
from sevenfold.agent.tools.output import ToolOutput, failed
from sevenfold.agent.tools.read import Read, ReadInput
from sevenfold.agent.tools.tool import Toolbox
from sevenfold.conversation.flow import Run
from sevenfold.conversation.intake import blocks_in
from sevenfold.conversation.transcript import Beside
from sevenfold.errors import InputError, Refused
from sevenfold.prompts.context import MentionedFile, MentionedFolder
from sevenfold.record import blocks

MOST_MENTIONS = 20
"""Paths of one message that are looked at."""
MOST_ENTRIES = 200
"""Entries of a folder that are listed."""
_MENTION = re.compile(r"""(?<![^\s(\[{'"`])@(?:"([^"\n]+)"|([^\s"'`<>(){}\[\],;|]+))""")
_MOST_LOOKED_AT = 1_000
_ENDING = ".:!?"
"""What ends a sentence rather than a path."""
_PLAINLY_A_PATH = re.compile(r"~?[\w./+-]*(?:/[\w+-]*\.\w+|/)|[\w+-]+\.[a-z]{1,4}")
CHARACTERS_PER_TOKEN = 3
IMAGE_TOKENS = 2_000
Tell = Callable[[str, ToolOutput, bool], None]
"""Told of each path as it was typed, with what was seen there, and whether it is a folder."""


def mentioned(text: str) -> tuple[str, ...]:
    """The words behind the signs, each once, in order."""
    found: dict[str, None] = {}
    for match in islice(_MENTION.finditer(text), _MOST_LOOKED_AT):
        if word := match[1] or match[2].rstrip(_ENDING):
            found[word] = None
    return tuple(found)


def plainly_a_path(word: str) -> bool:
    """Whether it can hardly be anything else, so that its absence should be reported."""
    return _PLAINLY_A_PATH.fullmatch(word) is not None


class Look(Read):
    """Shows a file as Read does, and lists the entries of a folder; the same rules and hooks hold for both."""

    def act(self, given: ReadInput, context: Context) -> ToolOutput:
        """Show it, by what it is."""
        path = files.permitted_path(given.path, context)
        return _entries(path) if Path(path).is_dir() else super().act(given, context)


class Mentions:
    """Reads what messages of one session mention."""

    def __init__(self, hands: Hands, room: Callable[[], int], tell: Tell) -> None:
        self._hands = hands
        self._room = room
        self._tell = tell

    @staticmethod
    def box() -> Toolbox:
        """The one tool that is needed."""
        return Toolbox([Look()])

    def beside(self, text: str) -> Run[list[Beside]]:
        """Reads what a text mentions; comes to what is to be put beside it."""
        return Run(lambda: self._read(text), lambda: self._read_async(text))

    def _read(self, text: str) -> list[Beside]:
        calls = self._calls(text)
        return self._attached(calls, self._hands.act(calls))

    async def _read_async(self, text: str) -> list[Beside]:
        calls = self._calls(text)
        return self._attached(calls, await self._hands.act_async(calls))

    def _calls(self, text: str) -> list[Call]:
        words = [word for word in mentioned(text) if self._worth_a_look(word)]
        for word in words[MOST_MENTIONS:]:
            self._tell(word, failed(f"No more than {MOST_MENTIONS} files of one message are read."), False)
        found = enumerate(words[:MOST_MENTIONS], 1)
        return [Call(f"mention-{number}", Look.name, {"path": word}) for number, word in found]

    def _worth_a_look(self, word: str) -> bool:
        """Is there something, or should it be told that there is not? Nobody is asked about what is not there."""
        try:
            real = files.resolve(word, self._hands.context).real
        except InputError:
            return False
        if files.exists(real) or not plainly_a_path(word):
            return files.exists(real)
        if self._hands.context.inside(real):
            return True
        self._tell(word, failed("There is no such file."), False)
        return False

    def _attached(self, calls: Sequence[Call], results: Sequence[Mapping[str, Any]]) -> list[Beside]:
        """What was read, as far as it fits beside the message."""
        room = self._room() * CHARACTERS_PER_TOKEN
        made: list[Beside] = []
        for call, result in zip(calls, results, strict=True):
            output = ToolOutput(result["content"], is_error=bool(result.get("is_error")))
            if not output.is_error and (size := _size(output)) > room:
                output = failed(
                    f"It has about {size // CHARACTERS_PER_TOKEN:,} tokens, and {room // CHARACTERS_PER_TOKEN:,} "
                    "fit beside this message. Ask for the parts that matter."
                )
            path, real = call.input["path"], files.resolve(call.input["path"], self._hands.context).real
            folder = Path(real).is_dir()
            self._tell(path, output, folder)
            if not output.is_error:
                room -= _size(output)
                made.append(_listed(path, real, output) if folder else _shown(path, real, output))
        return made


def _listed(path: str, real: str, output: ToolOutput) -> Beside:
    text = MentionedFolder(real, str(output.content)).render()
    return Beside("directory", (blocks.text(text),), {"path": real, "displayPath": path})


def _shown(path: str, real: str, output: ToolOutput) -> Beside:
    pictures = [] if isinstance(output.content, str) else blocks_in(output.content)
    words = output.content if isinstance(output.content, str) else "(a picture, shown below)"
    text = blocks.text(MentionedFile(real, words).render())
    return Beside("file", (text, *pictures), {"filename": real, "displayPath": path})


def _size(output: ToolOutput) -> int:
    if isinstance(output.content, str):
        return len(output.content)
    return sum(len(part.get("text", "")) or IMAGE_TOKENS * CHARACTERS_PER_TOKEN for part in output.content)


def _entries(path: str) -> ToolOutput:
    try:
        with os.scandir(path) as found:
            names = sorted(f"{one.name}/" if one.is_dir() else one.name for one in found)
    except OSError as error:
        raise Refused(f"{path} cannot be listed: {error.strerror}.") from error
    if not names:
        return ToolOutput(f"{path} is empty.")
    more = len(names) - MOST_ENTRIES
    note = [f"(and {more:,} more)"] if more > 0 else []
    return ToolOutput("\n".join([*names[:MOST_ENTRIES], *note]))
