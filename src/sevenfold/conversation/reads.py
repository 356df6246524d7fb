"""Which files the model has read in full and still sees: what lets a second reading be a short note.

The note says that the file is unchanged and names the reading that shows it. So it may only be given while that
reading is in view, whole: cleared, offloaded or compacted away, the next reading is a full one again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath

from msgspec import Struct

from sevenfold.record import blocks
from sevenfold.record.blocks import ToolResult, ToolUse, read_field
from sevenfold.record.layout import Item
from sevenfold.record.view import View

PATHS = ("path", "file_path", "filePath", "filename", "file")
"""What tools call the path of a file in their input."""


class Read(Struct, frozen=True):
    """A full reading of a file."""

    call: str
    """The tool call whose result shows it."""
    version: str
    """What the file was then, in whatever way the reader tells versions apart."""


def paths_read(view: View, kinds: Mapping[str, str], folder: str) -> dict[str, str]:
    """Files in ``folder`` that the caller's own tools have read, by path: the call of each, the newest first.

    A tool of the kind ``read`` whose input names a path has read that file, unless its result is an error.
    """
    found: dict[str, str] = {}
    failed: set[str] = set()
    for item in reversed(view.items) if folder else ():
        for block in reversed(item.said.blocks):
            match block.body():
                case ToolResult(tool_use_id=call, is_error=True):
                    failed.add(call)
                case ToolUse(id=call, name=name, input=given) if (
                    kinds.get(name) == "read" and call not in failed
                ):
                    path = next(filter(None, (read_field(bytes(given), key) for key in PATHS)), "")
                    if inside := _inside(folder, path):
                        found.setdefault(inside, call)
                case _:
                    continue
    return found


def _inside(folder: str, path: str) -> str:
    """The whole path of a file in a folder; empty for one that is outside."""
    whole = PurePath(folder, path)
    inside = path and whole.is_relative_to(folder) and ".." not in whole.parts
    return str(whole) if inside else ""


def shown_whole(call: str, items: Sequence[Item]) -> bool:
    """Is the result of this call among these records, shown as the tool gave it?"""
    for item in reversed(items):
        if call in item.said.answers:
            whole = {
                one.id for one in item.shown if any(blocks.same(one, said) for said in item.said.blocks)
            }
            return call in whole and call not in item.said.stored
    return False
