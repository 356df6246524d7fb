"""Sessions that a tool keeps in an SQLite database, many in one file.

A session in a database has a path below the file, as if it were a folder: ``opencode.db/ses_12``. So everything that
takes the path of a session takes these too. The databases are only read.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

from sevenfold.archive.readers import hermes, opencode
from sevenfold.archive.readers.linked import Json, StoredConversation, encode_record
from sevenfold.archive.untrusted import one_line
from sevenfold.errors import TranscriptError, TranscriptForeign, TranscriptMissing
from sevenfold.stores.jsonl.log import Line

_MAGIC = b"SQLite format 3\0"
MOST_LISTED = 5
"""Sessions that an error message lists."""


class DatabaseReader(Protocol):
    """Converts the sessions in one tool's database. Its columns are checked before anything is read."""

    FORMAT: str
    """The name of the format in reports, as in ``opencode``."""
    TOOL: str
    """The name of the tool."""
    COLUMNS: dict[str, frozenset[str]]
    """The tables and columns that are read."""

    def unsupported(self, database: sqlite3.Connection) -> str:
        """What keeps this reader from reading a database; empty if nothing does."""

    def conversations(self, database: sqlite3.Connection) -> list[StoredConversation]:
        """The conversations in a database."""

    def records(self, database: sqlite3.Connection, session: str) -> Iterator[Json]:
        """Yield the records of a conversation in the shared format."""


READERS: tuple[DatabaseReader, ...] = (opencode, hermes)


def is_database(path: Path) -> bool:
    """Whether a file is an SQLite database."""
    try:
        # A pipe must not be opened: that waits until a process writes to it.
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def holds(path: Path) -> bool:
    """Whether a path names a database, or a session in one."""
    return is_database(path) or is_database(path.parent)


def modified(path: Path) -> float:
    """When the file, or the write-ahead log next to it, was last written, in seconds since 1970; 0 if it is gone."""
    times = [0.0]
    for file in (path, path.with_name(f"{path.name}-wal")):
        try:
            times.append(file.stat().st_mtime)
        except OSError:
            continue
    return max(times)


def conversations(path: Path) -> tuple[str, list[StoredConversation]]:
    """The tool of a database and its conversations; raises `TranscriptError` if it cannot be read."""
    with _opened(path) as (database, reader):
        return reader.TOOL, reader.conversations(database)


def lines(path: Path) -> tuple[str, list[Line]]:
    """The format of a session in a database, and its lines in the shared format.

    The path of a database that holds one session only is enough. Raises `TranscriptError`.
    """
    file = path if is_database(path) else path.parent
    with _opened(file) as (database, reader):
        session = _the_only(file, reader.conversations(database)) if file == path else path.name
        records = [Line(0, encode_record(record)) for record in reader.records(database, session)]
    if not records:
        raise TranscriptMissing(f"{file}: no session {one_line(session, 60)} in this database")
    return reader.FORMAT, records


def _the_only(path: Path, conversations: list[StoredConversation]) -> str:
    if len(conversations) == 1:
        return conversations[0].name
    newest = sorted(conversations, key=lambda conversation: -conversation.modified)[:MOST_LISTED]
    listed = ", ".join(str(path / conversation.name) for conversation in newest) or "none"
    raise TranscriptForeign(
        f"{path}: this is a database with {len(conversations)} sessions; name one of them. The newest: {listed}"
    )


@contextmanager
def _opened(path: Path) -> Iterator[tuple[sqlite3.Connection, DatabaseReader]]:
    try:
        with closing(sqlite3.connect(_address(path), uri=True)) as database:
            database.row_factory = sqlite3.Row
            # A value that is not UTF-8 must not make the whole session unreadable.
            database.text_factory = lambda raw: raw.decode(errors="replace")
            yield database, _reader(path, database)
    except sqlite3.Error as error:
        raise TranscriptError(f"{path}: this database cannot be read: {error}") from error


def _address(path: Path) -> str:
    """How to open a database so that nothing of it is changed, nor any file created next to it."""
    name = path.resolve().as_uri()
    # Without a write-ahead log no process is writing, and SQLite can read without creating its shared memory file.
    written = os.path.exists(f"{path}-wal")  # noqa: PTH110 - the name is not a path of its own
    return f"{name}?mode=ro" if written else f"{name}?immutable=1"


def _reader(path: Path, database: sqlite3.Connection) -> DatabaseReader:
    tables: dict[str, frozenset[str]] = {}
    for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        rows: list[Any] = database.execute("SELECT name FROM pragma_table_info(?)", (table,)).fetchall()
        tables[table] = frozenset(row["name"] for row in rows)
    for reader in READERS:
        if not reader.COLUMNS.keys() <= tables.keys():
            continue
        missing: list[str] = []
        for table, columns in reader.COLUMNS.items():
            missing += [f"{table}.{column}" for column in sorted(columns - tables[table])]
        reason = f"it has no {', '.join(missing)}" if missing else reader.unsupported(database)
        if reason:
            raise TranscriptForeign(
                f"{path}: this database of {reader.TOOL} is of an unknown version: {reason}; "
                "look for a newer Sevenfold"
            )
        return reader
    raise TranscriptForeign(f"{path}: this database holds no sessions of opencode or Hermes")
