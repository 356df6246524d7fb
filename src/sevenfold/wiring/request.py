"""A request in the shapes callers want it in: bytes, headers, or keyword arguments for an SDK's own method."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from sevenfold.record.decisions import Why
from sevenfold.runtime.session import Turn

BETA_FIELDS = frozenset({"compaction", "context_management", "fallbacks", "mcp_servers", "thread"})
"""Fields the plain method does not know; they go in beside those it does."""
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
        fields = self._fields()
        if name == "extra_body":
            return {one: msgspec.json.decode(fields[one]) for one in fields if one in BETA_FIELDS}
        return msgspec.json.decode(fields[name])

    def __iter__(self) -> Iterator[str]:
        fields = self._fields()
        yield from (name for name in fields if name not in BETA_FIELDS)
        if BETA_FIELDS & fields.keys():
            yield "extra_body"
        if self.headers:
            yield "extra_headers"

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _fields(self) -> dict[str, msgspec.Raw]:
        return msgspec.json.decode(self.body, type=dict[str, msgspec.Raw])
