"""Where a session runs, found out once: folder, platform, shell, and what git has to say.

Git is asked only in a folder the user trusts, because a repository's own configuration can make git run
programs. It gets little time; a repository that is slow to answer, and a machine without git, are fine.
"""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path, PurePath

from sevenfold.prompts.system import Environment

GIT_SECONDS = 2.0
"""How long git may take."""

_STATUS = ("git", "--no-optional-locks", "status", "--short", "--branch", "--ignore-submodules=all")


def look_around(
    cwd: Path,
    *,
    environ: Mapping[str, str],
    model: str | None = None,
    trusted: bool = False,
    git_seconds: float = GIT_SECONDS,
) -> Environment:
    """The facts of this moment, as the prompt tells them."""
    git, changes = _git(cwd, environ, git_seconds) if trusted else (None, None)
    return Environment(
        cwd=str(cwd),
        platform=f"{platform.system()} {platform.release()} ({platform.machine()})",
        shell=PurePath(environ.get("SHELL") or environ.get("COMSPEC") or "").name or None,
        model=model,
        git=git,
        changes=changes,
    )


def _git(cwd: Path, environ: Mapping[str, str], seconds: float) -> tuple[str | None, str | None]:
    """The line about the branch, and the lines about files."""
    try:
        said = _run(_STATUS, cwd, {**environ, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}, seconds)
    except TimeoutError:
        return f"did not answer within {seconds:g} seconds", None
    if said is None:
        return None, None
    branch, _, changes = said.partition("\n")
    return branch.removeprefix("## "), changes.rstrip("\n") or None


def _run(command: tuple[str, ...], cwd: Path, environ: Mapping[str, str], seconds: float) -> str | None:
    """What a program prints; None if there is no such program or folder, or it failed."""
    try:
        child = subprocess.Popen(
            command,
            cwd=cwd,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return None
    with child:
        try:
            printed, _ = child.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            _end(child)
            raise TimeoutError from None
    return printed.decode(errors="replace") if child.returncode == 0 else None


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a program and whatever it has started: those would keep its output open."""
    with contextlib.suppress(ProcessLookupError):
        if os.name == "posix":
            os.killpg(child.pid, signal.SIGKILL)
        else:
            child.kill()
