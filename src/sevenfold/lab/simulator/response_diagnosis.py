"""The Responses API's report on its cache: what changed since the response that a request names for comparison."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

import msgspec
from msgspec import Struct

from sevenfold.lab.simulator.tokens import WeighedBlock

_REMEMBERED = 1_000


class _Compared(Struct, frozen=True):
    """The parts of a request that its cached prefix depends on."""

    settings: Mapping[str, bytes]
    """The encoded setting behind each reason for a miss, in the order in which they are reported."""
    tools: tuple[WeighedBlock, ...]
    input: tuple[WeighedBlock, ...]
    summaries: int
    """How many summaries of the provider the input has."""


class ResponseDiagnosis:
    """Compares a request with the one that another response answered."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, _Compared] = OrderedDict()

    def explain(
        self,
        body: Mapping[str, Any],
        response_id: str,
        blocks: Sequence[WeighedBlock],
        tools: int,
        cached: int,
    ) -> dict[str, Any] | None:
        """Remember a request and return its `prompt_cache_diagnostics`; None if the request does not ask.

        ``blocks`` are its prompt, of which the first are the ``tools``; ``cached`` tokens of it were cached.
        """
        current = _compared(body, blocks, tools)
        options = body.get("prompt_cache_options") or {}
        compared_id = options.get("comparison_response_id")
        previous = self._known.get(str(compared_id))
        self._known[response_id] = current
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        if compared_id is None:
            return None
        if previous is None:
            return {"type": "comparison_response_not_found"}
        if miss := _difference(previous, current):
            return miss
        return {"type": "cache_hit" if cached else "unavailable"}


def _compared(body: Mapping[str, Any], blocks: Sequence[WeighedBlock], tools: int) -> _Compared:
    text = body.get("text") or {}
    reasoning = body.get("reasoning") or {}
    settings = {
        "model_changed": body["model"],
        "prompt_cache_key_changed": body.get("prompt_cache_key"),
        "text_format_changed": text.get("format"),
        "reasoning_effort_changed": reasoning.get("effort"),
        "verbosity_changed": text.get("verbosity"),
        "service_tier_changed": body.get("service_tier"),
    }
    items = body["input"] if isinstance(body["input"], list) else []
    summaries = [item for item in items if item.get("type") == "compaction"]
    encoded = {reason: msgspec.json.encode(value) for reason, value in settings.items()}
    return _Compared(encoded, tuple(blocks[:tools]), tuple(blocks[tools:]), len(summaries))


def _difference(previous: _Compared, current: _Compared) -> dict[str, Any] | None:
    """The first difference: of settings, of the tools, or of the input, which may only have grown."""
    everything = (*previous.tools, *previous.input)
    for reason, value in previous.settings.items():
        if current.settings[reason] != value:
            return _miss(reason, everything, 0)
    if previous.tools != current.tools:
        return _miss("tools_changed", everything, 0)
    pairs = zip(previous.input, current.input, strict=False)
    equal_count = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
    if equal_count == len(previous.input):
        return None
    reason = "context_compacted" if current.summaries > previous.summaries else "input_changed"
    reusable = sum(block.tokens for block in (*previous.tools, *previous.input[:equal_count]))
    return _miss(reason, previous.input[equal_count:], reusable)


def _miss(reason: str, missed: Sequence[WeighedBlock], reusable: int) -> dict[str, Any]:
    return {
        "type": "cache_miss",
        "reason": reason,
        "cache_missed_tokens": sum(block.tokens for block in missed),
        "comparison_reusable_tokens": reusable,
    }
