"""The Messages API: requests, in the format that the engine itself uses."""

from __future__ import annotations

from collections.abc import Collection

import msgspec
from msgspec import Raw

STREAM = b',"stream":true}'


def streaming(body: bytes) -> bytes:
    """The body with ``"stream": true`` added at its end; all other bytes are unchanged."""
    end = body.rindex(b"}")
    empty = body.find(b'"', 0, end) < 0
    return b"".join((memoryview(body)[:end], STREAM[1:] if empty else STREAM))


def only(body: bytes, names: Collection[str]) -> bytes:
    """The body with these fields alone, in their order."""
    fields = msgspec.json.decode(body, type=dict[str, Raw])
    return msgspec.json.encode({name: value for name, value in fields.items() if name in names})


def threaded(body: bytes, previous: str, covered: int) -> bytes:
    """The body as a part of a message thread.

    It begins one if ``previous`` is empty. Otherwise it continues the one with that answer: the provider has the first
    ``covered`` messages, the system prompt and the tools.
    """
    fields = msgspec.json.decode(body, type=dict[str, Raw])
    if not previous:
        return msgspec.json.encode({**fields, "thread": {"type": "create"}})
    messages = msgspec.json.decode(fields["messages"], type=list[Raw])[covered:]
    continued = {name: value for name, value in fields.items() if name not in ("system", "tools")}
    thread = {"type": "continue", "previous_message_id": previous}
    return msgspec.json.encode({**continued, "messages": messages, "thread": thread})
