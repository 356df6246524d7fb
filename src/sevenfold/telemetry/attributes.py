"""An event as OpenTelemetry attributes, and every name under which OpenTelemetry gets what events say.

Each field goes under the conventions' name for it, else under its own. Names of the GenAI semantic conventions
(https://github.com/open-telemetry/semantic-conventions-genai) are written out here because no stable package has
them, and they still move: cache writes were `cache_creation` before, and the client metrics are to be called
`gen_ai.client.inference.*`. Everything the conventions have no word for is under `sevenfold.`, a field of an event
under its own name.
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
"""The instrumentation scope, and the beginning of every name of ours."""

# Attributes that spans and metrics set themselves

OPERATION = "gen_ai.operation.name"
CHAT = "chat"
PROVIDER = "gen_ai.provider.name"
COMPACTED = "gen_ai.conversation.compacted"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
"""Cached ones included, whatever the provider counts."""
TOKEN_TYPE = "gen_ai.token.type"
ERROR = "error.type"
UNANSWERED = "unanswered"
"""The `error.type` of a request of which nothing more was heard."""

# Which field of an event goes under a name of the conventions

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
    "EpochOpened": "epoch",
    "Repaired": "repair",
    "Masked": "mask",
    "AgentChanged": "agent",
}
"""What an event without a layer is about, for the name of its span."""
_NONE_IF_0 = frozenset({"max_tokens", "thinking_tokens"})
_NAMES: Mapping[type[Event], Mapping[str, str]] = {Sending: REQUEST, Failed: REQUEST, Answered: RESPONSE}


def spelled(kind: str) -> str:
    """A kind of event as names are spelled: `CacheBroke` is `cache_broke`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind).lower()


def attributes(event: Event) -> Attributes:
    """Every field that says something but the time, under the conventions' name for it, else its own."""
    names = {**ALWAYS, **_NAMES.get(type(event), {})}
    said = {field: getattr(event, field) for field in event.__struct_fields__ if field != "at"}
    found: Attributes = {
        names.get(field, f"{SCOPE}.{field}"): value
        for field, value in said.items()
        if value is not None and value not in ("", ()) and (value or field not in _NONE_IF_0)
    }
    match event:
        case Sending():
            found[OPERATION] = CHAT
        case Answered():
            found[INPUT_TOKENS] = prompt(event)
            if event.stop_reason:
                found[FINISH_REASONS] = (event.stop_reason,)
    return found


def prompt(event: Answered | Failed) -> int:
    """All tokens of the prompt, cached or not."""
    return event.input_tokens + event.cache_read_tokens + event.cache_write_tokens
