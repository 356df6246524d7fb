"""What callers hand in, as content blocks: a text, a list of blocks, results of tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sevenfold.errors import InputError
from sevenfold.record import blocks, canonical
from sevenfold.record.blocks import Block

Content = str | Block | Mapping[str, Any] | Iterable["str | Block | Mapping[str, Any]"]


def message(content: Content) -> list[Block]:
    """The blocks of a message somebody says."""
    parts = [content] if isinstance(content, str | Block | Mapping) else list(content)
    found = [_block(part, f"content[{place}]") for place, part in enumerate(parts)]
    spoken = [block for block in found if not block.blank]
    if not spoken:
        raise InputError("there is nothing in this message: a text needs at least one visible character")
    return spoken


def results(given: Mapping[str, Any] | Iterable[Any]) -> list[Block]:
    """Results of tools: a mapping from call to content, or ``tool_result`` blocks."""
    if isinstance(given, Mapping) and given.get("type") != "tool_result":
        return [result(call, content) for call, content in given.items()]
    listed = [given] if isinstance(given, Mapping) else list(given)
    found = [_block(one, f"results[{place}]") for place, one in enumerate(listed)]
    for place, block in enumerate(found):
        if block.kind != "tool_result" or not block.id:
            raise InputError(
                f"results[{place}] is no tool result; give a mapping from the call's id to its content, or blocks "
                'of the form {"type": "tool_result", "tool_use_id": …, "content": …}'
            )
    return found


def result(call: str, content: Any, *, is_error: bool = False) -> Block:
    """The result of one call; ``content`` is a text or a list of blocks."""
    if not isinstance(call, str) or not call:
        raise InputError(f"a result belongs to a call: {call!r} is not the id of one")
    fields: dict[str, Any] = {"type": "tool_result", "tool_use_id": call}
    match content:
        case None | str():
            fields["content"] = content or ""
        case Mapping() | Iterable():
            parts = [content] if isinstance(content, Mapping) else content
            fields["content"] = [_field(part, f"the result of {call}") for part in parts]
        case _:
            raise InputError(
                f"the result of {call} is a {type(content).__name__}; give a text or a list of content blocks"
            )
    if is_error:
        fields["is_error"] = True
    return Block("tool_result", canonical.encode(fields), call)


def _field(part: Any, where: str) -> Any:
    match part:
        case str():
            return {"type": "text", "text": part}
        case Mapping():
            return part
        case _:
            raise InputError(f"{where} holds a {type(part).__name__}; give texts or content blocks")


def _block(part: Any, where: str) -> Block:
    match part:
        case Block():
            return part
        case str():
            return blocks.read(canonical.encode({"type": "text", "text": part}))
        case Mapping():
            block = blocks.read(canonical.encode(part))
            if not block.kind:
                raise InputError(f"{where} has no type; a content block is a mapping with a type")
            return block
        case _:
            return _dumped(part, where)


def _dumped(part: Any, where: str) -> Block:
    """Objects of the providers' SDKs say themselves what they hold."""
    dump = getattr(part, "to_dict", None)
    if dump is None:
        raise InputError(f"{where} is a {type(part).__name__}; give a text or a content block")
    return _block(dump(), where)
