"""Cache diagnostics: where a request's structure first differs from the one it names as its predecessor.

The comparison is of what was sent, whether or not anything was cached. Only the latest requests are
remembered, as fingerprints.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from sevenfold.lab.simulator.conversation import Conversation, total

_REMEMBERED = 1_000


class Fingerprint(Struct, frozen=True):
    """What a request was made of."""

    model: str
    system: tuple[bytes, ...]
    tools: tuple[bytes, ...]
    settings: bytes
    messages: tuple[bytes, ...]
    sizes: tuple[int, int, int]
    """Tokens of tools, system and messages."""
    prefix_sizes: tuple[int, ...]
    """Tokens of the messages up to each block."""


def fingerprint(talk: Conversation, model: str, settings: bytes) -> Fingerprint:
    """The fingerprint of a request; ``model`` includes the speed, ``settings`` what else shapes it."""
    running, sizes = 0, []
    for item in talk.items:
        running += item.tokens
        sizes.append(running)
    return Fingerprint(
        model,
        tuple(item.piece.digest for item in talk.system),
        tuple(item.piece.digest for item in talk.tools),
        settings,
        tuple(item.piece.digest for item in talk.items),
        (total(talk.tools), total(talk.system), running),
        tuple(sizes),
    )


class Diagnosis:
    """Remembers fingerprints by message id and compares them."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Fingerprint] = OrderedDict()

    def remember(self, message_id: str, print_: Fingerprint) -> None:
        """Keep the fingerprint of an answered request."""
        self._known[message_id] = print_
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)

    def explain(self, config: Mapping[str, Any] | None, now: Fingerprint) -> dict[str, Any] | None:
        """The `diagnostics` of an answer; None when there is nothing to report."""
        previous_id = (config or {}).get("previous_message_id")
        if previous_id is None:
            return None
        before = self._known.get(str(previous_id))
        reason = {"type": "previous_message_not_found"} if before is None else _difference(before, now)
        return None if reason is None else {"cache_miss_reason": reason}


def _difference(before: Fingerprint, now: Fingerprint) -> dict[str, Any] | None:
    """The first difference in the order model, tools, system, messages; settings are only hinted at."""
    tools, system, messages = before.sizes
    if before.model != now.model:
        return _missed("model_changed", tools + system + messages)
    if before.tools != now.tools:
        return _missed("tools_changed", tools + system + messages)
    if before.system != now.system:
        return _missed("system_changed", system + messages)
    if before.settings != now.settings:
        return {"type": "unavailable"}
    for place, was in enumerate(before.messages):
        if place >= len(now.messages) or now.messages[place] != was:
            kept = before.prefix_sizes[place - 1] if place else 0
            return _missed("messages_changed", messages - kept)
    return None


def _missed(kind: str, tokens: int) -> dict[str, Any]:
    return {"type": kind, "cache_missed_input_tokens": tokens}
