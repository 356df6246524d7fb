"""What a session hands to a program besides answers: requests, explanations, and what can be asked of a compaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, TypedDict

import msgspec
from msgspec import Struct

from sevenfold.conversation.conversation import Conversation
from sevenfold.conversation.history import Past
from sevenfold.conversation.request import Pending
from sevenfold.layers.compact.request import EngineName
from sevenfold.layers.compact.scope import Span
from sevenfold.providers.provider import Provider, Put
from sevenfold.record.decisions import Why

EXTRAS = ("extra_body", "extra_headers")
"""Arguments that can always be looked up, so that a caller can pass them on by name even if they are empty."""


class Request(Mapping[str, Any]):
    """The next request. It is put together, and written to the log, when it is first looked at.

    ``client.messages.create(**request)`` sends it, or ``client.chat.completions.create`` or
    ``client.responses.create``: `wire` says which. `body` and `headers` are for callers that send bytes. Every look at
    a field gives fresh objects, so changing one changes nothing else.
    """

    def __init__(self, conversation: Conversation, pending: Pending, provider: Provider) -> None:
        self._conversation = conversation
        self._pending = pending
        self._provider = provider

    @property
    def why(self) -> Why:
        """What was known and considered when it was prepared."""
        return self._pending.why

    @property
    def wire(self) -> str:
        """The API it is put for."""
        return self._provider.name

    @property
    def body(self) -> bytes:
        """The request as bytes: what our own client would send, and what `Session.at` returns later."""
        return self._put.body

    @property
    def headers(self) -> dict[str, str]:
        """The headers it needs in addition to those of every request."""
        return dict(self._put.headers)

    def __getitem__(self, name: str) -> Any:
        if name in EXTRAS and name not in self._arguments:
            return {}
        return msgspec.json.decode(self._arguments[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._arguments)

    def __len__(self) -> int:
        return len(self._arguments)

    @cached_property
    def _put(self) -> Put:
        return self._provider.put(self._conversation.send(self._pending).call)

    @cached_property
    def _arguments(self) -> Mapping[str, msgspec.Raw]:
        return self._provider.arguments(self._put)


class Explanation(Struct, frozen=True):
    """Why a request was what it was, and how far what was expected of it came true."""

    number: int
    source: str
    why: Why | None
    expected_tokens: int | None
    actual_tokens: int | None
    expected_usd: float | None
    """What its prompt was expected to cost."""
    actual_usd: float | None
    """What its prompt did cost."""
    usd: float | None
    """What it cost with its answer."""


class Wishes(TypedDict, total=False):
    """What can be said about a compaction besides instructions."""

    span: Span
    """``whole``; ``from`` or ``up_to`` a record; or a ``range`` from ``record`` to ``until``."""
    record: str
    until: str
    note: str
    """Kept with the boundary."""
    engine: EngineName
    """Only this way to a summary, and extraction if it fails."""
    autonomous: bool


def explained(past: Past) -> Explanation:
    """What is on record about a request."""
    why, usage = past.record.why, past.usage
    return Explanation(
        past.record.number,
        past.record.source,
        why,
        why.used if why else None,
        usage.prompt if usage else None,
        why.usd if why else None,
        past.prompt_usd,
        past.usd,
    )
