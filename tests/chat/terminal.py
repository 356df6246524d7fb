"""A real terminal for tests: the app runs in a pseudo-terminal, and what it draws is read off an emulated screen."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pyte

PATIENCE = 60.0
"""Seconds until something that does not happen counts as not happening; nothing waits that long that works."""
KEYS = {
    "enter": "\r",
    "esc": "\x1b",
    "ctrl-c": "\x03",
    "ctrl-d": "\x04",
    "ctrl-o": "\x0f",
    "down": "\x1b[B",
    "end": "\x1b[F",
    "alt-enter": "\x1b\r",
    "shift-tab": "\x1b[Z",
}

_IN_FRONT = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
"""Makes the pseudo-terminal the one whose Ctrl-C is a signal, then becomes the app."""


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
        given |= {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "SEVENFOLD_HOME": str(home), **environ}
        if url:
            given |= {"ANTHROPIC_API_KEY": "simulated-key", "ANTHROPIC_BASE_URL": url}
        self._screen = pyte.HistoryScreen(columns, rows, history=5_000)
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""
        self._keyboard, inside = pty.openpty()
        self._set_size(columns, rows)
        self._child = subprocess.Popen(
            [sys.executable, "-c", _IN_FRONT, sys.executable, "-m", "sevenfold", "chat", *options],
            stdin=inside,
            stdout=inside,
            stderr=inside,
            env=given,
            cwd=folder,
            start_new_session=True,
        )
        os.close(inside)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self._child.poll() is None:
            self._child.kill()
        self._child.wait()
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
        """Type words and send them."""
        return self.type(words).press("enter")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the app."""
        self._child.send_signal(number)

    def resize(self, columns: int, rows: int) -> None:
        """The user drags the window's corner."""
        self._set_size(columns, rows)
        self._screen.resize(rows, columns)
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
        return True

    def until(self, wanted: str | Callable[[], bool]) -> Terminal:
        """Read on until a text stands on the screen, or something holds."""

        def holds() -> bool:
            return wanted in self.shown if isinstance(wanted, str) else wanted()

        tries = int(PATIENCE / 0.2)
        while not holds():
            tries -= 1
            if not self.read(0.2) and not holds():
                raise AssertionError(f"the app ended without {wanted!r}:\n{self.everything}")
            if tries <= 0:
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
        return self._child.wait()

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._keyboard, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    @property
    def shown(self) -> str:
        """What stands on the screen."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

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
