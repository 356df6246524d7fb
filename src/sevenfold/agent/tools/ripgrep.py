"""Searching with ripgrep, a program that comes with the extra ``agent`` or lies on the path."""

from __future__ import annotations

import base64
import os
import shutil
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from sevenfold.agent.tools.search import Line, Query
from sevenfold.agent.tools.search_process import printed

LARGEST_FILE = "50M"
_NOTHING_FOUND = 1
_COMMON = ("--no-config", "--hidden", "--no-messages", "--no-require-git", "--glob=!.git")


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
        arguments = [*_COMMON, *options, f"--regexp={query.pattern}", "--", query.root]
        for raw in printed([self._program, *arguments], b"\n", stopped, in_vain=_NOTHING_FOUND):
            event = decoder.decode(raw)
            if event.type in ("match", "context") and event.data.path and event.data.lines:
                path, number = event.data.path.path(), event.data.line_number or 0
                for beyond, text in enumerate(event.data.lines.said().removesuffix("\n").split("\n")):
                    yield Line(path, number + beyond, text.removesuffix("\r"), event.type == "match")

    def files(self, root: str, stopped: Callable[[], bool]) -> Iterator[str]:
        """All files beneath a folder that are not ignored."""
        arguments = [self._program, *_COMMON, "--files", "--null", "--", root]
        yield from map(os.fsdecode, printed(arguments, b"\0", stopped, in_vain=_NOTHING_FOUND))
