"""A program in front of a terminal: typed at, and read off an emulated screen."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

import pyte

PATIENCE = 90.0
"""Seconds until something that does not happen counts as not happening."""
QUIET = 1.2
"""Seconds without a change of the screen after which a program waits: one that works draws all the time."""
COLUMNS = 120
ROWS = 50
ENTER = "\r"
ESCAPE = "\x1b"
UP = "\x1b[A"
CLEAR_LINE = "\x15"
_WITH_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""


class ProgramTerminal:
    """One run of a program; use it as a context manager."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], folder: Path) -> None:
        self._screen = pyte.HistoryScreen(COLUMNS, ROWS, history=2_000)
        self._stream = pyte.ByteStream(self._screen)
        self._keyboard, inside = pty.openpty()
        fcntl.ioctl(self._keyboard, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._process = subprocess.Popen(
            [sys.executable, "-c", _WITH_TERMINAL, *command],
            env={**env, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"},
            cwd=folder,
            stdin=inside,
            stdout=inside,
            stderr=inside,
            start_new_session=True,
        )
        os.close(inside)
        self._drawn_at = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._keyboard)

    @property
    def shown(self) -> str:
        """The text on the screen."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    def press(self, key: str) -> None:
        """Press a key, or type a text without Enter."""
        os.write(self._keyboard, key.encode())

    def enter(self, line: str) -> None:
        """Type a line, wait until it is shown, and send it: Enter at once would count as pasted."""
        self.press(line)
        self.until(lambda: line.split()[-1] in self.shown, f"{line!r} typed")
        self.settle(0.5)
        self.press(ENTER)

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Read on until something holds; raises `RuntimeError` if it does not in time, or the program ends before."""
        end = time.monotonic() + PATIENCE
        while not holds():
            if not self._read() or time.monotonic() > end:
                raise RuntimeError(f"there was never {what} on the screen:\n{self.shown}")

    def until_shown(self, text: str) -> None:
        """Read on until the screen shows a text."""
        self.until(lambda: text in self.shown, repr(text))

    def settle(self, seconds: float = QUIET) -> None:
        """Read on until nothing has been drawn for a while."""
        self._drawn_at = time.monotonic()
        self.until(lambda: time.monotonic() - self._drawn_at >= seconds, "a pause")

    def ended(self) -> None:
        """Read to the end."""
        end = time.monotonic() + PATIENCE
        while self._read():
            if time.monotonic() > end:
                raise RuntimeError(f"the program did not end:\n{self.shown}")
        self._process.wait(PATIENCE)

    def _read(self) -> bool:
        """Read what comes within a moment; False if there will be no more."""
        if not select.select([self._keyboard], [], [], 0.1)[0]:
            return True
        try:
            drawn = os.read(self._keyboard, 65_536)
        except OSError:  # the other end is closed: the program has ended
            return False
        self._stream.feed(drawn)
        self._drawn_at = time.monotonic()
        return True
