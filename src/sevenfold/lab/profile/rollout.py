"""Reads Codex rollouts: lines of ``{timestamp, type, payload}``.

A rollout does not record calls. It reports running totals instead, so a call is a report whose total grew. What was
sent is in the response items before it; a compaction lists the whole history that replaces them.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator
from typing import Any

import msgspec
from msgspec import Raw, Struct

from sevenfold.lab.profile import labels
from sevenfold.lab.profile.books import Books, seconds
from sevenfold.lab.profile.cache import CallReport
from sevenfold.lab.profile.labels import SYSTEM, CallLabel, ContextPiece
from sevenfold.record import blocks
from sevenfold.record.blocks import Block
from sevenfold.record.usage import Usage
from sevenfold.record.weight import Weight, measure
from sevenfold.stores.jsonl.log import Line

KNOWN_TYPES = frozenset({"session_meta", "turn_context", "response_item", "event_msg", "compacted"})
_INJECTED = ("<environment_context", "<user_instructions", "# AGENTS.md instructions", "<INSTRUCTIONS")


class _Line(Struct, frozen=True):
    type: str = ""
    timestamp: str = ""
    payload: Raw = Raw(b"{}")


class _Counts(Struct, frozen=True):
    """Tokens as a rollout reports them: the input includes cached tokens."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0

    def __sub__(self, other: _Counts) -> _Counts:
        names = _Counts.__struct_fields__
        return _Counts(*(max(0, getattr(self, name) - getattr(other, name)) for name in names))


class _Info(Struct, frozen=True):
    total_token_usage: _Counts = _Counts()
    last_token_usage: _Counts = _Counts()
    model_context_window: int | None = None


class _Payload(Struct, frozen=True):
    """The fields of all payloads that matter here."""

    type: str = ""
    id: str | None = None
    model: str | None = None
    info: _Info | None = None
    replacement_history: list[dict[str, Any]] | None = None


_line = msgspec.json.Decoder(_Line)
_payload = msgspec.json.Decoder(_Payload)


class RolloutReader:
    """Reads a rollout line by line."""

    format = "codex"

    def __init__(self) -> None:
        self.books = Books()
        self.session_ids: list[str] = []
        self.agent_ids: set[str] = set()
        self.call_ids: set[str] = set()
        self._lane = self.books.open_lane()
        self._model = ""
        self._total: _Counts | None = None
        self._calls: dict[str, CallLabel] = {}
        self._heard_at: float | None = None
        self._items = 0
        self._occupied: int | None = None

    def take(self, line: Line) -> None:
        """Read the next line."""
        if not line.problem and not line.raw.strip():
            return
        try:
            record = _line.decode(_mended(line.raw))
            payload = msgspec.json.decode(record.payload)
            known = msgspec.convert(payload, _Payload)
        except (ValueError, RecursionError):
            self.books.damaged += 1
            return
        self.books.seen_at(record.timestamp)
        self._dispatch(record, known, payload)
        if record.type == "response_item":
            self._heard_at = seconds(record.timestamp) or self._heard_at

    def finish(self) -> None:
        """There are no more lines."""

    def _dispatch(self, record: _Line, known: _Payload, payload: dict[str, Any]) -> None:
        match record.type:
            case "session_meta" if known.id:
                self.session_ids.append(known.id)
            case "turn_context":
                self._model = known.model or self._model
            case "response_item":
                self._add(payload)
            case "compacted":
                self._compact(known.replacement_history or [payload])
            case "event_msg" if known.type == "token_count" and known.info:
                self._report(known.info, seconds(record.timestamp))
            case name if name not in KNOWN_TYPES:
                self.books.unknown[name] += 1

    def _report(self, info: _Info, at: float | None) -> None:
        """Note a running total; if it grew, there was a call."""
        before, self._total = self._total, info.total_token_usage
        self.books.window = info.model_context_window or self.books.window
        if before is not None and self._total.total_tokens == before.total_tokens:
            return
        last = info.last_token_usage
        # A total that fell, or comes first in a file, counts calls that are not in the file.
        fresh = before is None or self._total.total_tokens < before.total_tokens
        spent = last if before is None or fresh else self._total - before
        self._occupied = last.input_tokens + last.output_tokens
        name = f"{self.session_ids[-1] if self.session_ids else ''}:{self._total.total_tokens}"
        self.call_ids.add(name)
        self._lane.called(CallReport(self._model, _usage(spent), last.input_tokens, self._heard_at or at))

    def _compact(self, history: list[dict[str, Any]]) -> None:
        self._lane.compacted("auto", self._occupied)
        live: dict[Hashable, ContextPiece] = {}
        for item in history:
            for piece in self._pieces(item):
                self._items += 1
                live[self._items] = piece
        self._lane.context.restart(live)

    def _add(self, item: dict[str, Any]) -> None:
        for piece in self._pieces(item):
            self._items += 1
            self._lane.context.enter(self._items, piece)

    def _pieces(self, item: dict[str, Any]) -> Iterator[ContextPiece]:
        """What an item adds to the context, labelled."""
        kind = item.get("type")
        match kind:
            case "message":
                yield from _message(item)
            case "reasoning":
                words = _text(item.get("content")) or _text(item.get("summary"))
                yield ContextPiece(labels.THOUGHTS, _thought(words, _text(item.get("encrypted_content"))))
            case "function_call" | "custom_tool_call" | "local_shell_call" | "web_search_call":
                yield self._call(item, str(kind))
            case "function_call_output" | "custom_tool_call_output":
                call = self._calls.get(str(item.get("call_id")), CallLabel("unknown"))
                weight = measure(blocks.result("", _text(item.get("output"))))
                yield ContextPiece(labels.RESULT + call.tool, weight, call.tool, call.what)
            case "compaction" | "compaction_summary":
                yield ContextPiece(labels.SUMMARIES, _thought("", _text(item.get("encrypted_content"))))
            case _ if words := _text(item.get("message")):
                yield ContextPiece(
                    labels.SUMMARIES, measure(blocks.text(words)), what=labels.one_line(words)
                )
            case _:
                yield ContextPiece(
                    labels.OTHER, measure(Block("", msgspec.json.encode(item))), what=str(kind)
                )

    def _call(self, item: dict[str, Any], kind: str) -> ContextPiece:
        given = item.get("arguments", item.get("input", item.get("action")))
        decoded = labels.decoded(given) if isinstance(given, str) else given
        name = str(item.get("name") or kind.removesuffix("_call"))
        call = labels.label_of(name, given if decoded is None else decoded)
        if item.get("call_id"):
            self._calls[str(item["call_id"])] = call
        spelt = {"type": "tool_use", "id": "", "name": name, "input": given if decoded is None else decoded}
        weight = measure(Block("tool_use", msgspec.json.encode(spelt)))
        return ContextPiece(labels.TOOL_INPUTS, weight, call.tool, call.what)


def _message(item: dict[str, Any]) -> Iterator[ContextPiece]:
    role, content = item.get("role"), item.get("content")
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, dict) and "image" in str(part.get("type")):
            yield ContextPiece(labels.IMAGES, Weight(images=1), what="image")
            continue
        words = _text(part)
        weight, about = measure(blocks.text(words)), labels.one_line(words)
        if role == "assistant":
            yield ContextPiece(labels.ASSISTANT_TEXT, weight, what=about)
        elif role == "user" and not words.lstrip().startswith(_INJECTED):
            yield ContextPiece(labels.USER_TEXT, weight, what=about)
        else:
            yield ContextPiece(
                SYSTEM if role in ("developer", "system") else labels.ATTACHMENTS, weight, what=about
            )


def _thought(words: str, sealed: str) -> Weight:
    """The weight of reasoning, readable or encrypted."""
    spelt = {"type": "thinking", "thinking": words, "signature": sealed}
    return measure(Block("thinking", msgspec.json.encode(spelt)))


def _text(value: Any) -> str:
    """All the text in a value, however it is wrapped."""
    match value:
        case str():
            return value
        case list():
            return "\n".join(map(_text, value))
        case {"text": str() as words}:
            return words
        case dict():
            return msgspec.json.encode(value).decode(errors="replace")
        case _:
            return ""


def _mended(raw: bytes) -> bytes:
    """The line with half surrogate pairs replaced: the fast reader refuses them in valid JSON."""
    if rb"\ud" not in raw.lower():
        return raw
    return json.dumps(json.loads(raw), ensure_ascii=False).encode(errors="replace")


def _usage(spent: _Counts) -> Usage:
    cached = min(spent.cached_input_tokens, spent.input_tokens)
    written = min(spent.cache_write_input_tokens, spent.input_tokens - cached)
    return Usage(
        input_tokens=spent.input_tokens - cached - written,
        cache_read_input_tokens=cached,
        cache_creation_5m=written,
        output_tokens=spent.output_tokens,
    )
