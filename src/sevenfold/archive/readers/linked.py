"""Builds records of the shared format: what all readers share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from sevenfold.record.decisions import Segment

Json = Mapping[str, Any]
DAMAGED = b"damaged\n"
"""A line that counts as damaged in the shared format."""


class StoredConversation(Struct, frozen=True):
    """A conversation in a tool's database."""

    name: str
    title: str
    folder: str
    """The folder it worked in."""
    modified: float
    """When it was last written to, in seconds since 1970."""
    parent: str = ""
    """The conversation that started it, if it is a sub-agent's."""


class LinkedRecords:
    """Records of one session, each linked to its parent by default to the newest one."""

    def __init__(self) -> None:
        self.newest: str | None = None
        self._shared: dict[str, Any] = {"isSidechain": False}

    def begin(self, session: str, folder: str, version: str) -> None:
        """Set what every record says about its session."""
        self._shared |= {"sessionId": session, "cwd": folder, "version": version}

    def record(self, kind: str, name: str, timestamp: str, **fields: Any) -> dict[str, Any]:
        """A record with this id; ``parentUuid`` among the fields replaces the newest record as its parent."""
        parent = fields.pop("parentUuid", self.newest)
        self.newest = name
        linked = {"uuid": name, "parentUuid": parent, "timestamp": timestamp}
        return {"type": kind, **linked, **self._shared, **fields}

    def boundary(
        self, name: str, timestamp: str, tokens: int | None, segment: Segment | None
    ) -> dict[str, Any]:
        """The record of a compaction that hides everything before it except a kept segment."""
        about: dict[str, Any] = {"trigger": "auto", "preTokens": tokens}
        if segment is not None:
            about["preservedSegment"] = {
                "headUuid": segment.head_uuid,
                "anchorUuid": segment.anchor_uuid,
                "tailUuid": segment.tail_uuid,
            }
        behind = self.newest
        linked = {"parentUuid": None, "logicalParentUuid": behind}
        return self.record(
            "system", name, timestamp, subtype="compact_boundary", compactMetadata=about, **linked
        )

    def summary(self, name: str, timestamp: str, text: str) -> dict[str, Any]:
        """The summary that follows a boundary."""
        message = {"role": "user", "content": [{"type": "text", "text": text}]}
        return self.record("user", name, timestamp, message=message, isCompactSummary=True)


def text_block(text: str) -> Json:
    """A text as a content block."""
    return {"type": "text", "text": text}


def decode_line(raw: bytes | str) -> Json | None:
    """The JSON object in a line or text; None if there is none."""
    try:
        line = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) else None


def encode_record(record: Json) -> bytes:
    """A record as a line."""
    # Half a surrogate pair is valid JSON but cannot be encoded as UTF-8, so such texts stay escaped.
    return json.dumps(record, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"


def string(value: Any) -> str:
    """A string as it is; anything else, which the tool would not have written, is empty."""
    return value if isinstance(value, str) else ""
