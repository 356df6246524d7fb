"""What happened in a session, as a stream tells it.

Everything that lasts comes from the log, so a stream that is resumed after a restart, or on another server, tells the
same as one that was there all the time. What only shows progress (the pieces of an answer, the output of a tool) comes
from the agent while it works, and is not sent again if no stream was open.

An event's id says where a stream continues after it: the position of a line in the log, and how many events of that
line have been sent. The id of a passing event names the feed as well; see `feed`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from sevenfold.agent.loop import calls_of
from sevenfold.doors.server.problems import Problem
from sevenfold.ports import Log
from sevenfold.record import blocks, entries
from sevenfold.record.blocks import ToolResult
from sevenfold.record.decisions import Rewound, Undone
from sevenfold.record.entries import Boundary, Decision, Entry, Said
from sevenfold.record.log import Answer

LONGEST_RESULT = 20_000
"""Characters of a tool's result that an event has; the export has all of it."""
_ID = re.compile(r"(\d{1,18})(?::(\d{1,6}))?(?:~([0-9a-f]{16})\.(\d{1,15}))?", re.ASCII)


class Cursor(Struct, frozen=True):
    """A place between two events."""

    position: int = 0
    """The position of a line in the log."""
    skip: int = 0
    """How many events of that line have been told."""
    feed: str = ""
    """The feed that told the newest event, if that one does not last."""
    sequence: int = 0
    """Its number there."""

    @classmethod
    def of(cls, text: str) -> Cursor:
        """Read the id of an event; raises `Problem` if it is none."""
        matched = _ID.fullmatch(text)
        if matched is None:
            raise Problem(
                400,
                "invalid_event_id",
                f"{text!r:.80} is not the id of an event; send back one that was received",
            )
        return cls(int(matched[1]), int(matched[2] or 0), matched[3] or "", int(matched[4] or 0))

    def __str__(self) -> str:
        place = f"{self.position}:{self.skip}" if self.skip else str(self.position)
        return f"{place}~{self.feed}.{self.sequence}" if self.feed else place


class SessionEvent(Struct, frozen=True):
    """An event of a stream."""

    name: str
    data: dict[str, Any]
    after: Cursor
    """Where a stream continues after it."""

    @property
    def lasts(self) -> bool:
        """Whether it is reported again after a restart."""
        return not self.after.feed

    def encoded(self) -> bytes:
        """The event as it is sent."""
        return b"id: %s\nevent: %s\ndata: %s\n\n" % (
            str(self.after).encode(),
            self.name.encode(),
            msgspec.json.encode(self.data),
        )


def recorded(log: Log, after: Cursor, client_tools: frozenset[str]) -> Iterator[SessionEvent]:
    """The events that are in the log behind a place."""
    for position, line in log.read(after.position):
        told = list(_told(entries.read(line), client_tools)) if line else []
        skip = after.skip if position == after.position else 0
        for number, (name, data) in enumerate(told, 1):
            if number > skip:
                last = number == len(told)
                place = Cursor(position + len(line)) if last else Cursor(position, number)
                yield SessionEvent(name, data, place)


def end_of(log: Log, start: int = 0) -> int:
    """The position behind the last line."""
    end = start
    for position, line in log.read(start):
        end = position + len(line)
    return end


def _told(entry: Entry, client_tools: frozenset[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The events of a line."""
    match entry:
        case Said(sidechain=False, meta=False, summary=False, synthetic=False, attachment="") as said:
            yield from _message(said, client_tools)
        case Boundary(sidechain=False) as boundary:
            about = boundary.about
            yield "compacted", {"id": boundary.uuid, "tokens_after": about.post_tokens}
        case Decision(record=Undone(decision=decision)):
            yield "undone", {"decision": decision}
        case Decision(record=Rewound()):
            yield "rewound", {}


def _message(record: Said, client_tools: frozenset[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    text = blocks.text_of(record.blocks)
    if record.role == "assistant":
        if text or not record.calls:
            yield (
                "answer",
                {"id": record.uuid, "text": text, "model": record.model, "interrupted": record.cut},
            )
        for call in calls_of(Answer("", "", record.blocks)):
            at = "client" if call.name in client_tools else "server"
            yield "tool_use", {"id": call.id, "name": call.name, "input": call.input, "at": at}
        return
    if text and not record.answers:
        yield "user", {"id": record.uuid, "text": text, "key": record.key}
    for block in record.blocks:
        if block.kind == "tool_result":
            body = block.body()
            words = blocks.words_of(block)
            yield (
                "tool_result",
                {
                    "id": block.id,
                    "text": words[:LONGEST_RESULT],
                    "cut": len(words) > LONGEST_RESULT,
                    "is_error": isinstance(body, ToolResult) and bool(body.is_error),
                },
            )
