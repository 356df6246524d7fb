"""A recorded session as it was just before one of its calls to the model.

Sub-agents are recorded as sidechains of another conversation. A file that contains only sidechain records counts as a
session of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from sevenfold.record import entries
from sevenfold.record.entries import Boundary, Said

SIDE, MAIN = b'"isSidechain":true', b'"isSidechain":false'


class Cut(Struct, frozen=True):
    """The records of a session before a call."""

    name: str
    call: int
    """The number of the call, counted from 1."""
    calls: int
    """How many calls the whole recording has."""
    lines: tuple[bytes, ...]


def cuts(path: Path, most: int) -> list[Cut]:
    """The session before ``most`` of its calls, spread evenly over them, including the last one.

    Only calls with an answer before them count: before the first there is nothing to compact.
    """
    lines = path.read_bytes().splitlines(keepends=True)
    if _is_side(lines):
        lines = [line.replace(SIDE, MAIN) for line in lines]
    calls = list(_calls(lines))
    usable = [number for number, (_, answered) in enumerate(calls) if answered]
    wanted = {round(len(usable) * part / most) - 1 for part in range(1, most + 1)} - {-1}
    return [
        Cut(path.stem, number + 1, len(calls), tuple(lines[: calls[number][0]]))
        for number in (usable[place] for place in sorted(wanted))
    ]


def _is_side(lines: Sequence[bytes]) -> bool:
    said = [entry for line in lines if isinstance(entry := entries.read(line), Said)]
    return bool(said) and all(one.sidechain for one in said)


def _calls(lines: Sequence[bytes]) -> Iterator[tuple[int, bool]]:
    """The line at which each call's answer begins, and whether an earlier answer is in view there."""
    seen: set[str] = set()
    answered = False
    for number, line in enumerate(lines):
        match entries.read(line):
            case Boundary(sidechain=False):
                answered = False
            case Said(role="assistant", sidechain=False, synthetic=False, message_id=call) if call:
                if call not in seen:
                    seen.add(call)
                    yield number, answered
                answered = True
