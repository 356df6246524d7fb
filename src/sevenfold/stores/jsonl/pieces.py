"""Reading files of any size as texts to look through, a line or a handful of megabytes at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from sevenfold.record import redact
from sevenfold.stores.jsonl.lines import opened

SIZE = 8 * 1024 * 1024
"""Bytes of a piece, more or less."""
LONGEST_KEY = 32 * 1024
"""Bytes within which a key that spans lines is kept in one piece."""

_KEY_BEGINS, _KEY_ENDS = b"-----BEGIN ", b"-----END "
_UNREADABLE = frozenset({"signature", "encrypted_content"})


def pieces(path: Path, *, size: int = SIZE) -> Iterator[bytes]:
    """The file's bytes in order, cut where no secret is likely to be cut."""
    left = b""
    with opened(path) as file:
        while more := file.read(size):
            piece = left + more
            cut = _cut(piece)
            left = piece[cut:]
            yield piece[:cut]
    if left:
        yield left


def _cut(piece: bytes) -> int:
    """Behind a line, or failing that a word; but in front of a key that has not ended there."""
    ends = (piece.rfind(end, len(piece) // 2) + 1 for end in (b"\n", b" "))
    cut = next((end for end in ends if end), len(piece))
    key = piece.rfind(_KEY_BEGINS, max(0, cut - LONGEST_KEY), cut)
    return key if key > 0 and piece.find(_KEY_ENDS, key, cut) < 0 else cut


def said_in(record: bytes) -> str:
    """All texts in a JSON record, one a line; what is no JSON is taken as it stands."""
    try:
        value = msgspec.json.decode(record)
    except (msgspec.DecodeError, RecursionError):
        try:
            value = json.loads(record)
        except (ValueError, RecursionError):
            return record.decode(errors="surrogateescape")
    return "\n".join(_texts(value))


def masked_record(record: bytes) -> bytes:
    """A JSON record in which every text that looks like a secret is masked; most records are the same bytes."""
    if not redact.find(said_in(record)):
        return record
    try:
        value = msgspec.json.decode(record)
    except (msgspec.DecodeError, RecursionError):
        return redact.mask(record.decode(errors="replace")).text.encode()
    return msgspec.json.encode(_masked(value)) + b"\n"


def _masked(value: Any) -> Any:
    match value:
        case str():
            return redact.mask(value).text
        case {"type": "base64"}:
            return value
        case dict():
            return {n: inner if n in _UNREADABLE else _masked(inner) for n, inner in value.items()}
        case list():
            return [_masked(inner) for inner in value]
        case _:
            return value


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case {"type": "base64"}:
            pass
        case dict():
            for name, inner in value.items():
                if name not in _UNREADABLE:
                    yield name
                    yield from _texts(inner)
        case list():
            for inner in value:
                yield from _texts(inner)
