"""What a caller's own client gave back, as the engine knows it: answers and errors of any shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from sevenfold.adapters import failures
from sevenfold.adapters.failures import Complained, Garbled
from sevenfold.adapters.failures import Place as Asked
from sevenfold.adapters.keys import ANTHROPIC, OPENAI
from sevenfold.adapters.streams import MessagesReader
from sevenfold.errors import InputError, ModelError
from sevenfold.ports import Reply
from sevenfold.profiles import Profile
from sevenfold.record import canonical
from sevenfold.record.blocks import THINKING
from sevenfold.record.log import Answer


def reply_of(given: Any, *, partial: bool = False) -> Reply:
    """The answer in an SDK's message, a stream that ended, a mapping, bytes, or a reply of ours."""
    if isinstance(given, Reply | Answer):
        reply = given if isinstance(given, Reply) else Reply(given)
        return _partial(reply) if partial else reply
    reader = MessagesReader()
    try:
        reader.body(_bytes(given))
    except Complained as error:
        raise InputError(f"this is an error, not an answer ({error}); give it to failed()") from None
    except (Garbled, msgspec.DecodeError) as error:
        raise InputError(f"this cannot be read as an answer of the Messages API: {error}") from None
    reply = reader.reply(getattr(given, "_request_id", None))
    if not reply.answer.id:
        raise InputError("this is no answer of the Messages API: it has no id")
    return _partial(reply) if partial else reply


def error_of(given: Exception, profile: Profile) -> ModelError | None:
    """The error in an SDK's exception; None for one that has nothing to do with a model."""
    if isinstance(given, ModelError):
        return given
    sdk = type(given).__module__.partition(".")[0]
    provider = OPENAI if sdk == "openai" else ANTHROPIC
    if sdk not in (OPENAI.sdk, ANTHROPIC.sdk, "httpx2"):
        return None
    return failures.of(given, provider.load(), Asked(provider, provider.url, profile.model))


def _bytes(given: Any) -> bytes:
    match given:
        case bytes() | bytearray():
            return bytes(given)
        case str():
            return given.encode()
        case Mapping():
            return canonical.encode(given)
    if callable(getattr(given, "get_final_message", None)):
        given = given.get_final_message()
    dump = getattr(given, "to_dict", None)
    if dump is None:
        raise InputError(
            f"a {type(given).__name__} is no answer; give the SDK's message, a mapping, or the response's bytes"
        )
    # Fields the provider did not send are left out: adding them as nulls would change what is sent back.
    return canonical.encode(dump(mode="json", exclude_unset=True))


def _partial(reply: Reply) -> Reply:
    """Of an answer that broke off only what is whole is kept; unfinished text counts as whole.

    Reasoning at the end is let go: an answer that ends in it cannot be sent back.
    """
    found = list(reply.answer.blocks)
    if reply.answer.stop_reason is None and found and found[-1].kind != "text":
        found.pop()
    spoken = [block for block in found if not block.blank]
    while spoken and spoken[-1].kind in THINKING:
        spoken.pop()
    if not spoken:
        raise InputError(
            "nothing of this answer is whole, so there is nothing to keep; prepare another request"
        )
    return msgspec.structs.replace(
        reply, answer=msgspec.structs.replace(reply.answer, blocks=tuple(spoken))
    )
