"""Blocks that no provider takes, as damage or another tool's log brings them, and what is sent in their place.

A record is sent again with every request, so one block without an id, or in the mouth of the wrong speaker, would make
its session unsendable for good. Such a block is sent as text that says what it was and holds its bytes; reasoning that
was never signed is left out. Nothing is changed in the record, and the same block is always replaced by the same text.

A block of a kind that is not listed here is damage too, unless it came in an answer that one of our sessions received:
then the provider has learnt a new kind, and takes it back as it sent it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from msgspec import Raw

from sevenfold.record import blocks
from sevenfold.record.blocks import THINKING, Block, Opaque, ToolResult, ToolUse

TAKEN_KINDS = blocks.KNOWN_KINDS | {
    "search_result",
    "container_upload",
    "cache_edits",
    "tool_addition",
    "tool_removal",
    "server_tool_use",
    "web_search_tool_result",
    "web_fetch_tool_result",
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
    "mcp_tool_use",
    "mcp_tool_result",
    "mcp_tool_listing",
    "advisor_tool_result",
    "fallback",
}
"""The kinds of blocks that a provider takes."""
_SPEAKERS = {
    **dict.fromkeys(("image", "document", "search_result", "tool_result", "container_upload"), "user"),
    **dict.fromkeys((*THINKING, "tool_use", "server_tool_use", "mcp_tool_use"), "assistant"),
    **dict.fromkeys(("tool_addition", "tool_removal"), "system"),
}
"""The only role that may say these kinds of blocks."""
_CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_TEXT = rb'\{"type":"text","text":"'
_CALL = rb'\{"type":"tool_use","id":"[^"\\]+","name":"[^"\\]+","input":\{'
_RESULT = rb'\{"type":"tool_result","tool_use_id":"[^"\\]+","content":"'
PLAIN = {
    "user": re.compile(_TEXT + b"|" + _RESULT),
    "assistant": re.compile(_TEXT + b"|" + _CALL),
    "system": re.compile(_TEXT),
}
"""How nearly all blocks of each role begin; these are always sendable. A log is opened in the time that this takes."""
_FIELDS = {
    "search_result": ("source", "title", "content"),
    "container_upload": ("file_id",),
    "thinking": ("thinking", "signature"),
    "redacted_thinking": ("data",),
    "image": ("source",),
    "document": ("source",),
}
"""Fields that providers require of these kinds."""
SYSTEM_MESSAGES = "system_messages"
"""In `Epoch.unsupported`: messages of the system after the first are sent as the user's."""
SEALED_REASONING = "sealed_reasoning"
"""In `Epoch.unsupported`: reasoning and other items that only the Responses API can read are not sent."""
_OWN_ITEMS = frozenset({"mcp_list_tools", "mcp_approval_request", "tool_search_output"})
"""Items of the Responses API, besides those whose type ends in ``_call``; the Messages API has no such kinds."""
_INSIDE_RESULTS = frozenset(
    {"text", "image", "search_result", "document", "tool_reference", "browser_state"}
)


def new_kinds(answer: Sequence[Block]) -> tuple[str, ...]:
    """The kinds of blocks in a provider's answer that are not listed here."""
    kinds: list[str] = []
    for block in answer:
        if block.kind not in TAKEN_KINDS and block.kind not in kinds:
            kinds.append(block.kind)
    return tuple(kinds)


def sendable(role: str, block: Block, provider_kinds: Sequence[str] = ()) -> Block | None:
    """The block as a provider takes it from this speaker: usually unchanged; None if it is left out.

    ``provider_kinds`` are kinds that are not listed here but that the provider itself sent.
    """
    kind = block.kind
    if role in PLAIN and PLAIN[role].match(block.raw):
        return block
    if kind == "tool_result" and role == "user" and block.id:
        return _sendable_result(block)
    if _is_sendable(role, block, provider_kinds):
        return block
    return None if kind in THINKING else blocks.text(described(block))


def is_sealed_reasoning(block: Block) -> bool:
    """Whether this is reasoning of the Responses API, whose encrypted form has an id, or what its own tools did."""
    if block.kind == "redacted_thinking":
        return bool(blocks.read_field(block.raw, "id"))
    return block.kind.endswith("_call") or block.kind in _OWN_ITEMS


def described(block: Block) -> str:
    """A block that cannot be sent, as text."""
    kind = block.kind or "unknown"
    return f"[A {kind} block that cannot be sent]\n{block.raw.decode(errors='replace')}"


def as_text(block: Block, why: str) -> Block | None:
    """What is sent in place of a block that a provider refused; None if it is left out.

    A result keeps its place, because its call needs one: its pictures become notes, or all of it becomes text.
    """
    if block.kind in THINKING:
        return None
    if block.kind in ("image", "document"):
        return blocks.text(_refused_note(block, why))
    if block.kind != "tool_result" or not block.id:
        return blocks.text(described(block))
    media = blocks.not_text(block)
    if not media:
        return blocks.result(block.id, described(block), toolset=blocks.toolset_of(block))
    parts = [blocks.text(blocks.words_of(block))] if blocks.words_of(block).strip() else []
    parts += [blocks.text(_refused_note(blocks.read(bytes(part)), why)) for part in media]
    return blocks.with_content(block, [Raw(part.raw) for part in parts])


def _refused_note(block: Block, why: str) -> str:
    subject = {"image": "A picture", "document": "A file"}.get(block.kind, f"A {block.kind or 'block'}")
    return f"[{subject} that the provider could not take: {why}]"


def _is_sendable(role: str, block: Block, provider_kinds: Sequence[str]) -> bool:
    kind = block.kind
    if kind not in TAKEN_KINDS:
        return kind in provider_kinds
    server_result = kind.endswith("_tool_result")
    speaker = "assistant" if server_result else _SPEAKERS.get(kind, role)
    # A result that names no call has nothing to answer.
    if speaker != role or kind == "tool_result":
        return False
    body = block.body()
    if isinstance(body, ToolUse):
        return (
            bool(block.id and body.name)
            and bytes(body.input).startswith(b"{")
            and _has(block.raw, ("input",))
        )
    if isinstance(body, Opaque) and (kind in blocks.KNOWN_KINDS):
        return False
    if kind in _CALLS or server_result:
        return bool(blocks.read_field(block.raw, "tool_use_id" if server_result else "id"))
    return not (fields := _FIELDS.get(kind)) or _has(block.raw, fields)


def _has(raw: bytes, names: tuple[str, ...]) -> bool:
    fields = msgspec.json.decode(raw, type=dict[str, Raw])
    source = bytes(fields.get("source", b"{"))
    return all(name in fields for name in names) and (b'"search_result"' in raw or source.startswith(b"{"))


def _sendable_result(block: Block) -> Block:
    """A tool result whose parts a provider takes; those that it does not are sent as text."""
    body = block.body()
    if not isinstance(body, ToolResult):
        return blocks.result(block.id, described(block))
    if not isinstance(body.content, list):
        return block
    parts = [blocks.read(bytes(part)) for part in body.content]
    sound = [part if _fits_result(part) else blocks.text(described(part)) for part in parts]
    if sound == parts:
        return block
    return blocks.with_content(block, [Raw(part.raw) for part in sound])


def _fits_result(part: Block) -> bool:
    if part.kind not in _INSIDE_RESULTS or (
        isinstance(body := part.body(), Opaque) and part.kind in blocks.KNOWN_KINDS
    ):
        return False
    if isinstance(body, blocks.Text):
        return bool(body.text)
    return not (fields := _FIELDS.get(part.kind)) or _has(part.raw, fields)
