"""The Responses API's own compaction: a conversation in, the user's messages and one sealed summary out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from sevenfold.lab.simulator.brains import NoSummary, SummaryRequest
from sevenfold.lab.simulator.errors import ApiError
from sevenfold.lab.simulator.openai_common import Asked, bad, take
from sevenfold.lab.simulator.provider import Simulator
from sevenfold.lab.simulator.responses import read, usage
from sevenfold.lab.simulator.seals import OpaqueSeal

Json = Mapping[str, Any]
FIELDS = frozenset(
    {"model", "input", "instructions", "previous_response_id", "prompt_cache_key", "prompt_cache_options"}
    | {"prompt_cache_retention", "service_tier", "image"}
)


class _Body(Struct):
    model: str
    input: str | list[dict[str, Any]]
    instructions: str | None = None


def compact(sim: Simulator, body: Any) -> dict[str, Any]:
    """Answer a request to compact a conversation."""
    if unknown := sorted(set(body) - FIELDS if isinstance(body, Mapping) else ()):
        raise bad(f"Unknown parameter: '{unknown[0]}'.", param=unknown[0], code="unknown_parameter")
    asked = read(sim, body, _Body)
    if not asked.profile.on_demand_compaction:
        words = f"Compaction is not supported with the model '{body['model']}'."
        raise bad(words, param="model", code="unsupported_model")
    if not any(message["content"] for message in asked.spoken):
        raise bad("There is nothing in 'input' to compact.", param="input")
    taken = take(sim, asked)
    summary = _summary(sim, asked)
    seal = OpaqueSeal(body["model"], sim.setup.organisation, summary)
    item = {
        "id": sim.new_id("cmp_"),
        "type": "compaction",
        "encrypted_content": sim.binder.sealer.seal(seal),
    }
    written = sim.scales.counter.text(summary, asked.profile.tokenizer)
    return {
        "id": sim.new_id("resp_"),
        "object": "response.compaction",
        "created_at": int(sim.clock.now()),
        "output": [*_said_by_user(sim, body["input"]), item],
        "usage": usage(taken.tokens, taken.cached(sim, asked), written),
    }


def _summary(sim: Simulator, asked: Asked) -> str:
    made = sim.summarise(SummaryRequest(asked.body["model"], asked.system, asked.spoken, None))
    if isinstance(made, NoSummary):
        raise ApiError(500, "server_error", "The server had an error while compacting the conversation.")
    return made


def _said_by_user(sim: Simulator, given: str | list[Json]) -> list[Json]:
    """The user's messages as they were sent."""
    if isinstance(given, str):
        given = [{"role": "user", "content": [{"type": "input_text", "text": given}]}]
    return [
        {"id": sim.new_id("msg_"), "type": "message", "status": "completed", **item}
        for item in given
        if item.get("type", "message") == "message" and item.get("role") == "user"
    ]
