"""Converts what a caller's own client returned (an SDK object, a mapping, JSON, stream events) to a `Reply`.

The shape of an answer shows which API it comes from, so the provider that recognises it reads it, whichever API the
session's requests are built for. Anything that is not clearly an answer is refused: if recorded, it would look like an
empty answer of the model.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from sevenfold.errors import InputError
from sevenfold.ports import Reply
from sevenfold.providers import registry
from sevenfold.providers.provider import Provider
from sevenfold.record.blocks import THINKING, encode_json
from sevenfold.record.log import Answer
from sevenfold.wire.error_report import ErrorAnswer, MalformedAnswer
from sevenfold.wire.reader import NULL, Fields, error_answer, string_value

FINALS = ("get_final_message", "get_final_completion", "get_final_response")
"""Methods of the SDKs' streams that return the complete answer."""
ACCEPTED = (
    "accepted are a message of the Messages API, a chat completion and a response of the Responses API, as the "
    "SDK's object, a mapping or JSON, or the list of a stream's events"
)
NOTHING_WHOLE = "the answer has no complete block, so nothing of it is kept; prepare another request"


def reply_of(returned: Any, *, partial: bool = False, request_body: bytes = b"") -> Reply:
    """Read the answer to the request ``request_body`` from what a client returned; raises `InputError` if it has none.

    A ``partial`` answer may have no blocks, if none was complete.
    """
    if isinstance(returned, Reply | Answer):
        reply = returned if isinstance(returned, Reply) else Reply(returned)
        return _partial(reply) if partial else reply
    final = _final(returned)
    try:
        if _is_list(final):
            events = [_json(event) for event in final]
            if not events:
                kind = type(final).__name__
                raise InputError(f"the {kind} is empty, or was read already; {ACCEPTED}")
            return _from_events(events, partial, request_body)
        reply = _from_body(_json(final), request_body, getattr(final, "_request_id", None))
    except ErrorAnswer as error:
        raise InputError(f"this is an error, not an answer ({error}); pass it to failed()") from None
    except (MalformedAnswer, msgspec.DecodeError) as error:
        raise InputError(f"this cannot be read as an answer ({error}); {ACCEPTED}") from None
    except RecursionError:
        raise InputError("this cannot be read as an answer: it is nested too deeply") from None
    return _partial(reply) if partial else reply


async def settled(returned: Any) -> Any:
    """Wait for an async stream and return its events or its final answer; anything else is returned unchanged."""
    if hasattr(returned, "__aiter__") and not any(hasattr(returned, name) for name in FINALS):
        return [event async for event in returned]
    final = _final(returned)
    return await final if inspect.isawaitable(final) else final


def _final(returned: Any) -> Any:
    finals = (getattr(returned, name, None) for name in FINALS)
    final = next(filter(callable, finals), None)
    return returned if final is None else final()


def _is_list(answer: Any) -> bool:
    single = isinstance(answer, str | bytes | bytearray | Mapping) or hasattr(answer, "to_dict")
    return isinstance(answer, Iterable) and not single


def _json(answer: Any) -> bytes:
    match answer:
        case bytes() | bytearray():
            return bytes(answer)
        case str():
            return answer.encode()
        case Mapping():
            return encode_json(answer)
    try:
        # Leave out fields the provider did not send: adding them as nulls would change what is sent back.
        return encode_json(answer.to_dict(mode="json", exclude_unset=True))
    except (AttributeError, TypeError):
        raise InputError(f"a {type(answer).__name__} is not an answer; {ACCEPTED}") from None


def _from_body(raw: bytes, request_body: bytes, request_id: str | None) -> Reply:
    fields = msgspec.json.decode(raw, type=Fields)
    return _claiming(fields, event=False).read(raw, asked=request_body, request_id=request_id)


def _from_events(events: Sequence[bytes], partial: bool, request_body: bytes) -> Reply:
    fields = msgspec.json.decode(events[0], type=Fields)
    reader = _claiming(fields, event=True).reader(request_body)
    for event in events:
        reader.event(event)
    if reader.whole:
        return reader.reply(None)
    if not partial:
        raise InputError(
            "the stream ended in the middle of the answer; pass partial=True to keep its complete blocks"
        )
    answer = reader.partial(None)
    if answer is None:
        raise InputError(NOTHING_WHOLE)
    return _spoken(Reply(answer))


def _claiming(fields: Fields, *, event: bool) -> Provider:
    provider = registry.claiming(fields, event=event)
    if provider is not None:
        return provider
    if bytes(fields.get("error", NULL)) != b"null":
        raise error_answer(msgspec.json.encode(fields))
    kind = string_value(fields.get("object", NULL)) or string_value(fields.get("type", NULL))
    named = f"a {kind}" if kind else f"something with the fields {', '.join(fields) or 'none'}"
    raise InputError(f"{named} is not an answer; {ACCEPTED}")


def _partial(reply: Reply) -> Reply:
    """Keep only the complete blocks of an answer that broke off; unfinished text counts as complete."""
    content = reply.answer.blocks
    if reply.answer.stop_reason is None and content and content[-1].kind != "text":
        content = content[:-1]
    return _spoken(replace(reply, answer=replace(reply.answer, blocks=content)))


def _spoken(reply: Reply) -> Reply:
    """Drop blank blocks and trailing thinking: an answer that ends in thinking cannot be sent back."""
    spoken = [block for block in reply.answer.blocks if not block.blank]
    while spoken and spoken[-1].kind in THINKING:
        spoken.pop()
    return replace(reply, answer=replace(reply.answer, blocks=tuple(spoken)))
