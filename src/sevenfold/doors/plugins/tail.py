"""The newest answer of a transcript, read from the end of its file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

TAIL_BYTES = 1 << 20
"""How much of the file's end is read: the newest answer is there, or its results are so big that nothing is said."""
SHORT_LIFETIME = 300
LONG_LIFETIME = 3_600
"""Seconds a written prefix stays in the cache; the usage says which of the two was written."""
_LOOKED_AT = 3
"""How many of the newest records are looked at to tell whose transcript it is."""


class NewestAnswer(NamedTuple):
    """The newest answer of a conversation, and what its request found in the cache."""

    model: str
    at: float
    """In seconds since 1970."""
    usage: dict[str, Any]
    lifetime: int
    """Seconds its cache lives after it; 0 if the transcript does not say."""

    @property
    def context(self) -> int:
        """The tokens of the conversation after this answer."""
        names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
        return sum(count(self.usage, name) for name in names)


def newest_answer(path: Path) -> NewestAnswer | None:
    """The newest answer in the file's end; None if there is none, or if a compaction came after it."""
    records = _backwards(path)
    head = list(islice(records, _LOOKED_AT))
    records = chain(head, records)
    is_rollout = any(isinstance(record.get("payload"), dict) for record in head)
    return _newest_of_codex(records) if is_rollout else _newest_of_claude_code(records)


def _newest_of_claude_code(records: Iterable[dict[str, Any]]) -> NewestAnswer | None:
    newest: tuple[str, float, dict[str, Any]] | None = None
    lifetime = SHORT_LIFETIME
    for record in records:
        if record.get("isSidechain") is True:
            continue
        if record.get("subtype") == "compact_boundary":
            break
        message = record.get("message")
        usage = message.get("usage") if isinstance(message, dict) else None
        if (
            record.get("type") != "assistant"
            or not isinstance(message, dict)
            or not isinstance(usage, dict)
        ):
            continue
        at = seconds(record.get("timestamp"))
        if newest is None and at is not None:
            newest = (str(message.get("model") or ""), at, usage)
        # A request that wrote nothing says nothing about the lifetime, so an older one may have to.
        written = usage.get("cache_creation")
        if isinstance(written, dict) and count(usage, "cache_creation_input_tokens"):
            lifetime = LONG_LIFETIME if count(written, "ephemeral_1h_input_tokens") else SHORT_LIFETIME
            break
    return NewestAnswer(*newest, lifetime) if newest else None


def _newest_of_codex(records: Iterable[dict[str, Any]]) -> NewestAnswer | None:
    """Codex records the usage in an event behind the answer, and the model at the beginning of the turn."""
    newest: tuple[float, dict[str, Any]] | None = None
    for record in records:
        payload = record.get("payload")
        if not isinstance(payload, dict):
            continue
        if record.get("type") == "compacted" and newest is None:
            return None
        model = payload.get("model")
        if newest is not None and record.get("type") == "turn_context" and isinstance(model, str):
            return NewestAnswer(model, *newest, lifetime=0)
        info = payload.get("info") if payload.get("type") == "token_count" else None
        reported = info.get("last_token_usage") if isinstance(info, dict) else None
        at = seconds(record.get("timestamp"))
        if newest is None and isinstance(reported, dict) and count(reported, "input_tokens") and at:
            newest = (at, _as_messages_usage(reported))
    return None


def _as_messages_usage(reported: dict[str, Any]) -> dict[str, Any]:
    """A report of Codex in the names of the Messages API: there, what the cache held is not part of the input."""
    cached = min(count(reported, "cached_input_tokens"), count(reported, "input_tokens"))
    return {
        "input_tokens": count(reported, "input_tokens") - cached,
        "cache_read_input_tokens": cached,
        "output_tokens": count(reported, "output_tokens"),
    }


def count(usage: dict[str, Any], name: str) -> int:
    """A number of tokens; 0 if it is missing or not one."""
    value = usage.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def seconds(timestamp: object) -> float | None:
    """A time of a record in seconds since 1970."""
    try:
        return datetime.fromisoformat(str(timestamp)).timestamp()
    except (ValueError, OverflowError):
        return None


def _backwards(path: Path) -> Iterator[dict[str, Any]]:
    """The records in the end of the file, the newest first."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        start = max(0, size - TAIL_BYTES)
        file.seek(start)
        lines = file.read(TAIL_BYTES).split(b"\n")
    # The first line may be only the end of one.
    for line in reversed(lines[1:] if start else lines):
        try:
            record = json.loads(line) if line.startswith(b"{") else None
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            yield record
