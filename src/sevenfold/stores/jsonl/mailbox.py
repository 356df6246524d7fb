"""The mailbox of a project, in SQLite: in a file shared by the agents of all processes, or in memory.

The file has a write-ahead log, so that a message survives a kill without waiting for the disk. SQLite before 3.51.3 can
damage such a file when one process restarts the log while another one writes. So every writer holds a lock on a file
next to it, and only one writes at a time.

The text of a delivered message is deleted. Its id is kept for a while, because a sender that was killed before it got
its receipt may send the message again.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from threading import Lock
from typing import Literal

import msgspec

from sevenfold import errors
from sevenfold.ports import MOST_MESSAGES_AT_ONCE, MOST_MESSAGES_WAITING, AgentMessage
from sevenfold.stores.files import explained, private_folder
from sevenfold.stores.jsonl.lock import exclusive

IDS_KEPT = 100_000
"""How many ids to keep, counting back from the newest message."""
WAIT_SECONDS = 10.0
"""How long to wait for another process."""
_OWN = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
_SCHEMA = """
CREATE TABLE IF NOT EXISTS message (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT, sender TEXT NOT NULL, id TEXT NOT NULL, recipient TEXT NOT NULL,
    body BLOB, UNIQUE (sender, id));
CREATE INDEX IF NOT EXISTS waiting ON message (recipient, sequence) WHERE body IS NOT NULL;
"""


class SqliteMailbox:
    """A `sevenfold.ports.Mailbox`; in memory if it has no path. Its file is created with the first message."""

    def __init__(
        self,
        path: Path | None = None,
        *,
        forced: bool = False,
        check: Callable[[], None] | None = None,
    ) -> None:
        """With ``forced``, every message also survives a power cut. ``check`` may raise, and then nothing changes."""
        self._path = path
        self._forced = forced
        self._check = check
        self._alone = Lock()
        self._db: sqlite3.Connection | None = None
        self._guard = -1
        """The file descriptor of the lock file; -1 in memory."""

    def send(self, message: AgentMessage) -> Literal["queued", "delivered", "refused"]:
        """Queue a message; see `sevenfold.ports.Mailbox`."""
        with self._writing() as db:
            lookup = "SELECT body IS NULL FROM message WHERE sender = ? AND id = ?"
            for (arrived,) in db.execute(lookup, (message.sender, message.id)):
                return "delivered" if arrived else "queued"
            count = "SELECT COUNT(*) FROM message WHERE recipient = ? AND body IS NOT NULL"
            if db.execute(count, (message.to,)).fetchone()[0] >= MOST_MESSAGES_WAITING:
                return "refused"
            inserted = db.execute(
                "INSERT INTO message (sender, id, recipient, body) VALUES (?, ?, ?, ?)",
                (message.sender, message.id, message.to, msgspec.json.encode(message)),
            )
            if (newest := inserted.lastrowid or 0) % MOST_MESSAGES_WAITING == 0:
                expire = "DELETE FROM message WHERE sequence <= ? AND body IS NULL"
                db.execute(expire, (newest - IDS_KEPT,))
            return "queued"

    def waiting(self, recipient: str, most: int = MOST_MESSAGES_AT_ONCE) -> Sequence[AgentMessage]:
        """Return the first messages not yet acknowledged; see `sevenfold.ports.Mailbox`."""
        if self._db is None and self._path is not None and not self._path.exists():
            return ()
        with self._opened() as db:
            rows = db.execute(
                "SELECT body FROM message WHERE recipient = ? AND body IS NOT NULL ORDER BY sequence LIMIT ?",
                (recipient, most),
            ).fetchall()
        return [msgspec.json.decode(body, type=AgentMessage) for (body,) in rows]

    def acknowledge(self, messages: Iterable[AgentMessage]) -> None:
        """Mark messages as delivered and delete their texts; see `sevenfold.ports.Mailbox`."""
        if names := [(message.sender, message.id) for message in messages]:
            with self._writing() as db:
                db.executemany("UPDATE message SET body = NULL WHERE sender = ? AND id = ?", names)

    def rewrite(self, change: Callable[[bytes], bytes]) -> None:
        """Apply ``change`` to all stored messages, and leave no trace of the old texts in the file."""
        with self._writing() as db:
            rows = db.execute("SELECT sequence, body FROM message WHERE body IS NOT NULL").fetchall()
            changed = [(change(body), sequence) for sequence, body in rows]
            db.executemany("UPDATE message SET body = ? WHERE sequence = ?", changed)
        with self._opened() as db, self._guarded():
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """Close the file."""
        with self._alone:
            if self._db is not None:
                with self._guarded():  # the last one to close it restarts the log
                    self._db.close()
                if self._guard >= 0:
                    os.close(self._guard)
            self._db = None
            self._guard = -1

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        # Leaving the connection's own context commits, or rolls back after an error.
        with self._opened() as db, self._guarded(), db:
            db.execute("BEGIN IMMEDIATE")
            yield db
            if self._check is not None:
                self._check()

    def _guarded(self) -> AbstractContextManager[None]:
        return exclusive(self._guard) if self._guard >= 0 else nullcontext()

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        with self._alone:
            try:
                if self._db is None:
                    self._db = self._connected()
                yield self._db
            except sqlite3.Error as error:
                raise self._explained(error) from error

    def _connected(self) -> sqlite3.Connection:
        if self._path is not None:
            private_folder(self._path.parent)
            with explained(self._path):
                os.close(os.open(self._path, _OWN, 0o600))
                self._guard = os.open(self._path.with_name(self._path.name + ".lock"), _OWN, 0o600)
        with self._guarded():
            db = sqlite3.connect(
                self._path or ":memory:",
                timeout=WAIT_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
            try:
                db.execute("PRAGMA journal_mode = WAL").fetchall()
                db.execute(f"PRAGMA synchronous = {'FULL' if self._forced else 'NORMAL'}")
                db.execute("PRAGMA secure_delete = ON").fetchall()
                db.executescript(_SCHEMA)
            except BaseException:
                db.close()
                raise
        return db

    def _explained(self, error: sqlite3.Error) -> errors.TranscriptError:
        mailbox = self._path or "the mailbox"
        match int(getattr(error, "sqlite_errorcode", 0)) & 0xFF:
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                return errors.TranscriptLocked(f"{mailbox}: another process is writing to it; try again")
            case sqlite3.SQLITE_FULL:
                return errors.TranscriptFull(
                    f"{mailbox}: no room for a message; free some space and send it again"
                )
            case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
                return errors.TranscriptDenied(f"{mailbox}: {error}; check its owner and permissions")
            case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
                return errors.TranscriptForeign(
                    f"{mailbox}: no mailbox, or a damaged one ({error}); move it away"
                )
            case _:
                return errors.TranscriptError(f"{mailbox}: {error}")
