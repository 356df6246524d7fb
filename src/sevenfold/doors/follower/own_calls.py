"""Our own calls for a program's conversation, made behind exactly what was sent for it last.

The conversation as we record it may be laid out in another way than what the program sends: its first messages stay in
front of our summary, for example. Written anew, a request for a summary would read nothing from the provider's cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from sevenfold.ports import Call, Client, Reply, Watcher
from sevenfold.wire.reader import Fields

_fields = msgspec.json.Decoder(Fields)
_raws = msgspec.json.Decoder(list[Raw])
_FRONT = ("tools", "system")


class BehindSentMessages:
    """A client that asks behind the newest body that was sent, where that is what a call shows."""

    def __init__(self, client: Client, sent: Callable[[], bytes]) -> None:
        self._client = client
        self._sent = sent
        self._failed_behind = b""
        """The body behind which a call failed: it may have been too long, and the next one is shorter."""

    def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        """Send the request and wait for the complete answer."""
        sent = self._sent()
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
