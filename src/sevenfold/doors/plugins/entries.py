"""Entries in settings files that belong to the user: JSON with comments, and TOML.

An entry is inserted as text and nothing else in the file is touched, so that removing the same characters restores it.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from sevenfold.errors import InputError

_COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"', re.DOTALL)


class EditedSettings(Struct, frozen=True):
    """The text of a settings file with an entry, and the characters that were inserted."""

    text: str
    inserted: str


class SettingsEntry(Protocol):
    """Something to add to a settings file."""

    @property
    def path(self) -> Path:
        """The settings file."""

    def shown(self) -> str:
        """The entry as the user reads it before it is written."""

    def edited(self) -> EditedSettings:
        """The settings with the entry; raises `InputError` if they cannot take it."""


class JsonEntry(Struct, frozen=True):
    """An entry of the outermost object in a JSON file, which may have comments."""

    path: Path
    key: str
    value: str
    """As JSON."""

    def shown(self) -> str:
        """The entry as the user reads it before it is written."""
        return f'"{self.key}": {self.value}'

    def edited(self) -> EditedSettings:
        """The settings with the entry; raises `InputError` if they cannot take it."""
        if not self.path.exists():
            text = f"{{\n  {self.shown()}\n}}\n"
            return EditedSettings(text, text)
        text = text_of(self.path)
        structure = _COMMENT_OR_STRING.sub(lambda token: self._blanked(token[0]), text)
        start = structure.find("{") + 1
        if not start or structure.lstrip("\ufeff \t\r\n")[:1] != "{":
            raise InputError(f"{self.path} does not hold a JSON object; correct it first")
        if self.key in structure:
            raise InputError(
                f'{self.path} already has "{self.key}"; remove it first, or install without ours'
            )
        is_empty = structure[start:].lstrip()[:1] == "}"
        separator = "" if is_empty else ","
        inserted = f"{_line_ending(text)}  {self.shown()}{separator}"
        return EditedSettings(text[:start] + inserted + text[start:], inserted)

    def _blanked(self, token: str) -> str:
        """A comment or a string as spaces, so that only the structure is left; the key we look for stays."""
        return token if token == f'"{self.key}"' else " " * len(token)


class TomlTable(Struct, frozen=True):
    """A table at the end of a TOML file."""

    path: Path
    header: str
    """What stands between the brackets."""
    lines: tuple[str, ...]

    def shown(self) -> str:
        """The table as the user reads it before it is written."""
        return "\n".join([f"[{self.header}]", *self.lines])

    def edited(self) -> EditedSettings:
        """The settings with the table; raises `InputError` if they cannot take it."""
        if not self.path.exists():
            text = f"{self.shown()}\n"
            return EditedSettings(text, text)
        text_before = text_of(self.path)
        try:
            tomllib.loads(text_before)
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"{self.path} is not valid TOML: {error}; correct it first") from error
        line_ending = _line_ending(text_before)
        table = f"{self.shown()}\n".replace("\n", line_ending)
        separator = line_ending if not text_before or text_before.endswith("\n") else line_ending * 2
        text = f"{text_before}{separator}{table}"
        try:
            tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise InputError(
                f"{self.path} already says something about [{self.header}]; remove that first"
            ) from error
        return EditedSettings(text, f"{separator}{table}")


def text_of(path: Path) -> str:
    """The text of a settings file, line endings as they are; raises `InputError` if it cannot be read."""
    try:
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as text: {error}; correct it first") from error


def _line_ending(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
