"""Converts the sessions in opencode's database into records of the shared format.

A message is a row with its fields as JSON; its content is in parts, which are rows too. An answer ends with a part that
has its usage. A compaction is a message of the user with a part of its own, followed by an answer that is the summary;
the newest turns may be kept behind it. Results that were cleared later are marked with the time of it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from sevenfold.archive.readers.linked import (
    Json,
    LinkedRecords,
    StoredConversation,
    decode_line,
    string,
    text_block,
)
from sevenfold.record.decisions import Segment

FORMAT = "opencode"
TOOL = "opencode"
NEWEST_MAJOR = 1
"""The newest major version of opencode that this reader was written for."""
COLUMNS = {
    "session": frozenset({"id", "parent_id", "directory", "title", "version", "revert", "time_updated"}),
    "message": frozenset({"id", "session_id", "time_created", "data"}),
    "part": frozenset({"id", "message_id", "session_id", "data"}),
}
STOP_REASONS = {"stop": "end_turn", "tool-calls": "tool_use", "length": "max_tokens"}
SUMMARISER = "compaction"
"""The id under which the call that wrote a summary is counted: it is outside the conversation."""


def unsupported(database: sqlite3.Connection) -> str:
    """What keeps this reader from reading a database; empty if nothing does."""
    for row in database.execute("SELECT DISTINCT version FROM session").fetchall():
        major = str(row["version"]).partition(".")[0]
        if major.isdigit() and int(major) > NEWEST_MAJOR:
            return f"opencode {row['version']} wrote it, and Sevenfold reads versions up to {NEWEST_MAJOR}"
    return ""


def conversations(database: sqlite3.Connection) -> list[StoredConversation]:
    """The sessions in a database; those of sub-agents have a parent."""
    rows = database.execute("SELECT id, title, directory, parent_id, time_updated FROM session").fetchall()
    return [
        StoredConversation(
            row["id"], row["title"], row["directory"], row["time_updated"] / 1000, row["parent_id"] or ""
        )
        for row in rows
    ]


def records(database: sqlite3.Connection, session: str) -> Iterator[Json]:
    """Yield the records of a session."""
    about = database.execute("SELECT * FROM session WHERE id = ?", (session,)).fetchone()
    if about is None:
        return
    parts: dict[str, list[Json]] = {}
    query = "SELECT message_id, data FROM part WHERE session_id = ? ORDER BY id"
    for row in database.execute(query, (session,)):
        decoded = decode_line(row["data"])
        parts.setdefault(row["message_id"], []).append({"type": "damaged"} if decoded is None else decoded)
    converter = _Converter(session, about["directory"], f"opencode-{about['version']}")
    yield {"type": "custom-title", "customTitle": about["title"], "sessionId": session}
    reverted = (decode_line(about["revert"] or "") or {}).get("messageID")
    query = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
    for row in database.execute(query, (session,)).fetchall():
        if row["id"] == reverted:
            # The user took this message and everything after it back.
            break
        message = decode_line(row["data"])
        if message is None:
            yield {"type": "damaged message"}
            continue
        yield from converter.take(row["id"], message, parts.get(row["id"], []))
    yield from converter.finish()


class _Converter:
    def __init__(self, session: str, folder: str, version: str) -> None:
        self._records = LinkedRecords()
        self._records.begin(session, folder, version)
        self._first_record: dict[str, str] = {}
        """The first record of each message."""
        self._compaction: tuple[str, str, Json] | None = None
        """A compaction whose summary has not come yet: the message's id, its time and its part."""
        self._cleared: dict[float, list[str]] = {}
        """The calls whose results were cleared, by the time of it."""

    def take(self, name: str, message: Json, parts: Sequence[Json]) -> Iterator[Json]:
        """Convert the next message."""
        created = _number(message, "time", "created")
        at = _timestamp(created)
        yield from self._clearings(created)
        compactions = [part for part in parts if part.get("type") == "compaction"]
        match message:
            case {"role": "user"} if compactions:
                self._compaction = (name, at, compactions[0])
            case {"role": "user"}:
                yield from self._users(name, at, parts)
            case {"role": "assistant", "summary": True} if self._compaction:
                yield from self._compacted(name, at, message, parts)
            case {"role": "assistant"}:
                yield from self._answers(name, at, message, parts)
            case _:
                yield {"type": string(message.get("role")) or "message without a role"}

    def finish(self) -> Iterator[Json]:
        """Convert what is still pending after the last message."""
        yield from self._clearings(float("inf"))

    def _users(self, name: str, at: str, parts: Sequence[Json]) -> Iterator[Json]:
        content: list[Json] = []
        programs: list[Json] = []
        for part in parts:
            match part:
                case {"type": "text", "ignored": True}:
                    continue
                case {"type": "text", "text": str() as text, "synthetic": True}:
                    programs.append(text_block(text))
                case {"type": "text", "text": str() as text}:
                    content.append(text_block(text))
                case {"type": "file"}:
                    content.extend(_file(part))
                case {"type": str() as kind} if kind not in _WITHOUT_CONTENT:
                    yield {"type": kind}
        if content:
            yield self._said(name, name, at, content)
        if programs:
            yield self._said(name, f"{name}-context", at, programs, isMeta=True)

    def _said(self, message: str, name: str, at: str, content: list[Json], **fields: Any) -> dict[str, Any]:
        self._first_record.setdefault(message, name)
        fields["message"] = {"role": "user", "content": content}
        return self._records.record("user", name, at, **fields)

    # -- answers -----------------------------------------------------------------------------

    def _answers(self, name: str, at: str, message: Json, parts: Sequence[Json]) -> Iterator[Json]:
        """Convert the steps of an answer, each of which is a call of its own."""
        steps: list[list[Json]] = [[]]
        for part in parts:
            steps[-1].append(part)
            if part.get("type") == "step-finish":
                steps.append([])
        whole = [step for step in steps if step]
        for number, step in enumerate(whole):
            step_name = name if number == 0 else f"{name}-{number + 1}"
            finish = next((part for part in step if part.get("type") == "step-finish"), message)
            content = [*chain.from_iterable(map(_spoken, step))]
            usage = _usage(finish.get("tokens"))
            if content or usage:
                yield self._answer(name, step_name, at, message, content, usage)
            for part in step:
                if part.get("type") not in _KNOWN_IN_ANSWERS:
                    yield {"type": string(part.get("type")) or "part without a type"}
            results = [part for part in step if _has_result(part)]
            if results:
                blocks = [_result(part) for part in results]
                yield self._said(name, f"{step_name}-results", _ended(results) or at, blocks)
            for part in results:
                cleared = _number(part, "state", "time", "compacted")
                if cleared:
                    self._cleared.setdefault(cleared, []).append(string(part.get("callID")))

    def _answer(
        self, message_name: str, name: str, at: str, message: Json, content: list[Json], usage: Json
    ) -> dict[str, Any]:
        self._first_record.setdefault(message_name, name)
        reason = STOP_REASONS.get(string(message.get("finish")), "end_turn")
        answer: dict[str, Any] = {
            "role": "assistant",
            "id": name,
            "model": string(message.get("modelID")),
            "content": content,
            "stop_reason": reason,
        }
        if usage:
            answer["usage"] = usage
        return self._records.record("assistant", name, at, message=answer)

    # -- what left the context ---------------------------------------------------------------

    def _compacted(self, name: str, at: str, message: Json, parts: Sequence[Json]) -> Iterator[Json]:
        """Convert a compaction and its summary; the call that wrote it is counted as one outside the conversation."""
        assert self._compaction is not None
        boundary, asked_at, part = self._compaction
        self._compaction = None
        summary = "\n\n".join(
            string(piece.get("text")) for piece in parts if piece.get("type") == "text"
        ).strip()
        tail = self._records.newest
        call = self._answer(
            name, f"{name}-call", at, message, [text_block(summary)], _usage(message.get("tokens"))
        )
        self._records.newest = tail
        yield {**call, "isSidechain": True, "agentId": SUMMARISER, "parentUuid": None}
        head = self._first_record.get(string(part.get("tail_start_id")))
        segment = None if head is None or tail is None else Segment(head, name, tail)
        begun = self._records.boundary(boundary, asked_at, None, segment)
        if part.get("auto") is False:
            begun["compactMetadata"]["trigger"] = "manual"
        yield begun
        yield self._records.summary(name, at, summary)

    def _clearings(self, until: float) -> Iterator[Json]:
        """Yield the clearings that happened before a time."""
        for cleared_at in sorted(self._cleared):
            if cleared_at > until:
                return
            calls = self._cleared.pop(cleared_at)
            about = {"trigger": "auto", "compactedToolIds": calls}
            name = f"cleared-{cleared_at:.0f}"
            fields = {"subtype": "microcompact_boundary", "microcompactMetadata": about}
            yield self._records.record("system", name, _timestamp(cleared_at), **fields)


_WITHOUT_CONTENT = frozenset(
    {"agent", "subtask", "snapshot", "patch", "retry", "step-start", "step-finish"}
)
"""The kinds of parts that are known and put nothing into the context that is not in another part."""
_KNOWN_IN_ANSWERS = _WITHOUT_CONTENT | {"text", "reasoning", "tool", "file", "compaction"}


def _spoken(part: Json) -> Iterator[Json]:
    """A part of an answer as a content block."""
    match part:
        case {"type": "text", "text": str() as text} if text:
            yield text_block(text)
        case {"type": "reasoning", "text": str() as thought}:
            yield {"type": "thinking", "thinking": thought, "signature": ""}
        case {"type": "tool", "callID": str() as call, "tool": str() as tool}:
            state = part.get("state")
            arguments = state.get("input") if isinstance(state, Mapping) else None
            yield {
                "type": "tool_use",
                "id": call,
                "name": tool,
                "input": arguments if isinstance(arguments, dict) else {},
            }


def _has_result(part: Json) -> bool:
    state = part.get("state")
    return (
        part.get("type") == "tool"
        and isinstance(part.get("callID"), str)
        and isinstance(state, Mapping)
        and state.get("status") in ("completed", "error")
    )


def _result(part: Json) -> Json:
    state = part["state"]
    failed = state.get("status") == "error"
    content = [text_block(string(state.get("error" if failed else "output")))]
    for attachment in state.get("attachments") or ():
        if isinstance(attachment, Mapping):
            content.extend(_file(attachment))
    result = {"type": "tool_result", "tool_use_id": part["callID"], "content": content}
    return {**result, "is_error": True} if failed else result


def _ended(parts: Sequence[Json]) -> str:
    """When the last of some calls had ended."""
    return _timestamp(max((_number(part, "state", "time", "end") for part in parts), default=0.0))


def _file(part: Json) -> Iterator[Json]:
    """A file of the user's: an image as it is, any other by its name, since its text has a part of its own."""
    address = string(part.get("url"))
    kind = string(part.get("mime"))
    head, separator, data = address.partition(";base64,")
    if kind.startswith("image/") and head == f"data:{kind}" and separator:
        yield {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


def _usage(reported: Any) -> Json:
    """A report of usage in the shared format; empty if nothing was reported."""
    if not isinstance(reported, Mapping):
        return {}
    usage = {
        "input_tokens": _count(reported, "input"),
        # Reasoning is billed as output, and counted apart from it here.
        "output_tokens": _count(reported, "output") + _count(reported, "reasoning"),
        "cache_read_input_tokens": _count(reported, "cache", "read"),
        "cache_creation_input_tokens": _count(reported, "cache", "write"),
    }
    return usage if any(usage.values()) else {}


def _count(value: Any, *keys: str) -> int:
    return max(0, int(_number(value, *keys)))


def _number(value: Any, *keys: str) -> float:
    """The number at a path of keys; 0 if there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < 1e15 else 0.0


def _timestamp(milliseconds: float) -> str:
    if not milliseconds:
        return ""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return ""
