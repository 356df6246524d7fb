"""A session of any tool that is followed while it is written, read-only: only what was appended is read again.

A log is read to its last complete line; a torn one waits until its writer, or the next one, ends it. A file that was
replaced by another one with the same beginning, as a writer that takes over does, is followed in its new place;
anything else that is not an append is read anew under a new ``version``. Files of tools whose format is converted as a
whole are read anew when they change.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path

from msgspec import Struct

from sevenfold.archive import databases
from sevenfold.archive.formats import COMPRESSED, SessionLines, lines_of
from sevenfold.archive.ledger import LedgerEntry, ledger_entry
from sevenfold.archive.lifetimes import LaneHistory
from sevenfold.archive.profile.cache import CallReport
from sevenfold.archive.profile.context import WindowWatch
from sevenfold.archive.profile.transcript import TranscriptReader
from sevenfold.archive.readers import codex
from sevenfold.record import blocks
from sevenfold.record.blocks import ToolUse, read_fields
from sevenfold.record.decisions import AgentEnd, AgentStart, Epoch, Relayed, Request
from sevenfold.record.entries import Decision, Entry, Said
from sevenfold.stores.files import explained
from sevenfold.stores.jsonl.log import Line, scan

CHECKED = 4096
"""How many bytes before the end of what was read must be the same in a file that took another's place."""
Progress = Callable[[int, int], None]
"""Called with how many bytes were read, and how many there are."""
_PROGRESS_BYTES = 1_000_000
_RECALL = b"ecall"
_FOUND = re.compile(r"(?m)^record (\S+) · ")
"""How the tool Recall begins what it found; only ids of messages of this session count."""


class AgentRun(Struct):
    """A sub-agent as its parent's log records it."""

    start: AgentStart
    request: int
    """How many requests its parent had made when it started."""
    end: AgentEnd | None = None


class SessionHistory:
    """Everything that is known of a session so far, lane by lane; a `TranscriptWatch`."""

    def __init__(self) -> None:
        self.lanes: dict[int, LaneHistory] = {}
        self.records = 0
        self.positions: dict[str, int] = {}
        """Where each message is: its offset in the file, or its number among the converted lines."""
        self.ledger: list[LedgerEntry] = []
        self.agents: dict[str, AgentRun] = {}
        self.own = False
        """Whether the session's own requests are on record, so that their bytes can be rebuilt."""
        self.epoch: Epoch | None = None
        self.recalled: dict[str, list[int]] = {}
        """Message → the requests before which a search brought it back."""
        self._recalls: set[str] = set()
        self.position = 0
        self._open_request: Request | None = None
        self._relayed: tuple[Relayed, int] | None = None
        """A request of a watched program, and how many there were before it."""

    @property
    def main(self) -> LaneHistory:
        """The main conversation; in a file with a sub-agent's records alone, that is the sub-agent's."""
        busy = (lane for lane in self.lanes.values() if lane.requests)
        return min(busy, key=lambda lane: lane.number, default=None) or self.lanes.get(0) or LaneHistory(0)

    def window(self, lane: int) -> WindowWatch:
        """Look on at a lane that was just opened."""
        return self.lanes.setdefault(lane, LaneHistory(lane))

    def called(self, lane: int, request: int, report: CallReport) -> None:
        """A call was made."""
        self.lanes[lane].answered(request, report)

    def updated(self, lane: int, report: CallReport) -> None:
        """The newest call has a newer report."""
        self.lanes[lane].updated(report)

    def took(self, entry: Entry, line: Line) -> None:
        """A record was read."""
        self.records += 1
        if isinstance(entry, Said):
            self.positions[entry.uuid] = self.position
            self._note_recalls(entry)
            if entry.role == "assistant" and self._open_request is not None:
                self._join(entry, self._open_request)
            if self._relayed is not None:
                self._join_relayed(*self._relayed)
        elif isinstance(entry, Decision):
            self._decided(entry)
        ledger_line = ledger_entry(entry, len(self.main.requests), self.main.requests)
        if ledger_line is not None:
            self.ledger.append(ledger_line)

    def _decided(self, entry: Decision) -> None:
        match entry.record:
            case Request(appended=[]) as request:
                self._open_request = request
                self.own = True
            case Relayed(purpose="turn", status=200) as relayed:
                self._relayed = (relayed, len(self.main.requests))
            case Epoch() as epoch:
                self.epoch = epoch
            case AgentStart(agent=agent) as start:
                self.agents[agent] = AgentRun(start, len(self.main.requests))
            case AgentEnd(agent=agent) as end if agent in self.agents:
                self.agents[agent].end = end
            case _:
                pass

    def _note_recalls(self, message: Said) -> None:
        """Note which messages a search for what left the context found."""
        for block in message.blocks:
            if block.kind == "tool_use" and _RECALL in block.raw:
                body = block.body()
                if isinstance(body, ToolUse) and body.name.lower().endswith("recall"):
                    self._recalls.add(block.id)
                    self._note_recalled(str(read_fields(body.input).get("record") or ""))
            elif block.kind == "tool_result" and block.id in self._recalls:
                for record in _FOUND.findall(blocks.words_of(block)):
                    self._note_recalled(record)

    def _note_recalled(self, record: str) -> None:
        if record in self.positions:
            requests = self.recalled.setdefault(record, [])
            upcoming = len(self.main.requests) + 1
            if upcoming not in requests:
                requests.append(upcoming)

    def _join(self, answer: Said, request: Request) -> None:
        """Connect the newest request with its record and its answer."""
        if answer.parent != request.tip or not self.main.requests:
            return
        newest = self.main.requests[-1]
        if newest.record is None:
            newest.record = request.number
            newest.answer = answer.uuid
            self._open_request = None

    def _join_relayed(self, relayed: Relayed, before: int) -> None:
        """Connect a request of a watched program with what was recorded of it before its answer."""
        if len(self.main.requests) > before:
            self.main.requests[before].relayed = relayed
            self._relayed = None


class LogReader:
    """Follows one session; `catch_up` reads what was appended since."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.version = 0
        """Grows whenever the session had to be read anew, so that nothing told before holds any more."""
        self.size = 0
        self.modified = 0.0
        self._identity: tuple[int, int] | None = None
        self._begin()

    def _begin(self) -> None:
        self.version += 1
        self.history = SessionHistory()
        self.reader = TranscriptReader(watch=self.history, fetch=self.record)
        self.format = ""
        self.lines: list[bytes] = []
        """The converted lines, if the file is another tool's."""
        self._offset = 0
        self._tail = b""
        self._converter: codex.RolloutConverter | None = None
        self._whole = False
        """Whether the format can only be read as a whole."""

    @property
    def converted(self) -> bool:
        """Whether positions are numbers of converted lines, not offsets in the file."""
        return self._whole or self._converter is not None

    def catch_up(self, progress: Progress | None = None) -> bool:
        """Read what was appended; returns whether anything changed. Raises `TranscriptError` if it cannot be read."""
        with explained(self.path):
            state = (self.path.parent if databases.holds(self.path) else self.path).stat()
        identity = (state.st_ino, state.st_dev)
        self.modified = state.st_mtime
        if self.format and state.st_size == self.size and identity == self._identity:
            return False
        grown = self.format and not self._whole and state.st_size >= self._offset
        if self.format and not (grown and self._same_beginning()):
            self._begin()
        self._identity = identity
        self.size = state.st_size
        if not self.format:
            self._open()
        if self._whole:
            return True
        return self._append(progress)

    def _open(self) -> None:
        """Recognise the format; raises `TranscriptForeign` if there is no session in the file."""
        lines = SessionLines(self.path, lines_of(self.path))
        self.format = self.reader.format = lines.format
        plain = lines.in_file and self.path.suffix != COMPRESSED
        if lines.reader is codex and plain:
            self._converter = codex.RolloutConverter()
        elif lines.reader is not None or not plain:
            self._whole = True
            for line in lines:
                self._take_converted(line.raw)

    def _append(self, progress: Progress | None) -> bool:
        began = self._offset
        reported = began
        for line in scan(self.path, self._offset):
            if line.torn:
                break
            self._take(line)
            if progress and self._offset - reported > _PROGRESS_BYTES:
                reported = self._offset
                progress(self._offset, self.size)
        return self._offset > began

    def _take(self, line: Line) -> None:
        raw = line.raw
        self._offset = line.offset + len(raw) if not line.problem else _end_of_line(self.path, line.offset)
        self._tail = (self._tail + raw)[-CHECKED:]
        if self._converter is None:
            self.history.position = line.offset
            self.reader.take(line)
        else:
            for record in self._converter.take(raw):
                self._take_converted(record)

    def _take_converted(self, raw: bytes) -> None:
        self.history.position = len(self.lines)
        self.lines.append(raw)
        self.reader.take(Line(0, raw))

    def _same_beginning(self) -> bool:
        """Whether what was read last is still where it was."""
        with self.path.open("rb") as file:
            file.seek(self._offset - len(self._tail))
            return file.read(len(self._tail)) == self._tail

    def record(self, uuid: str) -> bytes | None:
        """The line of a message; None if there is no message with this id."""
        position = self.history.positions.get(uuid)
        if position is None:
            return None
        if self.converted:
            return self.lines[position]
        return next(scan(self.path, position)).raw


def session_key(path: Path) -> str:
    """An id for a session's file that says nothing of its path, the same in every process."""
    return blake2b(os.fsencode(path), digest_size=9).hexdigest()


def _end_of_line(path: Path, offset: int) -> int:
    """The offset behind a line that is too long to be read."""
    following: Iterator[Line] = scan(path, offset)
    next(following)
    next_line = next(following, None)
    return path.stat().st_size if next_line is None else next_line.offset
