"""Line-based logs: one implementation of the log queries for every store that can search its lines.

A store supplies `append`, `read`, `find` and `close`; `LineLog` builds the queries of `sevenfold.ports.Log` on them.
A database that has an index overrides `marked`, which all queries but `mentions` use, on branches too.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import accumulate, islice
from typing import TypedDict, TypeVar, cast

import msgspec

from sevenfold.errors import InputError, Refused
from sevenfold.ports import Log, LogIdentity
from sevenfold.record import entries
from sevenfold.record.blocks import Block
from sevenfold.record.decisions import OwnDecision
from sevenfold.record.entries import Boundary, Decision, Entry, Said, Stored
from sevenfold.stores.marks import Mark, decided_by, identity_in, text_with

DecisionT = TypeVar("DecisionT", bound=OwnDecision)


class Lease(TypedDict, total=False):
    """Options for opening a log for writing; see `sevenfold.ports.Store.open`."""

    wait: float
    take: bool


class LineLog(Log):
    """A `sevenfold.ports.Log` that answers queries by searching its lines, newest first."""

    fence: int = 0
    lease_seconds: float = 0.0

    def renew(self) -> None:
        """Do nothing: this log has no lease, or one that lasts as long as its process."""

    @abstractmethod
    def find(self, text: bytes, before: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Yield the lines that contain ``text``, with their positions, newest first; only those before ``before``."""

    def marked(self, mark: Mark, name: str = "", before: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Yield the lines that bear a mark, with their positions, newest first; only those before ``before``.

        A store that has an index of marks overrides this one method; `sevenfold.stores.marks.marks_of` says what to
        index. It may yield other lines as well, because every query looks at what it gets, but it must not leave any
        out.
        """
        return self.find(text_with(mark, name), before)

    def head(self, count: int) -> list[bytes]:
        """Return the first ``count`` lines."""
        return [line for _, line in islice(self.read(), count)]

    def upto(self, position: int) -> PrefixLog:
        """Return a read-only log that ends at this position."""
        return PrefixLog(self, position)

    # -- the queries -----------------------------------------------------------------------------

    def boundaries(self, before: int | None = None) -> Iterator[tuple[int, Boundary]]:
        """Yield the compaction boundaries of all branches, with their positions."""
        for position, entry in self._entries("boundary", before=before):
            if isinstance(entry, Boundary):
                yield position, entry

    def record(self, uuid: str, before: int | None = None) -> tuple[int, Entry] | None:
        """Return the record with this id and its position, or None."""
        for position, entry in self._entries("record", uuid, before):
            if getattr(entry, "uuid", None) == uuid:
                return position, entry
        return None

    def decisions(self, kind: type[DecisionT]) -> Iterator[tuple[int, DecisionT]]:
        """Yield the decisions of one kind, with their positions."""
        tag = cast(str, kind.__struct_config__.tag)
        for position, entry in self._entries("decision", tag):
            if isinstance(entry, Decision) and isinstance(entry.record, kind):
                yield position, entry.record

    def answers(self) -> Iterator[Said]:
        """Yield the model's messages on all branches."""
        return (record for record in self._said("answer") if record.role == "assistant")

    def said(self) -> Iterator[Said]:
        """Yield all entries with content (of users, tools and models) on all branches."""
        return self._said("said")

    def keyed(self, key: str) -> str:
        """Return the id of the record that a caller added under this key; empty if there is none."""
        return next((record.uuid for record in self._said("key", key) if record.key == key), "")

    def result(self, call: str) -> Block | None:
        """Return the result of a tool call, or None."""
        for record in self._said("result", call):
            if call in record.answers:
                return next(block for block in record.blocks if block.id == call)
        return None

    def called(self, call: str) -> bool:
        """Whether any model message contains this tool call."""
        return any(call in record.calls for record in self._said("call", call))

    def stored(self, reference: str) -> Stored | None:
        """Return where the full offloaded result is stored, by its tool call, its path, or ``result:`` and its name."""
        for record in self._said("stored"):
            for call, stored in record.stored.items():
                if reference == call or stored.is_at(reference):
                    return stored
        return None

    def decided_at(self, decision: str) -> int | None:
        """Return the position at which a decision was last made, committed, undone or redone."""
        for position, entry in self._entries("decided", decision):
            if decision in decided_by(entry):
                return position
        return None

    def mentions(self, text: str) -> bool:
        """Whether any entry with content contains this text."""
        lines = (line for _, line in self.find(_quoted(text)[1:-1]))
        return any(isinstance(entries.read(line), Said) for line in lines)

    def identity(self) -> LogIdentity:
        """Return the session and its folder, from the newest record that names both."""
        for _, line in self.marked("identity"):
            if identity := identity_in(line):
                return identity
        return LogIdentity()

    def _entries(
        self, mark: Mark, name: str = "", before: int | None = None
    ) -> Iterator[tuple[int, Entry]]:
        return ((position, entries.read(line)) for position, line in self.marked(mark, name, before))

    def _said(self, mark: Mark, name: str = "") -> Iterator[Said]:
        return (entry for _, entry in self._entries(mark, name) if isinstance(entry, Said))


class PrefixLog(LineLog):
    """The beginning of another log, up to a position; read-only."""

    def __init__(self, log: LineLog, end: int) -> None:
        self._log = log
        self.end = end
        """The position after its last line."""

    def append(self, lines: Sequence[bytes], *, durable: bool = False) -> Sequence[int]:
        """Raise `Refused`: an earlier state of a log is read-only."""
        raise Refused("a session cannot be written to as it was at an earlier time; rewind it instead")

    def read(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield the lines from ``start`` up to the end of the prefix."""
        for position, line in self._log.read(start):
            if position >= self.end:
                break
            # A line that was torn at that time may have been continued since.
            yield position, line[: self.end - position]

    def find(self, text: bytes, before: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Yield the lines of the prefix that contain ``text``, newest first."""
        end = self._end_of(before)
        return ((position, line[: end - position]) for position, line in self._log.find(text, end))

    def marked(self, mark: Mark, name: str = "", before: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Yield the lines of the prefix that bear a mark, newest first."""
        end = self._end_of(before)
        return ((position, line[: end - position]) for position, line in self._log.marked(mark, name, end))

    def _end_of(self, position: int | None) -> int:
        return self.end if position is None else min(position, self.end)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


class BranchLog(LineLog):
    """The lines of ``base``, and then those of ``continuation``, whose first line is at ``start``."""

    def __init__(self, base: LineLog, continuation: LineLog, start: int) -> None:
        self._base = base
        self._continuation = continuation
        self._start = start
        self.fence = continuation.fence
        self.lease_seconds = continuation.lease_seconds

    def renew(self) -> None:
        """Extend the lease on the branch."""
        self._continuation.renew()

    def append(self, lines: Sequence[bytes], *, durable: bool = False) -> Sequence[int]:
        """Append lines to the branch; the base log does not change."""
        return self._continuation.append(lines, durable=durable)

    @property
    def announce(self) -> Callable[[Sequence[bytes]], Sequence[int]]:
        """Appends lines to the branch that say what is about to be done; see `announcing`."""
        return announcing(self._continuation)

    def read(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield the lines from a position on, first those of the base."""
        if start < self._start:
            yield from self._base.read(start)
        yield from self._continuation.read(max(start, self._start))

    def find(self, text: bytes, before: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Yield the lines that contain ``text``, newest first."""
        if before is None or before > self._start:
            yield from self._continuation.find(text, before)
        yield from self._base.find(text, before)

    def marked(self, mark: Mark, name: str = "", before: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Yield the lines that bear a mark, newest first."""
        if before is None or before > self._start:
            yield from self._continuation.marked(mark, name, before)
        yield from self._base.marked(mark, name, before)

    def close(self) -> None:
        """Release the branch, so that others can write to it."""
        self._continuation.close()


def announcing(log: Log) -> Callable[[Sequence[bytes]], Sequence[int]]:
    """The function that appends lines which say what is about to be done, such as asking a model.

    A log in which an append is a round trip may have a method ``announce`` for that. It may return when the lines have
    left this process for good, and wait for the answer with the next call, which then raises what `append` would have
    raised.
    """
    announce: Callable[[Sequence[bytes]], Sequence[int]] = getattr(log, "announce", log.append)
    return announce


def fill(log: LineLog, session: str, lines: Iterable[bytes]) -> None:
    """Append another session's lines to a new session's log and close it; see `sevenfold.ports.Store.import_`."""
    with closing(log):
        if log.head(1):
            raise exists_already(session)
        log.append(list(lines), durable=True)


def exists_already(session: str) -> InputError:
    """The error for an import under a name that is taken."""
    return InputError(f"{session}: a session with this name exists already; import it under another name")


def positions(first: int, lines: Sequence[bytes]) -> list[int]:
    """Return the position of each line if the lines are written in a row, starting at ``first``."""
    return list(accumulate(map(len, lines), initial=first))[:-1]


def _quoted(text: str) -> bytes:
    return msgspec.json.encode(text)
