"""Between the keyboard and the chat: turns typed input into a message, a queued message or a command."""

from __future__ import annotations

import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from msgspec.structs import replace
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from rich.console import RenderableType
from rich.text import Text

from sevenfold.cli.chat import slash_commands
from sevenfold.cli.chat.chat import Chat
from sevenfold.cli.chat.history import chat_sessions, sessions
from sevenfold.cli.chat.lines import draw_activity
from sevenfold.cli.chat.markdown import render_markdown
from sevenfold.cli.chat.screen import Worker
from sevenfold.cli.chat.slash_commands import MODES
from sevenfold.cli.chat.status import draw_status
from sevenfold.cli.text import clean, fit, plural
from sevenfold.conversation.controls import EFFORTS, THINKING
from sevenfold.errors import InputError
from sevenfold.profiles import ALIASES, names
from sevenfold.record.authorship import UserPrompt

MOST_ECHOED = 20
"""Lines of typed or pasted input that are echoed."""
LONGEST_ECHOED = 500
"""Cells of each echoed line."""


class Driver:
    """Drives a chat. The drawing thread calls it, so nothing but `close` blocks."""

    def __init__(self, chat: Chat, on_done: Callable[[BaseException | None], None]) -> None:
        self.chat = chat
        self._on_done = on_done
        self._worker = Worker(on_done)
        self._lock = threading.Lock()
        self._busy = False
        self._pending_inputs: deque[UserPrompt] = deque()
        """Messages and commands that were sent while a command was running or a turn was ending."""
        self._alarm: threading.Timer | None = None
        """Wakes the chat shortly before the cache of an idle conversation expires."""

    @property
    def busy(self) -> bool:
        """Whether a turn or a command is running."""
        return self._busy and self._worker.busy

    def submit(self, given: str | UserPrompt) -> None:
        """Send what the user wrote: a command is run, a message is sent at once or queued."""
        prompt = UserPrompt.of(given)
        if slash_commands.is_command(prompt.text):
            self.command(prompt)
            return
        with self._lock:
            if not self.busy:
                self._begin(lambda: self._turn(prompt))
            elif self.chat.live.doing == "working":
                self.chat.queue(prompt)
            else:
                self._pending_inputs.append(prompt)
        self.chat.screen.changed()

    def command(self, given: str | UserPrompt) -> None:
        """Run a command: now if nothing runs or it may run anytime, after a running command, but not during a turn."""
        prompt = UserPrompt.of(given)
        text = prompt.text.strip()
        self._echo(text)
        try:
            anytime = slash_commands.find(text, self.chat.options.folder)[0].anytime
        except InputError:
            anytime = True
        with self._lock:
            if not self.busy:
                self._begin(lambda: slash_commands.run(self.chat, prompt))
                return
            if not anytime and self.chat.live.doing != "working":
                self._pending_inputs.append(prompt)
                return
        if anytime:
            Worker(self._on_done).begin(lambda: slash_commands.run(self.chat, prompt))
        else:
            name = text.split()[0]
            self.chat.say("warning", f"{name} cannot run while the agent works; Esc interrupts it")

    @property
    def has_queued(self) -> bool:
        """Whether a message waits to be sent."""
        return bool(self._pending_inputs or self.chat.agent.waiting)

    def take_back(self) -> UserPrompt | None:
        """Take the newest message that waits to be sent back, to change it or to drop it."""
        with self._lock:
            if self._pending_inputs:
                return self._pending_inputs.pop()
        return self.chat.unqueue()

    def interrupt(self) -> None:
        """Interrupt the turn or command that is running."""
        if self.busy:
            self.chat.interrupt()

    def next_mode(self) -> None:
        """Switch to the next permission mode; the autonomous mode has to be chosen by name."""
        modes = [mode for mode in MODES if mode != "autonomous"]
        grants = self.chat.agent.grants
        place = modes.index(grants.mode) + 1 if grants.mode in modes else 0
        grants.mode = modes[place % len(modes)]
        self.chat.update()

    def live(self) -> RenderableType | None:
        """The current activity, drawn; None if there is none."""
        chat = self.chat
        pending = (prompt.text for prompt in self._pending_inputs)
        shown = replace(chat.live, queued=(*chat.live.queued, *pending))
        drawn = [render_markdown(shown.pending)] if shown.pending.strip() else []
        return draw_activity(shown, drawn, chat.line_spec, chat.clock())

    def status(self) -> RenderableType:
        """The status line, drawn."""
        chat = self.chat
        waiting = len(chat.live.queued) + len(self._pending_inputs)
        now = replace(chat.status, background=chat.background(), queued=waiting)
        return draw_status(now, chat.screen.signs, chat.screen.width)

    def close(self) -> None:
        """Stop what is running, wait for it, and close the chat."""
        self._pending_inputs.clear()
        self._set_alarm(None)
        self.interrupt()
        self._worker.wait()
        self.chat.close()

    def _begin(self, work: Callable[[], object]) -> None:
        def run() -> None:
            work()
            while (prompt := self._next()) is not None:
                if slash_commands.is_command(prompt.text):
                    slash_commands.run(self.chat, prompt)
                else:
                    self._turn(prompt)

        self._busy = True
        self._worker.begin(run)

    def _next(self) -> UserPrompt | None:
        with self._lock:
            if self._pending_inputs:
                return self._pending_inputs.popleft()
            self._busy = False
        self._set_alarm(self.chat.idle_in())
        return None

    def _set_alarm(self, seconds: float | None) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        if seconds is not None:
            self._alarm = threading.Timer(seconds, self._idle)
            self._alarm.daemon = True
            self._alarm.start()

    def _idle(self) -> None:
        with self._lock:
            if not self.busy:
                self._begin(self.chat.idle)

    def _turn(self, prompt: UserPrompt) -> None:
        self._echo(prompt.text, apart=True)
        self.chat.turn(prompt)

    def _echo(self, text: str, *, apart: bool = False) -> None:
        signs = self.chat.screen.signs
        lines = clean(text[: MOST_ECHOED * LONGEST_ECHOED]).split("\n")
        more = text.count("\n") + 1 - MOST_ECHOED
        shown = [fit(line, LONGEST_ECHOED, signs.cut) for line in lines[:MOST_ECHOED]]
        if more > 0:
            shown.append(f"{signs.cut} {plural(more, 'more line')}")
        elif len(text) > MOST_ECHOED * LONGEST_ECHOED:
            shown.append(f"{signs.cut} {len(text):,} characters")
        said = Text(f"{signs.prompt} " + "\n".join(shown), style="bold", overflow="fold")
        self.chat.screen.show(*((Text(), said, Text()) if apart else (said,)))


# -- completion ------------------------------------------------------------------------------

MOST_SHOWN = 50
MOST_FILES = 20_000
"""Files listed for completion, at most."""
FRESH_SECONDS = 5.0
_MENTION = re.compile(r"""(?<![^\s(\[{'`])@("[^"\n]*|[^\s"]*)$""")
_SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "target", "dist", "build"})


class ChatCompleter(Completer):
    """Completes commands after a slash, the values some of them take, and files after an @."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: list[str] = []
        self._read_at = float("-inf")

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """The completions for the text before the cursor."""
        text = document.text_before_cursor
        if text.startswith("/") and "\n" not in text:
            yield from self._commands(text)
        elif mention := _MENTION.search(text):
            yield from self._paths(mention[1])

    def _commands(self, text: str) -> Iterator[Completion]:
        name, space, rest = text[1:].partition(" ")
        if not space:
            for command in slash_commands.commands(self._folder):
                if command.name.startswith(name.lower()):
                    usage = command.usage
                    says = command.says
                    yield Completion(f"/{command.name}", -len(text), display=usage, display_meta=says)
            return
        for value in self._values(name):
            if value.startswith(rest):
                yield Completion(value, -len(rest))

    def _values(self, command: str) -> tuple[str, ...]:
        match command:
            case "model":
                return (*ALIASES, *names())
            case "mode":
                return MODES
            case "effort":
                return EFFORTS
            case "thinking":
                return THINKING
            case "resume":
                return tuple(session.title for session in chat_sessions(sessions(self._folder)))
            case _:
                return ()

    def _paths(self, typed: str) -> Iterator[Completion]:
        wanted = typed.removeprefix('"').lower()
        if time.monotonic() - self._read_at > FRESH_SECONDS:
            self._files = list(_files(self._folder))
            self._read_at = time.monotonic()
        matching = [path for path in self._files if wanted in path.lower()]
        matching.sort(key=lambda path: (not path.lower().startswith(wanted), path.count("/"), path))
        for path in matching[:MOST_SHOWN]:
            named = f'"{path}"' if any(map(str.isspace, path)) else path
            yield Completion(f"@{named}", -len(typed) - 1, display=path)


def _files(folder: Path) -> Iterator[str]:
    """The files and folders below a folder, except those that are hidden, generated, or cannot be typed."""
    seen = 0
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _SKIPPED)
        for name in sorted([*files, *(f"{subfolder}/" for subfolder in folders)]):
            path = os.path.relpath(Path(place, name), folder).replace(os.sep, "/")
            path += "/" if name.endswith("/") else ""
            if not name.startswith(".") and clean(path) == path and '"' not in path:
                yield path
        seen += len(files)
        if seen > MOST_FILES:
            return
