"""A private copy of the user's caches of tools, in the home that commands see.

Without them a hook or a build in the sandbox would fetch again what it may not fetch. What is copied can be changed,
and is thrown away with the home. A cache that is too large is left out: it does not exist there.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

MOST_BYTES = 50_000_000
MOST_FILES = 5_000
"""How much is copied in all, so that the first command does not wait for long."""


def copy_caches(names: Sequence[str], home: Path, private: Path) -> list[str]:
    """Copy these folders of the home, in their order, as far as they fit; returns those that were."""
    copied = []
    bytes_left = MOST_BYTES
    files_left = MOST_FILES
    for name in names:
        source = home / name
        if source.is_symlink() or not source.is_dir():
            continue
        files, size = _measured(source, files_left, bytes_left)
        if files > files_left or size > bytes_left:
            continue
        if _copy(source, private / name):
            files_left -= files
            bytes_left -= size
            copied.append(name)
    return copied


def _measured(folder: Path, most_files: int, most_bytes: int) -> tuple[int, int]:
    """The number of entries and bytes below a folder; counting ends when there are too many."""
    files = size = 0
    for entry in _entries(folder):
        files += 1
        size += entry.st_size if stat.S_ISREG(entry.st_mode) else 0
        if files > most_files or size > most_bytes:
            break
    return files, size


def _entries(folder: Path) -> Iterator[os.stat_result]:
    for subfolder, folders, names in os.walk(folder):
        for name in [*folders, *names]:
            with suppress(OSError):
                yield Path(subfolder, name).lstat()


def _copy(source: Path, target: Path) -> bool:
    """Copy a folder as a whole, or not at all; links stay links, and what is neither file nor folder is left out."""
    unfinished = target.with_name(f"{target.name}.copying")
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copytree(source, unfinished, symlinks=True, ignore=_special)
        unfinished.rename(target)
    except (OSError, shutil.Error):
        shutil.rmtree(unfinished, ignore_errors=True)
        return False
    return True


def _special(folder: str, names: list[str]) -> set[str]:
    """Sockets, pipes and devices, at which copying would wait or fail."""
    special = set()
    for name in names:
        with suppress(OSError):
            mode = Path(folder, name).lstat().st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
                special.add(name)
    return special
