"""What a caller's own client gave back, as the engine knows it: answers and errors of any shape.

An answer says by its shape which API it comes from, so it is read by the reader of that API, whichever the session's
requests are put for. What is not clearly an answer is refused: recorded, it would pass for a model that said nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from sevenfold.errors import InputError, ModelError
from sevenfold.ports import Reply
from sevenfold.profiles import Profile
from sevenfold.providers import failures
from sevenfold.providers.anthropic.stream import MessagesReader, Reader
from sevenfold.providers.failures import Complained, Garbled
from sevenfold.providers.failures import Place as Asked
from sevenfold.providers.keys import ANTHROPIC, OPENAI
from sevenfold.providers.openai.chat_stream import ChatReader
from sevenfold.providers.openai.client import seeded
from sevenfold.providers.openai.responses_stream import ResponsesReader
from sevenfold.providers.wire import Api
from sevenfold.record.blocks import THINKING, encode_json
from sevenfold.record.log import Answer

Fields = dict[str, Raw]
Seed = Callable[[], str]
FINALS = ("get_final_message", "get_final_completion", "get_final_response")
"""How the SDKs' streams give what they put together."""
ACCEPTED = (
    "what is taken is a message of the Messages API, a chat completion or a response of the Responses API, as the "
    "SDK's object, a mapping or JSON, or the list of a stream's events"
)
NOTHING_WHOLE = "nothing of this answer is whole, so there is nothing to keep; prepare another request"


def reply_of(given: Any, *, partial: bool = False, asked: bytes = b"") -> Reply:
    """The answer in whatever came back for the request ``asked``; raises if there is none in it."""
    if isinstance(given, Reply | Answer):
        reply = given if isinstance(given, Reply) else Reply(given)
        return _partial(reply) if partial else reply
    came = _final(given)
    try:
        if _is_list(came):
            events = [_json(one) for one in came]
            if not events:
                kind = type(came).__name__
                raise InputError(f"a {kind} is no answer when it is empty, or was read already; {ACCEPTED}")
            return _from_events(events, partial, seeded(asked))
        reply = _from_body(_json(came), seeded(asked), getattr(came, "_request_id", None))
    except Complained as error:
        raise InputError(f"this is an error, not an answer ({error}); give it to failed()") from None
    except (Garbled, msgspec.DecodeError) as error:
        raise InputError(f"this cannot be read as an answer ({error}); {ACCEPTED}") from None
    except RecursionError:
        raise InputError("this cannot be read as an answer: it is nested too deeply") from None
    return _partial(reply) if partial else reply


async def settled(given: Any) -> Any:
    """What an asynchronous stream comes to; anything else as it is."""
    if hasattr(given, "__aiter__") and not any(hasattr(given, name) for name in FINALS):
        return [one async for one in given]
    found = _final(given)
    return await found if inspect.isawaitable(found) else found


def error_of(given: Exception, profile: Profile) -> ModelError | None:
    """The error in an SDK's exception; None for one that has nothing to do with a model."""
    if isinstance(given, ModelError):
        return given
    sdk = type(given).__module__.partition(".")[0]
    provider = OPENAI if sdk == "openai" else ANTHROPIC
    if sdk not in (OPENAI.sdk, ANTHROPIC.sdk, "httpx2"):
        return None
    return failures.of(given, provider.load(), Asked(provider, provider.url, profile.model))


def _final(given: Any) -> Any:
    finals = (getattr(given, name, None) for name in FINALS)
    final = next(filter(callable, finals), None)
    return given if final is None else final()


def _is_list(came: Any) -> bool:
    single = isinstance(came, str | bytes | bytearray | Mapping) or hasattr(came, "to_dict")
    return isinstance(came, Iterable) and not single


def _json(came: Any) -> bytes:
    match came:
        case bytes() | bytearray():
            return bytes(came)
        case str():
            return came.encode()
        case Mapping():
            return encode_json(came)
    dump = getattr(came, "to_dict", None)
    if dump is None:
        raise InputError(f"a {type(came).__name__} is no answer; {ACCEPTED}")
    # Fields the provider did not send are left out: adding them as nulls would change what is sent back.
    return encode_json(dump(mode="json", exclude_unset=True))


def _from_body(raw: bytes, seed: Seed, request_id: str | None) -> Reply:
    fields = msgspec.json.decode(raw, type=Fields)
    reader = _reader(_api_of_body(fields), fields, seed)
    reader.body(raw)
    return reader.reply(request_id)


def _from_events(events: Sequence[bytes], partial: bool, seed: Seed) -> Reply:
    fields = msgspec.json.decode(events[0], type=Fields)
    reader = _reader(_api_of_event(fields), fields, seed)
    for event in events:
        reader.event(event)
    if reader.whole:
        return reader.reply(None)
    if not partial:
        raise InputError(
            "this stream ended in the middle of the answer; partial=True keeps what is whole of it"
        )
    answer = reader.partial(None)
    if answer is None:
        raise InputError(NOTHING_WHOLE)
    return _spoken(Reply(answer))


def _reader(api: Api | None, fields: Fields, seed: Seed) -> Reader:
    match api:
        case "messages":
            return MessagesReader()
        case "chat":
            return ChatReader(seed)
        case "responses":
            return ResponsesReader(seed)
    if bytes(fields.get("error", b"null")) != b"null":
        raise Complained(failures.read(msgspec.json.decode(msgspec.json.encode(fields))))
    kind = _word(fields, "object") or _word(fields, "type")
    named = f"a {kind}" if kind else f"something with the fields {', '.join(fields) or 'none'}"
    raise InputError(f"{named} is no answer; {ACCEPTED}")


def _api_of_body(fields: Fields) -> Api | None:
    kind = _word(fields, "object")
    if kind == "chat.completion" or (not kind and "choices" in fields):
        return "chat"
    if kind == "response":
        return "responses"
    said = _word(fields, "type") == "message" or _word(fields, "role") == "assistant"
    return "messages" if said and _word(fields, "id") and "content" in fields else None


def _api_of_event(fields: Fields) -> Api | None:
    kind = _word(fields, "type")
    if "choices" in fields:
        return "chat"
    if kind.startswith("response."):
        return "responses"
    return "messages" if kind == "message_start" else None


def _word(fields: Fields, name: str) -> str:
    value = msgspec.json.decode(fields.get(name, b'""'))
    return value if isinstance(value, str) else ""


def _partial(reply: Reply) -> Reply:
    """Of an answer that broke off only what is whole is kept; unfinished text counts as whole."""
    found = reply.answer.blocks
    if reply.answer.stop_reason is None and found and found[-1].kind != "text":
        found = found[:-1]
    return _spoken(
        msgspec.structs.replace(reply, answer=msgspec.structs.replace(reply.answer, blocks=found))
    )


def _spoken(reply: Reply) -> Reply:
    """Reasoning at the end is let go: an answer that ends in it cannot be sent back."""
    spoken = [block for block in reply.answer.blocks if not block.blank]
    while spoken and spoken[-1].kind in THINKING:
        spoken.pop()
    if not spoken:
        raise InputError(NOTHING_WHOLE)
    return msgspec.structs.replace(
        reply, answer=msgspec.structs.replace(reply.answer, blocks=tuple(spoken))
    )
