"""Between the keyboard and the chat: what is typed becomes a message, a queued message or a command.

What can be typed next: commands behind a slash, what some of them take, and files behind an @.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import get_args

from msgspec.structs import replace
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from rich.console import RenderableType
from rich.text import Text

from sevenfold.agent.permissions.engine import Mode
from sevenfold.cli.chat import slash_commands as commands
from sevenfold.cli.chat.chat import Chat
from sevenfold.cli.chat.lines import drawn
from sevenfold.cli.chat.screen import Job
from sevenfold.cli.chat.slash_commands import COMMANDS, MODES, sessions_of
from sevenfold.cli.chat.status import line
from sevenfold.cli.text import clean, fit, plural
from sevenfold.errors import InputError
from sevenfold.profiles import names

# -- driver


MOST_ECHOED = 20
"""Lines that are shown of what was typed or pasted…"""
LONGEST_ECHOED = 500
"""…and cells of each."""


class Driver:
    """Drives one chat; called by the thread that draws, and never waits."""

    def __init__(self, chat: Chat, over: Callable[[BaseException | None], None]) -> None:
        self.chat = chat
        self._over = over
        self._job = Job(over)
        self._lock = threading.Lock()
        self._busy = False
        self._later: deque[str] = deque()
        """What was said while a command was under way."""

    @property
    def busy(self) -> bool:
        """Is something under way?"""
        return self._busy and self._job.busy

    @property
    def moves(self) -> bool:
        """Does what is drawn change by itself?"""
        return self.busy or bool(self.chat.background())

    def submit(self, text: str) -> None:
        """What was typed is meant: words, or a command."""
        if commands.is_command(text):
            self.command(text.strip())
            return
        with self._lock:
            if not self.busy:
                self._begin(lambda: self._turn(text))
            elif self.chat.live.doing == "working":
                self.chat.queue(text)
            else:
                self._later.append(text)
        self.chat.screen.changed()

    def command(self, text: str) -> None:
        """Carry out a command, beside the turn if that is possible."""
        self._echo(text)
        with self._lock:
            if not self.busy:
                self._begin(lambda: commands.run(self.chat, text))
                return
        try:
            anytime = commands.find(text)[0].anytime
        except InputError:
            anytime = True
        if anytime:
            Job(self._over).begin(lambda: commands.run(self.chat, text))
        else:
            self.chat.say("warning", f"{text.split()[0]} has to wait until it is done; Esc interrupts")

    def interrupt(self) -> None:
        """Stop what is under way."""
        if self.busy:
            self.chat.interrupt()

    def next_mode(self) -> None:
        """The next of the modes one may switch to with a key; autonomy has to be asked for by name."""
        modes: tuple[Mode, ...] = tuple(one for one in get_args(Mode) if one != "autonomous")
        now = self.chat.agent.grants.mode
        self.chat.agent.grants.mode = (
            modes[(modes.index(now) + 1) % len(modes)] if now in modes else modes[0]
        )
        self.chat.update()

    def live(self, width: int) -> RenderableType | None:
        """What is under way."""
        chat = self.chat
        shown = replace(chat.live, queued=(*chat.live.queued, *self._later))
        return drawn(shown, chat.screen.signs, width, time.monotonic(), str(chat.start.folder))

    def status(self, width: int) -> RenderableType:
        """The status line; what waits and what runs beside may change at any moment."""
        chat = self.chat
        waiting = len(chat.live.queued) + len(self._later)
        now = replace(chat.status, background=chat.background(), queued=waiting)
        return line(now, chat.screen.signs, width)

    def close(self) -> None:
        """Stop, and let others open the session."""
        self._later.clear()
        self.interrupt()
        self._job.wait()
        self.chat.close()

    # -- inside ----------------------------------------------------------------------------------

    def _begin(self, work: Callable[[], object]) -> None:
        self._busy = True
        self._job.begin(lambda: self._work(work))

    def _work(self, work: Callable[[], object]) -> None:
        """Do something, and then what was said meanwhile."""
        work()
        while (text := self._next()) is not None:
            self._turn(text)

    def _next(self) -> str | None:
        with self._lock:
            if self._later:
                return self._later.popleft()
            self._busy = False
            return None

    def _turn(self, text: str) -> None:
        self._echo(text, apart=True)
        self.chat.turn(text)

    def _echo(self, text: str, *, apart: bool = False) -> None:
        signs = self.chat.screen.signs
        lines = clean(text[: MOST_ECHOED * LONGEST_ECHOED]).split("\n")
        more = text.count("\n") + 1 - MOST_ECHOED
        shown = [fit(one, LONGEST_ECHOED, signs.cut) for one in lines[:MOST_ECHOED]]
        if more > 0:
            shown.append(f"{signs.cut} {plural(more, 'more line')}")
        elif len(text) > MOST_ECHOED * LONGEST_ECHOED:
            shown.append(f"{signs.cut} {len(text):,} characters")
        said = Text(f"{signs.prompt} " + "\n".join(shown), style="bold", overflow="fold")
        self.chat.screen.show(*((Text(), said, Text()) if apart else (said,)))


# -- completion


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
