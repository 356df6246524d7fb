"""The user's own folder, and which other folders the user trusts.

A project folder's settings, hooks and servers take effect only after the user has agreed once; otherwise the author of
the project would decide what runs here. A folder is trusted by its real path, and only that folder: not its subfolders,
and not another folder that a link of the same name points to later.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec

from sevenfold.errors import SettingError, TranscriptLocked, UserError
from sevenfold.stores.files import write_whole
from sevenfold.stores.jsonl.lock import FileLock
from sevenfold.stores.lineage import must_be_user

HOME_VARIABLE = "SEVENFOLD_HOME"
"""Names one folder for all data and settings, instead of the default ones."""
_WAIT_SECONDS = 5.0


class _Listed(msgspec.Struct, frozen=True):
    """The content of the file."""

    folders: tuple[str, ...] = ()


def user_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder with the user's own settings."""
    try:
        if chosen := environ.get(HOME_VARIABLE):
            return Path(chosen).expanduser().absolute()
        configured = Path(environ.get("XDG_CONFIG_HOME") or "")
        # The XDG standard says to ignore relative paths in that variable.
        return (configured if configured.is_absolute() else Path.home() / ".config") / "sevenfold"
    except RuntimeError as error:
        raise SettingError(f"there is no home folder to keep settings in; set {HOME_VARIABLE}") from error


class Trust:
    """The folders a user trusts."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "trusted.json"
        """The file that lists them; only its owner may be able to write it."""

    def folders(self) -> tuple[str, ...]:
        """Return the real paths of all trusted folders."""
        try:
            with self.path.open("rb") as file:
                self._refuse_foreign(os.fstat(file.fileno()))
                return msgspec.json.decode(file.read(), type=_Listed).folders
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise SettingError(f"{self.path}: cannot be read: {error.strerror or error}") from error
        except (msgspec.DecodeError, ValueError) as error:
            raise SettingError(
                f"{self.path}: is damaged ({error}); remove it and trust your folders again"
            ) from error

    def covers(self, folder: Path) -> bool:
        """Whether this folder is trusted."""
        return str(_real(folder)) in self.folders()

    def add(self, folder: Path) -> Path:
        """Trust a folder and return its real path."""
        real = _real(folder)
        if not real.is_dir():
            raise UserError(f"{folder}: there is no such folder to trust; check the path")
        self._change(real, listed=True)
        return real

    def remove(self, folder: Path) -> bool:
        """Stop trusting a folder, which need not exist any more; return whether it was trusted."""
        return self._change(_real(folder), listed=False)

    def _change(self, folder: Path, *, listed: bool) -> bool:
        """Add the folder to the list or remove it; return whether the list changed."""
        must_be_user("trusting a folder")
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = FileLock(self.path, wait=_WAIT_SECONDS)
        except TranscriptLocked as error:
            raise UserError(f"{self.path}: another process is changing it; try again") from error
        except OSError as error:
            raise UserError(f"{self.path}: cannot be written: {error.strerror or error}") from error
        with lock:
            known = self.folders()
            if (str(folder) in known) == listed:
                return False
            others = [one for one in known if one != str(folder)]
            now = _Listed(tuple(sorted([*others, str(folder)] if listed else others)))
            write_whole(self.path, msgspec.json.format(msgspec.json.encode(now), indent=2) + b"\n")
        return True

    def _refuse_foreign(self, about: os.stat_result) -> None:
        """Raise `SettingError` if other users could have written the list."""
        if os.name != "posix":
            return
        if about.st_uid != os.geteuid() or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise SettingError(
                f"{self.path}: others can write it, so it counts for nothing; "
                f"look it through, make it yours and run: chmod 600 {self.path}"
            )


def _real(folder: Path) -> Path:
    try:
        return folder.expanduser().resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise SettingError(f"{folder}: the path cannot be followed: {error}; check it") from error
