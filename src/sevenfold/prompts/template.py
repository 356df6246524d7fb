"""Markdown texts with holes, filled strictly.

A text lies in ``texts/<name>.md`` and may hold two things besides words: ``{{path}}``, a hole, and
``{{#path}}…{{/path}}``, a part that is only there when ``path`` has a value. A hole nobody fills, a value
nobody uses, a brace too many: each is an error, so that a prompt never goes out with a gap in it. Values
are put in once and never read as a template themselves. Nothing is read before it is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sevenfold.errors import InputError

_HOLE = re.compile(r"\{\{(\w+)\}\}")
_PART = re.compile(r"\{\{#(\w+)\}\}(.*?)\{\{/\1\}\}", re.DOTALL)
_ALONE = re.compile(r"^(\{\{[#/]\w+\}\})\n", re.MULTILINE)
_BRACES = re.compile(r"\{\{.*|\}\}")


def load(name: str) -> str:
    """The words of a text as they stand in its file."""
    # Here, because it takes longer to import than all that is done with it.
    from importlib import resources

    file = resources.files(__package__).joinpath("texts", f"{name}.md")
    return file.read_text(encoding="utf-8").rstrip("\n")


def render(name: str, values: Mapping[str, str | None]) -> str:
    """The text ``name`` with every hole filled; ``None`` leaves out the part that is named after it."""
    return fill(load(name), values, where=f"prompts/texts/{name}.md")


def fill(template: str, values: Mapping[str, str | None], *, where: str = "the template") -> str:
    """A template with every hole filled, or an `InputError` naming what does not fit."""
    # A line that holds nothing but the beginning or end of a part leaves no empty line behind.
    template = _ALONE.sub(r"\1", template + "\n")
    named = set(_HOLE.findall(template)) | {part[0] for part in _PART.findall(template)}
    if missing := sorted(named - values.keys()):
        raise InputError(f"{where}: no value was given for {', '.join(missing)}")
    if unused := sorted(values.keys() - named):
        raise InputError(
            f"{where}: nothing in it uses {', '.join(unused)}; take the value or the text away"
        )
    shown = _PART.sub(lambda part: "" if values[part[1]] is None else part[2], template)
    if stray := _BRACES.search(_HOLE.sub("", shown)):
        raise InputError(f"{where}: {stray[0]!r} is neither a hole nor a part; parts cannot be nested")
    return _HOLE.sub(lambda hole: _value(hole[1], values, where), shown).rstrip("\n")


def _value(name: str, values: Mapping[str, str | None], where: str) -> str:
    value = values[name]
    if value is None:
        raise InputError(
            f"{where}: {name} has no value here; put {{{{#{name}}}}}…{{{{/{name}}}}} around it"
        )
    return value
