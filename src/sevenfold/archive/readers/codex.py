"""Converts Codex rollouts, with lines of ``{timestamp, type, payload}``, into records of the shared format.

A rollout contains response items, reports of running token totals, and events. Items become messages, tool calls and
results. A report whose total grew marks a call: its usage goes to the answer right before it or, if other items
came between, to an added answer without content. A compaction lists the history that replaces the conversation: the
user's messages in it stay the user's, everything else becomes the summary.

Record ids are derived from line numbers, so the same file always gives the same records.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from sevenfold.record.authorship import is_summary
from sevenfold.record.entries import KEPT_MESSAGE
from sevenfold.wire import foreign

FORMAT = "codex"
Json = Mapping[str, Any]
KNOWN_TYPES = frozenset({"session_meta", "turn_context", "response_item", "event_msg", "compacted"})
_FAILED = re.compile(r"(?:[^\n]*\n){0,4}?(?:Process exited with code|Exit code:) (?!0\b)-?\d+")
# Except for commands the user ran: they are in tags as well, but no event reports them.
_TAG = re.compile(r"\s*<(?!user_shell_command\b)[\w-]+")
_DAMAGED = b"damaged\n"


class _Counts(Struct, frozen=True):
    """Token counts as a rollout reports them: the input includes cached tokens."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0

    def __sub__(self, other: _Counts) -> _Counts:
        names = _Counts.__struct_fields__
        return _Counts(*(max(0, getattr(self, name) - getattr(other, name)) for name in names))

    def usage(self) -> dict[str, Any]:
        """Convert the counts to a usage object of the shared format."""
        cached = min(self.cached_input_tokens, self.input_tokens)
        written = min(self.cache_write_input_tokens, self.input_tokens - cached)
        return {
            "type": "message",
            "input_tokens": self.input_tokens - cached - written,
            "cache_read_input_tokens": cached,
            "cache_creation_input_tokens": written,
            "output_tokens": self.output_tokens,
        }


class _Info(Struct, frozen=True):
    total_token_usage: _Counts = _Counts()
    last_token_usage: _Counts = _Counts()
    model_context_window: int | None = None


def recognises(record: Mapping[str, Any]) -> bool:
    """Whether a decoded line belongs to a rollout."""
    kind = record.get("type")
    held = isinstance(record.get("payload"), dict)
    return held and isinstance(kind, str) and (kind in KNOWN_TYPES or "timestamp" in record)


def unsupported(record: Mapping[str, Any]) -> str:
    """Nothing: these files name no version."""
    return ""


def convert(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the records of a rollout as lines; a damaged line gives a damaged record."""
    converter = RolloutConverter()
    for line in lines:
        yield from converter.take(line)
    yield from converter.finish()


class RolloutConverter:
    """Converts a rollout line by line, as far as it has been written.

    The records of an answer are held back until its usage is known. A message that may be context which the program
    sent along is held back, with all that follows, until it is known whether the user typed it: the event that says so
    comes behind the message, and before the model answers.
    """

    def __init__(self) -> None:
        self._typed: set[str] = set()
        """The texts the user typed, from the events so far."""
        self._undecided: list[tuple[dict[str, Any], str]] = []
        """Records held back, each with the text that the user may have typed; the first has one."""
        self._number = -1
        self._shared: dict[str, Any] = {"isSidechain": False}
        self._session = ""
        self._model = ""
        self._parent: str | None = None
        self._answer: list[dict[str, Any]] = []
        self._total: _Counts | None = None
        self._occupied: int | None = None
        self._at = ""
        self._line = self._made = 0

    def take(self, raw: bytes) -> Iterator[bytes]:
        """Convert the next line; yields the records that it completes."""
        self._number += 1
        if raw and not raw.strip():
            return
        line = _decoded(raw)
        if line is None:
            yield _DAMAGED
            return
        self._line = self._number
        self._made = 0
        self._at = _text(line.get("timestamp"))
        payload = line["payload"]
        for record in self._records_of(line["type"], payload):
            if self._undecided:
                self._undecided.append((record, ""))
            else:
                yield _encoded(record)
        if self._decides(line["type"]):
            yield from self._release()

    def finish(self) -> Iterator[bytes]:
        """Release the records held back, after the last line."""
        yield from self._release()
        yield from map(_encoded, self._flush())

    def _decides(self, kind: str) -> bool:
        """Whether it is known, after this line, which of the messages before it the user typed."""
        if kind == "response_item":
            return bool(self._answer)
        return kind == "compacted"

    def _release(self) -> Iterator[bytes]:
        held = self._undecided
        self._undecided = []
        for record, text in held:
            # Rollouts of early versions have no such events: there, nothing is known about any message.
            if text and self._typed and text not in self._typed:
                record["isMeta"] = True
            yield _encoded(record)

    def _records_of(self, kind: str, payload: dict[str, Any]) -> Iterator[dict[str, Any]]:
        match kind:
            case "session_meta":
                self._begin(payload)
            case "turn_context":
                self._model = _text(payload.get("model")) or self._model
            case "response_item":
                yield from self._item(payload)
            case "compacted":
                yield from self._compact(payload)
            case "event_msg" if payload.get("type") == "token_count":
                yield from self._report(payload.get("info"))
            case "event_msg" if payload.get("type") == "user_message":
                self._typed.add(_text(payload.get("message")).strip())
            case _ if kind not in KNOWN_TYPES:
                yield {"type": kind}

    def _flush(self) -> list[dict[str, Any]]:
        """The records of an answer that were held back."""
        held = self._answer
        self._answer = []
        return held

    def _begin(self, about: dict[str, Any]) -> None:
        self._session = _text(about.get("id"))
        version = f"codex-{_text(about.get('cli_version'))}"
        session_fields = {"sessionId": self._session, "cwd": _text(about.get("cwd")), "version": version}
        self._shared = {**session_fields, **self._shared}

    def _record(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Build a record whose parent is the previous one."""
        name = f"line-{self._line + 1}" + (f"-{self._made}" if self._made else "")
        self._made += 1
        parent = self._parent
        self._parent = name
        linked = {"uuid": name, "parentUuid": parent, "timestamp": self._at}
        return {"type": kind, **linked, **self._shared, **fields}

    # -- items -------------------------------------------------------------------------------

    def _item(self, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
        kind = item.get("type")
        role = item.get("role")
        if kind in ("function_call_output", "custom_tool_call_output"):
            yield from self._said("user", [_result(item)])
        elif kind == "message" and role != "assistant":
            yield from self._said(
                "user" if role == "user" else "system", _content_blocks(item.get("content"))
            )
        elif answer_blocks := _answered(item, f"line-{self._line + 1}"):
            first = self._answer[0]["message"]["id"] if self._answer else f"answer-{self._line + 1}"
            self._add_answer(answer_blocks, id=first)

    def _add_answer(self, content: list[Json], **fields: Any) -> None:
        message = {"role": "assistant", "model": self._model, "content": content, "stop_reason": "end_turn"}
        self._answer.append(self._record("assistant", message={**message, **fields}))

    def _said(self, role: str, content: list[Json]) -> Iterator[dict[str, Any]]:
        yield from self._flush()
        text = _text_of(content)
        record = self._record("user", message={"role": role, "content": content})
        if role == "user" and _TAG.match(text) and text.strip() not in self._typed:
            self._undecided.append((record, text.strip()))
        else:
            yield record

    # -- calls -------------------------------------------------------------------------------

    def _report(self, reported: Any) -> Iterator[dict[str, Any]]:
        """Handle a report of the running total; if it changed, there was a call."""
        try:
            info = msgspec.convert(reported, _Info)
        except msgspec.ValidationError:
            return
        total_before = self._total
        self._total = info.total_token_usage
        if total_before is not None and self._total.total_tokens == total_before.total_tokens:
            return
        last = info.last_token_usage
        # A total that fell, or is the first in the file, includes calls that are not in the file.
        fresh = total_before is None or self._total.total_tokens < total_before.total_tokens
        spent = last if total_before is None or fresh else self._total - total_before
        self._occupied = last.input_tokens + last.output_tokens
        usage = spent.usage()
        if spent != last:
            usage["iterations"] = [{**spent.usage(), "type": "earlier"}, last.usage()]
        if not self._answer:
            self._add_answer([])
        for record in self._answer:
            record["message"] |= {"id": f"{self._session}:{self._total.total_tokens}", "usage": usage}
            record["contextWindow"] = info.model_context_window
        yield from self._flush()

    # -- compactions -------------------------------------------------------------------------

    def _compact(self, payload: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield from self._flush()
        listed = payload.get("replacement_history")
        history = [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
        behind = self._parent
        self._parent = None
        about = {"trigger": "auto", "preTokens": self._occupied}
        linked = {"logicalParentUuid": behind, "compactMetadata": about}
        yield self._record("system", subtype="compact_boundary", **linked)
        kept_messages = []
        summary = []
        for item in history or [payload]:
            blocks = _content_blocks(item.get("content"))
            text = _text_of(blocks)
            if item.get("role") == "user" and text and not is_summary(text) and not _TAG.match(text):
                kept_messages.append(blocks)
            elif item.get("role") not in ("user", "developer", "system"):
                summary += _summarised(item, blocks)
            elif is_summary(text):
                summary += blocks
        fields = {"message": {"role": "user", "content": summary}, "isCompactSummary": True}
        yield self._record("user", **fields)
        for blocks in kept_messages:
            message = {"role": "user", "content": blocks}
            yield self._record("attachment", attachment={"type": KEPT_MESSAGE}, message=message)


def _answered(item: dict[str, Any], name: str) -> list[Json]:
    """The content blocks of an item from the model; ``name`` is an id for items without one."""
    kind = str(item.get("type"))
    match kind:
        case "message":
            return _content_blocks(item.get("content"))
        case "reasoning":
            text = _text(item.get("content")) or _text(item.get("summary"))
            sealed = _text(item.get("encrypted_content"))
            if sealed:
                return [{"type": "redacted_thinking", "data": sealed, "id": _text(item.get("id")) or name}]
            return [{"type": "thinking", "thinking": text, "signature": ""}] if text else []
        case "compaction" | "compaction_summary":
            return _summarised(item, [])
        case _ if kind.endswith("_call"):
            arguments = item.get("arguments", item.get("input", item.get("action")))
            decoded = _json(arguments) if isinstance(arguments, str) else arguments
            call = item.get("call_id")
            tool = _text(item.get("name")) or kind.removesuffix("_call")
            arguments_object = (
                decoded if isinstance(decoded, dict) else {} if arguments is None else {"input": arguments}
            )
            # Calls without an id are to the provider's own tools and have no result.
            call_fields = (
                {"type": "tool_use", "id": call} if call else {"type": "server_tool_use", "id": name}
            )
            return [{**call_fields, "name": tool, "input": arguments_object}]
        case _:
            return [{"type": "text", "text": json.dumps(item, ensure_ascii=False)}]


def _summarised(item: dict[str, Any], blocks: list[Json]) -> list[Json]:
    """The content blocks of an item for the summary; only the provider can read an encrypted one."""
    if sealed := _text(item.get("encrypted_content")):
        return [{"type": "compaction", "content": None, "encrypted_content": sealed}]
    text = _text(item.get("message"))
    return blocks or ([{"type": "text", "text": text}] if text else [])


def _result(item: dict[str, Any]) -> dict[str, Any]:
    output = item.get("output")
    text = output if isinstance(output, str) else _text(output)
    about = _json(text) if text.startswith("{") else None
    match about:
        case {"metadata": {"exit_code": int(code)}}:
            failed = code != 0
        case _:
            failed = bool(_FAILED.match(text[:1_000]))
    block = {"type": "tool_result", "tool_use_id": _text(item.get("call_id")), "content": text}
    return {**block, "is_error": True} if failed else block


def _content_blocks(content: Any) -> list[Json]:
    """The content blocks of a message."""
    converted = []
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, dict) and "image" in str(part.get("type")):
            address = _text(part.get("image_url"))
            converted.append(foreign.part({"type": "input_image", "image_url": address}))
        elif (text := _text(part)).strip():
            converted.append({"type": "text", "text": text})
    return converted


def _text_of(blocks: list[Json]) -> str:
    return "\n".join(block["text"] for block in blocks if block["type"] == "text")


def _text(value: Any) -> str:
    """The text in a value: a string, a list of parts or an object; empty if there is none."""
    match value:
        case str():
            return value
        case list():
            return "\n".join(map(_text, value))
        case {"text": str() as words}:
            return words
        case dict():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return ""


def _json(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _decoded(raw: bytes) -> Json | None:
    """Decode a line of a rollout; None if it is not one."""
    line = _json(raw)
    return line if isinstance(line, dict) and recognises(line) else None


def _encoded(record: Json) -> bytes:
    # Half a surrogate pair is valid JSON but cannot be encoded as UTF-8.
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode(errors="replace") + b"\n"
