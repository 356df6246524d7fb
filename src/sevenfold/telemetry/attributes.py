"""Converts an event to OpenTelemetry attributes, and defines all attribute names.

A field gets its name from the semantic conventions if they have one; otherwise `sevenfold.` and its own name. Names of
the GenAI semantic conventions (https://github.com/open-telemetry/semantic-conventions-genai) are written out here
because no stable package has them and they still change: cache writes used to be `cache_creation`, and the client
metrics will be called `gen_ai.client.inference.*`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sevenfold.events import Answered, Event, Failed, Sending

if TYPE_CHECKING:
    from opentelemetry.util.types import AttributeValue

Attributes = dict[str, "AttributeValue"]

SCOPE = "sevenfold"
"""The instrumentation scope, and the prefix of all our own names."""

# Attributes that spans and metrics set directly

OPERATION = "gen_ai.operation.name"
CHAT = "chat"
PROVIDER = "gen_ai.provider.name"
COMPACTED = "gen_ai.conversation.compacted"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
"""Including cached tokens, however the provider counts."""
TOKEN_TYPE = "gen_ai.token.type"
ERROR = "error.type"
UNANSWERED = "unanswered"
"""The `error.type` of a request that had no reported outcome."""

# Event fields that have a name in the conventions

ALWAYS: Mapping[str, str] = {"session": "gen_ai.conversation.id", "provider": PROVIDER, "error": ERROR}
REQUEST: Mapping[str, str] = {"model": REQUEST_MODEL, "max_tokens": "gen_ai.request.max_tokens"}
RESPONSE: Mapping[str, str] = {
    "model": RESPONSE_MODEL,
    "response": "gen_ai.response.id",
    "stop_reason": FINISH_REASONS,
    "input_tokens": INPUT_TOKENS,
    "output_tokens": "gen_ai.usage.output_tokens",
    "cache_read_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cache_write_tokens": "gen_ai.usage.cache_write.input_tokens",
    "thinking_tokens": "gen_ai.usage.reasoning.output_tokens",
}
SUBJECTS: Mapping[str, str] = {
    "CacheBroke": "cache",
    "Waiting": "wait",
    "EpochOpened": "epoch",
    "Repaired": "repair",
    "Masked": "mask",
    "AgentChanged": "agent",
}
"""Span names for events that have no layer, by event class."""
_NONE_IF_0 = frozenset({"max_tokens", "thinking_tokens"})
_NAMES: Mapping[type[Event], Mapping[str, str]] = {Sending: REQUEST, Failed: REQUEST, Answered: RESPONSE}


def spelled(kind: str) -> str:
    """Convert the name of an event class to snake case: `CacheBroke` becomes `cache_broke`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind).lower()


def attributes(event: Event) -> Attributes:
    """Return all non-empty fields of an event except its time, named by the conventions if possible."""
    names = {**ALWAYS, **_NAMES.get(type(event), {})}
    converted: Attributes = {}
    for field in event.__struct_fields__:
        value = getattr(event, field)
        is_empty = value is None or value in ("", ()) or (not value and field in _NONE_IF_0)
        if field != "at" and not is_empty:
            converted[names.get(field, f"{SCOPE}.{field}")] = value
    match event:
        case Sending():
            converted[OPERATION] = CHAT
        case Answered():
            converted[INPUT_TOKENS] = prompt(event)
            if event.stop_reason:
                converted[FINISH_REASONS] = (event.stop_reason,)
    return converted


def prompt(event: Answered | Failed) -> int:
    """Return the number of prompt tokens, cached or not."""
    return event.input_tokens + event.cache_read_tokens + event.cache_write_tokens
