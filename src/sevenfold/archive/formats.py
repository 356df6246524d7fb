"""What kind of file holds a session, and its log in the shared format.

Transcripts of parent-linked messages (Claude Code's and ours) are read as they are. What other tools record is
converted by the readers, in memory; their files are only read. A session in a database has a path below it. For any
other file, the error says what it looks like, so that the user knows whether it is the wrong file or the wrong tool.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any, Protocol

from sevenfold.archive import compressed, databases
from sevenfold.archive.profile.labels import decoded
from sevenfold.archive.readers import codex, kimi, pi
from sevenfold.errors import TranscriptForeign
from sevenfold.stores.jsonl.log import JsonlLog, Line, scan
from sevenfold.stores.log import LineLog
from sevenfold.stores.memory import MemoryLog

TRANSCRIPT = "transcript"
"""The format of parent-linked messages."""
COMPRESSED = ".zst"
"""The suffix of files that are compressed; Codex compresses old rollouts."""
LOOKED_AT = 200
"""How many lines are checked before a file counts as foreign."""
SUPPORTED = "Sevenfold reads sessions of Claude Code, Codex, pi, Kimi, opencode and Hermes, and its own."
_LINKED = ("uuid", "sessionId", "leafUuid", "messageId")


class FormatReader(Protocol):
    """Converts the session files of one tool. Every module of `sevenfold.archive.readers` is one."""

    FORMAT: str
    """The name of the format in reports, as in ``codex``."""

    def recognises(self, record: Mapping[str, Any]) -> bool:
        """Whether a decoded line belongs to this tool's files."""

    def unsupported(self, record: Mapping[str, Any]) -> str:
        """What keeps this reader from reading a file that begins with a recognised line; empty if nothing does."""

    def convert(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the file's records in the shared format; a damaged line gives a damaged record."""


READERS: tuple[FormatReader, ...] = (codex, pi, kimi)


class SessionLines:
    """The lines of a session file in the shared format, converted if another tool wrote them."""

    def __init__(self, path: Path, lines: Iterator[Line]) -> None:
        """Look at the beginning of the file; raises `TranscriptForeign` if no session is recognised in it."""
        self._head: list[Line] = []
        self._rest = lines
        self.reader: FormatReader | None = None
        self.in_file = not databases.holds(path)
        """Whether the lines are those of the file, or converted from them."""
        if self.in_file:
            self._head, self.reader, self.format = _recognise(path, lines)
        else:
            self.format, converted = databases.lines(path)
            self._rest = iter(converted)

    def __iter__(self) -> Iterator[Line]:
        """Yield every line; a converted one has no offset in the file."""
        lines = chain(self._head, self._rest)
        if self.reader is None:
            return lines
        return (Line(0, raw) for raw in self.reader.convert(line.raw for line in lines))


def is_session_file(path: Path) -> bool:
    """Whether a file has one of the suffixes of session files."""
    return path.name.endswith((".jsonl", f".jsonl{COMPRESSED}")) and path.is_file()


def lines_of(path: Path) -> Iterator[Line]:
    """Every line of a session file, decompressed if need be; raises `TranscriptError` if it cannot be read.

    A session in a database has no lines of its own: `SessionLines` converts them.
    """
    if databases.holds(path):
        return iter(())
    return compressed.scan(path) if path.suffix == COMPRESSED else scan(path)


def open_log(path: Path) -> LineLog:
    """Open the log of a session, ours or another tool's, for reading; another tool's is converted in memory.

    Raises `TranscriptForeign` if the file contains no conversation.
    """
    lines = SessionLines(path, lines_of(path))
    if lines.in_file and lines.reader is None and path.suffix != COMPRESSED:
        return JsonlLog(path)
    return MemoryLog([line.raw for line in lines])


def first_records(path: Path, count: int) -> list[bytes]:
    """The first lines of a session, converted if need be; raises `TranscriptError` if the file cannot be read."""
    if databases.holds(path):
        return [line.raw for line in islice(databases.lines(path)[1], count)]
    head = [line.raw for line in islice(lines_of(path), count)]
    reader = next(filter(None, (_reader(_record(raw)) for raw in head)), None)
    return head if reader is None else list(reader.convert(head))


def not_a_conversation(path: Path) -> TranscriptForeign:
    """The error for a file without a conversation to search, summarise or resume."""
    return TranscriptForeign(f"{path}: there is no conversation in it. {SUPPORTED}")


def _recognise(path: Path, lines: Iterator[Line]) -> tuple[list[Line], FormatReader | None, str]:
    """The lines up to the first recognised one, the reader they need, and the name of the format."""
    head = []
    for line in islice(lines, LOOKED_AT):
        head.append(line)
        record = _record(line.raw)
        if reader := _reader(record):
            if reason := reader.unsupported(record):
                raise TranscriptForeign(f"{path}: {reason}; look for a newer Sevenfold")
            return head, reader, reader.FORMAT
        if _is_linked(record):
            return head, None, TRANSCRIPT
    raise TranscriptForeign(f"{path}: {_looks_like(head)} {SUPPORTED}")


def _reader(record: Mapping[str, Any]) -> FormatReader | None:
    return next((reader for reader in READERS if reader.recognises(record)), None)


def _is_linked(record: Mapping[str, Any]) -> bool:
    """Whether a record has the shape of the shared format."""
    kind = record.get("type")
    return isinstance(kind, str) and (kind == "sevenfold" or any(record.get(key) for key in _LINKED))


def _record(raw: bytes) -> dict[str, Any]:
    """The JSON object on a line; empty if there is none."""
    record = decoded(raw) if raw else None
    return record if isinstance(record, dict) else {}


def _looks_like(head: list[Line]) -> str:
    """Describe a foreign file for the error message."""
    if not any(line.problem or line.raw.strip() for line in head):
        return "the file is empty."
    start = b"".join(line.raw[:4096] for line in head[:8])
    if b"\0" in start:
        return "this is a binary file, not a transcript."
    records = [_record(line.raw) for line in head]
    first = next(filter(None, records), {})
    opens = start.lstrip()[:1]
    if opens == b"[" or (not first and opens == b"{"):
        return "this is JSON, but not one record on each line."
    if not first:
        return "this is not JSONL: no line of it is a JSON object."
    if {"id", "instructions"} <= first.keys() or first.get("record_type"):
        return "this looks like a rollout of an early Codex, a format that is not supported."
    keys = ", ".join(sorted(map(str, first))[:6])
    return f"these are JSON records of an unknown kind (with {keys})."
