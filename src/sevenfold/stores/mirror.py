"""A store's folder as a directory of this machine, for what needs real files: commands, their output, a plan.

What the store holds is what counts. The directory is made from it when the session is opened, `Mirror.save` writes
back what changed, and the directory is removed when the session is closed.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Self

from sevenfold.errors import TranscriptError
from sevenfold.ports import Folder
from sevenfold.stores.files import explained, is_temporary, private_folder, private_opener
from sevenfold.stores.folder import LARGEST

TOKEN = ".mirror/token"
"""The file of the folder that names its directory. It lies in a hidden folder, so it is in no list of names."""
WORKTREES = "worktrees"
"""Folders of this name hold whole checkouts, which their repository can make again; they are not saved."""

_PLAIN = re.compile(r"[A-Za-z0-9.\-]")
_QUOTED = re.compile(r"_([0-9a-f]{2})")
_TOKEN = re.compile(r"[0-9a-f]{16}")
_EXECUTABLE = "_x"
"""The ending of an executable file's name in the folder. A quoted name has no ``_`` but before two hex digits."""
_LONGEST_PART = 120

Stamp = tuple[int, int, int]
"""Size, modification time and mode of a file: an unchanged one has not been written since."""


class Mirror:
    """A directory with the files of a `Folder`."""

    def __init__(self, folder: Folder, directory: Path) -> None:
        self._folder = folder
        self.directory = directory
        self._saved: dict[str, Stamp] = {}
        """The state of each file, by its name in the folder, when it was last the same in both."""
        self._lock = threading.RLock()
        self.problem = ""
        """Which files could not be saved, and why; empty if all were."""

    @classmethod
    def open(cls, folder: Folder) -> Self:
        """Create the directory with all files of the folder; what a killed process left there is removed first.

        Its path is the same each time, because paths are in the prompt and in what the model remembers. It has a random
        part, because other users may write to the folder for temporary files.
        """
        mirror = cls(folder, _directory(folder))
        try:
            for name in folder.names():
                mirror._fetch(name)
        except BaseException:
            mirror.remove()
            raise
        return mirror

    def save(self) -> None:
        """Write the files that changed to the folder, and remove those that are gone; failures are in `problem`."""
        with self._lock:
            self.problem = ""
            present = self._present()
            for name, path in present.items():
                try:
                    self._save(name, path)
                except (OSError, TranscriptError) as error:
                    self.problem = f"{path}: cannot be saved ({error})"
            gone = [name for name in self._saved if name not in present]
            for name in gone:
                try:
                    self._folder.remove(name)
                    del self._saved[name]
                except TranscriptError as error:
                    self.problem = (
                        f"{self.directory}: a removed file cannot be removed from the store ({error})"
                    )

    def write(self, path: Path, content: bytes) -> None:
        """Write a file to the store and the directory, the store first: what is here counts as kept."""
        with self._lock:
            name = _quote(path.relative_to(self.directory))
            self._folder.write(name, content)
            private_folder(path.parent)
            with explained(path), open(path, "wb", opener=private_opener) as file:
                file.write(content)
            self._saved[name] = _stamp(path.lstat())

    def append(self, path: Path, line: bytes) -> None:
        """Append a line to a file in the store and in the directory, the store first."""
        with self._lock:
            name = _quote(path.relative_to(self.directory))
            self._folder.append(name, line)
            private_folder(path.parent)
            with explained(path), open(path, "ab", opener=private_opener) as file:
                file.write(line + b"\n")
            self._saved[name] = _stamp(path.lstat())

    def remove(self) -> None:
        """Remove the directory."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def _fetch(self, name: str) -> None:
        relative, executable = _unquote(name)
        content = self._folder.read(name)
        if content is None:
            return
        path = self.directory / relative
        private_folder(path.parent)
        with explained(path):
            with open(path, "wb", opener=private_opener) as file:
                file.write(content)
            if executable:
                path.chmod(0o700)
            self._saved[name] = _stamp(path.lstat())

    def _save(self, name: str, path: Path) -> None:
        try:
            about = path.lstat()
        except FileNotFoundError:  # removed since it was listed; the next time it is found to be gone
            return
        stamp = _stamp(about)
        if self._saved.get(name) == stamp:
            return
        if any(len(part) > _LONGEST_PART for part in name.split("/")):
            self.problem = f"{path}: cannot be saved, because its name is too long; give it a shorter one"
            return
        if about.st_size > LARGEST:
            self.problem = f"{path}: cannot be saved, because it is larger than {LARGEST:,} bytes"
            return
        self._folder.write(name, path.read_bytes())
        self._saved[name] = stamp

    def _present(self) -> dict[str, Path]:
        """The directory's regular files, by their names in the folder."""
        present: dict[str, Path] = {}
        for folder, subfolders, names in os.walk(self.directory):
            subfolders[:] = [name for name in subfolders if name != WORKTREES]
            for name in names:
                path = Path(folder, name)
                if path.is_symlink() or not path.is_file() or is_temporary(path):
                    continue
                quoted = _quote(path.relative_to(self.directory))
                executable = os.access(path, os.X_OK)
                present[quoted + _EXECUTABLE if executable else quoted] = path
        return present


def _directory(folder: Folder) -> Path:
    """Create the empty directory that the folder's token names."""
    base = Path(tempfile.gettempdir()).resolve()
    token = (folder.read(TOKEN) or b"").decode(errors="replace").strip()
    if _TOKEN.fullmatch(token):
        directory = base / f"sevenfold-{token}"
        # Only a directory of ours is removed. Anything else of that name stays, and then a new name is taken.
        if directory.is_dir() and not directory.is_symlink():
            shutil.rmtree(directory, ignore_errors=True)
        with suppress(OSError):
            directory.mkdir(mode=0o700)
            return directory
    while True:
        token = token_hex(8)
        directory = base / f"sevenfold-{token}"
        with explained(directory), suppress(FileExistsError):
            directory.mkdir(mode=0o700)
            break
    folder.write(TOKEN, token.encode())
    return directory


def _stamp(about: os.stat_result) -> Stamp:
    return about.st_size, about.st_mtime_ns, about.st_mode


def _quote(relative: Path) -> str:
    """A relative path of any characters as a name of a `Folder`."""
    return "/".join(_quote_part(part) for part in relative.parts)


def _quote_part(part: str) -> str:
    quoted: list[str] = []
    for position, character in enumerate(part):
        # A folder whose name begins with a dot would be hidden, and its files in no list of names.
        if _PLAIN.fullmatch(character) and (character != "." or position > 0):
            quoted.append(character)
        else:
            quoted += (f"_{byte:02x}" for byte in os.fsencode(character))
    return "".join(quoted)


def _unquote(name: str) -> tuple[Path, bool]:
    """The path for a name, and whether the file is executable."""
    executable = name.endswith(_EXECUTABLE)
    quoted = name.removesuffix(_EXECUTABLE)
    raw = b""
    for index, text in enumerate(_QUOTED.split(quoted)):
        # Splitting at a pattern with a group gives the text between the matches and the matches, in turn.
        raw += bytes.fromhex(text) if index % 2 else os.fsencode(text)
    relative = Path(os.fsdecode(raw))
    # The folder may have been written by someone else, so a quoted ".." or "/" must not lead out of the directory.
    if relative.is_absolute() or ".." in relative.parts or relative == Path():
        raise TranscriptError(f"{name}: leads out of the agent's folder; remove it from the store")
    return relative, executable
