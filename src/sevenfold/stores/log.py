"""Logs kept as lines: one implementation of the named queries for every store that can search its lines.

A store supplies `append`, `read`, `find` and `close`; `LineLog` answers the queries of `sevenfold.ports.Log` with them.
A database overrides those it has an index for.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import accumulate, islice
from typing import TypedDict, TypeVar, cast

import msgspec

from sevenfold.errors import InputError, Refused
from sevenfold.ports import Log, LogIdentity
from sevenfold.record import entries
from sevenfold.record.blocks import Block
from sevenfold.record.decisions import Commit, OwnDecision, Undone
from sevenfold.record.entries import Boundary, Clearing, Decision, Entry, Said, Stored

Made = TypeVar("Made", bound=OwnDecision)


class Lease(TypedDict, total=False):
    """How a log is opened for writing; see `sevenfold.ports.Store.open`."""

    wait: float
    take: bool


class LineLog(Log):
    """A `sevenfold.ports.Log` that answers its queries by searching its lines, the newest first."""

    fence: int = 0

    @abstractmethod
    def find(self, text: bytes, before: int | None = None) -> Iterator[tuple[int, bytes]]:
        """The lines that contain ``text`` and end before a position, the newest first."""

    def head(self, count: int) -> list[bytes]:
        """The first lines."""
        return [line for _, line in islice(self.read(), count)]

    def upto(self, position: int) -> PrefixLog:
        """The log as it was when it ended there; it cannot be written to."""
        return PrefixLog(self, position)

    # -- the queries -----------------------------------------------------------------------------

    def boundaries(self, before: int | None = None) -> Iterator[tuple[int, Boundary]]:
        """Compactions, on whatever branch."""
        for position, entry in self._entries(b'"compact_boundary"', before):
            if isinstance(entry, Boundary):
                yield position, entry

    def record(self, uuid: str, before: int | None = None) -> tuple[int, Entry] | None:
        """The record with this id."""
        # Its children name it too, as their parent.
        found = self._entries(_quoted(uuid), before)
        return next((one for one in found if getattr(one[1], "uuid", None) == uuid), None)

    def decisions(self, kind: type[Made]) -> Iterator[tuple[int, Made]]:
        """Decisions of one kind."""
        tag = cast(str, kind.__struct_config__.tag)
        for position, entry in self._entries(b'"kind":' + _quoted(tag)):
            if isinstance(entry, Decision) and isinstance(entry.made, kind):
                yield position, entry.made

    def answers(self) -> Iterator[Said]:
        """What models answered, on whatever branch."""
        return (said for said in self._said(b'"assistant"') if said.role == "assistant")

    def said(self) -> Iterator[Said]:
        """What users, tools and models said, on whatever branch."""
        return self._said(b'"type"')

    def keyed(self, key: str) -> str:
        """The id of the record that was said under a caller's key; empty if there is none."""
        found = self._said(b'"sevenfold_key":' + _quoted(key))
        return next((said.uuid for said in found if said.key == key), "")

    def result(self, call: str) -> Block | None:
        """The result of a tool call."""
        for said in self._said(_quoted(call)):
            if call in said.answers:
                return next(block for block in said.blocks if block.id == call)
        return None

    def called(self, call: str) -> bool:
        """Does a model make this tool call?"""
        return any(call in said.calls for said in self._said(_quoted(call)))

    def stored(self, reference: str) -> Stored | None:
        """Where the whole of an offloaded result is, by its tool call or its path."""
        for said in self._said(b'"sevenfold_results"'):
            for call, place in said.stored.items():
                if reference in (call, place.path):
                    return place
        return None

    def decided_at(self, decision: str) -> int | None:
        """Where a decision was last made, committed, undone or redone."""
        found = self._entries(_quoted(decision))
        return next((position for position, entry in found if decision in _decided(entry)), None)

    def mentions(self, text: str) -> bool:
        """Does anything that was said contain this text?"""
        return any(self._said(_quoted(text)[1:-1]))

    def identity(self) -> LogIdentity:
        """The session and its folder, as the newest record that names both has them."""
        for _, line in self.find(b'"sessionId"'):
            try:
                named = msgspec.json.decode(line, type=LogIdentity)
            except msgspec.MsgspecError:
                continue
            if named.session and named.folder:
                return named
        return LogIdentity()

    def _entries(self, text: bytes, before: int | None = None) -> Iterator[tuple[int, Entry]]:
        return ((position, entries.read(line)) for position, line in self.find(text, before))

    def _said(self, text: bytes) -> Iterator[Said]:
        return (entry for _, entry in self._entries(text) if isinstance(entry, Said))


class PrefixLog(LineLog):
    """A log as it was when it was shorter."""

    def __init__(self, log: LineLog, end: int) -> None:
        self._log = log
        self.end = end
        """Its length: the position after its last line."""

    def append(self, lines: Sequence[bytes], *, durable: bool = False) -> Sequence[int]:
        """Refused: the past takes no records."""
        raise Refused("a session cannot be written to as it was at an earlier time; rewind it instead")

    def read(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Lines up to the end."""
        for position, line in self._log.read(start):
            if position >= self.end:
                break
            # A line that was torn then may have been continued since.
            yield position, line[: self.end - position]

    def find(self, text: bytes, before: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Lines up to the end that contain ``text``, the newest first."""
        end = self.end if before is None else min(before, self.end)
        return ((position, line[: end - position]) for position, line in self._log.find(text, end))

    def close(self) -> None:
        """There is nothing to release."""


class BranchLog(LineLog):
    """A log that begins with another one and continues in its own, whose first line is at position ``start``."""

    def __init__(self, base: LineLog, own: LineLog, start: int) -> None:
        self._base = base
        self._own = own
        self._start = start
        self.fence = own.fence

    def append(self, lines: Sequence[bytes], *, durable: bool = False) -> Sequence[int]:
        """Write lines to the branch; they never reach the log it began with."""
        return self._own.append(lines, durable=durable)

    def read(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Lines from a position on."""
        if start < self._start:
            yield from self._base.read(start)
        yield from self._own.read(max(start, self._start))

    def find(self, text: bytes, before: int | None = None) -> Iterator[tuple[int, bytes]]:
        """The lines that contain ``text``, the newest first."""
        if before is None or before > self._start:
            yield from self._own.find(text, before)
        yield from self._base.find(text, before)

    def close(self) -> None:
        """Let others write to the branch."""
        self._own.close()


def fill(log: LineLog, session: str, lines: Iterable[bytes]) -> None:
    """Write the lines of another session to the log of a new one, and close it; see `sevenfold.ports.Store.import_`."""
    with closing(log):
        if log.head(1):
            raise InputError(
                f"{session}: a session with this name exists already; import it under another name"
            )
        log.append(list(lines), durable=True)


def positions(first: int, lines: Sequence[bytes]) -> list[int]:
    """Where each of these lines is once they are written one after another."""
    return list(accumulate(map(len, lines), initial=first))[:-1]


def _quoted(text: str) -> bytes:
    return msgspec.json.encode(text)


def _decided(entry: Entry) -> tuple[str, ...]:
    """The decisions that a record makes, commits, undoes or redoes."""
    match entry:
        case Decision(made=Commit(id=name, boundary=other) | Undone(id=name, decision=other)):
            return name, other
        case Decision(made=made):
            return (made.id,)
        case Boundary(uuid=name) | Clearing(uuid=name):
            return (name,)
        case _:
            return ()
