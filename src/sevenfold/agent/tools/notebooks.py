"""Notebooks as text: their cells in order, each with its source and what it printed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from sevenfold.errors import Refused

LONGEST_OUTPUT = 2_000
"""Characters shown of one output."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def as_text(raw: bytes, path: str) -> str:
    """A notebook's cells."""
    try:
        cells = json.loads(raw)["cells"]
        shown = [_cell(number, cell) for number, cell in enumerate(cells)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Refused(
            f"{path} is no notebook that can be read ({error}); read it with a command."
        ) from error
    return "\n\n".join(shown) or "(a notebook without cells)"


def _cell(number: int, cell: Mapping[str, Any]) -> str:
    kind = cell.get("cell_type", "code")
    name = cell.get("id", number)
    parts = [f'<cell id="{name}" type="{kind}">', _joined(cell.get("source", "")), "</cell>"]
    for output in cell.get("outputs", ()):
        parts += [f'<output cell="{name}">', *_output(output), "</output>"]
    return "\n".join(parts)


def _output(output: Mapping[str, Any]) -> Iterator[str]:
    if "text" in output:
        yield _short(_joined(output["text"]))
    data = output.get("data", {})
    if "text/plain" in data:
        yield _short(_joined(data["text/plain"]))
    for kind in data:
        if kind.startswith("image/"):
            yield f"[{kind}]"
    if "ename" in output:
        trace = _COLOUR.sub("", "\n".join(map(str, output.get("traceback", ()))))
        yield _short(f"{output['ename']}: {output.get('evalue', '')}\n{trace}".rstrip())


def _joined(words: Any) -> str:
    return words if isinstance(words, str) else "".join(map(str, words))


def _short(words: str) -> str:
    if len(words) <= LONGEST_OUTPUT:
        return words
    return f"{words[:LONGEST_OUTPUT]}\n… {len(words) - LONGEST_OUTPUT:,} more characters"
