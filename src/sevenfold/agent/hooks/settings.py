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
from itertools import chain
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
    def parse(cls, text: str, location: str) -> Matcher:
        """Parse a matcher; raises `SettingError`, naming ``location``, if it is invalid."""
        stripped = text.strip()
        if stripped in ("", "*"):
            return cls(stripped)
        if _NAMES.fullmatch(stripped):
            names = frozenset(name.strip() for name in _SEPARATORS.split(stripped)) - {""}
            if not names:
                raise SettingError(
                    f"{location}: the matcher {text!r} names nothing; use * to match everything"
                )
            return cls(stripped, names)
        try:
            return cls(stripped, pattern=re.compile(stripped))
        except (re.error, OverflowError, RecursionError) as error:
            raise SettingError(
                f"{location}: the matcher {text!r} is not a valid regular expression ({error}); "
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
        name = " ".join(text for text in (self.event, self.hook) if text)
        return f"{self.source}: {name or 'hooks'} skipped: {self.why}"


class HookSettings(Struct, frozen=True):
    """The hooks found in settings."""

    hooks: tuple[Hook, ...] = ()
    skipped: tuple[SkippedHook, ...] = ()
    disabled_by: str = ""
    """The file that sets `disableAllHooks`; empty if none does."""

    def skipping(self, why: str) -> HookSettings:
        """The settings with all hooks skipped for this reason."""
        newly_skipped = [SkippedHook(hook.source, hook.event, hook.label, why) for hook in self.hooks]
        return HookSettings((), (*self.skipped, *newly_skipped))


def load(*, user: Sequence[Path] = (), project: Sequence[Path] = (), trusted: bool = False) -> HookSettings:
    """Read the hooks from the user's and the project's files; the project's run only if its folder is trusted.

    The hooks of all files are combined, unless a file disables all hooks.
    """
    files = [parse(_read(path), str(path)) for path in user]
    files += [parse(_read(path), str(path)) if trusted else _distrusted(path) for path in project]
    disabled_by = next((loaded.disabled_by for loaded in files if loaded.disabled_by), "")
    combined = HookSettings(
        tuple(chain.from_iterable(loaded.hooks for loaded in files)),
        tuple(chain.from_iterable(loaded.skipped for loaded in files)),
        disabled_by,
    )
    return combined.skipping(f"disableAllHooks is set in {disabled_by}") if disabled_by else combined


def parse(settings: Mapping[str, Any], source: str, *, trusted: bool = True) -> HookSettings:
    """Read the hooks from one settings mapping; if it is not trusted, all of them are skipped."""
    disabled = _converted(settings.get("disableAllHooks", False), bool, f"{source}: disableAllHooks")
    entries = list(_entries(settings, source))
    hooks = tuple(entry for entry in entries if isinstance(entry, Hook))
    skipped = tuple(entry for entry in entries if isinstance(entry, SkippedHook))
    loaded = HookSettings(hooks, skipped, source if disabled else "")
    return loaded if trusted else loaded.skipping("the folder is not trusted")


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
    events = _converted(settings.get("hooks", {}), dict[str, Any], f"{source}: hooks")
    for event, groups in events.items():
        if event not in EVENTS:
            yield SkippedHook(source, event, "", "there is no such event here")
            continue
        for number, group in enumerate(_converted(groups, list[_Group], f"{source}: hooks.{event}")):
            location = f"{source}: hooks.{event}[{number}]"
            matcher = Matcher.parse(group.matcher, location)
            for index, handler in enumerate(group.hooks):
                yield _handler(handler, f"{location}.hooks[{index}]", event, matcher, source)


class _Group(Struct):
    """Hooks that share a matcher, in the form of a settings file."""

    matcher: str = ""
    hooks: list[dict[str, Any]] = []


def _handler(
    fields: Mapping[str, Any], location: str, event: str, matcher: Matcher, source: str
) -> Hook | SkippedHook:
    kind = fields.get("type")
    if kind in _ELSEWHERE:
        return SkippedHook(source, event, kind, f"hooks of type {kind} are not supported; use a command")
    if kind != "command":
        raise SettingError(f'{location}.type: {kind!r:.60} is not a type of hook; use "command"')
    command = _converted(fields, HookCommand, location)
    if not command.command.strip():
        raise SettingError(f"{location}.command: is empty; say what to run")
    hook = Hook(event, matcher, command, source)
    ignored = [name for name in _NOT_HONOURED if fields.get(name)]
    if fields.get("shell", "bash") != "bash":
        ignored.append(f"shell {fields['shell']}")
    if ignored:
        return SkippedHook(source, event, hook.label, f"not supported: {', '.join(ignored)}")
    return hook


def _converted(value: Any, kind: type[R], location: str) -> R:
    """Convert a value to this type; raises `SettingError`, which says what is wrong and where."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        problem, _, inner = str(error).partition(" - at `$")
        raise SettingError(f"{location}{inner.rstrip('`')}: {problem}") from error
