"""Hooks in settings files: `{"hooks": {EVENT: [{"matcher": …, "hooks": [{"type": "command", …}]}]}}`.

A wrong value raises `SettingError` with the file and the place. What is valid but not for us (events that do not exist
here, unsupported handler types, hooks of a folder the user does not trust) is listed as skipped with the reason, so
that users do not rely on a hook that never runs.

A matcher selects hooks of an event. Empty or `*` matches everything. Text made of letters, digits, `_`, `-`, blanks,
`,` and `|` is a list of exact names. Anything else is a regular expression, searched for anywhere in the name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from sevenfold.conversation.hooks import EVENTS
from sevenfold.errors import SettingError

MOST_BYTES = 4 * 1024 * 1024
"""Largest settings file that is read."""

_LABEL = 80
_ELSEWHERE = frozenset({"http", "mcp_tool", "prompt", "agent"})
_NOT_HONOURED = ("if", "asyncRewake")
_NAMES = re.compile(r"[A-Za-z0-9_\- ,|]*")
_SEPARATORS = re.compile(r"[,|]")


class Matcher(Struct, frozen=True):
    """A parsed matcher."""

    text: str
    names: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None

    @classmethod
    def parse(cls, text: str, where: str) -> Matcher:
        """Parse a matcher; raises `SettingError`, naming ``where``, if it is not usable."""
        wanted = text.strip()
        if wanted in ("", "*"):
            return cls(wanted)
        if _NAMES.fullmatch(wanted):
            names = frozenset(name.strip() for name in _SEPARATORS.split(wanted)) - {""}
            if not names:
                raise SettingError(
                    f"{where}: the matcher {text!r} names nothing; use * to match everything"
                )
            return cls(wanted, names)
        try:
            return cls(wanted, pattern=re.compile(wanted))
        except (re.error, OverflowError, RecursionError) as error:
            raise SettingError(
                f"{where}: the matcher {text!r} is not a valid regular expression ({error}); "
                "fix it, or list exact names separated by |"
            ) from error

    def matches(self, value: str | None) -> bool:
        """Whether a hook applies; it always does to an event without a value to match (None)."""
        if value is None or self.text in ("", "*"):
            return True
        return bool(self.pattern.search(value)) if self.pattern else value in self.names


class HookCommand(Struct, frozen=True):
    """A program to run."""

    command: str
    args: tuple[str, ...] | None = None
    """Arguments for starting the program directly; None: ``command`` is a shell command line."""
    seconds: float | None = None
    """Its time limit; None: that of the event."""
    once: bool = False
    """Whether it runs only once per session."""
    background: bool = False
    """Whether it runs in the background; then its answer has no effect."""


class Hook(Struct, frozen=True):
    """When a hook runs, and what it does."""

    event: str
    matcher: Matcher
    does: HookCommand | Callable[..., Any]
    source: str
    """The file that defines it, or ``code``."""

    @property
    def label(self) -> str:
        """Its name in messages."""
        if isinstance(self.does, HookCommand):
            line = " ".join([self.does.command, *(self.does.args or ())])
            return line if len(line) <= _LABEL else line[: _LABEL - 1] + "…"
        return str(getattr(self.does, "__qualname__", None) or type(self.does).__qualname__)


class SkippedHook(Struct, frozen=True):
    """A hook, or a file with hooks, that will not run."""

    source: str
    event: str
    hook: str
    why: str

    def __str__(self) -> str:
        what = " ".join(part for part in (self.event, self.hook) if part)
        return f"{self.source}: {what or 'hooks'} skipped: {self.why}"


class HookSettings(Struct, frozen=True):
    """The hooks found in settings."""

    hooks: tuple[Hook, ...] = ()
    skipped: tuple[SkippedHook, ...] = ()
    disabled_by: str = ""
    """The file that sets `disableAllHooks`; empty if none does."""


def load(*, user: Sequence[Path] = (), project: Sequence[Path] = (), trusted: bool = False) -> HookSettings:
    """Read the hooks of the user's and the project's files; the project's run only if its folder is trusted."""
    return merge(
        [
            *(parse(_read(path), str(path)) for path in user),
            *(parse(_read(path), str(path)) if trusted else _distrusted(path) for path in project),
        ]
    )


def parse(settings: Mapping[str, Any], source: str, *, trusted: bool = True) -> HookSettings:
    """Read the hooks of one settings mapping; if it is not trusted, all are skipped."""
    disabled = settings.get("disableAllHooks", False)
    if not isinstance(disabled, bool):
        raise SettingError(f"{source}: disableAllHooks must be true or false, not {disabled!r}")
    found = list(_entries(settings, source))
    if not trusted:
        return HookSettings(skipped=tuple(_untrusted(entry) for entry in found))
    return HookSettings(
        tuple(entry for entry in found if isinstance(entry, Hook)),
        tuple(entry for entry in found if isinstance(entry, SkippedHook)),
        source if disabled else "",
    )


def merge(parts: Iterable[HookSettings]) -> HookSettings:
    """Combine several files: their hooks add up, unless a file disables all hooks."""
    parts = list(parts)
    hooks = [hook for part in parts for hook in part.hooks]
    skipped = [one for part in parts for one in part.skipped]
    off = next((part.disabled_by for part in parts if part.disabled_by), "")
    if off:
        skipped += [
            SkippedHook(h.source, h.event, h.label, f"disableAllHooks is set in {off}") for h in hooks
        ]
        hooks = []
    return HookSettings(tuple(hooks), tuple(skipped), off)


def _read(path: Path) -> Mapping[str, Any]:
    try:
        if not path.exists():
            return {}
        # A pipe or a device might block, or never end.
        if not path.is_file() or path.stat().st_size > MOST_BYTES:
            raise SettingError(
                f"{path}: is not a settings file (a plain file of at most {MOST_BYTES:,} bytes)"
            )
        content = msgspec.json.decode(path.read_bytes().removeprefix(b"\xef\xbb\xbf"))
    except OSError as error:
        raise SettingError(
            f"{path}: cannot be read ({error.strerror or error}); check its permissions"
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SettingError(f"{path}: is not valid JSON ({error}); fix it, or move it away") from error
    return _mapping(content, str(path))


def _distrusted(path: Path) -> HookSettings:
    """The hooks an untrusted folder would run; even its errors are only reported."""
    try:
        return parse(_read(path), str(path), trusted=False)
    except SettingError as error:
        return HookSettings(
            skipped=(SkippedHook(str(path), "", "", f"the folder is not trusted; and {error}"),)
        )


def _untrusted(entry: Hook | SkippedHook) -> SkippedHook:
    if isinstance(entry, SkippedHook):
        return entry
    return SkippedHook(entry.source, entry.event, entry.label, "the folder is not trusted")


def _entries(settings: Mapping[str, Any], source: str) -> Iterator[Hook | SkippedHook]:
    for event, groups in _mapping(settings.get("hooks", {}), f"{source}: hooks").items():
        if event not in EVENTS:
            yield SkippedHook(source, event, "", "there is no such event here")
            continue
        for number, given in enumerate(_list(groups, f"{source}: hooks.{event}")):
            where = f"{source}: hooks.{event}[{number}]"
            group = _mapping(given, where)
            which = Matcher.parse(_text(group.get("matcher", ""), f"{where}.matcher"), where)
            for index, handler in enumerate(_list(group.get("hooks", []), f"{where}.hooks")):
                place = f"{where}.hooks[{index}]"
                yield _handler(_mapping(handler, place), place, event, which, source)


def _handler(
    given: Mapping[str, Any], where: str, event: str, which: Matcher, source: str
) -> Hook | SkippedHook:
    kind = _text(given.get("type"), f"{where}.type")
    if kind in _ELSEWHERE:
        return SkippedHook(source, event, kind, f"hooks of type {kind} are not supported; use a command")
    if kind != "command":
        raise SettingError(f'{where}.type: {kind!r} is not a type of hook; use "command"')
    hook = Hook(event, which, _command(given, where), source)
    ignored = [field for field in _NOT_HONOURED if given.get(field)]
    if given.get("shell", "bash") != "bash":
        ignored.append(f"shell {given['shell']}")
    if ignored:
        return SkippedHook(source, event, hook.label, f"not supported: {', '.join(ignored)}")
    return hook


def _command(given: Mapping[str, Any], where: str) -> HookCommand:
    line = _text(given.get("command"), f"{where}.command")
    if not line.strip():
        raise SettingError(f"{where}.command: is empty; say what to run")
    args = given.get("args")
    if args is not None:
        args = tuple(_text(one, f"{where}.args") for one in _list(args, f"{where}.args"))
    return HookCommand(
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
