"""What a session hands to a program: answers, explanations, and what can be wished for."""

from __future__ import annotations

from typing import Any, TypedDict

from msgspec import Struct

from sevenfold.conversation.history import Past
from sevenfold.conversation.request import Outcome
from sevenfold.layers.compact.request import EngineName
from sevenfold.layers.compact.scope import Span
from sevenfold.record import blocks
from sevenfold.record.blocks import ToolUse, read_fields
from sevenfold.record.decisions import Why


class ToolCall(Struct, frozen=True):
    """A call the model makes."""

    id: str
    name: str
    input: Any
    """A mapping; text if the answer was cut off in the middle of it."""


class Completion(Struct, frozen=True):
    """An answer, and what it cost."""

    text: str
    calls: tuple[ToolCall, ...]
    stop_reason: str
    usd: float | None
    outcome: Outcome
    """Everything else that is known about it."""


class Explanation(Struct, frozen=True):
    """Why a request was what it was, and how far what was expected of it came true."""

    number: int
    source: str
    why: Why | None
    expected_tokens: int | None
    actual_tokens: int | None
    expected_usd: float | None
    """What its prompt was to cost…"""
    actual_usd: float | None
    """…and what it did cost."""
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


def completed(outcome: Outcome) -> Completion:
    """An answer as a program wants it."""
    answer = outcome.reply.answer
    calls = tuple(
        ToolCall(body.id, body.name, read_fields(body.input))
        for block in answer.blocks
        if isinstance(body := block.body(), ToolUse)
    )
    text = "\n".join(
        filter(None, (blocks.words_of(block) for block in answer.blocks if block.kind == "text"))
    )
    return Completion(text, calls, answer.stop_reason or "", outcome.cost, outcome)
