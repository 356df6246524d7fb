"""Our own calls for a program's conversation: as the program makes its own, and behind what was sent for it last.

The conversation as we record it may be laid out in another way than what the program sends: its first messages stay in
front of our summary, for example. Written anew, a request for a summary would read nothing from the provider's cache.
A provider may also ask for more than a credential: an account, the name of the program, a field of the body. So our
calls have the headers and fields of the program's newest request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from sevenfold.doors.follower.identity import SESSION
from sevenfold.ports import Call, Client, Inherited, Reply, Watcher
from sevenfold.wire.brokered import BROKER_HEADERS
from sevenfold.wire.client_request import ClientRequest
from sevenfold.wire.reader import Fields

_fields = msgspec.json.Decoder(Fields)
_raws = msgspec.json.Decoder(list[Raw])
_FRONT = ("tools", "system")
_OF_THE_CONNECTION = frozenset(
    {"connection", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
    | {"proxy-authorization", "proxy-connection"}
)
_OF_THE_BODY = frozenset({"content-encoding", "content-length", "content-md5", "content-type", "digest"})
_OF_ONE_REQUEST = frozenset(
    {"accept", "accept-encoding", "anthropic-beta", "idempotency-key", "traceparent", "tracestate"}
    | {"x-client-request-id", "x-request-id", "x-stainless-helper-method", "x-stainless-retry-count"}
    | {"x-stainless-read-timeout", "x-stainless-timeout"}
)
"""Headers that say something about one request, or name it. Beta features belong to what precedes the messages."""
_NOT_INHERITED = _OF_THE_CONNECTION | _OF_THE_BODY | _OF_ONE_REQUEST | BROKER_HEADERS | {SESSION}
_INHERITED_FIELDS = (
    "metadata",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning",
    "reasoning_effort",
    "safety_identifier",
    "service_tier",
    "user",
)
"""Fields of OpenAI's APIs that decide who is billed, which cache is asked, and how long the model thinks. In the
Messages API all fields are part of what precedes the messages."""


def inherited_from(headers: Mapping[str, str], request: ClientRequest) -> Inherited:
    """What our own calls take over from a request of a program."""
    kept = {name: value for name, value in headers.items() if name not in _NOT_INHERITED}
    if request.api == "messages":
        return Inherited(kept)
    fields = {name: request.fields[name] for name in _INHERITED_FIELDS if name in request.fields}
    return Inherited(kept, fields)


class NewestRequest(Struct, frozen=True):
    """The newest request of a program, as our own calls go by it."""

    sent: bytes = b""
    """The body that was sent for it; empty where our calls cannot stand behind it."""
    inherited: Inherited = Inherited()


class CallsLikeTheProgram:
    """A client that asks as a program does and, where a call shows it, behind the newest body that was sent."""

    def __init__(self, client: Client, newest: Callable[[], NewestRequest]) -> None:
        self._client = client
        self._newest = newest
        self._failed_behind = b""
        """The body behind which a call failed: it may have been too long, and the next one is shorter."""

    def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        """Send the request and wait for the complete answer."""
        newest = self._newest()
        sent = newest.sent
        call = replace(call, inherited=newest.inherited)
        behind = None if sent == self._failed_behind else behind_sent(call.body, sent)
        if behind is None:
            return self._client.ask(call, watch)
        try:
            return self._client.ask(replace(call, body=behind), watch)
        except Exception:
            self._failed_behind = sent
            raise

    def close(self) -> None:
        """Close all connections."""
        self._client.close()


def behind_sent(own: bytes, sent: bytes) -> bytes | None:
    """Our own body with what was sent in place of the messages that show it; None if they show something else."""
    if not sent:
        return None
    own_fields = _fields.decode(own)
    sent_fields = _fields.decode(sent)
    if any(_compared(own_fields.get(name)) != _compared(sent_fields.get(name)) for name in _FRONT):
        return None
    own_messages = _raws.decode(own_fields["messages"])
    sent_messages = _raws.decode(sent_fields["messages"])
    tail = _tail(own_messages, sent_messages[-1])
    if tail is None:
        return None
    fronts = {name: sent_fields[name] for name in _FRONT if name in sent_fields}
    messages = Raw(msgspec.json.encode([*sent_messages, *tail]))
    return msgspec.json.encode({**own_fields, **fronts, "messages": messages})


def _tail(messages: Sequence[Raw], last_sent: Raw) -> Sequence[Raw] | None:
    """What follows the last message that was sent: the answer to it, if it is shown, and the instruction."""
    sent = _compared(last_sent)
    for behind in (1, 2):
        if len(messages) > behind and _compared(messages[-behind - 1]) == sent:
            return messages[-behind:]
    return None


def _compared(raw: Raw | None) -> object:
    """The value without cache markers, and a text as the block that it stands for."""
    return None if raw is None else _unmarked(msgspec.json.decode(raw))


def _unmarked(value: object) -> object:
    if isinstance(value, list):
        return [_unmarked(each) for each in value]
    if not isinstance(value, dict):
        return value
    unmarked = {name: _unmarked(each) for name, each in value.items() if name != "cache_control"}
    if isinstance(content := unmarked.get("content"), str):
        unmarked["content"] = [{"type": "text", "text": content}]
    return unmarked
