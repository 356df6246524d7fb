"""What kind of transcript a file is, and the profile of one file.

Known are transcripts of parent-linked messages and Codex rollouts. Anything else is refused with what it
looks like, so that the user knows whether it is the wrong file or the wrong tool.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from msgspec import structs

from sevenfold.errors import TranscriptForeign
from sevenfold.lab.profile.figures import Session
from sevenfold.lab.profile.pieces import decoded
from sevenfold.lab.profile.rollout import RolloutReader
from sevenfold.lab.profile.transcript import TranscriptReader
from sevenfold.stores.jsonl.lines import Line, scan

LOOKED_AT = 200
"""Lines that are looked at before a file is given up."""

_LINKED = ("uuid", "sessionId", "leafUuid", "messageId")
_SUPPORTED = "Sevenfold profiles Claude Code transcripts, its own, and Codex rollouts."
Reader = TranscriptReader | RolloutReader


def profile_file(path: Path, name: str = "") -> tuple[Session, set[str]]:
    """The figures of a transcript and the ids of its calls; ``name`` is what the report calls the file."""
    lines = scan(path)
    reader, head = _begin(path, lines)
    for line in chain(head, lines):
        reader.take(line)
    reader.finish()
    ids = reader.session_ids
    session_id = path.stem if path.stem in ids or not ids else ids[0]
    agent_id = next(iter(reader.agent_ids)) if len(reader.agent_ids) == 1 else ""
    session = reader.books.close(name or str(path), session_id, reader.format)
    return structs.replace(session, agent_id=agent_id or None), reader.call_ids


def _begin(path: Path, lines: Iterator[Line]) -> tuple[Reader, list[Line]]:
    """The reader for the first line that settles the question, and the lines up to it."""
    head = []
    for line in islice(lines, LOOKED_AT):
        head.append(line)
        if reader := _reader(_record(line)):
            return reader, head
    raise TranscriptForeign(f"{path}: {_looks_like(head)} {_SUPPORTED}")


def not_a_conversation(path: Path) -> TranscriptForeign:
    """The error for a file in which there is nothing that could be searched, summarised or gone on with."""
    head = list(islice(scan(path), LOOKED_AT))
    reader = next(filter(None, map(_reader, map(_record, head))), None)
    if isinstance(reader, RolloutReader):
        what = "this is a Codex rollout, and of all commands only sevenfold profile reads those."
    else:
        what = "there is no conversation in it." if reader else _looks_like(head)
    return TranscriptForeign(f"{path}: {what} This reads Claude Code transcripts and Sevenfold's own.")


def _reader(record: dict[str, Any]) -> Reader | None:
    kind = record.get("type")
    if not isinstance(kind, str):
        return None
    if "timestamp" in record and isinstance(record.get("payload"), dict):
        return RolloutReader()
    return TranscriptReader() if kind == "sevenfold" or any(record.get(key) for key in _LINKED) else None


def _record(line: Line) -> dict[str, Any]:
    """The object on a line; empty if there is none."""
    record = decoded(line.raw) if line.raw else None
    return record if isinstance(record, dict) else {}


def _looks_like(head: list[Line]) -> str:
    """What a file that is no transcript seems to be."""
    if not any(line.problem or line.raw.strip() for line in head):
        return "the file is empty."
    start = b"".join(line.raw[:4096] for line in head[:8])
    if b"\0" in start:
        return "this is a binary file, not a transcript."
    first, opens = next(filter(None, map(_record, head)), {}), start.lstrip()[:1]
    if opens == b"[" or (not first and opens == b"{"):
        return "this is JSON, but not one record on each line."
    if not first:
        return "this is not JSONL: no line of it is a JSON object."
    if first.get("type") == "session" and "cwd" in first:
        return "this looks like a pi session, a format that is not supported."
    if {"id", "instructions"} <= first.keys() or first.get("record_type"):
        return "this looks like a rollout of an early Codex, a format that is not supported."
    keys = ", ".join(sorted(map(str, first))[:6])
    return f"these are JSON records of an unknown kind (with {keys})."
