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
from types import MappingProxyType
from typing import TYPE_CHECKING

from sevenfold.events import Answered, Event, Sending

if TYPE_CHECKING:
    from opentelemetry.util.types import AttributeValue

Attributes = dict[str, "AttributeValue"]

SCOPE = "sevenfold"
"""The instrumentation scope, and the beginning of every name of ours."""

# Attributes of the conventions

OPERATION = "gen_ai.operation.name"
CHAT = "chat"
PROVIDER = "gen_ai.provider.name"
CONVERSATION = "gen_ai.conversation.id"
COMPACTED = "gen_ai.conversation.compacted"
REQUEST_MODEL = "gen_ai.request.model"
MAX_TOKENS = "gen_ai.request.max_tokens"
RESPONSE_MODEL = "gen_ai.response.model"
RESPONSE_ID = "gen_ai.response.id"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
"""Cached ones included, whatever the provider counts."""
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE = "gen_ai.usage.cache_write.input_tokens"
REASONING = "gen_ai.usage.reasoning.output_tokens"
TOKEN_TYPE = "gen_ai.token.type"
ERROR = "error.type"

# Attributes of ours that are no field of an event

KIND = "sevenfold.event"
"""The kind of event a span was made of."""
UNANSWERED = "unanswered"
"""The `error.type` of a request of which nothing more was heard."""

# Attributes of metrics

SOURCE = "sevenfold.source"
LAYER = "sevenfold.layer"
MECHANISM = "sevenfold.mechanism"
CAUSE = "sevenfold.cause"
EXPECTED = "sevenfold.expected"

# Metrics of the conventions, and the bucket boundaries these ask for

TOKEN_USAGE = "gen_ai.client.token.usage"
TOKEN_BUCKETS = tuple(4**power for power in range(14))
DURATION = "gen_ai.client.operation.duration"
DURATION_BUCKETS = tuple(0.01 * 2**power for power in range(14))

# Metrics of ours

CONTEXT_TOKENS = "sevenfold.context.tokens"
PERCENT_LEFT = "sevenfold.context.percent_left"
WIRE_BYTES = "sevenfold.context.wire_bytes"
COST = "sevenfold.cost"
LAYER_ACTIONS = "sevenfold.layer.actions"
FREED_TOKENS = "sevenfold.layer.freed_tokens"
VETOES = "sevenfold.layer.vetoes"
STEPPED_ASIDE = "sevenfold.layer.stepped_aside"
CACHE_BREAKS = "sevenfold.cache.breaks"
LOST_TOKENS = "sevenfold.cache.lost_tokens"

# Which field of an event goes under a name of the conventions

ALWAYS: Mapping[str, str] = MappingProxyType(
    {"session": CONVERSATION, "provider": PROVIDER, "error": ERROR}
)
REQUEST: Mapping[str, str] = MappingProxyType({"model": REQUEST_MODEL, "max_tokens": MAX_TOKENS})
RESPONSE: Mapping[str, str] = MappingProxyType(
    {
        "model": RESPONSE_MODEL,
        "response": RESPONSE_ID,
        "stop_reason": FINISH_REASONS,
        "input_tokens": INPUT_TOKENS,
        "output_tokens": OUTPUT_TOKENS,
        "cache_read_tokens": CACHE_READ,
        "cache_write_tokens": CACHE_WRITE,
        "thinking_tokens": REASONING,
    }
)
SUBJECTS: Mapping[str, str] = MappingProxyType(
    {"CacheBroke": "cache", "EpochOpened": "epoch", "Repaired": "repair", "Masked": "mask"}
)
"""What an event without a layer is about, for the name of its span."""


def spelled(kind: str) -> str:
    """A kind of event as names are spelled: `CacheBroke` is `cache_broke`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind).lower()


_NONE: Mapping[str, str] = MappingProxyType({})


def of_anything(event: Event, known: Mapping[str, str] = _NONE) -> Attributes:
    """Every field that says something but the time; ``known`` are names beside those that always hold."""
    found: Attributes = {}
    for field in event.__struct_fields__:
        value = getattr(event, field)
        if field != "at" and value is not None and value not in ("", ()):
            name = known.get(field) or ALWAYS.get(field) or f"{SCOPE}.{field}"
            found[name] = value
    return found


def of_request(event: Sending) -> Attributes:
    """What is known of a request before its answer."""
    found = of_anything(event, REQUEST)
    found[OPERATION] = CHAT
    if not event.max_tokens:
        del found[MAX_TOKENS]
    return found


def of_answer(event: Answered) -> Attributes:
    """What an answer adds to that."""
    found = of_anything(event, RESPONSE)
    found[INPUT_TOKENS] = prompt(event)
    if event.stop_reason:
        found[FINISH_REASONS] = (event.stop_reason,)
    if not event.thinking_tokens:
        del found[REASONING]
    return found


def prompt(event: Answered) -> int:
    """All tokens of the prompt, cached or not."""
    return event.input_tokens + event.cache_read_tokens + event.cache_write_tokens
