"""Shared by all rules of a Messages request: the refusal, the facts, and messages grouped into turns.

The server merges consecutive messages of one role into one turn, so rules about order and pairing work on
turns, while every refusal names the message and block it was found in. A system message that only changes
settings adds nothing to the prompt and is allowed anywhere: it belongs to no turn.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from msgspec import Struct

from sevenfold.profiles import Profile
from sevenfold.record.media import pdf_pages

Json = Mapping[str, Any]


class Refusal(Struct, frozen=True):
    """One reason why the server would answer a request with a 400."""

    path: str
    """Where, in the server's notation: ``messages.3.content.0``."""
    message: str
    """The server's error message, with the path where the server includes it."""
    code: str
    """A stable name of the rule; names that start with ``compaction_`` are the server's own error codes."""

    @classmethod
    def at(cls, path: str, message: str, code: str) -> Refusal:
        """Build a refusal whose message starts with the path."""
        return cls(path, f"{path}: {message}", code)


class RuleFacts(Struct, frozen=True):
    """What the rules depend on besides the messages; the defaults suit a current model."""

    prefill: bool = False
    """Whether the conversation may end with a partial answer of the assistant."""
    system_messages: bool = True
    """Whether messages may have the role ``system``."""
    images: int = 600
    """How many images and pages of documents a request may contain."""
    messages: int = 100_000
    """How many messages a request may contain."""
    markers: int = 4
    """How many blocks may carry `cache_control`."""
    strict: bool = True
    """Whether the rules of API version 2026-10-21 apply."""

    @classmethod
    def of(cls, profile: Profile, *, strict: bool = True) -> RuleFacts:
        """The facts of one model."""
        return cls(
            prefill=profile.prefill,
            system_messages=profile.system_messages,
            images=profile.images or cls().images,
            markers=profile.cache.markers,
            strict=strict,
        )


class Placed(Struct, frozen=True):
    """A content block with its position in the list of messages."""

    message: int
    index: int
    block: Json
    kind: str
    """The block's type."""

    @property
    def path(self) -> str:
        """The position of the block in the server's notation."""
        return f"messages.{self.message}.content.{self.index}"

    @property
    def id(self) -> str:
        """The id that pairs a call with its result."""
        key = "tool_use_id" if self.kind.endswith("tool_result") else "id"
        return str(self.block.get(key, ""))


class Turn(Struct, frozen=True):
    """Consecutive messages of one role, which the server reads as one."""

    role: str
    start: int
    end: int
    """One past the last message."""
    blocks: tuple[Placed, ...]


def kind_of(block: Json) -> str:
    """The type of a content block; empty if it has none."""
    kind = block.get("type")
    return kind if isinstance(kind, str) else ""


def blocks_of(message: Json) -> list[Json]:
    """The content of a message as blocks; a string is one text block."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def inner_blocks(block: Json) -> list[Json]:
    """The blocks inside a tool result; none for other blocks and for a result that is a string."""
    content = block.get("content") if kind_of(block) == "tool_result" else None
    return [inner for inner in content if isinstance(inner, dict)] if isinstance(content, list) else []


def without_marker(block: Json) -> dict[str, Any]:
    """A block without its cache marker."""
    return {name: value for name, value in block.items() if name != "cache_control"}


def without_markers(message: Json) -> Json:
    """A message without the cache markers of its blocks."""
    content = message["content"]
    return (
        message if isinstance(content, str) else {**message, "content": list(map(without_marker, content))}
    )


def pages(block: Json) -> int:
    """How many pages a document counts for: one if the length of the file is not known; a text's are its pictures."""
    source = block.get("source")
    if kind_of(block) != "document" or not isinstance(source, dict) or source.get("type") == "text":
        return 0
    if source.get("type") == "content":
        return sum(kind_of(inner) == "image" for inner in blocks_of(source))
    try:
        data = base64.b64decode(source.get("data") or "")
    except (ValueError, TypeError):
        return 1
    return pdf_pages(data) or 1


def placed(messages: Iterable[tuple[int, Json]]) -> Iterator[Placed]:
    """Yield the content blocks of numbered messages in order, each with its position."""
    for number, message in messages:
        for index, block in enumerate(blocks_of(message)):
            yield Placed(number, index, block, kind_of(block))


def is_directive(message: Json) -> bool:
    """Whether this is a system message without content that only changes settings."""
    return message.get("role") == "system" and not blocks_of(message) and bool(message.get("output_config"))


def turns(messages: Sequence[Json]) -> list[Turn]:
    """Group messages into turns; messages that only change settings belong to none."""
    spoken = [(number, message) for number, message in enumerate(messages) if not is_directive(message)]
    runs = groupby(spoken, key=lambda pair: str(pair[1].get("role", "")))
    return [
        Turn(role, run[0][0], run[-1][0] + 1, tuple(placed(run)))
        for role, run in ((role, list(run)) for role, run in runs)
    ]


def is_server_result(kind: str) -> bool:
    """Whether this is the result of a tool that the server runs itself."""
    return kind.endswith("_tool_result")
