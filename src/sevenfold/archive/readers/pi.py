"""Converts sessions of pi, the coding agent, into records of the shared format.

A file begins with a header and then has one entry on each line. Since version 2 entries have an id and a parent, so
that branches share a file; version 1 is a plain sequence, and a compaction names the first message it kept by its
number. Entries that the model never sees (labels, settings, data of extensions) give no record. Later edits of the
context and usage without an answer are passed on by name only, so that reports count them as left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from sevenfold.archive.readers.linked import (
    DAMAGED,
    Json,
    LinkedRecords,
    decode_line,
    encode_record,
    string,
    text_block,
)
from sevenfold.record.decisions import Segment

FORMAT = "pi"
NEWEST_VERSION = 3
"""The newest version of the format that this reader was written for."""
STOP_REASONS = {"stop": "end_turn", "toolUse": "tool_use", "length": "max_tokens"}


def recognises(record: Mapping[str, Any]) -> bool:
    """Whether a decoded line is the header of a session."""
    return record.get("type") == "session" and "cwd" in record and "id" in record


def convert(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the records of a session as lines; a damaged line gives a damaged record."""
    converter = _Converter()
    for number, line in enumerate(lines):
        entry = decode_line(line)
        if entry is not None:
            yield from map(encode_record, converter.take(number, entry))
        elif not line or line.strip():
            yield DAMAGED


def unsupported(record: Json) -> str:
    """What keeps this reader from reading a file that begins with this record; empty if nothing does."""
    if _version(record) <= NEWEST_VERSION:
        return ""
    return f"it is a pi session of version {_version(record)}, and Sevenfold reads versions up to {NEWEST_VERSION}"


def _version(header: Json) -> int:
    """The version of the format that a header names; files of the first version name none."""
    named = header.get("version")
    return named if isinstance(named, int) else 1


class _Converter:
    def __init__(self) -> None:
        self._records = LinkedRecords()
        self._record_of: dict[str, str | None] = {}
        """The record that stands for each entry by its id: its own, or for an entry without one, its parent's."""
        self._record_at: list[str | None] = []
        """The same for each entry by its number; the header is number 0."""
        self._linked = False
        """Whether entries have ids and parents."""

    def take(self, number: int, entry: Json) -> Iterator[dict[str, Any]]:
        """Convert the next entry."""
        if entry.get("type") == "session":
            self._linked = _version(entry) > 1
            self._records.begin(string(entry.get("id")), string(entry.get("cwd")), f"pi-{_version(entry)}")
        parent = self._parent_of(entry)
        self._records.newest = parent
        yield from self._convert(number, entry)
        name = string(entry.get("id"))
        stands_for_it = self._records.newest
        self._record_at.append(stands_for_it)
        if self._linked and name:
            self._record_of[name] = stands_for_it

    def _parent_of(self, entry: Json) -> str | None:
        parent = entry.get("parentId")
        if not self._linked or "parentId" not in entry:
            return self._records.newest
        return self._record_of.get(parent, self._records.newest) if isinstance(parent, str) else None

    def _convert(self, number: int, entry: Json) -> Iterator[dict[str, Any]]:
        name = string(entry.get("id")) if self._linked else ""
        name = name or f"line-{number + 1}"
        at = string(entry.get("timestamp"))
        match entry:
            case {"type": "message", "message": dict() as message}:
                yield from self._message(name, at, message)
            case {"type": "compaction", "summary": str() as summary}:
                yield from self._compaction(name, at, entry, summary)
            case {"type": "branch_summary", "summary": str() as summary}:
                yield self._said(name, at, [text_block(summary)], isMeta=True)
            case {"type": "custom_message", "content": content}:
                yield self._said(name, at, _blocks(content), isMeta=True)
            case {"type": "session_info", "name": str() as title}:
                yield {"type": "custom-title", "customTitle": title}
            case {"type": str() as kind} if kind not in _WITHOUT_CONTENT:
                yield {"type": kind}

    def _message(self, name: str, at: str, message: Json) -> Iterator[dict[str, Any]]:
        match message:
            case {"role": "user", "content": content}:
                yield self._said(name, at, _blocks(content))
            case {"role": "system"}:
                prompt = {"role": "system", "content": [text_block(_prompt_text(message))]}
                yield self._records.record("user", name, at, message=prompt)
            case {"role": "assistant"}:
                yield self._answer(name, at, message)
            case {"role": "toolResult", "toolCallId": str() as call}:
                yield self._said(name, at, [_result(call, message)])
            case {"role": "bashExecution", "excludeFromContext": True}:
                return
            case {"role": "bashExecution", "command": str() as command}:
                # The user's own command, in the tags by which every reader knows what was typed and what was printed.
                output = string(message.get("output"))
                shown = f"<bash-input>{command}</bash-input>\n<bash-stdout>{output}</bash-stdout>"
                yield self._said(name, at, [text_block(shown)])
            case {"role": "custom" | "hookMessage", "content": content}:
                yield self._said(name, at, _blocks(content), isMeta=True)

    def _answer(self, name: str, at: str, message: Json) -> dict[str, Any]:
        content = [*chain.from_iterable(map(_spoken, _parts(message.get("content"))))]
        answer: dict[str, Any] = {
            "role": "assistant",
            "id": f"answer-{name}",
            "model": string(message.get("model")),
            "content": content,
            "stop_reason": STOP_REASONS.get(string(message.get("stopReason")), "end_turn"),
        }
        if usage := _usage(message.get("usage")):
            answer["usage"] = usage
        return self._records.record("assistant", name, at, message=answer)

    def _said(self, name: str, at: str, content: list[Json], **fields: Any) -> dict[str, Any]:
        message = {"role": "user", "content": content}
        return self._records.record("user", name, at, message=message, **fields)

    def _compaction(self, name: str, at: str, entry: Json, summary: str) -> Iterator[dict[str, Any]]:
        tail = self._records.newest
        summary_name = f"{name}-summary"
        head = self._first_kept(entry)
        segment = None if head is None or tail is None else Segment(head, summary_name, tail)
        tokens = entry.get("tokensBefore")
        yield self._records.boundary(name, at, tokens if isinstance(tokens, int) else None, segment)
        yield self._records.summary(summary_name, at, summary)

    def _first_kept(self, entry: Json) -> str | None:
        """The record of the first message that a compaction kept."""
        match entry:
            case {"firstKeptEntryId": str() as name}:
                return self._record_of.get(name)
            case {"firstKeptEntryIndex": int() as number} if 0 <= number < len(self._record_at):
                return self._record_at[number]
            case _:
                return None


_WITHOUT_CONTENT = frozenset(
    {"session", "message", "compaction", "branch_summary", "custom", "custom_message", "label"}
    | {"model_change", "thinking_level_change", "session_info"}
)
"""The kinds of entries that are known; any other is passed on by name, so that a report can count it."""


def _result(call: str, message: Json) -> Json:
    result = {"type": "tool_result", "tool_use_id": call, "content": _blocks(message.get("content"))}
    return {**result, "is_error": True} if message.get("isError") else result


def _prompt_text(message: Json) -> str:
    """The text of a system message, whose sections are named; a section that it removes has none."""
    sections = message.get("sections")
    named = sections.values() if isinstance(sections, dict) else ()
    texts = [string(message.get("content")), *map(string, named)]
    return "\n\n".join(filter(None, texts))


def _parts(content: Any) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _blocks(content: Any) -> list[Json]:
    """The content of a message of the user or of a result."""
    blocks: list[Json] = []
    for part in _parts(content):
        match part:
            case {"type": "text", "text": str() as text}:
                blocks.append(text_block(text))
            case {"type": "image", "data": str() as data, "mimeType": str() as kind}:
                source = {"type": "base64", "media_type": kind, "data": data}
                blocks.append({"type": "image", "source": source})
    return blocks


def _spoken(part: Json) -> Iterator[Json]:
    """A part of an answer."""
    match part:
        case {"type": "text", "text": str() as text}:
            yield text_block(text)
        case {"type": "thinking", "thinking": str() as thought}:
            yield {"type": "thinking", "thinking": thought, "signature": ""}
        case {"type": "toolCall", "id": str() as call, "name": str() as tool}:
            arguments = part.get("arguments")
            decoded = arguments if isinstance(arguments, dict) else {}
            yield {"type": "tool_use", "id": call, "name": tool, "input": decoded}


def _usage(reported: Any) -> Json:
    """A report of usage in the shared format; empty if nothing was reported."""
    if not isinstance(reported, dict):
        return {}
    names = {
        "input": "input_tokens",
        "output": "output_tokens",
        "cacheRead": "cache_read_input_tokens",
        "cacheWrite": "cache_creation_input_tokens",
    }
    usage = {}
    for theirs, ours in names.items():
        count = reported.get(theirs)
        usage[ours] = count if isinstance(count, int) and count >= 0 else 0
    return usage if any(usage.values()) else {}
