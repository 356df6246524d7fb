"""What callers hand in, as content blocks: a text, a list of blocks, results of tools."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sevenfold.errors import InputError
from sevenfold.record import blocks
from sevenfold.record.blocks import THINKING, Block, encode_json
from sevenfold.record.layout import Item
from sevenfold.record.view import View
from sevenfold.record.wire import Message

Content = str | Block | Mapping[str, Any] | Iterable["str | Block | Mapping[str, Any]"]
_BYTES = (bytes, bytearray, memoryview)
_DATA = re.compile(r"data:(?P<media_type>[^;,]+);base64,(?P<data>.*)", re.S)


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
    """The blocks of a message from either side; those without a visible character are left out."""
    parts = [content] if isinstance(content, str | Block | Mapping) else _listed(content, "a message")
    found = [_block(part, f"content[{place}]") for place, part in enumerate(parts)]
    spoken = [block for block in found if not block.blank]
    if not spoken:
        raise InputError("there is nothing in this message: a text needs at least one visible character")
    return spoken


def results(given: Mapping[str, Any] | Iterable[Any]) -> list[Block]:
    """Results of tools: a mapping from call to content, ``tool_result`` blocks, or what OpenAI's APIs have for them."""
    single = isinstance(given, Mapping) and (given.get("type") == "tool_result" or _foreign_result(given))
    if isinstance(given, Mapping) and not single:
        return [result(call, content) for call, content in given.items()]
    listed = [given] if single else _listed(given, "what tools answered")
    found = [
        result(*theirs) if (theirs := _foreign_result(one)) else _block(one, f"results[{place}]")
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
            block = blocks.read(_encoded(_foreign_part(part), where))
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


# What callers used to OpenAI's APIs hand in, as the Messages API has it


def _foreign_part(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """A part of a message as a content block; what is one already, or is none of theirs, as it is."""
    match given:
        case {"type": "input_text" | "output_text", "text": text}:
            return {"type": "text", "text": text}
        case {"type": "image_url", "image_url": {"url": str() as url}}:
            return _image(url)
        case {"type": "input_image", "image_url": str() as url}:
            return _image(url)
        case _:
            return given


def _foreign_result(given: object) -> tuple[str, Any] | None:
    """The call and the content of a tool's message, or of a function's output; None if it is neither."""
    match given:
        case {"role": "tool", "tool_call_id": str() as call, **rest}:
            return call, _content(rest.get("content"))
        case {"type": "function_call_output", "call_id": str() as call, **rest}:
            return call, _content(rest.get("output"))
        case _:
            return None


def _content(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    return [_foreign_part(one) if isinstance(one, Mapping) else one for one in content]


def _image(url: str) -> Mapping[str, Any]:
    if held := _DATA.fullmatch(url):
        return {"type": "image", "source": {"type": "base64", **held.groupdict()}}
    return {"type": "image", "source": {"type": "url", "url": url}}


# What may be said next


def must_have_news(view: View) -> None:
    """Raise if the next request would hold nothing that the model has not heard or said."""
    waiting, newest = view.pending_calls, view.newest
    if newest is None:
        raise InputError("there is nothing to send yet: say something with user() first")
    if newest.said.role == "assistant" and not _goes_on(newest):
        need = f"tool_results() for {', '.join(waiting)}" if waiting else "user()"
        raise InputError(f"the model spoke last, so there is nothing new to send: call {need} first")
    if waiting and newest.said.answers:
        raise InputError(
            f"calls still wait for results: {', '.join(waiting)}; give them with tool_results() first"
        )


def still_waiting(pending: Sequence[str], sent: Sequence[Message]) -> list[str]:
    """The calls that are open; no longer those that what is being sent says were interrupted."""
    answered = {repair.where for message in sent[-2:] for repair in message.repairs}
    return [call for call in pending if call not in answered]


def unexpected_result(call: str, waiting: Sequence[str], *, late: bool) -> InputError:
    """The error for a result that no call is waiting for."""
    if late:
        return InputError(
            f"the result of {call!r} comes too late: the request under way says that the call was interrupted; if "
            "it matters, say it with user()"
        )
    return InputError(f"no call {call!r} waits for a result; those that do: {', '.join(waiting) or 'none'}")


def _goes_on(item: Item) -> bool:
    """Did the provider leave this answer open, to be sent back as it is?"""
    ending = item.shown[-1].kind
    return ending == "server_tool_use" or (ending.endswith("_tool_result") and ending != "tool_result")
