"""Converts the sessions in the database of Hermes into records of the shared format.

Each message is a row in the shape of Chat Completions. A compaction archives the rows of the conversation and adds the
ones that remain as new rows, one of which is the summary; a rewound row is archived without that mark. Usage is summed
up for a session only, so sizes are estimated and the cost of a call is unknown.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from sevenfold.archive.readers.linked import (
    Json,
    LinkedRecords,
    StoredConversation,
    decode_line,
    string,
    text_block,
)
from sevenfold.wire import foreign

FORMAT = "hermes"
TOOL = "Hermes"
NEWEST_SCHEMA = 22
"""The newest version of the database's schema that this reader was written for."""
COLUMNS = {
    "schema_version": frozenset({"version"}),
    "sessions": frozenset(
        {"id", "model", "model_config", "parent_session_id", "started_at", "cwd", "title"}
    ),
    "messages": frozenset(
        {"id", "session_id", "role", "content", "tool_call_id", "tool_calls", "timestamp", "active"}
        | {"reasoning", "compacted", "finish_reason"}
    ),
}
SUMMARIES = ("[CONTEXT COMPACTION", "[CONTEXT SUMMARY]:")
"""How the text of a summary begins."""
MERGED = "[END OF PRIOR CONTEXT — COMPACTION SUMMARY BELOW]"
"""What precedes the summary in a message that holds the end of the earlier conversation as well."""
_JSON = "\x00json:"
"""How content begins that is not a plain text."""


def unsupported(database: sqlite3.Connection) -> str:
    """What keeps this reader from reading a database; empty if nothing does."""
    row = database.execute("SELECT max(version) AS version FROM schema_version").fetchone()
    version = row["version"] if row else None
    if isinstance(version, int) and version > NEWEST_SCHEMA:
        return f"its schema is version {version}, and Sevenfold reads versions up to {NEWEST_SCHEMA}"
    return ""


def conversations(database: sqlite3.Connection) -> list[StoredConversation]:
    """The sessions in a database; one that was delegated belongs to its parent."""
    query = """
        SELECT id, title, cwd, model_config, parent_session_id,
               coalesce((SELECT max(timestamp) FROM messages WHERE session_id = sessions.id), started_at) AS last
        FROM sessions
    """
    rows = database.execute(query).fetchall()
    return [
        StoredConversation(
            row["id"], row["title"] or "", row["cwd"] or "", float(row["last"] or 0), _delegated_by(row)
        )
        for row in rows
    ]


def _delegated_by(row: sqlite3.Row) -> str:
    config = decode_line(row["model_config"] or "") or {}
    return string(config.get("_delegate_from"))


def records(database: sqlite3.Connection, session: str) -> Iterator[Json]:
    """Yield the records of a session."""
    about = database.execute("SELECT * FROM sessions WHERE id = ?", (session,)).fetchone()
    if about is None:
        return
    linked = LinkedRecords()
    linked.begin(session, about["cwd"] or "", "hermes")
    if about["title"]:
        yield {"type": "custom-title", "customTitle": about["title"], "sessionId": session}
    # Rows that are neither live nor archived by a compaction were taken back by the user.
    query = """
        SELECT * FROM messages
        WHERE session_id = ? AND (coalesce(active, 1) = 1 OR compacted = 1) ORDER BY id
    """
    archived = False
    for row in database.execute(query, (session,)).fetchall():
        name = f"message-{row['id']}"
        at = _timestamp(row["timestamp"])
        content = _blocks(_decoded(row["content"]))
        summary = row["role"] in ("user", "assistant") and _is_summary(content)
        begins_live = archived and not row["compacted"]
        if begins_live or (summary and row["compacted"]):
            yield linked.boundary(f"{name}-boundary", at, None, None)
        archived = bool(row["compacted"])
        yield from _converted(linked, name, at, row, content, string(about["model"]), summary=summary)


def _converted(
    linked: LinkedRecords,
    name: str,
    at: str,
    row: sqlite3.Row,
    content: list[Json],
    model: str,
    *,
    summary: bool,
) -> Iterator[Json]:
    match row["role"]:
        case "user" | "assistant" if summary:
            message: dict[str, Any] = {"role": "user", "content": content}
            yield linked.record("user", name, at, message=message, isCompactSummary=True)
        case "user" | "system":
            yield linked.record("user", name, at, message={"role": row["role"], "content": content})
        case "tool":
            result = {"type": "tool_result", "tool_use_id": string(row["tool_call_id"]), "content": content}
            yield linked.record("user", name, at, message={"role": "user", "content": [result]})
        case "assistant":
            thought = string(row["reasoning"])
            thinking = [{"type": "thinking", "thinking": thought, "signature": ""}] if thought else []
            calls = _calls(row["tool_calls"])
            answer: dict[str, Any] = {"role": "assistant", "id": f"answer-{name}", "model": model}
            answer["content"] = [*thinking, *content, *calls]
            answer["stop_reason"] = "tool_use" if calls else "end_turn"
            yield linked.record("assistant", name, at, message=answer)
        case _:
            yield {"type": string(row["role"]) or "message without a role"}


def _is_summary(content: list[Json]) -> bool:
    text = "\n".join(string(block.get("text")) for block in content).lstrip()
    behind = text.partition(MERGED)[2].lstrip()
    return (behind or text).startswith(SUMMARIES)


def _decoded(content: Any) -> Any:
    if isinstance(content, str) and content.startswith(_JSON):
        try:
            return json.loads(content.removeprefix(_JSON))
        except (ValueError, RecursionError):
            return content
    return content


def _blocks(content: Any) -> list[Json]:
    if isinstance(content, str):
        return [text_block(content)] if content else []
    blocks: list[Json] = []
    for part in content if isinstance(content, list) else ():
        match part:
            case {"type": "text", "text": str() as text}:
                blocks.append(text_block(text))
            case {"type": "image_url"}:
                blocks.append(foreign.part(part))
    return blocks


def _calls(raw: Any) -> list[Json]:
    try:
        calls = json.loads(raw) if isinstance(raw, str) else []
    except (ValueError, RecursionError):
        return []
    blocks: list[Json] = []
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping):
            continue
        arguments = decode_line(string(function.get("arguments")).encode(errors="replace"))
        block = {"type": "tool_use", "id": string(call.get("id")), "name": string(function.get("name"))}
        blocks.append({**block, "input": arguments or {}})
    return blocks


def _timestamp(seconds: Any) -> str:
    try:
        return datetime.fromtimestamp(float(seconds), UTC).isoformat()
    except (TypeError, ValueError, OverflowError, OSError):
        return ""
