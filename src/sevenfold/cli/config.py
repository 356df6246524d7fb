"""`sevenfold config`: every setting, its value, and where it comes from."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from sevenfold.cli.output import ReportConsole
from sevenfold.cli.text import print_json
from sevenfold.settings import DEFAULT, Resolved, Setting, all_settings, by_name, overruled, unknown
from sevenfold.stores.settings_files import load, variable

_JSON_FIELDS = ("default", "unit", "allowed", "stage", "latched", "says")
"""Fields of a setting that `--json` prints unchanged."""
_STAGES = {"preview": "preview: may still change", "planned": "planned: no effect yet"}


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = command.add_argument
    add("name", nargs="?", metavar="NAME")
    add("--json", action="store_true")
    add("--project", type=Path, default=Path(), metavar="FOLDER")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
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
    for setting in chosen:
        console.print(entry(resolved, setting, in_full=options.name is not None))
    for note in resolved.notes:
        console.say(f"\n {note}", "yellow")
    return 0


def chosen_settings(name: str | None, command: str) -> list[Setting]:
    """The setting with this name, or all if it is None; raises `SettingError`, which names ``command``, if unknown."""
    if name is None:
        return list(all_settings())
    if name not in by_name():
        raise unknown(name, command)
    return [by_name()[name]]


def entry(resolved: Resolved, setting: Setting, *, in_full: bool) -> RenderableType:
    """A setting as shown: its name and value, what it does, and remarks; ``in_full``, also what it accepts."""
    value, origin = getattr(resolved.settings, setting.name), resolved.origins[setting.name]
    shown = (format_value(value, setting.unit), "" if origin == DEFAULT else "bold green")
    head = Text.assemble((f" {setting.name:<23} ", "bold cyan"), shown)
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
    return ", ".join(f"{name} {format_value(one, '')}" for name, one in value.items()) or "none"
