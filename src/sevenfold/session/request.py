"""A request in the shapes callers want it in: bytes, headers, or keyword arguments for an SDK's own method."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import msgspec

from sevenfold.conversation.session import Turn
from sevenfold.providers.wire import Api, Phrasing
from sevenfold.record.decisions import Why

KNOWN = frozenset(
    {
        "model",
        "max_tokens",
        "messages",
        "system",
        "tools",
        "cache_control",
        "container",
        "diagnostics",
        "inference_geo",
        "metadata",
        "output_config",
        "service_tier",
        "speed",
        "stop_sequences",
        "thinking",
        "tool_choice",
        "user_profile_id",
        "workspace_id",
    }
)
"""Fields Anthropic's plain methods have a parameter for; all others go in beside them. OpenAI's know all we send."""
HEADER = "anthropic-beta"


class Request(Mapping[str, Any]):
    """The next request. It is put together, and written down, when it is first looked at.

    ``client.messages.create(**request)`` sends it, or ``client.chat.completions.create`` or
    ``client.responses.create``: `wire` says which. `body` and `headers` are for those who send bytes. Every look at a
    field gives fresh objects, so changing one changes nothing else.
    """

    def __init__(self, turn: Turn, phrasing: Phrasing) -> None:
        self._turn = turn
        self._phrasing = phrasing

    @property
    def why(self) -> Why:
        """What was known and considered when it was prepared."""
        return self._turn.why

    @property
    def wire(self) -> Api:
        """The API it is put for."""
        return self._phrasing.api

    @cached_property
    def body(self) -> bytes:
        """The request as bytes: what our own client would send, and what can be had again later."""
        return self._phrasing.put(self._turn.prepared.body.raw)[1]

    @property
    def headers(self) -> dict[str, str]:
        """The headers it needs besides those every request has."""
        betas = self._turn.prepared.call.betas
        return {HEADER: ",".join(betas)} if betas and self.wire == "messages" else {}

    def __getitem__(self, name: str) -> Any:
        if name == "extra_headers":
            return self.headers
        if name == "extra_body":
            return {
                one: msgspec.json.decode(raw) for one, raw in self._fields.items() if not self._knows(one)
            }
        if not self._knows(name):
            raise KeyError(name)
        return msgspec.json.decode(self._fields[name])

    def __iter__(self) -> Iterator[str]:
        yield from (name for name in self._fields if self._knows(name))
        if not all(map(self._knows, self._fields)):
            yield "extra_body"
        if self.headers:
            yield "extra_headers"

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _knows(self, name: str) -> bool:
        return self.wire != "messages" or name in KNOWN

    @cached_property
    def _fields(self) -> Mapping[str, msgspec.Raw]:
        """The fields as bytes: decoded at every look, so that nobody shares an object with anybody."""
        return msgspec.json.decode(self.body, type=dict[str, msgspec.Raw])
