"""A real terminal for tests: the app runs in a pseudo-terminal, and what it draws is read off an emulated screen."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pexpect
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
        given |= {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "SEVENFOLD_HOME": str(home), **environ}
        if url:
            given |= {"ANTHROPIC_API_KEY": "simulated-key", "ANTHROPIC_BASE_URL": url}
        self._screen = pyte.HistoryScreen(columns, rows, history=5_000)
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""
        self._child = pexpect.spawn(
            sys.executable,
            ["-m", "sevenfold", "chat", *options],
            env=given,
            cwd=str(folder),
            dimensions=(rows, columns),
        )

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.close(force=True)

    def type(self, words: str) -> Terminal:
        """Type words, without Enter."""
        self._child.send(words)
        return self

    def press(self, *keys: str) -> Terminal:
        """Press keys by their names."""
        for key in keys:
            self._child.send(KEYS[key])
        return self

    def say(self, words: str) -> Terminal:
        """Type words and send them."""
        return self.type(words).press("enter")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the app."""
        self._child.kill(number)

    def resize(self, columns: int, rows: int) -> None:
        """The user drags the window's corner."""
        self._child.setwinsize(rows, columns)
        self._screen.resize(rows, columns)

    def read(self, seconds: float) -> bool:
        """Read what the app writes within this time; False when there will be no more."""
        try:
            came = self._child.read_nonblocking(65_536, seconds)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.raw += came
        self._stream.feed(came)
        return True

    def until(self, wanted: str | Callable[[], bool]) -> Terminal:
        """Read on until a text stands on the screen, or something holds."""
        holds = (lambda: wanted in self.shown) if isinstance(wanted, str) else wanted
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
                "compacts in" in self.shown
                and not any(word in self.shown for word in ("working", "stopping"))
            )
        )

    def ended(self) -> int:
        """Read to the end; returns the exit code."""
        while self.read(1.0):
            pass
        self._child.close()
        return int(
            self._child.exitstatus if self._child.exitstatus is not None else -self._child.signalstatus
        )

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
        found = re.findall(rb"--resume (\S+)", self.raw)
        return found[-1].decode()
