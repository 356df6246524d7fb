"""Converts the caller's input (a text, a list of blocks, tool results) into content blocks that can be sent.

Everything is checked before it is recorded, because a recorded block is sent again with every request. A user message
must consist of valid content blocks. A tool result may be any Python value; one that is not made of blocks becomes
text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from sevenfold.errors import InputError, SevenfoldError
from sevenfold.record import blocks
from sevenfold.record.blocks import THINKING, Block, encode_json
from sevenfold.record.view import View
from sevenfold.record.wire import Message
from sevenfold.wire import foreign, shapes
from sevenfold.wire.shapes import Shapes, bare

Content = str | Block | Mapping[str, Any] | Iterable["str | Block | Mapping[str, Any]"]
_BYTES = (bytes, bytearray, memoryview)
_USERS_ALONE = frozenset({"image", "document", "search_result", "tool_result", "container_upload"})
_RESULT_FIELDS = ("type", "tool_use_id", "content", "is_error", "toolset_name")
NOTHING = "there is nothing in this message: a text needs at least one visible character"


def message(content: Content) -> list[Block]:
    """The blocks of a user message; raises an `InputError` that names an invalid part."""
    if isinstance(content, str) and content.strip():
        return [_block(content, "content[0]", shapes.USER)]
    if not (parsed := list(user_blocks(content))):
        raise InputError(NOTHING)
    for index, block in enumerate(parsed):
        if block.kind == "tool_result":
            raise InputError(
                f"content[{index}] is the result of {block.id or 'a call'}; give results with tool_results()"
            )
    return parsed


def user_blocks(content: Content) -> Iterator[Block]:
    """The blocks of a message with the user role, which may include tool results; blank texts are left out."""
    for path, entry in _parts(content):
        result = isinstance(entry, Mapping) and entry.get("type") == "tool_result"
        yield from _said(_given_result(entry, path) if result else _block(entry, path, shapes.USER))


def answer_blocks(content: Content) -> Iterator[Block]:
    """The blocks of an imported model answer; blank texts are left out."""
    for path, entry in _parts(content):
        yield from _said(_block(entry, path, shapes.ANSWER))


def _said(block: Block) -> tuple[Block, ...]:
    return () if block.kind == "text" and not blocks.words_of(block).strip() else (block,)


def _parts(content: Content) -> Iterator[tuple[str, Any]]:
    listed = (
        [content] if isinstance(content, str | Block | Mapping) else _listed(content, "a message", "a text")
    )
    for index, entry in enumerate(listed):
        plain = entry if isinstance(entry, str | Block | Mapping) else _dumped(entry)
        yield f"content[{index}]", foreign.part(plain) if isinstance(plain, Mapping) else plain


def _block(entry: Any, path: str, allowed: Shapes) -> Block:
    """Convert a text or a mapping to a block; raises `InputError` if it has none of the ``allowed`` shapes."""
    if isinstance(entry, Block):
        return entry
    if isinstance(entry, str):
        return blocks.read(_encoded({"type": "text", "text": entry}, path))
    if not isinstance(entry, Mapping):
        raise InputError(f"{path} is a {type(entry).__name__}; give a text or a content block")
    answers = allowed is shapes.ANSWER
    block = blocks.read(_encoded(bare(entry, said_by_model=answers), path))
    if not block.kind:
        raise InputError(f"{path} has no type; a content block is a mapping with a type")
    if answers and block.kind in _USERS_ALONE:
        raise InputError(f"{path} is a {block.kind} block, which is not part of an answer")
    if answers and block.kind not in ("text", "tool_use"):
        return block
    if not answers and (block.kind == "tool_use" or block.kind in THINKING):
        raise InputError(
            f"{path} is a {block.kind} block, which only a model says; give answers with observe(), "
            "or a whole conversation with messages()"
        )
    if wrong := shapes.problem(block.raw, allowed):
        raise InputError(f"{path} is not a content block a provider accepts: {wrong}")
    return block


def _listed(value: Any, subject: str, wanted: str) -> list[Any]:
    if isinstance(value, _BYTES):
        raise InputError(f"{subject} is bytes; decode it, or send it as base64 in a content block")
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InputError(
            f"{subject} is a {type(value).__name__}; give {wanted} or a list of content blocks"
        )
    return _all_of(value, subject)


def _all_of(values: Iterable[Any], subject: str) -> list[Any]:
    """Everything that an iterable of the caller's yields; raises `InputError` if it fails while it is read."""
    try:
        return list(values)
    except SevenfoldError:
        raise
    except Exception as error:
        raise InputError(
            f"{subject} cannot be read: its iteration raised {type(error).__name__}"
        ) from error


def _encoded(value: Any, path: str) -> bytes:
    try:
        return encode_json(value)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _dumped(value: Any) -> Any:
    """Convert an SDK object to plain data with its own method; anything else is returned unchanged."""
    dump = getattr(value, "to_dict", None) or getattr(value, "model_dump", None)
    if not callable(dump) or isinstance(value, type):
        return value
    try:
        return dump()
    except Exception:  # noqa: BLE001 (any object may have a method of that name)
        return value


def converted_messages(listed: Iterable[Any]) -> list[Any]:
    """A list of messages of any API as messages of the Messages API; raises `InputError` if it is no list."""
    if isinstance(listed, (*_BYTES, str, Mapping)) or not isinstance(listed, Iterable):
        raise InputError(f"messages must be a list of messages, got a {type(listed).__name__}")
    return _all_of(foreign.messages(listed), "the list of messages")


# Tool results


def results(answers: Mapping[str, Any] | Iterable[Any]) -> list[Block]:
    """Convert tool results: a mapping from call id to value, ``tool_result`` blocks, or results of OpenAI's APIs."""
    if isinstance(answers, Mapping):
        if answers.get("type") != "tool_result" and foreign.result(answers) is None:
            return [result(call, value) for call, value in answers.items()]
        answers = [answers]
    listed = _listed(answers, "what tools answered", "a mapping from calls to results")
    return [_one_result(answer, f"results[{index}]") for index, answer in enumerate(listed)]


def _one_result(answer: Any, path: str) -> Block:
    plain = answer if isinstance(answer, Mapping | Block) else _dumped(answer)
    if (theirs := foreign.result(plain)) is not None:
        return result(*theirs)
    if isinstance(plain, Mapping) and plain.get("type") == "tool_result":
        return _given_result(plain, path)
    if isinstance(plain, Block) and plain.kind == "tool_result" and plain.id:
        return plain
    raise InputError(
        f"{path} is not a tool result; give a mapping from the call's id to its content, or blocks "
        'of the form {"type": "tool_result", "tool_use_id": …, "content": …}'
    )


def _given_result(mapping: Mapping[str, Any], path: str) -> Block:
    """A ``tool_result`` block given by the caller, with its content made sendable."""
    call = mapping.get("tool_use_id")
    if not isinstance(call, str) or not call:
        raise InputError(f"{path} is not a tool result: its tool_use_id is {call!r}")
    fields = {
        name: mapping[name] for name in mapping if name in _RESULT_FIELDS and mapping[name] is not None
    }
    if "content" in fields:
        fields["content"] = _sendable_at(fields["content"], path)
    if "is_error" in fields:
        fields["is_error"] = bool(fields["is_error"])
    if not isinstance(fields.get("toolset_name", ""), str):
        del fields["toolset_name"]
    return Block("tool_result", _encoded(fields, path), call)


def result(call: str, value: Any, *, is_error: bool = False) -> Block:
    """The result block for a call, from whatever value its tool returned."""
    if not isinstance(call, str) or not call:
        raise InputError(f"a result belongs to a call: {call!r} is not the id of one")
    content = _sendable_at(value, f"the result of {call}")
    fields: dict[str, Any] = {"type": "tool_result", "tool_use_id": call, "content": content}
    if is_error:
        fields["is_error"] = True
    return Block("tool_result", _encoded(fields, f"the result of {call}"), call)


def _sendable_at(value: Any, path: str) -> str | list[Any]:
    try:
        return sendable(value)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def sendable(value: Any) -> str | list[Any]:
    """Convert a value to the content of a tool result: its blocks if it is made of blocks, else text."""
    if isinstance(value, str):
        return _whole_characters(value)
    if isinstance(value, Iterator):
        value = list(value)
    listed = value if isinstance(value, list | tuple) else [value]
    content = [_result_part(entry) for entry in listed]
    if content and all(block is not None for block in content):
        return [block for block in content if block and block.get("text", "x").strip()]
    return "" if value is None or value in ([], ()) else _text_of(value)


def _result_part(value: Any) -> Mapping[str, Any] | None:
    """A part of a result in the API's form; None if it is not a valid block."""
    if isinstance(value, str):
        return {"type": "text", "text": _whole_characters(value)}
    value = _dumped(value)
    if not isinstance(value, Mapping):
        return None
    block = bare(foreign.part(value))
    try:
        return None if shapes.problem(encode_json(block), shapes.RESULT) else block
    except InputError:
        return None


def _text_of(value: Any) -> str:
    """Convert any value to text: JSON where it can be expressed in JSON, otherwise Python's `str`."""
    if isinstance(value, _BYTES):
        return bytes(value).decode(errors="replace")
    try:
        plain = msgspec.to_builtins(value, str_keys=True, enc_hook=_described)
        text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        try:
            text = str(_described(value))
        except RecursionError:
            raise InputError(f"{_way_down(value)}: {blocks.TOO_DEEP}") from None
    return _whole_characters(text)


_SHOWN_LEVELS = 4


def _way_down(value: Any) -> str:
    """The path to the first value some levels down."""
    path = "$"
    for _ in range(_SHOWN_LEVELS):
        inner: list[tuple[Any, Any]] = []
        if isinstance(value, Mapping):
            inner = [(f".{key}", child) for key, child in value.items()]
        elif isinstance(value, list | tuple):
            inner = [(f"[{index}]", child) for index, child in enumerate(value)]
        nested = [(step, child) for step, child in inner if isinstance(child, Mapping | list | tuple)]
        if not nested:
            return path
        step, value = nested[0]
        path += step
    return f"{path}…"


def _described(value: Any) -> Any:
    dumped = _dumped(value)
    if dumped is not value:
        return dumped
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence | Iterator):
        return list(value)
    try:
        return f"{type(value).__name__}: {value}" if isinstance(value, BaseException) else str(value)
    except Exception:  # noqa: BLE001 (a value of the caller's, with a method of the caller's)
        return f"a {type(value).__name__}"


def _whole_characters(text: str) -> str:
    """The text with lone surrogates joined into pairs or replaced, because JSON cannot express them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


# What may be sent next


def must_have_news(view: View) -> None:
    """Raise `InputError` if the next request would contain nothing new, or only some of the pending tool results."""
    waiting = view.pending_calls
    newest = view.newest
    if newest is None:
        raise InputError("there is nothing to send yet: say something with user() first")
    # An answer of the provider's own tools is sent back to be continued, but not while our calls in it are unanswered.
    if newest.record.role == "assistant" and (waiting or not _goes_on(view.messages()[-1])):
        need = f"tool_results() for {', '.join(waiting)}" if waiting else "user()"
        raise InputError(f"the model spoke last, so there is nothing new to send: call {need} first")
    # A system message after an incomplete set of results does not complete it.
    heard = next((item for item in reversed(view.items) if item.shown and item.role != "system"), newest)
    if waiting and heard.record.answers:
        raise InputError(
            f"calls still wait for results: {', '.join(waiting)}; give them with tool_results() first"
        )


def still_waiting(pending: Sequence[str], sent: Sequence[Message]) -> list[str]:
    """The pending calls, except those that the messages being sent report as interrupted."""
    answered = set()
    for message in sent[-2:]:
        for repair in message.repairs:
            answered.add(repair.subject)
    return [call for call in pending if call not in answered] if answered else list(pending)


def unexpected_result(call: str, waiting: Sequence[str], *, late: bool) -> InputError:
    """The error for a result that no call is waiting for."""
    if late:
        return InputError(
            f"the result of {call!r} comes too late: the request under way says that the call was interrupted; if "
            "it matters, say it with user()"
        )
    return InputError(f"no call {call!r} waits for a result; those that do: {', '.join(waiting) or 'none'}")


def _goes_on(message: Message) -> bool:
    """Whether the provider left this answer unfinished, so that it is sent back unchanged to be continued.

    Only the message as it is sent can tell: if the call has left the view, there may be nothing left to continue.
    """
    ending = message.parts[-1].kind
    return ending == "server_tool_use" or (ending.endswith("_tool_result") and ending != "tool_result")
