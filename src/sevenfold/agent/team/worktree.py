"""Separate working copies of a repository, so that agents do not get in each other's way.

A working copy is a git worktree at the current commit. It is removed if the agent has changed nothing; otherwise it is
kept and reported, so that an agent's work is never lost.
"""

from __future__ import annotations

import os
from pathlib import Path

from sevenfold.agent.programs import run_program
from sevenfold.errors import Refused
from sevenfold.stores.files import private_parent

SECONDS = 60.0
"""How long git may take."""
_GIT = ("git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
"""Disables the repository's hooks and any file monitor it configures."""


def add(repository: Path, folder: Path) -> str:
    """Create a working copy if needed; return the folder in it that matches ``repository``. Raises `Refused`."""
    root = Path(_git(repository, "rev-parse", "--show-toplevel"))
    if not folder.exists():
        _git(repository, "rev-parse", "--verify", "HEAD:./")  # raises if HEAD lacks this folder
        private_parent(folder)
        _git(repository, "worktree", "add", "--detach", str(folder), "HEAD")
    return str(folder / repository.resolve().relative_to(root.resolve()))


def remove_if_unchanged(folder: str) -> str:
    """Remove a working copy without changes and return an empty text; otherwise return a sentence with its path."""
    if not Path(folder).is_dir():
        return ""
    try:
        root = Path(_git(Path(folder), "rev-parse", "--show-toplevel"))
        changed = _git(root, "status", "--porcelain", "--untracked-files=all", "--ignored")
        # A new commit that is on no branch would be lost with the working copy.
        kept_elsewhere = _git(root, "branch", "--all", "--contains", "HEAD", "--format=%(refname)")
        if changed or not any(line.startswith("refs/") for line in kept_elsewhere.splitlines()):
            return f"[Its changes are in the working copy {root}.]"
        common = _git(root, "rev-parse", "--path-format=absolute", "--git-common-dir")
        _git(Path(common), "worktree", "remove", str(root))
    except Refused as error:
        return f"[Its working copy {folder} is still there: {error}]"
    return ""


def _git(folder: Path, *arguments: str) -> str:
    environ = {**os.environ, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
    ran = run_program([*_GIT, "-C", str(folder), *arguments], cwd=".", environ=environ, seconds=SECONDS)
    if ran.problem:
        raise Refused(f"git could not be run: {ran.problem}")
    if ran.code != 0:
        raise Refused(f"git {arguments[0]} failed: {ran.stderr.decode(errors='replace').strip()[:500]}")
    return ran.stdout.decode(errors="replace").strip()
