"""A request in the shapes callers want it in: bytes, headers, or keyword arguments for an SDK's own method."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import msgspec

from sevenfold.record.decisions import Why
from sevenfold.runtime.session import Turn

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
"""Fields the SDK's plain methods have a parameter for; all others go in beside them."""
HEADER = "anthropic-beta"


class Request(Mapping[str, Any]):
    """The next request. It is put together, and written down, when it is first looked at.

    ``client.messages.create(**request)`` sends it; `body` and `headers` are for those who send bytes. Every look
    at a field gives fresh objects, so changing one changes nothing else.
    """

    def __init__(self, turn: Turn) -> None:
        self._turn = turn

    @property
    def why(self) -> Why:
        """What was known and considered when it was prepared."""
        return self._turn.why

    @property
    def body(self) -> bytes:
        """The request as bytes: what is on record, hashed, and can be had again later."""
        return self._turn.prepared.body.raw

    @property
    def headers(self) -> dict[str, str]:
        """The headers it needs besides those every request has."""
        betas = self._turn.prepared.call.betas
        return {HEADER: ",".join(betas)} if betas else {}

    def __getitem__(self, name: str) -> Any:
        if name == "extra_headers":
            return self.headers
        if name == "extra_body":
            return {one: msgspec.json.decode(raw) for one, raw in self._fields.items() if one not in KNOWN}
        if name not in KNOWN:
            raise KeyError(name)
        return msgspec.json.decode(self._fields[name])

    def __iter__(self) -> Iterator[str]:
        yield from (name for name in self._fields if name in KNOWN)
        if self._fields.keys() - KNOWN:
            yield "extra_body"
        if self.headers:
            yield "extra_headers"

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @cached_property
    def _fields(self) -> Mapping[str, msgspec.Raw]:
        """The fields as bytes: decoded at every look, so that nobody shares an object with anybody."""
        return msgspec.json.decode(self.body, type=dict[str, msgspec.Raw])
