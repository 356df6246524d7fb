"""Writing whole files: either all of it is there under its name, or nothing is.

A file is written beside the one it will be, forced to the disk, and takes its name in one step. Whoever is
killed half-way leaves a temporary file and the old one untouched. Folders and files are their owner's alone.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from sevenfold.errors import TranscriptDenied
from sevenfold.stores.jsonl.lines import explain

TEMPORARY = ".tmp"
"""How the name of an unfinished file ends; it begins with a dot."""


class Staged:
    """A file that is written and on the disk, but does not have its name yet."""

    def __init__(self, target: Path, content: Iterable[bytes]) -> None:
        """Write the content; raises `sevenfold.errors.TranscriptError`, and then nothing is left behind."""
        self.target = target
        try:
            handle, name = tempfile.mkstemp(TEMPORARY, f".{target.name[:80]}.", target.parent)
        except OSError as error:
            raise explain(error, target) from error
        self.path = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.writelines(content)
                file.flush()
                os.fsync(handle)
        except OSError as error:
            self.discard()
            raise explain(error, target) from error
        except BaseException:
            self.discard()
            raise

    def commit(self) -> None:
        """Give it its name, in the place of what had it before."""
        try:
            self.path.replace(self.target)
            _force(self.target.parent)
        except OSError as error:
            raise explain(error, self.target) from error

    def discard(self) -> None:
        """Forget it."""
        self.path.unlink(missing_ok=True)


def write_whole(target: Path, content: bytes) -> None:
    """Write a file in one step; it is on the disk when this returns."""
    staged = Staged(target, [content])
    try:
        staged.commit()
    except BaseException:
        staged.discard()
        raise


def private_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for their owner alone."""
    if folder.is_symlink():
        raise TranscriptDenied(
            f"{folder}: this is a link; what belongs here must not end up elsewhere, so remove it"
        )
    if folder.is_dir():
        return
    try:
        if not folder.parent.exists():
            private_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise explain(error, folder) from error


def is_temporary(path: Path) -> bool:
    """Whether this is a file whose writing was never finished."""
    return path.name.startswith(".") and path.name.endswith(TEMPORARY)


def _force(folder: Path) -> None:
    """A name is on the disk when its folder is; systems whose folders cannot be opened see to it themselves."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
