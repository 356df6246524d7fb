"""What the rules of a Messages request share: the refusal, the facts, and messages seen as turns.

The server joins neighbouring messages of one role into one turn, so rules about order and pairing look at
turns, while every refusal names the message and block it was found in. A system message that carries only
settings says nothing to the model and may stand anywhere: it belongs to no turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from msgspec import Struct

from sevenfold.profiles import Profile

Json = Mapping[str, Any]


class Refusal(Struct, frozen=True):
    """One reason why the server would answer a request with a 400."""

    path: str
    """Where, in the form the server uses: ``messages.3.content.0``."""
    message: str
    """The server's words, path included where the server includes it."""
    code: str
    """A stable name of the rule; those that begin with ``compaction_`` are the server's own error codes."""

    @classmethod
    def at(cls, path: str, words: str, code: str) -> Refusal:
        """A refusal whose message begins with the path."""
        return cls(path, f"{path}: {words}", code)


class RuleFacts(Struct, frozen=True):
    """What the rules depend on besides the messages; the defaults are those of a current model."""

    prefill: bool = False
    """Whether the conversation may end in the middle of an answer."""
    system_messages: bool = True
    """Whether messages may have the role ``system``."""
    images: int = 600
    """How many images and documents one request may hold."""
    messages: int = 100_000
    """How many messages one request may hold."""
    markers: int = 4
    """How many blocks may carry `cache_control`."""
    strict: bool = True
    """The rules that came with API version 2026-10-21."""

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
    """A content block with its place in the list of messages."""

    message: int
    index: int
    block: Json
    kind: str
    """The block's type."""

    @property
    def path(self) -> str:
        """Where the block is, as the server writes it."""
        return f"messages.{self.message}.content.{self.index}"

    @property
    def id(self) -> str:
        """The id that pairs a call with its result."""
        key = "tool_use_id" if self.kind.endswith("tool_result") else "id"
        return str(self.block.get(key, ""))


class Turn(Struct, frozen=True):
    """Neighbouring messages of one role, which the server reads as one."""

    role: str
    start: int
    end: int
    """One past the last message."""
    blocks: tuple[Placed, ...]


def kind_of(block: Json) -> str:
    """The type of a content block, empty when it has none."""
    kind = block.get("type")
    return kind if isinstance(kind, str) else ""


def blocks_of(message: Json) -> list[Json]:
    """The content of a message as blocks; a string is short for one text block."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def inner_blocks(block: Json) -> list[Json]:
    """The blocks inside a tool result; none for any other block and for a result that is a string."""
    content = block.get("content") if kind_of(block) == "tool_result" else None
    return [inner for inner in content if isinstance(inner, dict)] if isinstance(content, list) else []


def placed(messages: Iterable[tuple[int, Json]]) -> Iterator[Placed]:
    """Every content block of numbered messages in order, with its place."""
    for number, message in messages:
        for index, block in enumerate(blocks_of(message)):
            yield Placed(number, index, block, kind_of(block))


def is_directive(message: Json) -> bool:
    """True for a system message without content that only changes settings."""
    return message.get("role") == "system" and not blocks_of(message) and bool(message.get("output_config"))


def turns(messages: Sequence[Json]) -> list[Turn]:
    """The messages as turns; messages that only change settings belong to none."""
    spoken = [(number, message) for number, message in enumerate(messages) if not is_directive(message)]
    runs = groupby(spoken, key=lambda pair: str(pair[1].get("role", "")))
    return [
        Turn(role, run[0][0], run[-1][0] + 1, tuple(placed(run)))
        for role, run in ((role, list(run)) for role, run in runs)
    ]


def is_server_result(kind: str) -> bool:
    """True for the results of tools that the server runs itself."""
    return kind.endswith("_tool_result")
