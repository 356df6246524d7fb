"""What installing a plugin changes: shown before anything is written, and undone to the byte.

A receipt says what was written. Undoing it removes exactly that: files that are still as they were written, folders
that were made for them, and the very characters that were added to a settings file, wherever they are now. Anything
else in that file, comments included, stays as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from msgspec import Struct

from sevenfold.doors.plugins import folder
from sevenfold.doors.plugins.entries import SettingsEntry, text_of
from sevenfold.errors import InputError
from sevenfold.stores.files import write_whole


class NewFile(Struct, frozen=True):
    """A file that belongs to the plugin alone."""

    path: Path
    content: bytes


class Changes(Struct, frozen=True):
    """What installing a plugin does."""

    program: str
    files: tuple[NewFile, ...]
    entry: SettingsEntry | None = None
    """What is added to a settings file of the user."""

    def described(self) -> Iterator[str]:
        """What will be written, line by line."""
        for file in self.files:
            yield f"write {file.path}:"
            yield from (f"    {line}" for line in file.content.decode().splitlines())
        if self.entry:
            verb = "add to" if self.entry.path.exists() else "create"
            yield f"{verb} {self.entry.path}:"
            yield from (f"    {line}" for line in self.entry.shown().splitlines())


def install(changes: Changes) -> None:
    """Write everything, or raise `InputError` before anything is written."""
    receipt_file = _receipt(changes.program)
    if folder.read(receipt_file):
        uninstall(changes.program)
    for file in changes.files:
        if file.path.exists():
            raise InputError(f"{file.path} exists and is not from this installation; move it away first")
    edited = changes.entry.edited() if changes.entry else None
    missing = chain.from_iterable(_missing_folders(file.path.parent) for file in changes.files)
    receipt: dict[str, Any] = {
        "files": {str(file.path): _digest(file.content) for file in changes.files},
        "folders": list(dict.fromkeys(map(str, missing))),
    }
    if changes.entry and edited:
        receipt["addition"] = {
            "path": str(changes.entry.path),
            "inserted": edited.inserted,
            "created": not changes.entry.path.exists(),
        }
    # The receipt comes first: an installation that is interrupted can be undone.
    folder.write(receipt_file, receipt)
    for file in changes.files:
        file.path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file.path, file.content)
    if changes.entry and edited:
        changes.entry.path.parent.mkdir(parents=True, exist_ok=True)
        _rewrite(changes.entry.path, edited.text)


def installed(program: str) -> list[Path]:
    """The files that an installation wrote; empty if there is none."""
    files = folder.read(_receipt(program)).get("files")
    return [Path(name) for name in files] if isinstance(files, dict) else []


def uninstall(program: str) -> list[str]:
    """Undo an installation; returns what was left because it has changed since, in words."""
    receipt = folder.read(_receipt(program))
    if not receipt:
        raise InputError(
            f"the plugin for {program} is not installed; 'sevenfold install {program}' does it"
        )
    leftovers: list[str] = []
    for name, digest in receipt.get("files", {}).items():
        path = Path(name)
        if not path.is_file():
            continue
        if _digest(path.read_bytes()) == digest:
            path.unlink()
        else:
            leftovers.append(f"{path} was changed since and stays; remove it yourself")
    for name in reversed(receipt.get("folders", [])):
        path = Path(name)
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
    addition = receipt.get("addition")
    if isinstance(addition, dict):
        leftovers += _without_entry(
            Path(addition["path"]), addition["inserted"], created=bool(addition["created"])
        )
    _receipt(program).unlink()
    return leftovers


def _receipt(program: str) -> Path:
    return folder.state_folder("installed") / f"{program}.json"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _missing_folders(path: Path) -> list[Path]:
    """The folders that have to be made for this one, the outermost first."""
    missing = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    return missing[::-1]


def _without_entry(path: Path, inserted: str, *, created: bool) -> list[str]:
    """Take the entry out of the settings again; returns why not if it is not there any more."""
    if not path.exists():
        return []
    text = text_of(path)
    if created and text == inserted:
        path.unlink()
        return []
    if text.count(inserted) != 1:
        return [f"{path}: our entry was changed since and stays; remove it yourself"]
    _rewrite(path, text.replace(inserted, ""))
    return []


def _rewrite(path: Path, text: str) -> None:
    """Replace the text of a settings file; behind a link the file it leads to, with the permissions it has."""
    target = path.resolve()
    mode = target.stat().st_mode if target.exists() else None
    write_whole(target, text.encode())
    if mode is not None:
        target.chmod(mode & 0o777)
