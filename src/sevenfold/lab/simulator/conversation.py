"""A request's prompt taken apart: tools, system and messages as items that can be weighed and hashed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.lab.simulator.pieces import Piece, Scales, digest
from sevenfold.record.rules.base import THINKING, blocks_of
from sevenfold.record.rules.cache import lifetime

Json = Mapping[str, Any]


class Item(Struct, frozen=True):
    """One part of a prompt: a tool, a system block or a content block."""

    path: str
    role: str
    """``tools``, ``system`` or the role of the message."""
    kind: str
    block: Json
    piece: Piece
    ttl: str | None = None
    """The lifetime its cache marker asks for."""
    message: int = -1
    index: int = -1

    @property
    def tokens(self) -> int:
        """What it costs in the window."""
        return self.piece.tokens

    @property
    def is_thinking(self) -> bool:
        """Whether it is reasoning, readable or not."""
        return self.kind in THINKING


class Conversation(Struct, frozen=True):
    """Everything a request says, in the order it is hashed."""

    tools: tuple[Item, ...]
    system: tuple[Item, ...]
    items: tuple[Item, ...]
    """The blocks of all messages."""
    messages: Sequence[Json]
    seals: tuple[bytes, bytes]
    """Digests of system and tools, as thinking is bound to them."""


def read_conversation(body: Json, scales: Scales, generation: str) -> Conversation:
    """Take a request body apart; blocks are weighed in the tokens of one generation."""
    tools = tuple(_tools(body.get("tools") or (), scales, generation))
    system = tuple(_system(body.get("system") or (), scales, generation))
    messages: Sequence[Json] = body.get("messages") or ()
    items = tuple(_content(messages, scales, generation))
    seals = (
        digest(*[item.piece.digest for item in system]),
        digest(*[item.piece.digest for item in tools]),
    )
    return Conversation(tools, system, items, messages, seals)


def marker(block: Json) -> str | None:
    """The lifetime a block's marker asks for, or that of a marker inside its content."""
    if (control := block.get("cache_control")) is not None:
        return lifetime(control)
    if block.get("type") == "tool_result" and isinstance(content := block.get("content"), list):
        for inner in content:
            if isinstance(inner, dict) and inner.get("cache_control") is not None:
                return lifetime(inner["cache_control"])
    return None


def last_compaction(items: Sequence[Item]) -> int:
    """The place of the last summary that replaces what stands before it; -1 when there is none."""
    for place in reversed(range(len(items))):
        if items[place].kind == "compaction" and items[place].block.get("content"):
            return place
    return -1


def total(items: Iterable[Item]) -> int:
    """The tokens of some items."""
    return sum(item.tokens for item in items)


def _tools(tools: Iterable[Json], scales: Scales, generation: str) -> Iterator[Item]:
    """Deferred tools are not part of the prompt until something refers to them."""
    loaded = [(index, tool) for index, tool in enumerate(tools) if not tool.get("defer_loading")]
    for place, (index, tool) in enumerate(loaded):
        piece = scales.weigh({**tool, "type": str(tool.get("type") or "custom")}, generation, "tools")
        if place == 0:
            piece = replace(piece, tokens=piece.tokens + scales.counter.tool_prompt)
        yield Item(f"tools.{index}", "tools", "tool", tool, piece, marker(tool))


def _system(system: str | Sequence[Json], scales: Scales, generation: str) -> Iterator[Item]:
    for index, block in enumerate(blocks_of({"content": system})):
        piece = scales.weigh(block, generation, "system")
        yield Item(f"system.{index}", "system", "text", block, piece, marker(block))


def _content(messages: Sequence[Json], scales: Scales, generation: str) -> Iterator[Item]:
    extra = scales.counter.per_message
    for number, message in enumerate(messages):
        role = str(message["role"])
        tag = (
            role if role != "system" else f"system {message.get('clear_at')} {message.get('output_config')}"
        )
        for index, block in enumerate(blocks_of(message)):
            if block.get("type") == "compaction" and block.get("content") is None:
                continue  # a summary that failed stands for nothing
            piece = scales.weigh(block, generation, tag)
            if index == 0:
                piece = Piece(piece.digest, piece.tokens + extra)
            path = f"messages.{number}.content.{index}"
            yield Item(path, role, str(block.get("type", "")), block, piece, marker(block), number, index)
