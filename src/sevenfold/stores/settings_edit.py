"""Changes one value in a settings file and leaves everything else in it as it is, comments included.

There is no library for this among the dependencies, so it is done on the text and then checked: the changed text must
parse to the old values with the one change, or nothing is written.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from sevenfold.errors import SettingError
from sevenfold.settings import SettingsLayer, by_name, checked, resolve
from sevenfold.stores.files import private_parent, write_whole
from sevenfold.stores.lineage import must_be_user
from sevenfold.stores.settings_files import read_values


def set_value(path: Path, name: str, value: object) -> None:
    """Set one value in a settings file; raises `SettingError` if it cannot be used, alone or with the others."""
    must_be_user("changing a setting")
    # By way of JSON, in which there are no tuples, as there are none in TOML.
    plain = msgspec.json.decode(msgspec.json.encode(checked(name, value, "the command line")))
    text, values = _read(path)
    wanted = {**values, name: plain}
    if _fits(path, values):
        # Raises the error if the values no longer fit. What did not fit before is not this change's fault.
        _resolved(path, wanted)
    line = f"{name} = {_toml(plain)}\n"
    remaining = _without(text, values, name) if name in values else text
    _write(path, _with_line(remaining, line), wanted)


def unset_value(path: Path, name: str) -> bool:
    """Take one value out of a settings file; returns False if it is not in it."""
    must_be_user("changing a setting")
    text, values = _read(path)
    if name not in values:
        return False
    _write(path, _without(text, values, name), {key: value for key, value in values.items() if key != name})
    return True


def _resolved(path: Path, values: Mapping[str, object]) -> None:
    settings = {name: value for name, value in values.items() if name in by_name()}
    resolve([SettingsLayer(str(path), settings)])


def _fits(path: Path, values: Mapping[str, object]) -> bool:
    """Whether the values of a file can be used together."""
    try:
        _resolved(path, values)
    except SettingError:
        return False
    return True


def _read(path: Path) -> tuple[str, Mapping[str, Any]]:
    values = read_values(path)
    return (path.read_text(encoding="utf-8-sig") if path.exists() else ""), values


def _write(path: Path, text: str, wanted: Mapping[str, Any]) -> None:
    try:
        right = tomllib.loads(text) == wanted
    except tomllib.TOMLDecodeError:
        right = False
    if not right:
        raise SettingError(
            f"{path}: is written in a way that cannot be changed here; change it with an editor"
        )
    private_parent(path)
    write_whole(path, text.encode())


def _without(text: str, values: Mapping[str, Any], name: str) -> str:
    """The text without one value, whichever lines it takes; unchanged if they cannot be told apart."""
    wanted = {key: value for key, value in values.items() if key != name}
    lines = text.splitlines(keepends=True)
    for first, line in enumerate(lines):
        if name not in line:
            continue
        for behind in range(first + 1, len(lines) + 1):
            remaining = "".join([*lines[:first], *lines[behind:]])
            try:
                if tomllib.loads(remaining) == wanted:
                    return remaining
            except tomllib.TOMLDecodeError:
                continue
    return text


def _with_line(text: str, line: str) -> str:
    """The text with a line before the first table, where values of the file itself stand."""
    lines = text.splitlines(keepends=True)
    index = next(
        (number for number, existing in enumerate(lines) if existing.lstrip().startswith("[")), len(lines)
    )
    if index > 0 and not lines[index - 1].endswith("\n"):
        lines[index - 1] += "\n"
    return "".join([*lines[:index], line, *lines[index:]])


def _toml(value: object) -> str:
    """A value in TOML, whose texts are written like those of JSON."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            return json.dumps(value, ensure_ascii=False)
        case list() | tuple():
            return f"[{', '.join(map(_toml, value))}]"
        case Mapping():
            entries = (
                f"{json.dumps(key, ensure_ascii=False)} = {_toml(entry)}" for key, entry in value.items()
            )
            return f"{{ {', '.join(entries)} }}"
    raise SettingError(f"{value!r} cannot be written to a file; unset it instead")
