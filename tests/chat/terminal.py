"""A real terminal for tests: the app runs in a pseudo-terminal, and what it draws is read off an emulated screen."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pyte

from . import child

PATIENCE = 120.0
"""Seconds until something that does not happen counts as not happening; nothing waits that long that works."""
KEYS = {
    "enter": "\r",
    "esc": "\x1b",
    "ctrl-c": "\x03",
    "ctrl-d": "\x04",
    "ctrl-o": "\x0f",
    "ctrl-r": "\x12",
    "down": "\x1b[B",
    "up": "\x1b[A",
    "end": "\x1b[F",
    "alt-enter": "\x1b\r",
    "shift-tab": "\x1b[Z",
}


class Terminal:
    """One run of the app."""

    def __init__(
        self,
        *options: str,
        home: Path,
        folder: Path,
        url: str = "",
        columns: int = 100,
        rows: int = 40,
        **environ: str,
    ) -> None:
        kept = ("PATH", "PYTHONPATH", "LANG", "HOME", "COVERAGE_PROCESS_START")
        given = {name: os.environ[name] for name in kept if name in os.environ}
        given |= {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "SEVENFOLD_HOME": str(home)}
        # A model that repeats what it hears would find facts in the instruction to look for them.
        # What is asked about must not depend on whether this machine has a sandbox.
        given |= {"SEVENFOLD_EXTRACTION": "0", "SEVENFOLD_SANDBOX": "off", **environ}
        if url:
            given |= {"ANTHROPIC_API_KEY": "simulated-key", "ANTHROPIC_BASE_URL": url}
        self._screen = pyte.HistoryScreen(columns, rows, history=5_000)
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""
        self._keyboard, inside = pty.openpty()
        self._set_size(columns, rows)
        self._child = child.start(options, os.ttyname(inside), given, folder)
        os.close(inside)
        self._display = ""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        self._child.join()
        self._child.close()
        os.close(self._keyboard)

    def type(self, words: str) -> Terminal:
        """Type words, without Enter."""
        os.write(self._keyboard, words.encode())
        return self

    def press(self, *keys: str) -> Terminal:
        """Press keys by their names."""
        for key in keys:
            self.type(KEYS[key])
        return self

    def say(self, words: str) -> Terminal:
        """Type words and send them, in one go: a signal must not come in between."""
        return self.type(words + KEYS["enter"])

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the app."""
        assert self._child.pid is not None
        os.kill(self._child.pid, number)

    def resize(self, columns: int, rows: int) -> None:
        """The user drags the window's corner."""
        self._set_size(columns, rows)
        if columns < self._screen.columns:
            self._break_rows(columns, rows)
        else:
            self._screen.resize(rows, columns)
        self._display = ""
        self.signal(signal.SIGWINCH)

    def read(self, seconds: float) -> bool:
        """Read what the app writes within this time; False when there will be no more."""
        if not select.select([self._keyboard], [], [], seconds)[0]:
            return True
        try:
            came = os.read(self._keyboard, 65_536)
        except OSError:
            # The other end is closed: the app has ended.
            return False
        self.raw += came
        self._stream.feed(came)
        self._display = ""
        return True

    def until(self, wanted: str | Callable[[], bool]) -> Terminal:
        """Read on until a text stands on the screen, or something holds."""

        def holds() -> bool:
            return wanted in self.shown if isinstance(wanted, str) else wanted()

        # By the clock: an app that draws all the time is read as often as it draws.
        end = time.monotonic() + PATIENCE
        while not holds():
            if not self.read(0.2) and not holds():
                raise AssertionError(f"the app ended without {wanted!r}:\n{self.everything}")
            if time.monotonic() > end and not holds():
                raise AssertionError(f"{wanted!r} never came:\n{self.everything}")
        return self

    def ready(self) -> Terminal:
        """Read on until the app waits for the user."""
        return self.until(
            lambda: (
                "% of " in self.shown
                and not any(word in self.shown for word in ("Esc interrupts", "stopping"))
            )
        )

    def ended(self) -> int:
        """Read to the end; returns the exit code."""
        while self.read(1.0):
            pass
        self._child.join()
        assert self._child.exitcode is not None
        return self._child.exitcode

    def _break_rows(self, columns: int, rows: int) -> None:
        """Break the rows that no longer fit into several, as most terminals do."""
        before = self._screen.cursor
        lines = self.everything.split("\n")
        above = len(lines) - len(self.shown.split("\n"))
        narrow = pyte.HistoryScreen(columns, rows, history=5_000)
        stream = pyte.ByteStream(narrow)
        stream.feed("\r\n".join(lines[: above + before.y + 1]).encode())
        narrow.cursor.x = before.x % columns
        cursor = narrow.cursor.y
        behind = lines[above + before.y + 1 :]
        scrolled = len(narrow.history.top)
        stream.feed("".join(f"\r\n{line}" for line in behind).encode())
        narrow.cursor.y = cursor - (len(narrow.history.top) - scrolled)
        narrow.cursor.x = before.x % columns
        self._screen = narrow
        self._stream = stream

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._keyboard, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    @property
    def shown(self) -> str:
        """What stands on the screen."""
        # Kept until something is drawn: putting a screen together takes longer than any app takes to change it.
        self._display = self._display or "\n".join(line.rstrip() for line in self._screen.display).rstrip()
        return self._display

    @property
    def everything(self) -> str:
        """What stands on the screen and what was scrolled out of it."""
        columns = self._screen.columns
        past = [
            "".join(line[place].data for place in range(columns)).rstrip()
            for line in self._screen.history.top
        ]
        return "\n".join([*past, self.shown])

    @property
    def session(self) -> str:
        """The name of the session, as the app says it at the end."""
        found = re.findall(r"--resume (\S+)", self.raw.decode(errors="replace"))
        return str(found[-1])
