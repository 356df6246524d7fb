"""Settings from files and the environment.

    defaults < user file < project file < other tools' variables < environment < code

The user's file is ``settings.toml`` in the user's folder. A project's file is ``.sevenfold/settings.toml``; it
is used only if the user trusts the project's folder. A variable is named after its setting:
``SEVENFOLD_OFFLOAD=off``; a few variables of Claude Code are read as well (`ALIASES`). `load` reads everything once; a
`FileSource` also notices when files change.
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
from sevenfold.stores.lineage import AGENT_VARIABLE
from sevenfold.stores.trust import HOME_VARIABLE, Trust, user_folder

FILE = "settings.toml"
PROJECT_FILE = Path(".sevenfold") / FILE
PREFIX = "SEVENFOLD_"

OF_CLIENTS = ("SEVENFOLD_URL", "SEVENFOLD_TOKEN")
"""Variables that tell a client of our server where that is, and who it is."""
NOT_SETTINGS = frozenset(
    {HOME_VARIABLE, AGENT_VARIABLE, "SEVENFOLD_WITHHELD", "SEVENFOLD_PROVE", *OF_CLIENTS}
)
"""Variables with our prefix that are not settings: the home folder, what an agent passes to its commands, and how
thorough the project's own tests are."""

ALIASES: Mapping[str, tuple[str, bool]] = MappingProxyType(
    {
        "DISABLE_COMPACT": ("compaction", True),
        "DISABLE_AUTO_COMPACT": ("auto_compact", True),
        "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": ("compact_percent", False),
        "CLAUDE_CODE_AUTO_COMPACT_WINDOW": ("compact_window", False),
        "CLAUDE_CODE_BLOCKING_LIMIT_OVERRIDE": ("blocking_limit", False),
        "ENABLE_PROMPT_CACHING_1H_BEDROCK": ("long_lifetime_bedrock", False),
    }
)
"""Variables that users of Claude Code have set → the setting that each stands for, and whether it means the opposite.

Our own variables count more."""

LARGEST = 1024 * 1024
"""The largest settings file that is read, in bytes."""

_NOTHING: Mapping[str, object] = MappingProxyType({})
_UNSETTLED_NS = 100_000_000
"""A file younger than this may change again without a new modification time."""

Report = Callable[[str], None]
Stamp = tuple[tuple[int, int, int] | None, ...]


def load(
    project: Path | None = None,
    code: Mapping[str, object] = _NOTHING,
    *,
    environ: Mapping[str, str] | None = None,
) -> Resolved:
    """Return the settings for a session in this project's folder.

    ``code`` has the values that the caller sets; ``environ`` defaults to the process's environment. Raises
    `SettingError` for a wrong value in ``code`` and for a file that cannot be read; a wrong value in a file or in the
    environment is ignored, and explained in the ``ignored`` of the result.
    """
    environ = os.environ if environ is None else environ
    folder = user_folder(environ)
    layers = [SettingsLayer(f"user file {folder / FILE}", read_values(folder / FILE), strict=False)]
    notes: tuple[str, ...] = ()
    if project is not None and os.path.lexists(project / PROJECT_FILE):
        trust = Trust(folder)
        state = trust.state(project)
        if state == "trusted":
            path = _inside(project.resolve())
            layers.append(SettingsLayer(f"project file {path}", read_values(path), strict=False))
        elif state == "changed":
            notes = (_changed(trust, project),)
        else:
            notes = (
                f"{project / PROJECT_FILE} is ignored, because its folder is not trusted; "
                f"to use it, run: sevenfold trust {project}",
            )
    layers += _aliases(environ)
    layers += _variables(environ)
    layers.append(SettingsLayer("code", code))
    return resolve(layers, notes)


def warn_ignored(resolved: Resolved) -> None:
    """Warn about each value that was ignored, and why."""
    for problem in resolved.ignored:
        warnings.warn(problem, SettingIgnored, stacklevel=4)


def variable(name: str) -> str:
    """Return the name of the environment variable for a setting."""
    return PREFIX + name.upper()


class FileSource:
    """Settings that are reloaded when their files change during a session.

    The constructor raises `SettingError`, or warns, about problems at that time. Later, a file that cannot be used is
    reported once and the last good settings stay in force. The environment and values from code are read only once.
    """

    def __init__(
        self,
        project: Path | None = None,
        code: Mapping[str, object] = _NOTHING,
        *,
        environ: Mapping[str, str] | None = None,
        report: Report | None = None,
    ) -> None:
        """``report`` is called with any later problem with a file; by default it logs a warning."""
        self._project = project
        self._code = dict(code)
        self._environ = dict(os.environ if environ is None else environ)
        self._report: Report = report or logging.getLogger(__name__).warning
        self._told = ""
        folder = user_folder(self._environ)
        self._files = [folder / FILE, Trust(folder).path]
        """The files that the settings depend on."""
        if project is not None:
            self._files.append(project / PROJECT_FILE)
        self._seen = self._stamps()
        self.resolved = self._load()
        """The last good settings, with the origin of each value."""
        warn_ignored(self.resolved)

    def current(self) -> Settings:
        """Return the current settings, reloaded if a file has changed and can be used."""
        stamp = self._stamps()
        if stamp != self._seen or _unsettled(stamp):
            self._seen = stamp
            self._reload()
        return self.resolved.settings

    def _reload(self) -> None:
        problem = ""
        try:
            loaded = self._load()
            trust = Trust(user_folder(self._environ))
            project = self._project
            if project is not None and self._brings_settings and trust.state(project) == "changed":
                problem = _changed(trust, project)
            elif loaded.ignored and loaded.ignored != self.resolved.ignored:
                problem = loaded.ignored[0]
            elif loaded != self.resolved:
                self.resolved = loaded
        except UserError as error:
            problem = str(error)
        if problem and problem != self._told:
            self._report(f"{problem}. The settings from before stay in force")
        self._told = problem

    @property
    def _brings_settings(self) -> bool:
        """Whether the project has a settings file."""
        return self._project is not None and os.path.lexists(self._project / PROJECT_FILE)

    def _stamps(self) -> Stamp:
        return tuple(map(_stamp, self._files))

    def _load(self) -> Resolved:
        return load(self._project, self._code, environ=self._environ)


def _changed(trust: Trust, project: Path) -> str:
    """The note about a project's file that the user has not seen as it is now."""
    changes = "; ".join(trust.changes(project)[:3])
    return (
        f"{project / PROJECT_FILE} is ignored, because its folder changed since you trusted it ({changes}); "
        f"to use it, look it through and run: sevenfold trust {project}"
    )


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
    """Return the project's settings file; raises `SettingError` for a link that leads out of the project."""
    path = project / PROJECT_FILE
    try:
        inside = path.resolve().is_relative_to(project)
    except (OSError, RuntimeError) as error:
        raise SettingError(f"{path}: cannot be followed: {error}") from error
    if not inside:
        raise SettingError(f"{path}: points outside {project}; put a regular file there")
    return path


def read_values(path: Path) -> Mapping[str, object]:
    """Return the values in a settings file; empty if there is no such file."""
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


def _aliases(environ: Mapping[str, str]) -> Iterator[SettingsLayer]:
    """Return a layer for each variable of another tool."""
    for variable, (name, negated) in ALIASES.items():
        text = environ.get(variable, "")
        if not text.strip():
            continue
        value = from_text(by_name()[name], text)
        if negated and isinstance(value, bool):
            if not value:
                continue  # Like an unset variable: it disables nothing, and does not enable what a file disables.
            value = False
        yield SettingsLayer(f"environment variable {variable}", {name: value}, strict=False)


def _variables(environ: Mapping[str, str]) -> Iterator[SettingsLayer]:
    """Yield one layer per variable, so that errors name the variable; empty variables are skipped."""
    for variable in sorted(environ):
        text = environ[variable]
        if not variable.startswith(PREFIX) or variable in NOT_SETTINGS or not text.strip():
            continue
        origin = f"environment variable {variable}"
        name = variable.removeprefix(PREFIX).lower()
        setting = by_name().get(name)
        yield SettingsLayer(origin, {name: from_text(setting, text) if setting else text}, strict=False)
