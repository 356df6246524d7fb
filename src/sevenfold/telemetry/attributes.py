"""An event as attributes: each field under the conventions' name for it, else under its own."""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry.util.types import AttributeValue

from sevenfold.events import Answered, Event, Sending
from sevenfold.telemetry import names

Attributes = dict[str, AttributeValue]

_NO_NAMES: Mapping[str, str] = {}


def of_anything(event: Event, known: Mapping[str, str] = _NO_NAMES) -> Attributes:
    """Every field that says something but the time; ``known`` are names beside those that always hold."""
    found: Attributes = {}
    for field in event.__struct_fields__:
        value = getattr(event, field)
        if field != "at" and value is not None and value not in ("", ()):
            name = known.get(field) or names.ALWAYS.get(field) or f"{names.SCOPE}.{field}"
            found[name] = value
    return found


def of_request(event: Sending) -> Attributes:
    """What is known of a request before its answer."""
    found = of_anything(event, names.REQUEST)
    found[names.OPERATION] = names.CHAT
    if not event.max_tokens:
        del found[names.MAX_TOKENS]
    return found


def of_answer(event: Answered) -> Attributes:
    """What an answer adds to that."""
    found = of_anything(event, names.RESPONSE)
    found[names.INPUT_TOKENS] = prompt(event)
    if event.stop_reason:
        found[names.FINISH_REASONS] = (event.stop_reason,)
    if not event.thinking_tokens:
        del found[names.REASONING]
    return found


def prompt(event: Answered) -> int:
    """All tokens of the prompt, cached or not."""
    return event.input_tokens + event.cache_read_tokens + event.cache_write_tokens
