"""Which session runs in which terminal window: two windows in one folder have the same files in front of them.

A window here is where somebody runs another agent's program, not a model's context window. The process id of that
program identifies the window. An environment variable cannot: after ``/clear`` it still holds the previous session's
id. When a session starts, a hook remembers it for the program that called the hook; whatever else that program starts,
such as the MCP server, finds the session by the same process id.

What is remembered is removed after a day, as everything in `folder` is: in a window that has been open for longer, the
next start of a session (``/clear``, a compaction, a resume) remembers it again.
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
"""Programs run hooks through a shell, which is not the window. ``cmd.exe`` is seen under Cygwin and MSYS alone."""
_MAX_NESTED_SHELLS = 5
_PROC = Path("/proc")
# Places in /proc/PID/stat behind the name, see proc(5), which counts from 1 and the name as the second.
_PPID = 4 - 3
_STARTTIME = 22 - 3


class WindowSession(NamedTuple):
    """The session of a window."""

    session: str
    transcript: Path
    folder: Path
    """The working folder of the program."""


class _Process(NamedTuple):
    pid: int
    parent_pid: int
    name: str
    started: str
    """When it started, in whatever form the system says it; only compared."""


def remember_session(session: str, transcript: Path, working_folder: Path) -> None:
    """Remember the session of the program that called this hook.

    Nothing is remembered where the system does not say which program that is, as on Windows; `current` is None then.
    """
    program = _program()
    if program is None:
        return
    # Nothing else would ever remove the files of windows that were closed.
    folder.tidy(KIND)
    fields = {"session": session, "transcript": str(transcript), "folder": str(working_folder)}
    folder.write(_file(program), {**fields, "began": program.started})


def current() -> WindowSession | None:
    """The session in the window of the program that started this process; None if none is remembered."""
    program = _program()
    remembered = folder.read(_file(program)) if program else {}
    # Pids are reused: ignore what was remembered for an earlier process with this pid.
    if not program or not remembered or remembered.get("began") != program.started:
        return None
    session, transcript, working_folder = (
        remembered.get(key) for key in ("session", "transcript", "folder")
    )
    if not (isinstance(session, str) and isinstance(transcript, str) and isinstance(working_folder, str)):
        return None
    return WindowSession(session, Path(transcript), Path(working_folder))


def _file(program: _Process) -> Path:
    return folder.file_for(KIND, str(program.pid))


def _program() -> _Process | None:
    """The nearest process above this one that is not a shell."""
    pid = os.getppid()
    for _ in range(_MAX_NESTED_SHELLS):
        # A process that has vanished from /proc is gone: asking ps about it would only take time. ps also writes the
        # start differently, so the two must never be mixed in one system.
        process = _from_proc(pid) if (_PROC / "self" / "stat").exists() else _from_ps(pid)
        if process is None or process.name not in _SHELLS:
            return process
        pid = process.parent_pid
    return None


def _from_proc(pid: int) -> _Process | None:
    """A process as Linux describes it."""
    with suppress(OSError, ValueError, IndexError):
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        # The name is in parentheses and may contain any character, so the fields are counted from its end.
        name_end = text.rindex(")")
        fields = text[name_end + 1 :].split()
        name = text[text.index("(") + 1 : name_end]
        return _Process(pid, int(fields[_PPID]), name, fields[_STARTTIME])
    return None


def _from_ps(pid: int) -> _Process | None:
    """A process as ``ps`` describes it, on macOS and BSD."""
    # The start is written in the language and time zone of whoever asks, and the hook and the MCP server need not have
    # the same.
    environment = {**os.environ, "LC_ALL": "C", "TZ": "UTC0"}
    command = ["ps", "-o", "ppid=,lstart=,comm=", "-p", str(pid)]
    with suppress(OSError, ValueError, IndexError, subprocess.SubprocessError):
        described = subprocess.run(
            command, capture_output=True, text=True, timeout=2, check=True, env=environment
        )
        parent_pid, *rest = described.stdout.split()
        # The start has five parts, as in: Thu Jan  1 00:00:00 1970.
        started = " ".join(rest[:5])
        return _Process(pid, int(parent_pid), Path(" ".join(rest[5:])).name, started)
    return None
