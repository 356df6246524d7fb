"""Sets aside files that decide what runs later and that a command in the sandbox created.

A mount can keep such a file from being changed, but only once it exists. So the kernel reports what appears in the
folders where these names would be, and what has one of them is moved to a folder of the agent's, where nothing reads it
by itself. Everything is done by descriptors of folders, without following links: a command could otherwise have a file
outside the workspace moved.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from msgspec import Struct

from sevenfold.stores.files import private_folder

FOLDER = "set-aside"
MOST_TIMES = 3
"""How often one name is set aside; a command that creates it once more insists, and is ended."""
_FOLDER_ONLY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class GuardedName(Struct, frozen=True):
    """A name at which nothing may come into being."""

    folder: Path
    """A folder that commands can neither move nor replace."""
    name: str
    """The name below it; with slashes, the folders in between may not exist either."""

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self.folder / self.name


def without_links(folder: Path, name: str) -> GuardedName | None:
    """The guarded name, where the folders up to it may be links of the user's; None if they lead out of the folder."""
    parent = (folder / name).parent.resolve()
    if not parent.is_relative_to(folder):
        return None
    return GuardedName(folder, str(parent.relative_to(folder) / Path(name).name))


def missing(names: Iterable[GuardedName]) -> tuple[GuardedName, ...]:
    """Those at which there is nothing."""
    return tuple(guarded for guarded in names if not os.path.lexists(guarded.path))


def set_aside(names: Iterable[GuardedName], folder: Path) -> dict[Path, Path]:
    """Move what has appeared at the names to a folder; returns where each is now."""
    moved: dict[Path, Path] = {}
    for guarded in names:
        with _parent_of(guarded) as (parent, name):
            if parent is None or not _is_there(name, parent):
                continue
            path = guarded.folder / name if name in guarded.name.split("/")[:-1] else guarded.path
            with suppress(FileNotFoundError):  # it has gone again by itself
                moved[path] = _move(name, parent, path, folder)
    return moved


@contextmanager
def _parent_of(guarded: GuardedName) -> Iterator[tuple[int | None, str]]:
    """The folder of a name as a descriptor, and the last part of the name; None if there is no such folder.

    A link in place of a folder on the way was put there by a command, so it is the link that is in the way.
    """
    *between, last = guarded.name.split("/")
    try:
        descriptor = os.open(guarded.folder, _FOLDER_ONLY)
    except OSError:
        yield None, last
        return
    try:
        for part in between:
            if _is_link(part, descriptor):
                yield descriptor, part
                return
            try:
                deeper = os.open(part, _FOLDER_ONLY, dir_fd=descriptor)
            except OSError:
                yield None, last
                return
            os.close(descriptor)
            descriptor = deeper
        yield descriptor, last
    finally:
        os.close(descriptor)


def _move(name: str, parent: int, path: Path, folder: Path) -> Path:
    private_folder(folder)
    for number in count(1):
        target = folder / f"{name.lstrip('.')}-{number}"
        if not os.path.lexists(target):
            break
    try:
        os.rename(name, target, src_dir_fd=parent)
    except FileNotFoundError:
        raise
    except OSError:
        # The agent's folder is on another file system. Beside it, under a name that nothing reads, it can always be.
        for number in count(1):
            beside = f"{name}.set-aside-{number}"
            if not _is_there(beside, parent):
                break
        os.rename(name, beside, src_dir_fd=parent, dst_dir_fd=parent)
        return path.with_name(beside)
    return target


def _is_there(name: str, parent: int) -> bool:
    try:
        os.stat(name, dir_fd=parent, follow_symlinks=False)
    except OSError:
        return False
    return True


def _is_link(name: str, parent: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    except OSError:
        return False
