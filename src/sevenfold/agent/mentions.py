"""Files the user mentions, put beside the message that mentions them.

They are read as the model would read them: by the same reader, within the same limits, past the same permissions,
hooks and consent. What cannot be read is told and left out; the message itself is sent as it was typed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sevenfold.agent.executor import Hands
from sevenfold.agent.loop import Call
from sevenfold.agent.tools import files
from sevenfold.agent.tools.mentions import MOST_MENTIONS, Look, mentioned, plainly_a_path
from sevenfold.agent.tools.output import ToolOutput, failed
from sevenfold.agent.tools.toolbox import Toolbox
from sevenfold.conversation.flow import Run
from sevenfold.conversation.intake import blocks_in
from sevenfold.conversation.transcript import Beside
from sevenfold.errors import InputError
from sevenfold.prompts.context import MentionedFile, MentionedFolder
from sevenfold.record import blocks

CHARACTERS_PER_TOKEN = 3
IMAGE_TOKENS = 2_000
Tell = Callable[[str, ToolOutput, bool], None]
"""Told of each path as it was typed, with what was seen there, and whether it is a folder."""


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
            real = files.place(word, self._hands.context).real
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
            path, real = call.input["path"], files.place(call.input["path"], self._hands.context).real
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
