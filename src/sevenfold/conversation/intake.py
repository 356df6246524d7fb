"""What callers hand in, as content blocks: a text, a list of blocks, results of tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sevenfold.conversation import foreign
from sevenfold.errors import InputError
from sevenfold.record import blocks
from sevenfold.record.blocks import THINKING, Block, encode_json

Content = str | Block | Mapping[str, Any] | Iterable["str | Block | Mapping[str, Any]"]
_BYTES = (bytes, bytearray, memoryview)


def message(content: Content) -> list[Block]:
    """The blocks of a message the user says."""
    said = blocks_in(content)
    for place, block in enumerate(said):
        if block.kind == "tool_result":
            raise InputError(
                f"content[{place}] is the result of {block.id or 'a call'}; give results with tool_results()"
            )
        if block.kind == "tool_use" or block.kind in THINKING:
            raise InputError(
                f"content[{place}] is a {block.kind} block, which only a model says; give answers with observe(), "
                "or a whole conversation with messages()"
            )
    return said


def blocks_in(content: Content) -> list[Block]:
    """The blocks of a message, whoever says it; those without a visible character are left out."""
    parts = [content] if isinstance(content, str | Block | Mapping) else _listed(content, "a message")
    found = [_block(part, f"content[{place}]") for place, part in enumerate(parts)]
    spoken = [block for block in found if not block.blank]
    if not spoken:
        raise InputError("there is nothing in this message: a text needs at least one visible character")
    return spoken


def results(given: Mapping[str, Any] | Iterable[Any]) -> list[Block]:
    """Results of tools: a mapping from call to content, ``tool_result`` blocks, or what OpenAI's APIs have for them."""
    single = isinstance(given, Mapping) and (given.get("type") == "tool_result" or foreign.result(given))
    if isinstance(given, Mapping) and not single:
        return [result(call, content) for call, content in given.items()]
    listed = [given] if single else _listed(given, "what tools answered")
    found = [
        result(*theirs) if (theirs := foreign.result(one)) else _block(one, f"results[{place}]")
        for place, one in enumerate(listed)
    ]
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
    where = f"the result of {call}"
    fields: dict[str, Any] = {"type": "tool_result", "tool_use_id": call}
    match content:
        case None | str():
            fields["content"] = content or ""
        case Mapping():
            fields["content"] = [content]
        case _:
            fields["content"] = [_field(part, where) for part in _listed(content, where)]
    if is_error:
        fields["is_error"] = True
    return Block("tool_result", _encoded(fields, where), call)


def _listed(given: Any, what: str) -> list[Any]:
    if isinstance(given, _BYTES):
        raise InputError(f"{what} is bytes; decode it, or send it as base64 in a content block")
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InputError(f"{what} is a {type(given).__name__}; give a text or a list of content blocks")
    return list(given)


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
            return blocks.read(_encoded({"type": "text", "text": part}, where))
        case Mapping():
            block = blocks.read(_encoded(foreign.part(part), where))
            if not block.kind:
                raise InputError(f"{where} has no type; a content block is a mapping with a type")
            return block
        case _:
            return _dumped(part, where)


def _encoded(value: Any, where: str) -> bytes:
    try:
        return encode_json(value)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _dumped(part: Any, where: str) -> Block:
    """Objects of the providers' SDKs say themselves what they hold."""
    dump = getattr(part, "to_dict", None)
    if dump is None:
        raise InputError(f"{where} is a {type(part).__name__}; give a text or a content block")
    return _block(dump(), where)
