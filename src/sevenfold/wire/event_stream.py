"""Writes server-sent events, as all three APIs stream their answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

DONE = b"data: [DONE]\n\n"
"""The last event of a stream of Chat Completions."""


def named_event(kind: str, data: Mapping[str, Any]) -> bytes:
    """An event with a name, which its data repeats as its type."""
    return f"event: {kind}\n".encode() + b"data: " + msgspec.json.encode({"type": kind, **data}) + b"\n\n"


def plain_event(data: Mapping[str, Any]) -> bytes:
    """An event without a name."""
    return b"data: " + msgspec.json.encode(data) + b"\n\n"


def pieces(text: str, length: int) -> list[str]:
    """A text in pieces of ``length`` characters."""
    return [text[start : start + length] for start in range(0, len(text), length)]
