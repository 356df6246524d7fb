"""Between the keyboard and the chat: what is typed becomes a message, a queued message or a command."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import get_args

from msgspec.structs import replace
from rich.console import RenderableType
from rich.text import Text

from sevenfold.errors import InputError
from sevenfold.surfaces.chat import commands
from sevenfold.surfaces.chat.chat import Chat
from sevenfold.surfaces.chat.job import Job
from sevenfold.surfaces.chat.live import drawn
from sevenfold.surfaces.chat.status import line
from sevenfold.surfaces.chat.words import clean
from sevenfold.surfaces.wording import plural
from sevenfold.tools.permissions import Mode

MOST_ECHOED = 40
"""Lines that are shown of what was typed or pasted."""


class Driver:
    """Drives one chat; called by the thread that draws, and never waits."""

    def __init__(self, chat: Chat, over: Callable[[BaseException | None], None]) -> None:
        self.chat = chat
        self._over = over
        self._job = Job(over)

    @property
    def busy(self) -> bool:
        """Is something under way?"""
        return self._job.busy

    @property
    def moves(self) -> bool:
        """Does what is drawn change by itself?"""
        return self.busy or bool(self.chat.background())

    def submit(self, text: str) -> None:
        """What was typed is meant: words, or a command."""
        chat = self.chat
        if commands.is_command(text):
            self.command(text.strip())
        elif not self.busy:
            self._echo(text, apart=True)
            self._job.begin(lambda: chat.turn(text))
        elif chat.live.doing == "working":
            chat.queue(text)
        else:
            chat.say(
                "warning", f"{chat.live.doing or 'a command is under way'}; wait for it, then send again"
            )
            chat.screen.suggest(text)

    def command(self, text: str) -> None:
        """Carry out a command, beside the turn if that is possible."""
        self._echo(text)
        if not self.busy:
            self._job.begin(lambda: commands.run(self.chat, text))
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
        if not self.busy:
            return
        if self.chat.live.doing not in ("", "working") and not self.chat.live.stopping:
            self.chat.say("note", f"{self.chat.live.doing} cannot be stopped half-way; it ends by itself")
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
        return drawn(chat.live, chat.screen.signs, width, time.monotonic(), str(chat.start.folder))

    def status(self, width: int) -> RenderableType:
        """The status line; what waits and what runs beside may change at any moment."""
        chat = self.chat
        now = replace(chat.status, background=chat.background(), queued=len(chat.live.queued))
        return line(now, chat.screen.signs, width)

    def close(self) -> None:
        """Stop, and let others open the session."""
        self.interrupt()
        self._job.wait()
        self.chat.close()

    def _echo(self, text: str, *, apart: bool = False) -> None:
        lines = clean(text).split("\n")
        if (more := len(lines) - MOST_ECHOED) > 0:
            lines = [*lines[:MOST_ECHOED], f"… {plural(more, 'more line')}"]
        shown = "\n".join(lines)
        said = Text(f"{self.chat.screen.signs.prompt} {shown}", style="bold", overflow="fold")
        self.chat.screen.show(*((Text(), said, Text()) if apart else (said,)))
