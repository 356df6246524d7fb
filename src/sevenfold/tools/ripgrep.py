"""Searching with ripgrep, a program that comes with the extra ``agent`` or lies on the path."""

from __future__ import annotations

import base64
import contextlib
import os
import selectors
import shutil
import subprocess
import sysconfig
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from sevenfold.errors import Refused
from sevenfold.tools.search import Line, Query

SECONDS = 60.0
"""How long a search may take."""
LARGEST_FILE = "50M"
_COMMON = ("--no-config", "--hidden", "--no-messages", "--no-require-git", "--glob=!.git")
_NOTHING_FOUND = 1
_TICK = 0.1
_CHUNK = 256 * 1024
_LONGEST = 16 * 1024 * 1024


class _Text(Struct):
    text: str | None = None
    bytes: str | None = None

    def said(self) -> str:
        return (
            self.text
            if self.text is not None
            else base64.b64decode(self.bytes or "").decode(errors="replace")
        )

    def path(self) -> str:
        return self.text if self.text is not None else os.fsdecode(base64.b64decode(self.bytes or ""))


class _Data(Struct):
    path: _Text | None = None
    lines: _Text | None = None
    line_number: int | None = None


class _Event(Struct):
    type: str
    data: _Data


def find() -> Ripgrep | None:
    """Ripgrep from its wheel, else from the path; None if there is none."""
    wheel = Path(sysconfig.get_path("scripts")) / "rg"
    program = str(wheel) if wheel.is_file() else shutil.which("rg")
    return Ripgrep(program) if program else None


class Ripgrep:
    """Searches with the program at this path."""

    def __init__(self, program: str) -> None:
        self._program = program

    def lines(self, query: Query, stopped: Callable[[], bool]) -> Iterator[Line]:
        """Lines that fit and their neighbours, file by file."""
        options = ["--json", "--sort=path", f"--max-filesize={LARGEST_FILE}", f"--context={query.context}"]
        options += ["--ignore-case"] if query.ignore_case else []
        options += ["--multiline", "--multiline-dotall"] if query.multiline else []
        options += [f"--glob={query.glob}"] if query.glob else []
        decoder = msgspec.json.Decoder(_Event)
        for raw in self._run([*options, f"--regexp={query.pattern}", "--", query.root], b"\n", stopped):
            event = decoder.decode(raw)
            if event.type in ("match", "context") and event.data.path and event.data.lines:
                path, number = event.data.path.path(), event.data.line_number or 0
                for beyond, text in enumerate(event.data.lines.said().removesuffix("\n").split("\n")):
                    yield Line(path, number + beyond, text.removesuffix("\r"), event.type == "match")

    def files(self, root: str, stopped: Callable[[], bool]) -> Iterator[str]:
        """All files beneath a folder that are not ignored."""
        yield from map(os.fsdecode, self._run(["--files", "--null", "--", root], b"\0", stopped))

    def _run(
        self, options: Sequence[str], separator: bytes, stopped: Callable[[], bool]
    ) -> Iterator[bytes]:
        """What the program prints, piece by piece; it ends when nobody wants more."""
        try:
            child = subprocess.Popen(
                [self._program, *_COMMON, *options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except (OSError, ValueError) as error:
            raise Refused(f"The search could not be started ({error}).") from error
        try:
            yield from _pieces(child, separator, stopped)
            _, said = child.communicate(timeout=SECONDS)
            if child.returncode > _NOTHING_FOUND and said:
                raise Refused(f"The search failed: {said.decode(errors='replace').strip()[:1_000]}")
        finally:
            child.kill()
            with contextlib.suppress(ValueError):
                child.communicate()


def _pieces(
    child: subprocess.Popen[bytes], separator: bytes, stopped: Callable[[], bool]
) -> Iterator[bytes]:
    """The output cut at the separator. Errors are few and fit into their pipe, so only one is listened to."""
    pipe, rest, deadline = child.stdout, b"", time.monotonic() + SECONDS
    assert pipe is not None
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            if stopped():
                raise Refused("The search was stopped.")
            if time.monotonic() > deadline:
                raise Refused(f"The search took longer than {SECONDS:g} s; search a smaller folder.")
            if not selector.select(_TICK):
                continue
            chunk = os.read(pipe.fileno(), _CHUNK)
            if not chunk:
                break
            *whole, rest = (rest + chunk).split(separator)
            yield from whole
            if len(rest) > _LONGEST:
                raise Refused(
                    "The search came upon a line too long to be read; leave that file out with a glob."
                )
    if rest:
        yield rest
