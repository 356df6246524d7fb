"""Which session runs in which window: two windows in one folder have the same files in front of them.

Only the process of the program tells them apart. A hook notes the session for the program that called it; whatever
else that program starts finds the session by the same process. The environment cannot say it: after ``/clear`` it
still has the id of the session before.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from sevenfold.doors.plugins import folder

KIND = "windows"
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash", "ksh", "busybox", "fish", "cmd.exe", "env"})
"""Programs run hooks through a shell, which is not the window."""
_MOST_SHELLS = 5


class WindowSession(NamedTuple):
    """The session of a window."""

    session: str
    transcript: Path
    folder: Path


class _Process(NamedTuple):
    number: int
    parent: int
    name: str
    began: str


def note(session: str, transcript: Path, working_folder: Path) -> None:
    """Note the session of the program that called this hook."""
    program = _program()
    if program is None:
        return
    folder.tidy(KIND)
    fields = {"session": session, "transcript": str(transcript), "folder": str(working_folder)}
    folder.write(_file(program), {**fields, "began": program.began})


def current() -> WindowSession | None:
    """The session in the window of the program that started this process; None if it never said."""
    program = _program()
    noted = folder.read(_file(program)) if program else {}
    # A number that another process had before must not bring that one's session.
    if not program or not noted or noted.get("began") != program.began:
        return None
    session, transcript, working_folder = (noted.get(key) for key in ("session", "transcript", "folder"))
    if not (isinstance(session, str) and isinstance(transcript, str) and isinstance(working_folder, str)):
        return None
    return WindowSession(session, Path(transcript), Path(working_folder))


def _file(program: _Process) -> Path:
    return folder.file_for(KIND, str(program.number))


def _program() -> _Process | None:
    """The nearest process above this one that is not a shell."""
    number = os.getppid()
    for _ in range(_MOST_SHELLS):
        process = _process(number)
        if process is None or process.name not in _SHELLS:
            return process
        number = process.parent
    return None


def _process(number: int) -> _Process | None:
    stat = Path(f"/proc/{number}/stat")
    with suppress(OSError, ValueError, IndexError):
        text = stat.read_text(encoding="utf-8", errors="replace")
        # The name is in parentheses and may contain any character, so the fields are counted from its end.
        fields = text[text.rindex(")") + 2 :].split()
        return _Process(number, int(fields[1]), text[text.index("(") + 1 : text.rindex(")")], fields[19])
    with suppress(OSError, ValueError, subprocess.SubprocessError):
        command = ["ps", "-o", "ppid=,lstart=,comm=", "-p", str(number)]
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=2, check=True
        ).stdout.split()
        return _Process(number, int(answer[0]), Path(" ".join(answer[6:])).name, " ".join(answer[1:6]))
    return None
