"""A simple count of what a transcript reports, to check the engine's figures; it shares no code with the engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

LOOKED_AT = 50
"""How many records to read before giving up on recognising a file."""
USAGE = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")

Record = dict[str, Any]


class Count(NamedTuple):
    """The figures that a file reports."""

    calls: int
    usage: tuple[int, ...]
    """Totals over all calls, in the order of `USAGE`."""
    compactions: int
    clearings: int


def kind_of(path: Path) -> str:
    """``claude``, ``codex``, or an empty string for any other file."""
    for number, record in enumerate(records(path)):
        if isinstance(record.get("payload"), dict) and "timestamp" in record:
            return "codex"
        if record.get("type") in ("user", "assistant") and "parentUuid" in record:
            return "claude"
        if number == LOOKED_AT:
            break
    return ""


def records(path: Path) -> Iterator[Record]:
    """The records of a file; lines that are not JSON objects are skipped."""
    with path.open("rb") as file:
        for line in file:
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict):
                yield record


def count(path: Path, kind: str) -> Count:
    """The figures that a file of this kind reports."""
    return _count_claude(path) if kind == "claude" else _count_codex(path)


def _count_claude(path: Path) -> Count:
    """Each response id is one call; the last record with that id has its usage."""
    used: dict[str, Record] = {}
    kinds: list[Any] = []
    for record in records(path):
        message = record.get("message")
        if record.get("type") == "assistant" and isinstance(message, dict):
            if message.get("model") != "<synthetic>" and message.get("usage"):
                used[message["id"]] = message["usage"]
        elif record.get("type") == "system":
            kinds.append(record.get("subtype"))
    sums = tuple(sum(usage.get(name) or 0 for usage in used.values()) for name in USAGE)
    return Count(len(used), sums, kinds.count("compact_boundary"), kinds.count("microcompact_boundary"))


def _count_codex(path: Path) -> Count:
    """Each report with a larger total is one call; the last total is the usage of all calls."""
    calls, compactions, last = 0, 0, Record()
    for record in records(path):
        payload = record.get("payload") or {}
        compactions += record.get("type") == "compacted"
        if payload.get("type") == "token_count" and payload.get("info"):
            total = payload["info"]["total_token_usage"]
            calls += total["total_tokens"] > last.get("total_tokens", 0)
            last = total
    cached, output = last.get("cached_input_tokens", 0), last.get("output_tokens", 0)
    return Count(calls, (last.get("input_tokens", 0) - cached, cached, 0, output), compactions, 0)
