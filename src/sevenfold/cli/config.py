"""`sevenfold config`: every setting, its value, and where it comes from."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from sevenfold.cli.output import ReportConsole
from sevenfold.cli.text import clean, print_json, run_editor, write
from sevenfold.errors import InputError
from sevenfold.settings import (
    DEFAULT,
    Resolved,
    Setting,
    all_settings,
    by_name,
    from_text,
    overruled,
    shown,
    unknown,
)
from sevenfold.stores.files import private_parent
from sevenfold.stores.lineage import must_be_user
from sevenfold.stores.settings_edit import set_value, unset_value
from sevenfold.stores.settings_files import FILE, load, variable
from sevenfold.stores.trust import user_folder

_JSON_FIELDS = ("default", "unit", "allowed", "stage", "latched", "says")
"""Fields of a setting that `--json` prints unchanged."""
_STAGES = {"preview": "preview: may still change", "planned": "planned: no effect yet"}


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = command.add_argument
    add("name", nargs="?", metavar="NAME")
    add("rest", nargs="*", metavar="VALUE")
    add("--json", action="store_true")
    add("--project", type=Path, default=Path(), metavar="FOLDER")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    if options.name in ACTIONS:
        write(f"{clean(change(options.name, options.rest))}\n")
        return 0
    if options.rest:
        raise InputError(f"to change it: sevenfold config set {options.name} {' '.join(options.rest)}")
    chosen = chosen_settings(options.name, "sevenfold config")
    resolved = load(options.project.absolute())
    if options.json:
        reasons = overruled(resolved.settings)
        settings = [
            {
                "name": setting.name,
                "value": getattr(resolved.settings, setting.name),
                "origin": resolved.origins[setting.name],
                "overruled_by": reasons.get(setting.name),
                **{name: getattr(setting, name) for name in _JSON_FIELDS},
            }
            for setting in chosen
        ]
        print_json({"settings": settings, "notes": resolved.notes})
        return 0
    console = ReportConsole()
    console.print(listing(resolved, chosen, in_full=len(chosen) == 1))
    for note in resolved.notes:
        console.say(f"\n {note}", "yellow")
    return 0


ACTIONS = ("set", "unset", "edit")


def settings_file() -> Path:
    """The user's settings file."""
    return user_folder(os.environ) / FILE


def change(action: str, arguments: Sequence[str]) -> str:
    """Set or unset a value in the user's file, or open the file in an editor; returns what to say about it."""
    path = settings_file()
    if action == "edit":
        return _edit(path)
    complete = len(arguments) >= 2 if action == "set" else len(arguments) == 1
    if not complete:
        raise InputError("use sevenfold config set NAME VALUE, or sevenfold config unset NAME")
    name, *value = arguments
    if name not in by_name():
        raise unknown(name, f"sevenfold config {action}")
    setting = by_name()[name]
    if action == "set":
        set_value(path, name, from_text(setting, " ".join(value)))
        message = f"{name} = {shown(getattr(load().settings, name))} in {path}"
    elif unset_value(path, name):
        message = (
            f"{name} is no longer in {path}; the default is {format_value(setting.default, setting.unit)}"
        )
    else:
        return f"{name} is not in {path}, so nothing was changed"
    origin = load().origins[name]
    if origin != DEFAULT and str(path) not in origin:
        message += f"; but the {origin} counts more"
    return message + (
        "; sessions that are open keep the value they were opened with" if setting.latched else ""
    )


def _edit(path: Path) -> str:
    """Open the file in the user's editor; says what is wrong with it afterwards."""
    must_be_user("changing settings")
    private_parent(path)
    if not path.exists():
        path.touch(mode=0o600)
    run_editor(path)
    problems = [note for note in load().notes if str(path) in note]
    return "\n".join(problems) or f"{path} is in order"


def chosen_settings(text: str | None, command: str) -> list[Setting]:
    """The setting of this name; all that have these words in name or text; or all settings if nothing is wanted.

    Raises `SettingError`, which names ``command``, if there are none.
    """
    if not text:
        return list(all_settings())
    if text in by_name():
        return [by_name()[text]]
    words = text.casefold().split()
    fitting = [
        setting
        for setting in all_settings()
        if all(word in f"{setting.name} {setting.group} {setting.says}".casefold() for word in words)
    ]
    if not fitting:
        raise unknown(text, command)
    return fitting


def listing(resolved: Resolved, chosen: Sequence[Setting], *, in_full: bool) -> RenderableType:
    """Settings under their headings, below the path of the user's file."""
    path = settings_file()
    file_line = (
        f" your file: {path}{'' if path.exists() else ' (not there yet)'}; sevenfold config set NAME VALUE"
    )
    blocks: list[RenderableType] = [Text(file_line, style="dim", overflow="fold")]
    group = ""
    for setting in chosen:
        if setting.group != group and not in_full:
            group = setting.group
            blocks.append(Text(f"\n {group}", style="bold underline"))
        blocks.append(entry(resolved, setting, in_full=in_full))
    return Group(*blocks)


def entry(resolved: Resolved, setting: Setting, *, in_full: bool) -> RenderableType:
    """A setting as shown: its name and value, what it does, and remarks; ``in_full``, also what it accepts."""
    value = getattr(resolved.settings, setting.name)
    origin = resolved.origins[setting.name]
    value_shown = (format_value(value, setting.unit), "" if origin == DEFAULT else "bold green")
    head = Text.assemble((f" {setting.name:<23} ", "bold cyan"), value_shown)
    lines = [setting.says]
    remarks = [_STAGES[setting.stage]] if setting.stage in _STAGES else []
    if reason := overruled(resolved.settings).get(setting.name):
        state = "on" if getattr(resolved.settings, reason) else "off"
        remarks.append(f"no effect while {reason} is {state}")
    if remarks:
        lines.append("; ".join(remarks))
    if origin != DEFAULT or in_full:
        lines.append(f"from: {origin}")
    if in_full:
        lines += [
            f"takes: {setting.allowed}",
            f"default: {format_value(setting.default, setting.unit)}",
            f"takes effect: {'when a session is opened' if setting.latched else 'at once'}",
            f"variable: {variable(setting.name)}",
        ]
    about = [Text(line, style="dim", overflow="fold") for line in lines]
    return Group(head, *(Padding(line, (0, 0, 0, 3), expand=False) for line in about))


def format_value(value: Any, unit: str) -> str:
    """The value of a setting in words."""
    match value:
        case None:
            return "unset"
        case bool():
            return "on" if value else "off"
        case int() | float():
            return f"{value:,} {unit}".rstrip()
        case str():
            return value
        case tuple():
            return ", ".join(value) or "none"
    return ", ".join(f"{name} {format_value(inner, '')}" for name, inner in value.items()) or "none"
