"""What can be typed next: commands behind a slash, what some of them take, and files behind an @."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from sevenfold.cli.chat.actions import MODES, sessions_of
from sevenfold.cli.chat.commands import COMMANDS
from sevenfold.cli.chat.words import clean
from sevenfold.profiles import names

MOST_SHOWN = 50
MOST_SEEN = 20_000
"""Files that are looked at in a folder."""
FRESH_SECONDS = 5.0
_MENTION = re.compile(r"""(?<![^\s(\[{'`])@("[^"\n]*|[^\s"]*)$""")
_SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "target", "dist", "build"})


class Completions(Completer):
    """Completes for one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: list[str] = []
        self._seen_at = float("-inf")

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """What fits the text before the cursor."""
        text = document.text_before_cursor
        if text.startswith("/") and "\n" not in text:
            yield from self._commands(text)
            return
        if mention := _MENTION.search(text):
            yield from self._paths(mention[1])

    def _commands(self, text: str) -> Iterator[Completion]:
        name, space, rest = text[1:].partition(" ")
        if not space:
            for command in COMMANDS:
                if command.name.startswith(name.lower()):
                    yield Completion(
                        f"/{command.name}", -len(text), display=command.usage, display_meta=command.says
                    )
            return
        for one in self._values(name):
            if one.startswith(rest):
                yield Completion(one, -len(rest))

    def _values(self, command: str) -> tuple[str, ...]:
        match command:
            case "model":
                return names()
            case "mode":
                return MODES
            case "resume":
                return tuple(one.name for one in sessions_of(self._folder))
            case _:
                return ()

    def _paths(self, typed: str) -> Iterator[Completion]:
        wanted = typed.removeprefix('"').lower()
        found = [path for path in self._all() if wanted in path.lower()]
        found.sort(key=lambda path: (not path.lower().startswith(wanted), path.count("/"), path))
        for path in found[:MOST_SHOWN]:
            named = f'"{path}"' if any(map(str.isspace, path)) else path
            yield Completion(f"@{named}", -len(typed) - 1, display=path)

    def _all(self) -> list[str]:
        if time.monotonic() - self._seen_at > FRESH_SECONDS:
            self._files = list(_files(self._folder))
            self._seen_at = time.monotonic()
        return self._files


def _files(folder: Path) -> Iterator[str]:
    """What is beneath a folder by its path in it, but for what is hidden, generated, or cannot be typed."""
    seen = 0
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(one for one in folders if not one.startswith(".") and one not in _SKIPPED)
        for name in sorted([*files, *(f"{one}/" for one in folders)]):
            path = os.path.relpath(Path(place, name), folder).replace(os.sep, "/")
            path += "/" if name.endswith("/") else ""
            if not name.startswith(".") and clean(path) == path and '"' not in path:
                yield path
        seen += len(files)
        if seen > MOST_SEEN:
            return
