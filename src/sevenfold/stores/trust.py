"""The user's own folder, and which other folders the user trusts.

What a project folder brings (settings, hooks, servers) counts only after the user agreed once, because the
author of the project would otherwise decide what runs here. Trust is given to a folder by its real path, and to it
alone: neither to what lies below it nor to another folder a link of the same name leads to later.
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

HOME_VARIABLE = "SEVENFOLD_HOME"
AGENT_VARIABLE = "SEVENFOLD_AGENT"
"""Set for the commands that an agent runs: what they say is not the user's word."""
"""Where everything of ours is kept, if not in the user's usual place."""
_WAIT_SECONDS = 5.0


class _Listed(msgspec.Struct, frozen=True):
    """What the file holds."""

    folders: tuple[str, ...] = ()


def user_folder(environ: Mapping[str, str]) -> Path:
    """The folder of the user's own settings."""
    try:
        if chosen := environ.get(HOME_VARIABLE):
            return Path(chosen).expanduser().absolute()
        configured = Path(environ.get("XDG_CONFIG_HOME") or "")
        # The standard has relative paths in that variable ignored.
        return (configured if configured.is_absolute() else Path.home() / ".config") / "sevenfold"
    except RuntimeError as error:
        raise SettingError(f"there is no home folder to keep settings in; set {HOME_VARIABLE}") from error


class Trust:
    """The folders a user trusts."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "trusted.json"
        """The file they are listed in; only its owner may write it."""

    def folders(self) -> tuple[str, ...]:
        """All of them."""
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
        """Trust a folder; returns its real path."""
        real = _real(folder)
        if not real.is_dir():
            raise UserError(f"{folder}: there is no such folder to trust; check the path")
        self._change(real, listed=True)
        return real

    def remove(self, folder: Path) -> bool:
        """Trust a folder no longer; tells whether it was trusted. The folder need not exist any more."""
        return self._change(_real(folder), listed=False)

    def _change(self, folder: Path, *, listed: bool) -> bool:
        """List the folder or not; tells whether that made a difference."""
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
        """A list that others can write says nothing about whom the user trusts."""
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
