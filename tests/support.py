"""Transcripts made by hand, in the shape other tools write."""

from __future__ import annotations

import json
import os
from typing import Any

from msgspec import Raw

from sevenfold.clock import CountedIds, ManualClock
from sevenfold.conversation.conversation import Conversation
from sevenfold.conversation.flow import drive
from sevenfold.conversation.options import RequestOptions, Services
from sevenfold.conversation.request import Prepared
from sevenfold.conversation.transcript import Transcript
from sevenfold.conversation.turn import prepare
from sevenfold.layers.ladder import Ladder
from sevenfold.ports import Clock, Ids, Log
from sevenfold.profiles import find
from sevenfold.record import blocks, entries
from sevenfold.record.blocks import Block
from sevenfold.record.log import Answer, Place
from sevenfold.record.view import View
from sevenfold.request.frame import Frame
from sevenfold.settings import Settings
from sevenfold.stores.memory import MemoryLog, MemoryResults

PROVING = os.environ.get("SEVENFOLD_PROVE") == "1"
"""Is this a part of `./dev prove`, for which a search may take minutes?"""


def usage(prompt: int, output: int = 10, *, read: int = 0, written: int = 0) -> dict[str, Any]:
    return {
        "input_tokens": prompt - read - written,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
        "output_tokens": output,
    }


def call(id: str, name: str = "Read", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": given}


def result(id: str, content: Any = "ok", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": content, **more}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


class Story:
    """Writes a transcript line by line; every record is the child of the one before unless told otherwise."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.last: str | None = None
        self._count = 0

    def user(self, content: Any = "hello", **more: Any) -> str:
        return self._said("user", {"role": "user", "content": content}, more)

    def assistant(
        self,
        *content: Any,
        id: str = "",
        used: dict[str, Any] | None = None,
        model: str = "claude-sonnet-5-5",
        **more: Any,
    ) -> str:
        parts = [text(part) if isinstance(part, str) else part for part in content]
        message = {
            "role": "assistant",
            "type": "message",
            "id": id or f"msg_{self._count}",
            "model": model,
            "content": parts,
            "stop_reason": None,
            "usage": used or usage(1000),
        }
        return self._said("assistant", message, more)

    def link(self, kind: str = "progress", **more: Any) -> str:
        return self._add(kind, more)

    def boundary(self, kept: tuple[str, str, str] | None = None, **more: Any) -> str:
        about: dict[str, Any] = {"trigger": "auto", "preTokens": 170_000}
        if kept:
            about["preservedSegment"] = dict(zip(("headUuid", "anchorUuid", "tailUuid"), kept, strict=True))
        fields = {"subtype": "compact_boundary", "compactMetadata": about, "logicalParentUuid": self.last}
        return self._add("system", {**fields, "parent": None, **more})

    def summary(self, words: str = "so far", **more: Any) -> str:
        return self._said("user", {"role": "user", "content": words}, {"isCompactSummary": True, **more})

    def clearing(self, *ids: str, attachments: tuple[str, ...] = ()) -> str:
        about = {
            "trigger": "auto",
            "preTokens": 1,
            "tokensSaved": 1,
            "compactedToolIds": list(ids),
            "clearedAttachmentUUIDs": list(attachments),
        }
        return self._add("system", {"subtype": "microcompact_boundary", "microcompactMetadata": about})

    def raw(self, line: bytes) -> None:
        self.lines.append(line if line.endswith(b"\n") else line + b"\n")

    def view(self, **how: Any) -> View:
        view = View(**how)
        for line in self.lines:
            view.add(entries.read(line))
        return view

    def _said(self, kind: str, message: dict[str, Any], more: dict[str, Any]) -> str:
        return self._add(kind, {"message": message, **more})

    def _add(self, kind: str, fields: dict[str, Any]) -> str:
        self._count += 1
        uuid = str(fields.pop("uuid", f"{kind[0]}{self._count}"))
        parent = fields.pop("parent", self.last)
        record = {
            "type": kind,
            "uuid": uuid,
            "parentUuid": parent,
            "timestamp": "2026-11-01T00:00:00.000Z",
            **fields,
        }
        self.lines.append(json.dumps(record).encode() + b"\n")
        self.last = uuid
        return uuid


def shown(view: View) -> list[tuple[str, str]]:
    """The messages in short: role, and what each block says."""
    return [(message["role"], " ".join(map(_short, message["content"]))) for message in decoded(view)]


def decoded(view: View) -> list[dict[str, Any]]:
    return [json.loads(message) for message in view.encoded()]


def _short(block: dict[str, Any]) -> str:
    match block["type"]:
        case "text":
            return str(block["text"])
        case "tool_use":
            return f"{block['id']}?"
        case "tool_result":
            return f"{block['tool_use_id']}={block.get('content')}"
        case other:
            return str(other)


def transcript(log: Log | None = None, ids: Ids | None = None) -> Transcript:
    return Transcript(log or MemoryLog(), Place("s-1"), clock=ManualClock(), ids=ids or CountedIds())


def answer(*parts: Block | str, id: str = "msg_1", prompt: int = 1000) -> Answer:
    said = tuple(blocks.text(part) if isinstance(part, str) else part for part in parts)
    return Answer(id, "claude-sonnet-5-5", said, Raw(json.dumps(usage(prompt)).encode()), "end_turn")


def bare_conversation(transcript: Transcript, frame: Frame, clock: Clock) -> Conversation:
    """A conversation without layers, in which exactly this precedes the messages."""
    services = Services(clock=clock, settings=Settings(), results=MemoryResults())
    options = RequestOptions(frame.model, frame.max_tokens)
    return Conversation(transcript, options, find(frame.model), services, Ladder(()), frame)


def next_request(c: Conversation) -> Prepared:
    """The next request of a conversation, on record."""
    return c.send(drive(prepare(c), None))
