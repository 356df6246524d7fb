"""Hooks from settings files: `{"hooks": {EVENT: [{"matcher": …, "hooks": [{"type": "command", …}]}]}}`.

A wrong value is an error that names the file and the place. What is right but not for us (events that never
happen here, handlers of kinds that are not run, hooks of a folder the user does not trust) is listed as
skipped, with the reason, so that nobody believes in a hook that does not run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from sevenfold.agent.hooks.matcher import Matcher, matcher
from sevenfold.conversation.hooks import EVENTS
from sevenfold.errors import SettingError

MOST_BYTES = 4 * 1024 * 1024
"""A settings file larger than this is none."""

_LABEL = 80
_ELSEWHERE = frozenset({"http", "mcp_tool", "prompt", "agent"})
_NOT_HONOURED = ("if", "asyncRewake")


class Command(Struct, frozen=True):
    """A program the user wants run."""

    command: str
    args: tuple[str, ...] | None = None
    """With arguments the program is started as it is; without, ``command`` is a line for the shell."""
    seconds: float | None = None
    """How long it may take; None: as long as the event allows."""
    once: bool = False
    """Whether it runs only the first time in a session."""
    background: bool = False
    """Whether nobody waits for it; then its answer has no effect."""


class Hook(Struct, frozen=True):
    """One hook: when it runs, and what."""

    event: str
    matcher: Matcher
    does: Command | Callable[..., Any]
    source: str
    """The file it comes from, or ``code``."""

    @property
    def label(self) -> str:
        """What it is called when it is spoken of."""
        if isinstance(self.does, Command):
            line = " ".join([self.does.command, *(self.does.args or ())])
            return line if len(line) <= _LABEL else line[: _LABEL - 1] + "…"
        return str(getattr(self.does, "__qualname__", None) or type(self.does).__qualname__)


class Skipped(Struct, frozen=True):
    """A hook, or a whole file of them, that will not run."""

    source: str
    event: str
    hook: str
    why: str

    def __str__(self) -> str:
        what = " ".join(part for part in (self.event, self.hook) if part)
        return f"{self.source}: {what or 'hooks'} skipped: {self.why}"


class Loaded(Struct, frozen=True):
    """What settings said about hooks."""

    hooks: tuple[Hook, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    disabled_by: str = ""
    """The file that says `disableAllHooks`."""


def load(*, user: Sequence[Path] = (), project: Sequence[Path] = (), trusted: bool = False) -> Loaded:
    """The hooks of the user's files and of the project's; the latter run only if its folder is trusted."""
    return merged(
        [
            *(parse(_read(path), str(path)) for path in user),
            *(parse(_read(path), str(path)) if trusted else _distrusted(path) for path in project),
        ]
    )


def parse(settings: Mapping[str, Any], source: str, *, trusted: bool = True) -> Loaded:
    """The hooks of one settings mapping; those of an untrusted one are all skipped."""
    disabled = settings.get("disableAllHooks", False)
    if not isinstance(disabled, bool):
        raise SettingError(f"{source}: disableAllHooks must be true or false, not {disabled!r}")
    found = list(_entries(settings, source))
    if not trusted:
        return Loaded(skipped=tuple(_untrusted(entry) for entry in found))
    return Loaded(
        tuple(entry for entry in found if isinstance(entry, Hook)),
        tuple(entry for entry in found if isinstance(entry, Skipped)),
        source if disabled else "",
    )


def merged(parts: Iterable[Loaded]) -> Loaded:
    """Several files together: their hooks add up, unless one of the files switches all of them off."""
    parts = list(parts)
    hooks = [hook for part in parts for hook in part.hooks]
    skipped = [one for part in parts for one in part.skipped]
    off = next((part.disabled_by for part in parts if part.disabled_by), "")
    if off:
        skipped += [Skipped(h.source, h.event, h.label, f"disableAllHooks is set in {off}") for h in hooks]
        hooks = []
    return Loaded(tuple(hooks), tuple(skipped), off)


def _read(path: Path) -> Mapping[str, Any]:
    try:
        if not path.exists():
            return {}
        # A pipe or a device would keep us waiting, or never end.
        if not path.is_file() or path.stat().st_size > MOST_BYTES:
            raise SettingError(
                f"{path}: is no settings file (a plain file of at most {MOST_BYTES:,} bytes)"
            )
        content = msgspec.json.decode(path.read_bytes().removeprefix(b"\xef\xbb\xbf"))
    except OSError as error:
        raise SettingError(
            f"{path}: cannot be read ({error.strerror or error}); check its rights"
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SettingError(f"{path}: is no valid JSON ({error}); mend it, or move it away") from error
    return _mapping(content, str(path))


def _distrusted(path: Path) -> Loaded:
    """What a folder that is not trusted would run; even its mistakes are only reported."""
    try:
        return parse(_read(path), str(path), trusted=False)
    except SettingError as error:
        return Loaded(skipped=(Skipped(str(path), "", "", f"the folder is not trusted; and {error}"),))


def _untrusted(entry: Hook | Skipped) -> Skipped:
    if isinstance(entry, Skipped):
        return entry
    return Skipped(entry.source, entry.event, entry.label, "the folder is not trusted")


def _entries(settings: Mapping[str, Any], source: str) -> Iterator[Hook | Skipped]:
    for event, groups in _mapping(settings.get("hooks", {}), f"{source}: hooks").items():
        if event not in EVENTS:
            yield Skipped(source, event, "", "there is no such event here")
            continue
        for number, given in enumerate(_list(groups, f"{source}: hooks.{event}")):
            where = f"{source}: hooks.{event}[{number}]"
            group = _mapping(given, where)
            which = matcher(_text(group.get("matcher", ""), f"{where}.matcher"), where)
            for index, handler in enumerate(_list(group.get("hooks", []), f"{where}.hooks")):
                place = f"{where}.hooks[{index}]"
                yield _handler(_mapping(handler, place), place, event, which, source)


def _handler(
    given: Mapping[str, Any], where: str, event: str, which: Matcher, source: str
) -> Hook | Skipped:
    kind = _text(given.get("type"), f"{where}.type")
    if kind in _ELSEWHERE:
        return Skipped(source, event, kind, f"hooks of type {kind} are not supported; use a command")
    if kind != "command":
        raise SettingError(f'{where}.type: {kind!r} is no type of hook; use "command"')
    hook = Hook(event, which, _command(given, where), source)
    ignored = [field for field in _NOT_HONOURED if given.get(field)]
    if given.get("shell", "bash") != "bash":
        ignored.append(f"shell {given['shell']}")
    if ignored:
        return Skipped(source, event, hook.label, f"not supported: {', '.join(ignored)}")
    return hook


def _command(given: Mapping[str, Any], where: str) -> Command:
    line = _text(given.get("command"), f"{where}.command")
    if not line.strip():
        raise SettingError(f"{where}.command: is empty; say what to run")
    args = given.get("args")
    if args is not None:
        args = tuple(_text(one, f"{where}.args") for one in _list(args, f"{where}.args"))
    return Command(
        line,
        args,
        _seconds(given.get("timeout"), f"{where}.timeout"),
        once=_flag(given.get("once", False), f"{where}.once"),
        background=_flag(given.get("async", False), f"{where}.async"),
    )


def _seconds(value: Any, where: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise SettingError(f"{where}: must be a number of seconds above 0, not {value!r}")
    return float(value)


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise SettingError(f"{where}: must be an object, not {value!r:.60}")
    return value


def _list(value: Any, where: str) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise SettingError(f"{where}: must be a list, not {value!r:.60}")
    return value


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise SettingError(f"{where}: must be text, not {value!r:.60}")
    return value


def _flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise SettingError(f"{where}: must be true or false, not {value!r:.60}")
    return value
