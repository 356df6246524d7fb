"""Putting records into the tables of the recall index."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from sevenfold.errors import TranscriptError
from sevenfold.recall import recall
from sevenfold.recall.passages import CALL, EDIT, ERROR, RESULT, Passage, passages, pieces, tidy
from sevenfold.record.decisions import Offload
from sevenfold.record.entries import Decision, Entry, Said

SCHEMA_VERSION = 1
"""Goes up whenever the tables, or what is put in them, change: an index of another version is made anew."""

Fetch = Callable[[str], bytes]
"""Gives the full text of a result that was moved out of the context, as `sevenfold.ports.Results` does."""


def create(db: sqlite3.Connection) -> None:
    """Make the tables in an empty database."""
    schema = Path(__file__).with_name("recall_index.sql").read_text(encoding="utf-8")
    db.executescript(f"BEGIN;{schema}PRAGMA user_version = {SCHEMA_VERSION};COMMIT;")


def add(db: sqlite3.Connection, offset: int, entry: Entry, fetch: Fetch | None) -> bool:
    """Take in an entry; false if it says nothing or is there already."""
    match entry:
        case Said(uuid=uuid, sidechain=aside, timestamp=timestamp):
            return _record(db, offset, uuid, aside, timestamp, passages(entry), fetch)
        case Decision(made=Offload(tool_use_id=call, path=path)):
            db.execute(
                "INSERT INTO call (id, path) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET path = excluded.path",
                (call, path),
            )
            _complete(db, call, fetch)
            return False
        case Decision(made=made) if made.id:
            return _record(db, offset, made.id, False, made.timestamp, passages(entry), fetch)
        case _:
            return False


def _record(
    db: sqlite3.Connection,
    offset: int,
    uuid: str,
    aside: bool,
    timestamp: str,
    found: list[Passage],
    fetch: Fetch | None,
) -> bool:
    if not found:
        return False
    made = db.execute(
        "INSERT OR IGNORE INTO record (uuid, lane, place, timestamp, offset)"
        " SELECT ?1, ?2, coalesce(max(place), 0) + 1, ?3, ?4 FROM record WHERE lane = ?2",
        (uuid, int(aside), timestamp, offset),
    )
    record = made.lastrowid
    if not made.rowcount or record is None:
        return False
    for passage in found:
        tool = passage.tool or _tool(db, passage.call)
        _pieces(db, record, passage.kind, tool, passage.text)
        if passage.call:
            _call(db, record, passage)
            _complete(db, passage.call, fetch)
    return True


def _pieces(db: sqlite3.Connection, record: int, kind: str, tool: str, text: str) -> None:
    for piece in pieces(text):
        row = db.execute(
            "INSERT INTO piece (record, kind, tool, size, text) VALUES (?, ?, ?, ?, ?)",
            (record, kind, tool, len(piece), piece),
        ).lastrowid
        db.execute(
            "INSERT INTO words (rowid, said, parts) VALUES (?, ?, ?)",
            (row, recall.spaced(piece), recall.humps(piece)),
        )


def _call(db: sqlite3.Connection, record: int, passage: Passage) -> None:
    if passage.kind in (CALL, EDIT):
        db.execute(
            "INSERT INTO call (id, tool) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET tool = excluded.tool",
            (passage.call, passage.tool),
        )
    elif passage.kind in (RESULT, ERROR):
        db.execute(
            "INSERT INTO call (id, result, size) VALUES (?, ?, ?) ON CONFLICT (id)"
            " DO UPDATE SET result = excluded.result, size = excluded.size",
            (passage.call, record, len(passage.text)),
        )


def _complete(db: sqlite3.Connection, call: str, fetch: Fetch | None) -> None:
    """Add the full text of a result of which the log holds only the beginning."""
    row = db.execute("SELECT tool, result, size, path FROM call WHERE id = ?", (call,)).fetchone()
    if fetch is None or row is None or row[1] is None or not row[3]:
        return
    tool, record, size, path = row
    try:
        text = tidy(fetch(path).decode(errors="replace"))
    except TranscriptError:
        return
    if len(text) > size:
        db.execute("UPDATE call SET size = ? WHERE id = ?", (len(text), call))
        _pieces(db, record, RESULT, tool, text)


def _tool(db: sqlite3.Connection, call: str) -> str:
    row = db.execute("SELECT tool FROM call WHERE id = ?", (call,)).fetchone() if call else None
    return str(row[0]) if row else ""
