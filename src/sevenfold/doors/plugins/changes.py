"""What installing a plugin changes: shown before anything is written, and undone to the byte.

A receipt says what was written. Undoing it removes exactly that: files that are still as they were written, folders
that were made for them, and the very characters that were added to a settings file, wherever they are now. Anything
else in that file, comments included, stays as it is.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from sevenfold.doors.plugins import folder
from sevenfold.errors import InputError
from sevenfold.stores.files import write_whole

_COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"', re.DOTALL)


class NewFile(Struct, frozen=True):
    """A file that belongs to the plugin alone."""

    path: Path
    content: bytes


class Addition(Struct, frozen=True):
    """An entry for a settings file that belongs to the user: JSON, maybe with comments."""

    path: Path
    key: str
    value: str
    """As JSON."""


class Changes(Struct, frozen=True):
    """What installing a plugin does."""

    program: str
    files: tuple[NewFile, ...]
    addition: Addition | None = None

    def described(self) -> Iterator[str]:
        """What will be written, line by line."""
        for file in self.files:
            yield f"write {file.path}:"
            yield from (f"    {line}" for line in file.content.decode().splitlines())
        if self.addition:
            verb = "add to" if self.addition.path.exists() else "create"
            yield f'{verb} {self.addition.path}: "{self.addition.key}": {self.addition.value}'


def install(changes: Changes) -> None:
    """Write everything, or raise `InputError` before anything is written."""
    receipt_file = _receipt(changes.program)
    if folder.read(receipt_file):
        uninstall(changes.program)
    for file in changes.files:
        if file.path.exists():
            raise InputError(f"{file.path} exists and is not from this installation; move it away first")
    settings = _with_entry(changes.addition) if changes.addition else None
    made_folders = [str(path) for file in changes.files for path in _missing_folders(file.path.parent)]
    receipt: dict[str, Any] = {
        "files": {str(file.path): _digest(file.content) for file in changes.files},
        "folders": list(dict.fromkeys(made_folders)),
    }
    if changes.addition and settings:
        receipt["addition"] = {
            "path": str(changes.addition.path),
            "inserted": settings[1],
            "created": not changes.addition.path.exists(),
        }
    # The receipt comes first: an installation that is interrupted can be undone.
    folder.write(receipt_file, receipt)
    for file in changes.files:
        file.path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file.path, file.content)
    if changes.addition and settings:
        changes.addition.path.parent.mkdir(parents=True, exist_ok=True)
        _rewrite(changes.addition.path, settings[0])


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
    left: list[str] = []
    for name, digest in receipt.get("files", {}).items():
        path = Path(name)
        if not path.is_file():
            continue
        if _digest(path.read_bytes()) == digest:
            path.unlink()
        else:
            left.append(f"{path} was changed since and stays; remove it yourself")
    for name in reversed(receipt.get("folders", [])):
        path = Path(name)
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
    addition = receipt.get("addition")
    if isinstance(addition, dict):
        left += _without_entry(
            Path(addition["path"]), addition["inserted"], created=bool(addition["created"])
        )
    _receipt(program).unlink()
    return left


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


# -- settings files of the user ---------------------------------------------------------------------------


def _with_entry(addition: Addition) -> tuple[str, str]:
    """The settings with the entry, and the characters that were inserted; raises if it is there already."""
    entry = f'"{addition.key}": {addition.value}'
    if not addition.path.exists():
        text = f"{{\n  {entry}\n}}\n"
        return text, text
    text = _text_of(addition.path)
    bare = _COMMENT_OR_STRING.sub(lambda found: _blanked(found[0], addition.key), text)
    start = bare.find("{") + 1
    if not start or bare.lstrip("\ufeff \t\r\n")[:1] != "{":
        raise InputError(f"{addition.path} does not hold a JSON object; correct it first")
    if addition.key in bare:
        raise InputError(
            f'{addition.path} already has "{addition.key}"; remove it first, or install without ours'
        )
    empty = bare[start:].lstrip()[:1] == "}"
    newline = "\r\n" if "\r\n" in text else "\n"
    inserted = f"{newline}  {entry}" + ("" if empty else ",")
    return text[:start] + inserted + text[start:], inserted


def _blanked(token: str, key: str) -> str:
    """A comment or a string as spaces, so that only the structure is left; the key we look for stays."""
    return token if token == f'"{key}"' else " " * len(token)


def _without_entry(path: Path, inserted: str, *, created: bool) -> list[str]:
    """Take the entry out of the settings again; returns why not if it is not there any more."""
    if not path.exists():
        return []
    text = _text_of(path)
    if created and text == inserted:
        path.unlink()
        return []
    if text.count(inserted) != 1:
        return [f"{path}: our entry was changed since and stays; remove it yourself"]
    _rewrite(path, text.replace(inserted, ""))
    return []


def _text_of(path: Path) -> str:
    """The text of a settings file, line endings as they are."""
    try:
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as text: {error}; correct it first") from error


def _rewrite(path: Path, text: str) -> None:
    """Replace the text of a settings file; behind a link the file it leads to, with the permissions it has."""
    target = path.resolve()
    mode = target.stat().st_mode if target.exists() else None
    write_whole(target, text.encode())
    if mode is not None:
        target.chmod(mode & 0o777)
