"""Settings from files and the environment.

    defaults < user file < project file < environment < code

The user's file is ``settings.toml`` in the user's folder, a project's is ``.sevenfold/settings.toml``, and it
counts only where the user trusts the project's folder. A variable is named like its setting:
``SEVENFOLD_OFFLOAD=off``. `load` reads all of it once; a `FileSource` also looks whether files have changed.
"""

from __future__ import annotations

import logging
import os
import time
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from sevenfold.errors import SettingError, SettingIgnored, UserError
from sevenfold.settings import Resolved, Settings, SettingsLayer, by_name, from_text, resolve
from sevenfold.stores.trust import AGENT_VARIABLE, HOME_VARIABLE, Trust, user_folder

FILE = "settings.toml"
PROJECT_FILE = Path(".sevenfold") / FILE
PREFIX = "SEVENFOLD_"

NOT_SETTINGS = frozenset({HOME_VARIABLE, AGENT_VARIABLE, "SEVENFOLD_WITHHELD", "SEVENFOLD_PROVE"})
"""Variables with our prefix that are no settings: our folder, what an agent tells its commands, and how hard the
project's own tests try."""

LARGEST = 1024 * 1024
"""Bytes of a file that is still read."""

_NOTHING: Mapping[str, object] = MappingProxyType({})
_UNSETTLED_NS = 100_000_000
"""A file younger than this may change again without its time showing it."""

Report = Callable[[str], None]
Stamp = tuple[tuple[int, int, int] | None, ...]


def load(
    project: Path | None = None,
    code: Mapping[str, object] = _NOTHING,
    *,
    environ: Mapping[str, str] | None = None,
) -> Resolved:
    """The settings for a session in this project's folder.

    ``code`` holds what the caller sets itself; ``environ`` is the process's own environment unless given. Raises
    `SettingError` for a wrong value in ``code`` and for a file that cannot be read; a wrong value in a file or in the
    environment is ignored, with a warning.
    """
    environ = os.environ if environ is None else environ
    folder = user_folder(environ)
    layers = [SettingsLayer(f"user file {folder / FILE}", _values(folder / FILE), strict=False)]
    notes: tuple[str, ...] = ()
    if project is not None and os.path.lexists(project / PROJECT_FILE):
        if Trust(folder).covers(project):
            path = _inside(project.resolve())
            layers.append(SettingsLayer(f"project file {path}", _values(path), strict=False))
        else:
            notes = (
                f"{project / PROJECT_FILE} is ignored, because its folder is not trusted; "
                f"to use it, run: sevenfold trust {project}",
            )
    layers += _variables(environ)
    layers.append(SettingsLayer("code", code))
    return resolve(layers, notes)


def warn_ignored(resolved: Resolved) -> None:
    """Show the user what was wrong with values that were left out."""
    for problem in resolved.ignored:
        warnings.warn(problem, SettingIgnored, stacklevel=4)


def variable(name: str) -> str:
    """The variable of the environment that sets a setting."""
    return PREFIX + name.upper()


class FileSource:
    """Settings that follow their files while a session runs.

    Making one raises `SettingError`, or warns, for what is wrong at that moment. Later a file that cannot be used is
    reported, once, and the last good copy stays. The environment and what code sets are taken once.
    """

    def __init__(
        self,
        project: Path | None = None,
        code: Mapping[str, object] = _NOTHING,
        *,
        environ: Mapping[str, str] | None = None,
        report: Report | None = None,
    ) -> None:
        """``report`` is called with what is wrong with a file later on; by default it is logged as a warning."""
        self._project = project
        self._code = dict(code)
        self._environ = dict(os.environ if environ is None else environ)
        self._report: Report = report or logging.getLogger(__name__).warning
        self._told = ""
        folder = user_folder(self._environ)
        self._files = [folder / FILE, Trust(folder).path]
        """On these the settings depend."""
        if project is not None:
            self._files.append(project / PROJECT_FILE)
        self._seen = self._stamps()
        self.resolved = self._load()
        """The last good copy, with where each value came from."""
        warn_ignored(self.resolved)

    def current(self) -> Settings:
        """The settings as of now: the last copy, unless a file has changed since and can be used."""
        stamp = self._stamps()
        if stamp != self._seen or _unsettled(stamp):
            self._seen = stamp
            self._reload()
        return self.resolved.settings

    def _reload(self) -> None:
        problem = ""
        try:
            found = self._load()
            if found.ignored and found.ignored != self.resolved.ignored:
                problem = found.ignored[0]
            elif found != self.resolved:
                self.resolved = found
        except UserError as error:
            problem = str(error)
        if problem and problem != self._told:
            self._report(f"{problem}. The settings from before stay in force")
        self._told = problem

    def _stamps(self) -> Stamp:
        return tuple(map(_stamp, self._files))

    def _load(self) -> Resolved:
        return load(self._project, self._code, environ=self._environ)


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        about = file.stat()
    except (OSError, ValueError):
        return None
    return about.st_mtime_ns, about.st_size, about.st_ino


def _unsettled(stamp: Stamp) -> bool:
    young = time.time_ns() - _UNSETTLED_NS
    return any(file is not None and file[0] > young for file in stamp)


def _inside(project: Path) -> Path:
    """The project's file; a link that leads out of the project is refused."""
    path = project / PROJECT_FILE
    try:
        inside = path.resolve().is_relative_to(project)
    except (OSError, RuntimeError) as error:
        raise SettingError(f"{path}: cannot be followed: {error}") from error
    if not inside:
        raise SettingError(f"{path}: points outside {project}; put a regular file there")
    return path


def _values(path: Path) -> Mapping[str, object]:
    """What a file sets; nothing if it is not there."""
    try:
        if path.exists() and not path.is_file():
            raise SettingError(f"{path}: is not a regular file")
        with path.open("rb") as file:
            raw = file.read(LARGEST + 1)
    except FileNotFoundError:
        return _NOTHING
    except OSError as error:
        raise SettingError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(raw) > LARGEST:
        raise SettingError(f"{path}: has more than {LARGEST:,} bytes, which no settings need")
    try:
        return tomllib.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise SettingError(f"{path}: is not UTF-8 (line {line})") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingError(f"{path}: is not TOML: {error}") from error
    except (ValueError, RecursionError) as error:  # numbers too long, brackets too deep
        raise SettingError(f"{path}: cannot be understood: {error}") from error


def _variables(environ: Mapping[str, str]) -> Iterator[SettingsLayer]:
    """A layer for each variable that sets something, so that errors name it; an empty one sets nothing."""
    for variable in sorted(environ):
        text = environ[variable]
        if not variable.startswith(PREFIX) or variable in NOT_SETTINGS or not text.strip():
            continue
        origin, name = f"environment variable {variable}", variable.removeprefix(PREFIX).lower()
        setting = by_name().get(name)
        yield SettingsLayer(origin, {name: from_text(setting, text) if setting else text}, strict=False)
