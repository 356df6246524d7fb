"""Types of the session API other than answers: requests, explanations, and options of a compaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, TypedDict

import msgspec
from msgspec import Struct

from sevenfold.conversation.conversation import Conversation
from sevenfold.conversation.history import Past
from sevenfold.conversation.request import Pending
from sevenfold.layers.compact.compaction import EngineName
from sevenfold.layers.compact.scope import Span
from sevenfold.providers.provider import Provider, Put
from sevenfold.record.decisions import ShownResult, Why

EXTRAS = ("extra_body", "extra_headers")
"""Arguments that can be accessed even if absent, so that a caller can always pass them on by name."""


class Request(Mapping[str, Any]):
    """The next request. It is built, and recorded in the log, when it is first accessed.

    ``client.messages.create(**request)`` sends it, or ``client.chat.completions.create`` or
    ``client.responses.create``: `wire` says which. `body` and `headers` are for callers that send bytes. Each access to
    a field returns new objects, so changing one affects nothing else.
    """

    def __init__(self, conversation: Conversation, pending: Pending, provider: Provider) -> None:
        self._conversation = conversation
        self._pending = pending
        self._provider = provider

    def record(self) -> None:
        """Record the request in the log now, instead of when it is first accessed."""
        self._conversation.send(self._pending)

    @property
    def why(self) -> Why:
        """What was known and considered when the request was prepared."""
        return self._pending.why

    @property
    def wire(self) -> str:
        """The name of the API the request is built for."""
        return self._provider.name

    @property
    def body(self) -> bytes:
        """The request as bytes, as our own client would send it and `Session.at` returns it later."""
        return self._put.body

    @property
    def headers(self) -> dict[str, str]:
        """The headers this request needs in addition to those of every request."""
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
        return self._provider.sent(self._conversation.send(self._pending).call)

    @cached_property
    def _arguments(self) -> Mapping[str, msgspec.Raw]:
        return self._provider.arguments(self._put)


class Explanation(Struct, frozen=True):
    """Why a request was made as it was, with its expected and actual size and cost."""

    number: int
    source: str
    why: Why | None
    expected_tokens: int | None
    actual_tokens: int | None
    expected_usd: float | None
    """The expected cost of its prompt."""
    actual_usd: float | None
    """The actual cost of its prompt."""
    usd: float | None
    """The actual cost including its answer."""
    shown: tuple[ShownResult, ...] = ()
    """What layers showed in it in place of tool results, with their reasons; `Session.undo` takes the ids."""


class Wishes(TypedDict, total=False):
    """Options of a compaction besides its instructions."""

    span: Span
    """``whole``; ``from`` or ``up_to`` a record; or a ``range`` from ``record`` to ``until``."""
    record: str
    until: str
    note: str
    """A note stored with the boundary."""
    engine: EngineName
    """The only engine to try for the summary, apart from extraction if it fails."""
    autonomous: bool


def explained(past: Past) -> Explanation:
    """The explanation of a past request, from its record."""
    why = past.record.why
    usage = past.usage
    return Explanation(
        past.record.number,
        past.record.source,
        why,
        why.used if why else None,
        usage.prompt if usage else None,
        why.usd if why else None,
        past.prompt_usd,
        past.usd,
        past.shown,
    )
