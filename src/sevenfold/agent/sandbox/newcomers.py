"""Sets aside files that decide what runs later and that a command in the sandbox created.

A mount can keep such a file from being changed, but only once it exists. So these names are looked at while commands
run, and what appears under them is moved to a folder of the agent's, where nothing reads it by itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from itertools import count
from pathlib import Path

from sevenfold.stores.files import private_folder

FOLDER = "set-aside"


def missing(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Those of the paths at which there is nothing."""
    return tuple(path for path in paths if not os.path.lexists(path))


def set_aside(watched: Iterable[Path], folder: Path) -> dict[Path, Path]:
    """Move what has appeared at the watched paths to a folder; returns where each is now."""
    moved: dict[Path, Path] = {}
    for path in watched:
        if not os.path.lexists(path):
            continue
        private_folder(folder)
        target = _free(folder, path.name)
        try:
            path.rename(target)
        except OSError:
            # On another file system. What cannot be moved must not stay either, unless its content would be lost.
            if not _copied(path, target):
                continue
        moved[path] = target
    return moved


def _free(folder: Path, name: str) -> Path:
    return next(
        path for number in count(1) if not os.path.lexists(path := folder / f"{name.lstrip('.')}-{number}")
    )


def _copied(path: Path, target: Path) -> bool:
    """Move one file or link by copying it; False if it is neither, or cannot be copied."""
    with suppress(OSError):
        if path.is_symlink():
            target.write_text(f"a link to {path.readlink()}\n", encoding="utf-8", errors="surrogateescape")
        elif path.is_file():
            target.write_bytes(path.read_bytes())
        else:
            return False
        path.unlink()
        return True
    return False
