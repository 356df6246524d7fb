"""Permission rules that the user granted permanently, stored in the user's own folder by the folder they apply to."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from sevenfold.errors import SettingError
from sevenfold.record.decoding import NOT_JSON
from sevenfold.stores.files import private_folder, write_whole
from sevenfold.stores.lineage import must_be_user
from sevenfold.stores.trust import user_folder

FILE = "permissions.json"


def rules_file() -> Path:
    """The file in which the rules are stored."""
    return user_folder(os.environ) / FILE


def kept_rules(folder: Path) -> tuple[str, ...]:
    """The stored allow rules of a folder; raises `SettingError` if the file cannot be read."""
    return tuple(_read().get(str(folder.resolve()), ()))


def keep_rules(folder: Path, *rules: str) -> None:
    """Store more allow rules for a folder."""
    _write(folder, [*dict.fromkeys((*kept_rules(folder), *rules))])


def forget_rule(folder: Path, rule: str) -> bool:
    """Remove a stored rule of a folder; returns whether it was there."""
    kept = kept_rules(folder)
    if rule in kept:
        _write(folder, [kept_rule for kept_rule in kept if kept_rule != rule])
    return rule in kept


def _read() -> dict[str, list[str]]:
    try:
        return msgspec.json.decode(rules_file().read_bytes(), type=dict[str, list[str]])
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SettingError(f"{rules_file()}: cannot be read: {error.strerror or error}") from error
    except NOT_JSON as error:
        raise SettingError(f"{rules_file()}: is damaged ({error}); correct or remove it") from error


def _write(folder: Path, rules: list[str]) -> None:
    must_be_user("keeping or removing a permission rule")
    private_folder(rules_file().parent)
    held = _read() | {str(folder.resolve()): rules}
    text = msgspec.json.encode({name: lines for name, lines in held.items() if lines})
    write_whole(rules_file(), msgspec.json.format(text) + b"\n")
