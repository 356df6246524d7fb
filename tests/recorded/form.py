"""How a recording is written down: complete, but compact, and in lines that a diff can show.

Nothing here knows the engine. What is left out can be had again from what stands there: bytes that an earlier body
has as well are named by their number, and filler that is repeated is counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import unified_diff
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

LINE = "a line of output that a tool printed, with nothing in it that matters\n"
CARE = "You are a careful assistant. "
FILLERS = (LINE.rstrip("\n"), CARE)
SHORT = 60
"""Bytes that are not worth being named instead of written."""
_REPEATED = [re.compile(rf"({re.escape(filler)}(?:\\+n)?)(?:\1)+") for filler in FILLERS]
_BREAKS = re.compile(r'(?<=[,\[])(?=\{"(?:role|type|uuid|name|id|content)":)')
"""Where a line may end: JSON as it is sent has no line ends of its own."""


def digest(raw: bytes) -> str:
    return sha256(raw).hexdigest()[:12]


def compact(text: str) -> str:
    """The text with repeated filler counted."""
    for repeated in _REPEATED:
        text = repeated.sub(lambda run: f"«{run[1]}» x{len(run[0]) // len(run[1])}", text)
    return text


def broken(text: str) -> str:
    return _BREAKS.sub("\n", compact(text))


class Bodies:
    """Request bodies in the order they were sent, each told by what is new in it."""

    def __init__(self) -> None:
        self._known: list[bytes] = []

    def told(self, raw: bytes) -> str:
        number = len(self._known)
        shares = [(_common(raw, known), -place) for place, known in enumerate(self._known)]
        self._known.append(raw)
        start, place = max(shares, default=(0, 0))
        if start < SHORT:
            return broken(raw.decode())
        known = self._known[-place]
        if raw == known:
            return f"[the bytes of #{-place + 1}]"
        end = min(
            _common(raw[: start - 1 : -1], known[: start - 1 : -1]), len(raw) - start, len(known) - start
        )
        start, end = _whole(raw, start, -1), _whole_end(raw, end)
        end = end if end >= SHORT else 0
        parts = [f"[first {start} bytes of #{-place + 1}]", broken(raw[start : len(raw) - end].decode())]
        if end:
            parts.append(f"[last {end} bytes of #{-place + 1}]")
        assert number == len(self._known) - 1
        return "\n".join(parts)


def _common(one: bytes, other: bytes) -> int:
    """How many bytes both begin with."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _whole(raw: bytes, place: int, step: int) -> int:
    """The nearest place in a direction that is not inside a character."""
    while 0 < place < len(raw) and raw[place] & 0xC0 == 0x80:
        place += step
    return place


def _whole_end(raw: bytes, end: int) -> int:
    return len(raw) - _whole(raw, len(raw) - end, 1)


def event(told: Any, began: float) -> str:
    """An event: its type, and what of it is not as usual."""
    values = []
    for field in msgspec.structs.fields(type(told)):
        value = getattr(told, field.encode_name)
        if field.encode_name == "seconds":
            continue  # real ones: nobody's clock but the machine's
        if field.encode_name == "at":
            value = round(value - began, 3)
        elif field.default is not msgspec.NODEFAULT and value == field.default:
            continue
        values.append(f"{field.encode_name}={plain(value)}")
    return f"{type(told).__name__} {' '.join(values)}"


def plain(value: Any) -> str:
    """A value of plain parts, the same in every run."""
    match value:
        case str():
            return compact(msgspec.json.encode(value).decode())
        case bytes():
            return f"{len(value)} bytes {digest(value)}"
        case float():
            return f"{value:.9g}"
        case Path():
            return str(value)
        case None | bool() | int():
            return str(value)
        case msgspec.Struct():
            fields = {name: getattr(value, name) for name in value.__struct_fields__}
            return f"{type(value).__name__}{plain(fields)}"
        case Mapping():
            return "{" + ", ".join(f"{name}: {plain(part)}" for name, part in value.items()) + "}"
        case Sequence():
            return "[" + ", ".join(map(plain, value)) + "]"
        case _:
            raise TypeError(f"a {type(value).__name__} has no fixed form here")


def files(folder: Path, shown: Iterable[str] = (".md",), passed: Iterable[str] = ()) -> list[str]:
    """What is below a folder: names, sizes and hashes, and the text of notes and plans."""
    told = []
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or any(part in path.name for part in passed):
            continue
        raw = path.read_bytes()
        shown_whole = path.suffix == ".jsonl"
        told.append(
            f"{path.relative_to(folder)} {len(raw)} bytes{'' if shown_whole else f' {digest(raw)}'}"
        )
        if path.suffix in shown:
            told += [f"  | {line}" for line in compact(raw.decode()).splitlines()]
    return told


def difference(golden: str, now: str, name: str, most: int = 60) -> str:
    """What is different, in a few lines."""
    found = list(unified_diff(golden.splitlines(), now.splitlines(), "recorded", "now", lineterm="", n=1))
    cut = [_narrow(line) for line in found[:most]]
    rest = [f"… and {len(found) - most} lines more"] if len(found) > most else []
    return "\n".join([f"{name} is not what was recorded:", *cut, *rest])


def _narrow(line: str, most: int = 400) -> str:
    return line if len(line) <= most else f"{line[:most]}… ({len(line)} characters)"
