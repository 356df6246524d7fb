"""Manners of answering: Markdown files the user, or a trusted project, has put into a folder ``output-styles``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sevenfold.errors import SettingError
from sevenfold.prompts.system import OutputStyle

FOLDER = "output-styles"
_FENCE = "---"


def find_style(name: str, folders: Sequence[Path]) -> OutputStyle:
    """The style of this name, from the last of these folders that has it; raises `SettingError` if none has."""
    places = [folder / FOLDER / f"{name}.md" for folder in reversed(folders)]
    for path in places:
        try:
            words = _body(path.read_text(encoding="utf-8-sig"))
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError) as error:
            raise SettingError(f"output_style: {path} cannot be read: {error}") from error
        if not words:
            raise SettingError(f"output_style: {path} says nothing; write in it how to answer")
        return OutputStyle(name, words)
    raise SettingError(
        f"output_style: there is no style {name!r}; write how to answer into {places[-1]}, or choose another one"
    )


def _body(text: str) -> str:
    """What stands below the head, if there is one."""
    lines = text.splitlines()
    if lines and lines[0].strip() == _FENCE and _FENCE in (line.strip() for line in lines[1:]):
        end = next(place for place, line in enumerate(lines[1:], 1) if line.strip() == _FENCE)
        lines = lines[end + 1 :]
    return "\n".join(lines).strip()
