"""From several places to one set of values: which layer wins, and what is wrong with a value.

A layer is where values come from: a file, a variable, the calling code. Later layers win. Every value of every
layer is checked, also one that a later layer replaces. One that cannot be used is named with its place and what would
be allowed: as an error where code gave it, as a note where it comes from a file or the environment, so that a bad
variable never stops a program. Switches are different in one respect: no combination of them is an
error, or flipping one in need could be refused for the state of another (see `sevenfold.settings.descriptions`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

import msgspec
from msgspec import Struct, structs

from sevenfold.errors import SettingError
from sevenfold.settings.descriptions import Setting, by_name, described, nearest
from sevenfold.settings.fields import MOST, Settings

DEFAULT = "default"
"""The origin of a value that nobody set."""

_WORDS = {
    "1": True,
    "true": True,
    "on": True,
    "yes": True,
    "0": False,
    "false": False,
    "off": False,
    "no": False,
}
_LONGEST_SHOWN = 60


class SettingsLayer(Struct, frozen=True):
    """Values from one place."""

    origin: str
    """Where, as the user would look for it: ``user file /home/…/settings.toml``."""
    values: Mapping[str, object]
    strict: bool = True
    """Whether a value that cannot be used is an error; if not, it is left out with a note."""


class Resolved(Struct, frozen=True):
    """Settings, where each value came from, and what the user should know about how they came about."""

    settings: Settings
    origins: Mapping[str, str]
    """For each setting the origin of its value."""
    notes: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    """What was wrong with values that were left out; these are among the notes."""

    def current(self) -> Settings:
        """These settings: they do not change."""
        return self.settings


class _Clash(Struct, frozen=True):
    """Values that are fine by themselves and not together."""

    names: tuple[str, ...]
    rule: str


def resolve(layers: Iterable[SettingsLayer], notes: tuple[str, ...] = ()) -> Resolved:
    """The settings that the layers give together, later ones over earlier ones; raises `SettingError`.

    What cannot be used is an error in a strict layer; in any other it is ignored, with a note.
    """
    strict: dict[str, Any] = {}
    loose: dict[str, Any] = {}
    origins, ignored = dict.fromkeys(by_name(), DEFAULT), list[str]()
    for layer in layers:
        kept, other = (strict, loose) if layer.strict else (loose, strict)
        for name, value in layer.values.items():
            try:
                kept[name] = checked(name, value, layer.origin)
            except SettingError as error:
                if layer.strict:
                    raise
                ignored.append(f"{error}. It is ignored")
                continue
            other.pop(name, None)
            origins[name] = layer.origin
    base = Settings(**strict)
    for clash in _clashes(base):
        raise SettingError(_told(clash, base, origins))
    settings, complaints = overlaid(base, loose, origins)
    ignored += [f"{complaint}. It is ignored" for complaint in complaints]
    origins |= {name: DEFAULT for name in loose if getattr(settings, name) != loose[name]}
    return Resolved(settings, origins, (*notes, *ignored), tuple(ignored))


def overlaid(
    base: Settings, values: Mapping[str, Any], origins: Mapping[str, str]
) -> tuple[Settings, tuple[str, ...]]:
    """The base with checked values over it, except those that clash, and what is wrong with these.

    For values that must not stop a program: what cannot be used is left out, nothing is raised.
    """
    usable = dict(values)
    complaints: list[str] = []
    while True:
        settings = structs.replace(base, **usable) if usable else base
        clash = next((one for one in _clashes(settings) if not usable.keys().isdisjoint(one.names)), None)
        if clash is None:
            return settings, tuple(complaints)
        complaints.append(_told(clash, settings, origins))
        for name in clash.names:
            usable.pop(name, None)


def checked(name: str, value: object, origin: str) -> Any:
    """The value as its setting has it; raises `SettingError` if it cannot be used."""
    setting = by_name().get(name) if isinstance(name, str) else None
    if setting is None:
        raise unknown(name, origin)
    try:
        return msgspec.convert(value, setting.type)
    except (msgspec.ValidationError, ValueError):  # the latter for text that is no Unicode
        raise SettingError(
            f"{origin}: {name} = {shown(value)} cannot be used; it takes {setting.allowed}{_most(value)}"
        ) from None


def unknown(name: object, origin: str) -> SettingError:
    """The error for a setting that does not exist."""
    like = nearest(str(name))
    meant = f"did you mean {like}?" if like else "`sevenfold config` lists them all"
    return SettingError(f"{origin}: there is no setting {shown(name)}; {meant}")


def from_text(setting: Setting, text: str) -> object:
    """A value that was written as plain text; one that cannot be read stays text, and `checked` refuses it."""
    text = text.strip()
    try:
        match setting.kind:
            case "switch":
                return _WORDS.get(text.lower(), text)
            case "whole number":
                return int(text)
            case "number":
                return float(text)
            case "table":
                return _table(text)
            case "list":
                return [entry.strip() for entry in text.split(",") if entry.strip()]
    except ValueError:
        return text
    return text


def shown(value: object) -> str:
    """A value as a message shows it: as a settings file would have it, and not too much of it."""
    try:
        text = repr(value) if isinstance(value, float) else msgspec.json.encode(value).decode()
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError):
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"


def _table(text: str) -> dict[str, object]:
    """``Bash=20_000, Read=never`` as a table."""
    entries = [entry.partition("=") for entry in text.split(",") if entry.strip()]
    if not all(equals for _, equals, _ in entries):
        raise ValueError(text)
    return {name.strip(): _number_or_word(value.strip()) for name, _, value in entries}


def _number_or_word(text: str) -> object:
    try:
        return int(text)
    except ValueError:
        return text


def _most(value: object) -> str:
    too_large = isinstance(value, int | float) and value > MOST
    return f" and at most {MOST:,}" if too_large else ""


def _clashes(settings: Settings) -> Iterator[_Clash]:
    """Every rule about several settings that these break."""
    if settings.size_target_tokens >= settings.size_trigger_tokens:
        yield _Clash(("size_target_tokens", "size_trigger_tokens"), "the first must be below the second")
    if settings.pinned_keep >= settings.pinned_trigger:
        yield _Clash(("pinned_keep", "pinned_trigger"), "the first must be below the second")
    if settings.preview_bytes >= settings.offload_characters:
        yield _Clash(
            ("preview_bytes", "offload_characters"), "a preview must be shorter than what it stands for"
        )
    limits = [limit for limit in settings.offload_by_tool.values() if limit != "never"]
    if limits and settings.preview_bytes >= min(limits):
        yield _Clash(
            ("preview_bytes", "offload_by_tool"), "a preview must be shorter than what it stands for"
        )
    window, blocking = settings.context_window, settings.blocking_limit
    if window is not None and blocking is not None and blocking >= window:
        yield _Clash(("blocking_limit", "context_window"), "the first must be below the second")


def _told(clash: _Clash, settings: Settings, origins: Mapping[str, str]) -> str:
    values = " and ".join(
        f"{name} = {shown(getattr(settings, name))} ({origins.get(name, 'as set')})" for name in clash.names
    )
    return f"{values} cannot be used together: {clash.rule}"


class Source(Protocol):
    """Someone who knows the settings."""

    def current(self) -> Settings:
        """The settings as of now, at once and without fail; the same object while nothing changes."""
        ...


class Fixed(Struct, frozen=True):
    """Settings that stay as they are."""

    settings: Settings

    def current(self) -> Settings:
        """These settings."""
        return self.settings


def latch(opened: Settings, now: Settings) -> Settings:
    """What a session goes by: the settings as of now, but the latched ones as they were when it opened."""
    if now is opened:
        return opened
    held = {one.name: getattr(opened, one.name) for one in described() if one.latched}
    return structs.replace(now, **held)
