"""Attaches to a message the files that it mentions.

They are read as the model would read them: with the same tool and limits, and subject to the same permissions, hooks
and consent. A file that cannot be read is reported and left out; the message itself is sent as typed. Mentions are
``@src/app.py``, ``@"a name with spaces.md"``, or ``@docs/`` for the entries of a folder. Pasted text is full of other
uses of the at sign (decorators, packages, addresses), so a path that does not exist is reported only if it can hardly
be anything but a path, and nothing inside a fenced block is a mention.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from sevenfold.agent.agent_events import Mentioned
from sevenfold.agent.executor import Executor
from sevenfold.agent.tools import files
from sevenfold.agent.tools.context import Context
from sevenfold.agent.tools.output import ToolOutput, failed
from sevenfold.agent.tools.read import ReadInput, ReadTool
from sevenfold.conversation.flow import Flow, unguarded
from sevenfold.conversation.intake import user_blocks
from sevenfold.conversation.request import ToolCall
from sevenfold.conversation.transcript import Attachment
from sevenfold.errors import InputError, Refused
from sevenfold.prompts.context import MentionedFile, MentionedFolder
from sevenfold.record import blocks

MOST_MENTIONS = 20
"""How many paths of one message are read."""
MOST_ENTRIES = 200
"""How many entries of a folder are listed."""
CHARACTERS_PER_TOKEN = 3
IMAGE_TOKENS = 2_000
_MENTION = re.compile(r"""(?<![^\s(\[{'"`])@(?:"([^"\n]+)"|([^\s"'`<>(){}\[\],;|]+))""")
_FENCED = re.compile(r"^(`{3,})[^`\n]*\n.*?(?:^\1`*\s*$|\Z)", re.DOTALL | re.MULTILINE)
_MOST_LOOKED_AT = 1_000
_ENDING = ".:!?"
"""Characters that, at the end of a mention, end the sentence rather than the path."""
_PLAINLY_A_PATH = re.compile(r"~?[\w./+-]*(?:/[\w+-]*\.\w+|/)|[\w+-]+\.[a-z]{1,4}")


def mentioned(text: str) -> tuple[str, ...]:
    """The paths that a text mentions (the words after at signs), each once, in order."""
    paths: dict[str, None] = {}
    for match in islice(_MENTION.finditer(_FENCED.sub("", text)), _MOST_LOOKED_AT):
        if path := match[1] or match[2].rstrip(_ENDING):
            paths[path] = None
    return tuple(paths)


def plainly_a_path(path: str) -> bool:
    """Whether a word can hardly be anything but a path, so a missing file should be reported."""
    return _PLAINLY_A_PATH.fullmatch(path) is not None


class MentionTool(ReadTool):
    """Shows a file as Read does, or lists the entries of a folder, under the rules and hooks for Read."""

    def act(self, arguments: ReadInput, context: Context) -> ToolOutput:
        """Show the file, or list the folder."""
        path = files.permitted_path(arguments.path, context)
        return _entries(path) if Path(path).is_dir() else super().act(arguments, context)


class Mentions:
    """Reads the files that messages of one session mention as ``@path``."""

    def __init__(self, executor: Executor, tokens: int, report: Callable[[Mentioned], None]) -> None:
        """``tokens`` is the most that the files of one message may take.

        ``report`` is called with each path that was read or could not be read.
        """
        self._executor = executor
        self._tokens = tokens
        self._report = report

    def read(self, text: str) -> Flow[list[Attachment]]:
        """Read the files a text mentions; the flow returns the attachments for its message."""
        # Unguarded, so that the session is not locked while a report waits for a slow reader of events.
        return unguarded(self._read(text))

    def _read(self, text: str) -> Flow[list[Attachment]]:
        calls = self._calls(text)
        results = yield from self._executor.run(calls)
        return self._attachments(calls, results)

    def _calls(self, text: str) -> list[ToolCall]:
        paths = [path for path in mentioned(text) if self._is_readable(path)]
        for path in paths[MOST_MENTIONS:]:
            over = failed(f"At most {MOST_MENTIONS} files per message are read.")
            self._report(Mentioned(path, over))
        numbered = enumerate(paths[:MOST_MENTIONS], 1)
        return [
            ToolCall(f"mention-{number}", MentionTool.name, {"path": path}) for number, path in numbered
        ]

    def _is_readable(self, path: str) -> bool:
        """Whether to read this path; the user is never asked about a path outside the workspace that does not exist."""
        context = self._executor.context
        try:
            real = files.resolve(path, context).real
        except InputError:
            return False
        if files.exists(real) or not plainly_a_path(path):
            return files.exists(real)
        if context.inside(real):
            return True
        self._report(Mentioned(path, failed("There is no such file.")))
        return False

    def _attachments(
        self, calls: Sequence[ToolCall], results: Sequence[Mapping[str, Any]]
    ) -> list[Attachment]:
        """The attachments for what was read, as far as they fit; reports each path."""
        room = self._tokens * CHARACTERS_PER_TOKEN
        attachments: list[Attachment] = []
        for call, result in zip(calls, results, strict=True):
            output = ToolOutput(result["content"], is_error=bool(result.get("is_error")))
            if not output.is_error and (characters := _characters(output)) > room:
                output = failed(
                    f"It has about {characters // CHARACTERS_PER_TOKEN:,} tokens, and "
                    f"{room // CHARACTERS_PER_TOKEN:,} fit with this message. Ask for the parts that matter."
                )
            path = call.input["path"]
            real = files.resolve(call.input["path"], self._executor.context).real
            folder = Path(real).is_dir()
            self._report(Mentioned(path, output, folder))
            if not output.is_error:
                room -= _characters(output)
                attachments.append(_folder(path, real, output) if folder else _file(path, real, output))
        return attachments


def _folder(path: str, real: str, output: ToolOutput) -> Attachment:
    text = MentionedFolder(real, str(output.content)).render()
    return Attachment("directory", (blocks.text(text),), {"path": real, "displayPath": path})


def _file(path: str, real: str, output: ToolOutput) -> Attachment:
    pictures = [] if isinstance(output.content, str) else list(user_blocks(output.content))
    content = output.content if isinstance(output.content, str) else "(a picture, shown below)"
    text = blocks.text(MentionedFile(real, content).render())
    return Attachment("file", (text, *pictures), {"filename": real, "displayPath": path})


def _characters(output: ToolOutput) -> int:
    if isinstance(output.content, str):
        return len(output.content)
    return sum(
        len(block.get("text", "")) or IMAGE_TOKENS * CHARACTERS_PER_TOKEN for block in output.content
    )


def _entries(path: str) -> ToolOutput:
    try:
        with os.scandir(path) as entries:
            names = sorted(f"{entry.name}/" if entry.is_dir() else entry.name for entry in entries)
    except OSError as error:
        raise Refused(f"{path} cannot be listed: {error.strerror}.") from error
    if not names:
        return ToolOutput(f"{path} is empty.")
    left_out = len(names) - MOST_ENTRIES
    note = [f"(and {left_out:,} more)"] if left_out > 0 else []
    return ToolOutput("\n".join([*names[:MOST_ENTRIES], *note]))
