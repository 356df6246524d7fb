"""The log of a session in PostgreSQL."""

from __future__ import annotations

import threading
import time
import weakref
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from sevenfold.errors import TranscriptError, TranscriptLost, TranscriptOvertaken
from sevenfold.stores.leases import RENEWALS
from sevenfold.stores.log import BranchLog, LineLog, positions
from sevenfold.stores.marks import ON_NEARLY_EVERY_LINE, Mark
from sevenfold.stores.postgres.connection import AnnouncedStatement
from sevenfold.stores.postgres.database import Database
from sevenfold.stores.postgres.marks import digest, digests_of

_END = (1 << 63) - 1
"""After every position."""
_PAGES = (16, 512)
"""The number of lines that are read at once: at first, and at most."""
_PAGE_BYTES = 1 << 20
"""A page of more bytes is followed by a smaller one."""
SURELY_HELD = 1.0
"""For how many seconds after an answer of the database nobody is taken to have taken over, at most; also with shorter
leases nobody can have, but for those who take a session by force."""
_RECENT_BYTES = 1 << 18
"""How much of what a writer appended last it can read again without asking the database."""


class RecentLines:
    """The newest lines that this writer appended, in a row up to the end of its log.

    Whoever follows a log, as recall does, reads each line soon after it was written. That the database has these lines,
    the fencing number proved when they were appended.
    """

    def __init__(self) -> None:
        self._lines: deque[tuple[int, bytes]] = deque()
        self._bytes = 0
        # Not the writer's own lock, which is held while the database is waited for.
        self._changing = threading.Lock()

    def add(self, first: int, lines: Sequence[bytes]) -> None:
        """Take lines that were appended at this position, and drop the oldest beyond the limit."""
        with self._changing:
            self._lines.extend(zip(positions(first, lines), lines, strict=True))
            self._bytes += sum(map(len, lines))
            while self._bytes > _RECENT_BYTES:
                self._bytes -= len(self._lines.popleft()[1])

    def since(self, start: int) -> list[tuple[int, bytes]] | None:
        """The lines from a position on; None if some of them may not be here."""
        with self._changing:
            if not self._lines or start < self._lines[0][0]:
                return None
            lines = list(self._lines)
        return lines[bisect_left(lines, start, key=lambda line: line[0]) :]

    def clear(self) -> None:
        """Forget all lines."""
        with self._changing:
            self._lines.clear()
            self._bytes = 0


class PostgresLog(LineLog):
    """The lines of one log: of a session, or those that a branch adds to it."""

    def __init__(
        self, database: Database, tenant: int, name: str, log: int, *, size: int = 0, fence: int = 0
    ) -> None:
        """``size`` and ``fence`` are those of a log that was opened for writing."""
        self.log = log
        """Its number in the database."""
        self.fence = fence
        self.lease_seconds = database.address.lease_seconds if fence else 0.0
        self._database = database
        self._tenant = tenant
        self._name = name
        self._size = size
        self._closed = fence == 0
        self._alone = threading.Lock()
        self._recent = RecentLines()
        self._announced: tuple[int, Sequence[bytes], AnnouncedStatement] | None = None
        """Lines whose append was sent and not answered yet, and their position."""
        self._answered = time.monotonic()
        """When the database last confirmed that the lease is held."""
        self._surely_held = min(SURELY_HELD, self.lease_seconds / RENEWALS)
        self._lost = _release_if_lost(self, database, tenant, log, fence) if fence else None

    # -- writing ---------------------------------------------------------------------------------

    def append(self, lines: Sequence[bytes], *, durable: bool = False) -> Sequence[int]:
        """Append lines in one statement; raises `TranscriptOvertaken` if another writer took over."""
        if self._closed:
            raise TranscriptError(f"{self._name}: closed, so nothing can be appended")
        with self._alone:
            self._settle()
            first = self._size
            if not self._written(lines, first, durable=durable):
                # Others have written behind these lines, or the database has lost them.
                self._recent.clear()
                raise self._refusal()
            self._take(first, lines)
            return positions(first, lines)

    def announce(self, lines: Sequence[bytes]) -> Sequence[int]:
        """Append lines without waiting for the answer, where nothing is lost by that.

        See `sevenfold.stores.log.announcing`.

        The server has the statement when this returns, so it survives the end of this process as an append does that
        was answered. That nobody has taken over is known without an answer if the last one is younger than any lease.
        """
        with self._alone:
            self._settle()
            if (
                not self._closed
                and len(lines) == 1
                and time.monotonic() - self._answered < self._surely_held
            ):
                first = self._size
                query, values = self._append_of(lines, first)
                sent = self._database.announce(self._tenant, query, values)
                if sent is not None:
                    self._announced = first, lines, sent
                    self._size = first + sum(map(len, lines))
                    return positions(first, lines)
        return self.append(lines)

    def _settle(self) -> None:
        """Wait for the answer to what was announced; raises as `append` does if it was refused."""
        if self._announced is None:
            return
        first, lines, sent = self._announced
        written = sent.written()
        if written is None:
            written = self._written(lines, first, durable=False, earlier=1)
        self._announced = None
        if not written:
            self._size = first
            self._recent.clear()
            raise self._refusal()
        self._take(first, lines)

    def _settle_to_read(self) -> None:
        """Let what was announced be in the log; if it was refused, the next append says so again."""
        if self._announced is not None:
            with self._alone, suppress(TranscriptOvertaken, TranscriptLost):
                self._settle()

    def _take(self, first: int, lines: Sequence[bytes]) -> None:
        """Take note that lines are in the log."""
        self._answered = time.monotonic()
        self._size = first + sum(map(len, lines))
        self._recent.add(first, lines)

    def _append_of(self, lines: Sequence[bytes], first: int) -> tuple[str, dict[str, Any]]:
        """The statement that appends lines at a position, and its values."""
        query, values = _appending(lines, first)
        values |= {"log": self.log, "fence": self.fence, "at": first, "bytes": sum(map(len, lines))}
        return query, values

    def _written(self, lines: Sequence[bytes], first: int, *, durable: bool, earlier: int = 0) -> bool:
        """Run the statement until the server answers; whether the lines are in the log now.

        ``earlier`` is how often it was sent before.
        """
        query, values = self._append_of(lines, first)
        attempts = earlier

        def attempt() -> bool:
            nonlocal attempts
            attempts += 1
            ((written,),) = self._database.run(self._tenant, query, durable or None, values)
            return bool(written)

        if self._database.persist(attempt):
            return True
        if attempts == 1:
            return False
        # The connection broke, perhaps after the statement was carried out. It moved the end of the log then, so it was
        # not carried out again, and its first line is where it should be.
        if not lines:
            return self._state() == (self.fence, first)
        return self._page("lines", start=first, most=1) == [(first, lines[0])]

    def _refusal(self) -> TranscriptError:
        """Why nothing was written."""
        state = self._state()
        if state is not None and (
            state[0] < self.fence or (state[0] == self.fence and state[1] < self._size)
        ):
            return TranscriptLost(
                f"{self._name}: the database lost {max(0, self._size - state[1]):,} bytes that it had acknowledged, "
                "as after a failover to a server that did not have them yet; nothing was written. Open the session "
                "again to continue from what is there"
            )
        return self._overtaken()

    def renew(self) -> None:
        """Extend the lease, with all others of this process; raises `TranscriptOvertaken` if it is another's."""
        with self._alone:
            self._settle()
        state = self._state()
        if state is None or state[0] != self.fence:
            raise self._overtaken()
        if not self._closed:
            self._database.beat()
            state = self._state()  # another process may have opened it a moment ago
            if state is None or state[0] != self.fence:
                raise self._overtaken()

    def close(self) -> None:
        """Release the lease."""
        if not self._closed:
            self._settle_to_read()
            self._closed = True
            if self._lost is not None:
                self._lost.detach()
            self._database.repeated(self._tenant, "release", log=self.log, fence=self.fence)

    def _state(self) -> tuple[int, int] | None:
        for fence, size in self._database.repeated(self._tenant, "state", log=self.log):
            return fence, size
        return None

    def _overtaken(self) -> TranscriptOvertaken:
        return TranscriptOvertaken(
            f"{self._name}: taken over by another writer; nothing was written. Open the session again to continue from "
            "what is there now"
        )

    # -- reading ---------------------------------------------------------------------------------

    def read(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield the lines from a position on."""
        self._settle_to_read()
        # Who reads a log from its beginning wants what the database has.
        recent = self._recent.since(start) if start else None
        if recent is not None:
            yield from recent
            return
        most = _PAGES[0]
        while True:
            page = self._page("lines", start=start, most=most)
            yield from page
            if len(page) < most:
                return
            start = page[-1][0] + 1
            most = _next_size(page)

    def find(self, text: bytes, before: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Yield the lines that contain ``text``, newest first."""
        return self._backwards("lines with text", before, text=text)

    def marked(self, mark: Mark, name: str = "", before: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Yield the lines that bear a mark, newest first."""
        if mark in ON_NEARLY_EVERY_LINE:
            return self._backwards("last lines", before)
        return self._backwards("marked lines", before, name=digest(mark, name))

    def _backwards(self, query: str, before: int | None, **values: Any) -> Iterator[tuple[int, bytes]]:
        self._settle_to_read()
        # Most callers stop at the first line.
        most = 2
        before = _END if before is None else before
        while page := self._page(query, before=before, most=most, **values):
            yield from page
            if len(page) < most:
                return
            before = page[-1][0]
            most = _next_size(page)

    def _page(self, query: str, **values: Any) -> list[tuple[int, bytes]]:
        return [(position, raw) for position, raw in self._rows(query, **values)]

    def _rows(self, query: str, **values: Any) -> list[tuple[Any, ...]]:
        return self._database.repeated(self._tenant, query, log=self.log, **values)


class PostgresBranch(BranchLog):
    """The log of a branch: lines of what it began with, and its own."""

    def __init__(self, base: LineLog, own: PostgresLog, start: int) -> None:
        super().__init__(base, own, start)
        self.log = own.log
        """The number of its own lines' log."""


def _appending(lines: Sequence[bytes], first: int) -> tuple[str, dict[str, Any]]:
    """The statement that appends these lines, and its values for them."""
    if len(lines) == 1:
        return "append line", {"line": lines[0], "names": list(digests_of(lines[0]))}
    offsets = positions(first, lines)
    names: list[int] = []
    marked: list[int] = []
    for position, line in zip(offsets, lines, strict=True):
        for name in digests_of(line):
            names.append(name)
            marked.append(position)
    return "append", {"positions": offsets, "lines": list(lines), "names": names, "marked": marked}


def _next_size(page: Sequence[tuple[int, bytes]]) -> int:
    """How many lines to read next: more and more, but few of large ones."""
    first, most = _PAGES
    size = sum(len(raw) for _, raw in page)
    if size > _PAGE_BYTES:
        return max(1, len(page) * _PAGE_BYTES // size)
    return min(most, max(first, len(page) * 4))


def _release_if_lost(
    writer: PostgresLog, database: Database, tenant: int, log: int, fence: int
) -> weakref.finalize[Any, PostgresLog]:
    """Let the lease go with the log object, because the sign of life of the process would keep it for good."""
    release = weakref.finalize(writer, database.abandon, tenant, log, fence)
    release.atexit = False
    return release
