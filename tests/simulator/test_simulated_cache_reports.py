"""The Responses API's report on its cache, compared with a response that the request names."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from sevenfold.lab.simulator.provider import Setup
from sevenfold.lab.simulator.server import serve
from tests.simulator.wire import BY_HAND, KEY, Answer, Wire, simulated

pytestmark = pytest.mark.spec("S17.21")

HEADERS = {"authorization": f"Bearer {KEY}"}
TOOL = {"type": "function", "name": "depth", "parameters": {"type": "object"}}
LONG = {"role": "user", "content": "x" * 2_000}
MORE = {"role": "user", "content": "And the lake?"}


def respond(wire: Wire, given: Any, compared: str | None = None, **fields: Any) -> Answer:
    body = {"model": "gpt-5.6", "input": given, "tools": [TOOL], **fields}
    if compared is not None:
        body["prompt_cache_options"] = {"comparison_response_id": compared}
    return wire.post("/v1/responses", body, HEADERS)


def reported(wire: Wire, given: Any, compared: str, **fields: Any) -> Any:
    return respond(wire, given, compared, **fields).body["prompt_cache_diagnostics"]


def test_a_conversation_that_only_grew_is_a_hit_and_one_that_does_not_ask_hears_nothing() -> None:
    wire = simulated()
    first = respond(wire, [LONG]).body
    assert "prompt_cache_diagnostics" not in first
    assert reported(wire, [LONG, MORE], first["id"]) == {"type": "cache_hit"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"tools": [{**TOOL, "name": "height"}]}, "tools_changed"),
        ({"prompt_cache_key": "another"}, "prompt_cache_key_changed"),
        ({"reasoning": {"effort": "low"}}, "reasoning_effort_changed"),
        ({"text": {"verbosity": "low"}}, "verbosity_changed"),
        ({"service_tier": "flex"}, "service_tier_changed"),
        ({"model": "gpt-5.7"}, "model_changed"),
        ({"instructions": "Be brief."}, "input_changed"),
    ],
)
def test_what_changed_is_named(change: dict[str, Any], reason: str) -> None:
    wire = simulated()
    first = respond(wire, [LONG]).body["id"]
    report = reported(wire, [LONG, MORE], first, **change)
    assert (report["type"], report["reason"]) == ("cache_miss", reason)


def test_the_tokens_behind_the_first_difference_are_counted_apart_from_those_before_it() -> None:
    wire = simulated(setup=Setup(counter=BY_HAND))
    first = respond(wire, [LONG, {"role": "user", "content": "y" * 300}], tools=[]).body["id"]
    report = reported(wire, [LONG, MORE], first, tools=[])
    assert report["reason"] == "input_changed"
    assert (report["cache_missed_tokens"], report["comparison_reusable_tokens"]) == (300, 2_000)


def test_a_summary_in_the_input_is_the_reason_for_what_it_replaced() -> None:
    wire = simulated()
    first = respond(wire, [LONG]).body["id"]
    compacted = wire.post("/v1/responses/compact", {"model": "gpt-5.6", "input": [LONG]}, HEADERS)
    item = compacted.body["output"][-1]
    assert reported(wire, [item, MORE], first)["reason"] == "context_compacted"


def test_what_cannot_be_compared_is_said() -> None:
    wire = simulated()
    first = respond(wire, [LONG]).body["id"]
    assert reported(wire, [LONG], "resp_lost") == {"type": "comparison_response_not_found"}
    wire.simulator.cache.evict()
    assert reported(wire, [LONG, MORE], first) == {"type": "unavailable"}


def test_a_model_without_cache_options_refuses_them() -> None:
    answer = respond(simulated(), [LONG], "resp_1", model="gpt-5")
    assert (answer.status, answer.body["error"]["param"]) == (400, "prompt_cache_options")


def test_the_sdk_reads_the_report() -> None:
    with serve(simulated().simulator) as url:
        client = openai.OpenAI(api_key=KEY, base_url=f"{url}/v1", max_retries=0)
        first = client.responses.create(model="gpt-5.6", input="x" * 9_000)
        options: Any = {"comparison_response_id": first.id}
        then = client.responses.create(model="gpt-5.6", input="y" * 9_000, prompt_cache_options=options)
        assert then.prompt_cache_diagnostics is not None
        assert then.prompt_cache_diagnostics.type == "cache_miss"
        assert then.prompt_cache_diagnostics.reason == "input_changed"
        client.close()
