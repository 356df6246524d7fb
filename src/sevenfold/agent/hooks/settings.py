"""Hooks in settings files: `{"hooks": {EVENT: [{"matcher": …, "hooks": [{"type": "command", …}]}]}}`.

A wrong value raises `SettingError` with the file and the place. Hooks that are valid but cannot run here (unknown
events, unsupported handler types, folders the user does not trust) are listed as skipped with the reason, so that users
do not rely on a hook that never runs.

A matcher selects hooks of an event. Empty or `*` matches everything. Text made of letters, digits, `_`, `-`, blanks,
`,` and `|` is a list of exact names. Anything else is a regular expression, searched for anywhere in the name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct, field

from sevenfold.conversation.hooks import EVENTS
from sevenfold.errors import SettingError

MOST_BYTES = 4 * 1024 * 1024
"""The size of the largest settings file that is read, in bytes."""

R = TypeVar("R")
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
        """Parse a matcher; raises `SettingError`, naming ``where``, if it is invalid."""
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
        """Whether the matcher matches a value; it always matches an event without one (None)."""
        if value is None or self.text in ("", "*"):
            return True
        return bool(self.pattern.search(value)) if self.pattern else value in self.names


class HookCommand(Struct, frozen=True):
    """A command to run; some fields have other names in settings files."""

    command: str = ""
    args: tuple[str, ...] | None = None
    """Arguments for starting the program directly; None: ``command`` is a shell command line."""
    seconds: Annotated[float, Meta(gt=0)] | None = field(default=None, name="timeout")
    """Its time limit; None: the event's."""
    once: bool = False
    """Whether it runs only once per session."""
    background: bool = field(default=False, name="async")
    """Whether it runs in the background; then its answer has no effect."""


class Hook(Struct, frozen=True):
    """When a hook runs, and what it does."""

    event: str
    matcher: Matcher
    handler: HookCommand | Callable[..., Any]
    source: str
    """The file that defines it, or ``code`` if a program added it."""

    @property
    def label(self) -> str:
        """Its name in messages."""
        if isinstance(self.handler, HookCommand):
            line = " ".join([self.handler.command, *(self.handler.args or ())])
            return line if len(line) <= _LABEL else line[: _LABEL - 1] + "…"
        return str(getattr(self.handler, "__qualname__", None) or type(self.handler).__qualname__)


class SkippedHook(Struct, frozen=True):
    """A hook, or a file of hooks, that will not run."""

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

    def skipping(self, why: str) -> HookSettings:
        """The settings with all hooks skipped for this reason."""
        more = [SkippedHook(one.source, one.event, one.label, why) for one in self.hooks]
        return HookSettings((), (*self.skipped, *more))


def load(*, user: Sequence[Path] = (), project: Sequence[Path] = (), trusted: bool = False) -> HookSettings:
    """Read the hooks from the user's and the project's files; the project's run only if its folder is trusted.

    The hooks of all files are combined, unless a file disables all hooks.
    """
    parts = [parse(_read(path), str(path)) for path in user]
    parts += [parse(_read(path), str(path)) if trusted else _distrusted(path) for path in project]
    whole = HookSettings(
        tuple(hook for part in parts for hook in part.hooks),
        tuple(one for part in parts for one in part.skipped),
        off := next((part.disabled_by for part in parts if part.disabled_by), ""),
    )
    return whole.skipping(f"disableAllHooks is set in {off}") if off else whole


def parse(settings: Mapping[str, Any], source: str, *, trusted: bool = True) -> HookSettings:
    """Read the hooks from one settings mapping; if it is not trusted, all of them are skipped."""
    disabled = _converted(settings.get("disableAllHooks", False), bool, f"{source}: disableAllHooks")
    found = list(_entries(settings, source))
    hooks = tuple(entry for entry in found if isinstance(entry, Hook))
    skipped = tuple(entry for entry in found if isinstance(entry, SkippedHook))
    made = HookSettings(hooks, skipped, source if disabled else "")
    return made if trusted else made.skipping("the folder is not trusted")


def _read(path: Path) -> Mapping[str, Any]:
    try:
        if not path.exists():
            return {}
        # Reading a pipe or a device might block or never end.
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
    return _converted(content, dict[str, Any], str(path))


def _distrusted(path: Path) -> HookSettings:
    """The hooks of an untrusted folder, all skipped; errors in its settings are only reported too."""
    try:
        return parse(_read(path), str(path), trusted=False)
    except SettingError as error:
        return HookSettings(
            skipped=(SkippedHook(str(path), "", "", f"the folder is not trusted; and {error}"),)
        )


def _entries(settings: Mapping[str, Any], source: str) -> Iterator[Hook | SkippedHook]:
    for event, given in _converted(settings.get("hooks", {}), dict[str, Any], f"{source}: hooks").items():
        if event not in EVENTS:
            yield SkippedHook(source, event, "", "there is no such event here")
            continue
        for number, group in enumerate(_converted(given, list[_Group], f"{source}: hooks.{event}")):
            where = f"{source}: hooks.{event}[{number}]"
            which = Matcher.parse(group.matcher, where)
            for index, handler in enumerate(group.hooks):
                yield _handler(handler, f"{where}.hooks[{index}]", event, which, source)


class _Group(Struct):
    """Hooks that share a matcher, in the form of a settings file."""

    matcher: str = ""
    hooks: list[dict[str, Any]] = []


def _handler(
    given: Mapping[str, Any], where: str, event: str, which: Matcher, source: str
) -> Hook | SkippedHook:
    kind = given.get("type")
    if kind in _ELSEWHERE:
        return SkippedHook(source, event, kind, f"hooks of type {kind} are not supported; use a command")
    if kind != "command":
        raise SettingError(f'{where}.type: {kind!r:.60} is not a type of hook; use "command"')
    command = _converted(given, HookCommand, where)
    if not command.command.strip():
        raise SettingError(f"{where}.command: is empty; say what to run")
    hook = Hook(event, which, command, source)
    ignored = [name for name in _NOT_HONOURED if given.get(name)]
    if given.get("shell", "bash") != "bash":
        ignored.append(f"shell {given['shell']}")
    if ignored:
        return SkippedHook(source, event, hook.label, f"not supported: {', '.join(ignored)}")
    return hook


def _converted(value: Any, kind: type[R], where: str) -> R:
    """Convert a value to this type; raises `SettingError`, which says what is wrong and where."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `$")
        raise SettingError(f"{where}{place.rstrip('`')}: {problem}") from error
