"""Looking for secrets in what was stored."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from sevenfold.record.redact import find
from sevenfold.stores.jsonl import lines
from sevenfold.stores.jsonl.pieces import pieces, said_in


class Hit(Struct, frozen=True):
    """A secret in a file. ``secret`` itself is for masking it, and for nobody's eyes."""

    kind: str
    digest: str
    secret: str
    line: int
    record: str = ""
    """The id of the record it stands in, in a transcript."""


class _Named(Struct, frozen=True):
    uuid: str | None = None
    id: str | None = None


_named = msgspec.json.Decoder(_Named)


def is_transcript(path: Path) -> bool:
    """Whether a file is read record by record."""
    return path.suffix == ".jsonl"


def scan(path: Path) -> Iterator[Hit]:
    """The secrets in a file; raises `sevenfold.errors.TranscriptError` if it cannot be read."""
    return _in_records(path) if is_transcript(path) else _in_text(path)


def _in_records(path: Path) -> Iterator[Hit]:
    for number, line in enumerate(lines.scan(path, limit=sys.maxsize), 1):
        said = said_in(line.raw)
        for found in find(said):
            secret = said[found.start : found.end]
            yield Hit(found.kind, found.digest, secret, number, _record(line.raw))


def _in_text(path: Path) -> Iterator[Hit]:
    before = 1
    for piece in pieces(path):
        text = piece.decode(errors="surrogateescape")
        for found in find(text):
            number = before + text.count("\n", 0, found.start)
            yield Hit(found.kind, found.digest, text[found.start : found.end], number)
        before += piece.count(b"\n")


def _record(line: bytes) -> str:
    try:
        named = _named.decode(line)
    except msgspec.DecodeError:
        return ""
    return named.uuid or named.id or ""
