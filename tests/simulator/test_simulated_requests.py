"""What the simulated server refuses about a request as a whole, in the words of the real one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.lab.simulator.provider import RateLimits, Setup
from sevenfold.lab.simulator.schema import SCHEMA
from sevenfold.profiles import Listing, find
from tests.simulator.wire import (
    BINDING,
    BY_HAND,
    CLEAR_AT,
    EDITS,
    EFFORT,
    KEY,
    ON_DEMAND,
    THRESHOLD,
    TOOL_CHANGES,
    Wire,
    always,
    assistant,
    call,
    headers,
    result,
    simulated,
    small,
    system,
    text,
    tool,
    user,
)

FORCED = 'tool_choice: type "tool" and "any" are not supported for this model.'
NO_ENABLED = (
    '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and '
    '"output_config.effort" to control thinking behavior.'
)


ADDED = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "a"}}
REFERENCE = {"type": "tool_reference", "tool_name": "a"}
INLINE = {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": tool("b")}}
TAGS = ", ".join(f"'{name}'" for name in (*SCHEMA.blocks, *sorted(SCHEMA.server_blocks)))


@pytest.fixture
def wire() -> Wire:
    return simulated(always(text("ok")))


SEARCH = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "only tools that wait to be found": (
        {"tools": [{**tool("a"), "defer_loading": True}]},
        "tools: At least one tool must have defer_loading=false.",
    ),
    "a marker on a tool that waits to be found": (
        {"tools": [SEARCH, {**tool("a"), "defer_loading": True, "cache_control": {"type": "ephemeral"}}]},
        "tools.1: Tool 'a' cannot have both defer_loading=true and cache_control set. "
        "Tools with defer_loading cannot use prompt caching.",
    ),
    "a search by another name": (
        {"tools": [{**SEARCH, "name": "search"}]},
        "tools.0.tool_search_tool_bm25_20251119.name: Input should be 'tool_search_tool_bm25'",
    ),
    "a search with a schema": (
        {"tools": [{**SEARCH, "input_schema": {}}]},
        "tools.0.tool_search_tool_bm25_20251119.input_schema: Extra inputs are not permitted",
    ),
    "a search on a model without one": (
        {"model": "claude-haiku-4-5", "tools": [SEARCH]},
        "'claude-haiku-4-5' does not support tool types: tool_search_tool_bm25_20251119.",
    ),
    "a reference to a tool that is not there": (
        {"messages": [user("x"), assistant(call("a")), user(result("a", [REFERENCE]))]},
        "messages.2.content.0: Tool reference 'a' not found in available tools",
    ),
    "an unknown field": ({"colour": "red"}, "colour: Extra inputs are not permitted"),
    "no max_tokens": ({"max_tokens": ...}, "max_tokens: Field required"),
    "no model": ({"model": ...}, "model: Field required"),
    "max_tokens below zero": ({"max_tokens": -1}, "max_tokens: Input should be greater than or equal to 0"),
    "max_tokens over the model's": (
        {"max_tokens": 200_000},
        "max_tokens: 200000 > 128000, which is the maximum allowed number of output tokens for "
        "claude-sonnet-5-5",
    ),
    "temperature": ({"temperature": 1.0}, "temperature: Extra inputs are not permitted"),
    "top_p": ({"top_p": 0.5}, "top_p: Extra inputs are not permitted"),
    "top_k": ({"top_k": 5}, "top_k: Extra inputs are not permitted"),
    "system of numbers": ({"system": 7}, "system: Input should be a valid string or a valid list"),
    "a message without content": ({"messages": [{"role": "user"}]}, "messages.0.content: Field required"),
    "a message without a role": ({"messages": [{"content": "x"}]}, "messages.0.role: Field required"),
    "a message with more fields": (
        {"messages": [{"role": "user", "content": "x", "name": "y"}]},
        "messages.0.name: Extra inputs are not permitted",
    ),
    "an unknown field of a block": (
        {"messages": [user({"type": "text", "text": "x", "size": 1})]},
        "messages.0.content.0.text.size: Extra inputs are not permitted",
    ),
    "a block without its field": (
        {"messages": [user("x"), assistant({"type": "thinking", "thinking": ""}), user("y")]},
        "messages.1.content.0.thinking.signature: Field required",
    ),
    "a tool input that is no object": (
        {"messages": [user("x"), assistant({**call("a"), "input": "{}"}), user(result("a"))]},
        "messages.1.content.0.tool_use.input: Input should be a valid dictionary",
    ),
    "a message that is no object": ({"messages": ["hi"]}, "messages.0: Input should be a valid dictionary"),
    "a block that is no object": (
        {"messages": [{"role": "user", "content": ["hi"]}]},
        "messages.0.content.0: Input should be a valid dictionary",
    ),
    "a block without a type": (
        {"messages": [{"role": "user", "content": [{"text": "hi"}]}]},
        "messages.0.content.0.type: Field required",
    ),
    "an image as system prompt": (
        {"system": [{"type": "image", "source": {}}]},
        "system.0: Input tag 'image' found using 'type' does not match any of the expected tags: 'text'",
    ),
    "a tool that is no object": ({"tools": ["read"]}, "tools.0: Input should be a valid dictionary"),
    "a broken structure": (
        {"messages": [user("a"), assistant(call("x")), user("b")]},
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: x. Each "
        "`tool_use` block must have a corresponding `tool_result` block in the next message.",
    ),
    "a tool without a schema": ({"tools": [{"name": "a"}]}, "tools.0.custom.input_schema: Field required"),
    "a tool with more fields": (
        {"tools": [{**tool("a"), "kind": "x"}]},
        "tools.0.custom.kind: Extra inputs are not permitted",
    ),
    "a tool with a strange name": (
        {"tools": [tool("a b")]},
        "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
    ),
    "two tools of one name": ({"tools": [tool("a"), tool("a")]}, "tools: Tool names must be unique."),
    "a forced tool": ({"tools": [tool("a")], "tool_choice": {"type": "tool", "name": "a"}}, FORCED),
    "any tool": ({"tools": [tool("a")], "tool_choice": {"type": "any"}}, FORCED),
    "a way to choose tools that nobody knows": (
        {"tool_choice": {"type": "some"}},
        "tool_choice.type: Input is not one of the values known here: 'some'",
    ),
    "a way to think that nobody knows": (
        {"thinking": {"type": "deep"}},
        "thinking: Input tag 'deep' found using 'type' does not match any of the expected tags",
    ),
    "a binding behaviour that nobody knows": (
        {
            "thinking": {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "ignore"}},
            "betas": [BINDING],
        },
        "thinking.adaptive.block_binding.prefix_mismatch_behavior: "
        "Input is not one of the values known here: 'ignore'",
    ),
    "a lifetime of a message that nobody knows": (
        {"messages": [user("x"), system("y", clear_at="tomorrow")], "betas": [CLEAR_AT]},
        "messages.1.clear_at: Input should be 'next_user_message' or 'never'",
    ),
    "a tool change that vanishes": (
        {
            "messages": [user("x"), system(ADDED, clear_at="next_user_message")],
            "betas": [CLEAR_AT, TOOL_CHANGES],
        },
        "messages.1.clear_at: only text content can be cleared",
    ),
    "a tool change without its header": (
        {"messages": [user("x"), system(INLINE)], "betas": [TOOL_CHANGES]},
        "messages.1.content.0: Input tag 'tool_addition' found using 'type' does not match any of the "
        f"expected tags: {TAGS}",
    ),
    "an unknown output setting": (
        {"output_config": {"colour": "red"}},
        "output_config.colour: Extra inputs are not permitted",
    ),
    "thinking with a budget": ({"thinking": {"type": "enabled", "budget_tokens": 2_000}}, NO_ENABLED),
    "thinking switched off where it is always on": (
        {"thinking": {"type": "disabled"}},
        NO_ENABLED.replace("enabled", "disabled", 1),
    ),
    "an effort of its own": (
        {"output_config": {"effort": "huge"}},
        "output_config.effort: Input is not one of the values known here: 'huge'",
    ),
    "a task budget without its header": (
        {"output_config": {"task_budget": {"type": "tokens", "total": 20_000}}},
        "output_config.task_budget: Extra inputs are not permitted",
    ),
    "context management without a header": (
        {"context_management": {"edits": []}},
        "context_management: Extra inputs are not permitted",
    ),
    "compaction without a header": (
        {"compaction": {"type": "summarize"}},
        "compaction: Extra inputs are not permitted",
    ),
    "clear_at without a header": (
        {"messages": [user("x"), system("y", clear_at="next_user_message")]},
        "messages.1.clear_at: Extra inputs are not permitted",
    ),
    "effort in a message without a header": (
        {"messages": [user("x"), system("y", output_config={"effort": "low"})]},
        "messages.1.output_config: Extra inputs are not permitted",
    ),
    "clear_at on the user's message": (
        {"messages": [{**user("x"), "clear_at": "never"}], "betas": [CLEAR_AT]},
        "messages.0.clear_at: Extra inputs are not permitted",
    ),
    "pinned edits, which are no provider's": (
        {"messages": [user("x"), assistant(call("a")), user({**result("a"), "cache_reference": "a"})]},
        "messages.2.content.0.tool_result.cache_reference: Extra inputs are not permitted",
    ),
    "an edit nobody knows": (
        {"context_management": {"edits": [{"type": "clear_all"}]}, "betas": [EDITS]},
        "context_management.edits.0: Input tag 'clear_all' found using 'type' does not match any of the "
        "expected tags",
    ),
    "thinking not cleared first": (
        {
            "context_management": {
                "edits": [{"type": "clear_tool_uses_20250919"}, {"type": "clear_thinking_20251015"}]
            },
            "betas": [EDITS],
        },
        "context_management.edits: clear_thinking_20251015 must be the first edit",
    ),
    "a low threshold": (
        {
            "context_management": {
                "edits": [{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 10}}]
            },
            "betas": [THRESHOLD],
        },
        "context_management.edits.0.compact_20260112.trigger.value: Input should be greater than or equal "
        "to 50000",
    ),
    "a prompt over the window": (
        {"messages": [user("x" * 1_000_001)]},
        "prompt is too long: 1000001 tokens > 1000000 maximum",
    ),
}


@pytest.mark.parametrize(("fields", "words"), REFUSED.values(), ids=REFUSED)
def test_these_requests_are_refused(wire: Wire, fields: dict[str, Any], words: str) -> None:
    answer = wire.messages(**fields)
    assert (answer.status, answer.error) == (400, words)
    assert answer.body["type"] == "error"
    assert answer.body["error"]["type"] == "invalid_request_error"
    assert answer.body["request_id"] == answer.headers["request-id"]


ACCEPTED: dict[str, dict[str, Any]] = {
    "sampling at the older version": {"temperature": 0.2, "version": "2023-06-01"},
    "a citation from a user at the older version": {
        "messages": [user({"type": "text", "text": "a", "citations": [{}]})],
        "version": "2023-06-01",
    },
    "the beta address": {"path": "/v1/messages?beta=true"},
    "nulls where nothing is": {"tools": None, "system": None, "thinking": None, "metadata": None},
    "thinking between tools": {"thinking": {"type": "between_tools"}},
    "budgeted thinking on an older model": {
        "thinking": {"type": "enabled", "budget_tokens": 1_024},
        "max_tokens": 2_000,
        "model": "claude-haiku-4-5",
    },
    "a forced tool on an older model": {
        "tools": [tool("a")],
        "tool_choice": {"type": "tool", "name": "a"},
        "model": "claude-opus-5",
    },
    "prefill on an older model": {
        "messages": [user("x"), assistant("y")],
        "model": "claude-haiku-4-5",
    },
    "a system message with an effort": {
        "messages": [user("x"), system("y", output_config={"effort": "low"})],
        "betas": [EFFORT],
    },
    "a tool added on the way": {
        "messages": [user("x"), system(ADDED)],
        "betas": [TOOL_CHANGES],
    },
    "a tool defined on the way": {
        "messages": [user("x"), system(INLINE)],
        "betas": ["inline-tools-2026-09-15"],
    },
    "results in parts, one of them marked": {
        "tools": [tool("a")],
        "messages": [user("x"), assistant(call("a")), user(result("a", [text("y", "-"), REFERENCE]))],
    },
    "a task budget": {
        "output_config": {"task_budget": {"type": "tokens", "total": 20_000}},
        "betas": ["task-budgets-2026-03-13"],
    },
    "a dated name": {"model": "claude-haiku-4-5-20251001"},
    "server tools": {"tools": [{"type": "web_search_20260209", "name": "web_search"}]},
}


@pytest.mark.parametrize("fields", ACCEPTED.values(), ids=ACCEPTED)
def test_these_requests_are_taken(wire: Wire, fields: dict[str, Any]) -> None:
    answer = wire.messages(**fields)
    assert answer.status == 200, answer.body


@pytest.mark.parametrize(
    ("model", "fields", "words"),
    [
        (
            "claude-haiku-4-5",
            {"thinking": {"type": "adaptive"}},
            "adaptive thinking is not supported on this model",
        ),
        (
            "claude-haiku-4-5",
            {"thinking": {"type": "enabled"}},
            "thinking.enabled.budget_tokens: Field required",
        ),
        (
            "claude-opus-5",
            {"tools": [tool("a")], "tool_choice": {"type": "tool", "name": "b"}},
            "Tool 'b' not found in provided tools",
        ),
        (
            "claude-3-haiku",
            {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}, "betas": [EDITS]},
            "context_management.edits.0: clear_tool_uses_20250919 is not supported for this model.",
        ),
        (
            "claude-haiku-4-5",
            {"thinking": {"type": "enabled", "budget_tokens": 1_000}},
            "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
        ),
        (
            "claude-haiku-4-5",
            {"thinking": {"type": "enabled", "budget_tokens": 1_024}},
            "`max_tokens` must be greater than `thinking.budget_tokens`.",
        ),
        (
            "claude-opus-5",
            {"thinking": {"type": "disabled"}, "output_config": {"effort": "max"}},
            '"thinking.type.disabled" is not supported with effort above "high" for this model.',
        ),
        (
            "claude-sonnet-5",
            {"messages": [user("a"), system("b")]},
            "role 'system' is not supported on this model",
        ),
        (
            "claude-haiku-4-5",
            {"compaction": {"type": "summarize"}, "betas": [ON_DEMAND]},
            "compaction: not supported for this model.",
        ),
    ],
)
def test_some_refusals_depend_on_the_model(
    wire: Wire, model: str, fields: dict[str, Any], words: str
) -> None:
    assert wire.messages(model=model, **fields).error == words


def test_a_block_type_nobody_knows_is_refused_unless_it_is_announced() -> None:
    future = {"messages": [user("a"), assistant({"type": "hologram", "x": 1}, "b"), user("c")]}
    answer = simulated().messages(**future)
    assert answer.error.startswith("messages.1.content.0: Input tag 'hologram' found using 'type'")
    ready = simulated(setup=Setup(counter=BY_HAND, extra_blocks=frozenset({"hologram"})))
    assert ready.messages(**future).status == 200


# Keys, models, versions, bodies


@pytest.mark.parametrize("key", [{"x-api-key": KEY}, {"authorization": f"Bearer {KEY}"}])
def test_a_key_may_come_in_either_header(wire: Wire, key: dict[str, str]) -> None:
    body = {"model": "claude-sonnet-5-5", "max_tokens": 1, "messages": [user("hi")]}
    assert wire.post("/v1/messages", body, {**key, "anthropic-version": "2026-10-21"}).status == 200


@pytest.mark.parametrize(
    ("key", "words"),
    [({"x-api-key": "wrong"}, "invalid x-api-key"), ({}, "x-api-key header is required")],
)
def test_a_wrong_or_missing_key_is_refused(key: dict[str, str], words: str) -> None:
    wire = simulated(setup=Setup(counter=BY_HAND, api_key=KEY))
    answer = wire.post("/v1/messages", {}, {**key, "anthropic-version": "2026-10-21"})
    assert (answer.status, answer.body["error"]) == (
        401,
        {"type": "authentication_error", "message": words},
    )


def test_without_a_set_key_any_key_is_taken() -> None:
    wire = simulated(setup=Setup(counter=BY_HAND))
    body = {"model": "claude-sonnet-5-5", "max_tokens": 1, "messages": [user("hi")]}
    assert (
        wire.post("/v1/messages", body, {"x-api-key": "a", "anthropic-version": "2026-10-21"}).status == 200
    )


@pytest.mark.parametrize("model", ["claude-opus-9", "gpt-5"])
def test_a_model_that_is_not_served_here_is_not_found(model: str) -> None:
    wire = simulated(setup=Setup(counter=BY_HAND, any_model=False))
    answer = wire.messages(model=model)
    assert (answer.status, answer.body["error"]) == (
        404,
        {"type": "not_found_error", "message": f"model: {model}"},
    )


def test_a_version_must_be_given_and_known(wire: Wire) -> None:
    assert (
        wire.post("/v1/messages", {}, {"x-api-key": KEY}).error == "anthropic-version: header is required"
    )
    assert (
        wire.messages(version="2030-01-01").error
        == 'anthropic-version: "2030-01-01" is not a valid version'
    )


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b'{"model": "x"', "Expecting ',' delimiter: line 1 column 14 (char 13)"),
        (rb'{"model": "\ud83d"}', "no low surrogate in string: line 1 column 12 (char 11)"),
    ],
)
def test_a_body_that_is_not_json_is_refused(wire: Wire, raw: bytes, words: str) -> None:
    answer = wire.post("/v1/messages", raw, headers())
    assert (answer.status, answer.error) == (400, f"The request body is not valid JSON: {words}")


def test_a_body_over_the_limit_is_too_large() -> None:
    wire = simulated(setup=Setup(counter=BY_HAND, body_bytes=1_000))
    answer = wire.messages("x" * 1_000)
    assert (answer.status, answer.body["error"]["type"]) == (413, "request_too_large")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ([], "The request body is not a JSON object"),
        ({"model": "m", "max_tokens": 1, "messages": {}}, "messages: Input should be a valid list"),
        ({"model": "m", "max_tokens": True, "messages": []}, "max_tokens: Input should be a valid integer"),
    ],
)
def test_a_body_of_the_wrong_shape_is_refused(wire: Wire, body: Any, words: str) -> None:
    assert wire.post("/v1/messages", body, headers()).error == words


WORDS = st.sampled_from(
    ["", "a", "user", "text", "tool_use", "tool_result", "compaction", "adaptive", "all"]
)
KEYS = ["type", "role", "content", "text", "id", "name", "input", "tool_use_id", "cache_control", "value"]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@given(
    st.dictionaries(
        st.sampled_from(sorted(SCHEMA.prompt | SCHEMA.answer | set(SCHEMA.betas))), ANYTHING, max_size=4
    )
)
def test_no_body_whatever_breaks_the_server(fields: dict[str, Any]) -> None:
    betas = [
        BINDING,
        CLEAR_AT,
        EDITS,
        EFFORT,
        ON_DEMAND,
        THRESHOLD,
        TOOL_CHANGES,
        "message-threads-2026-08-12",
    ]
    body = {"model": "claude-sonnet-5-5", "max_tokens": 10, "messages": [user("hi")], **fields}
    assert simulated().post("/v1/messages", body, headers(betas)).status in (200, 400, 404)


@given(st.dictionaries(st.sampled_from(["messages", "input", "tools", "stop", "stream"]), ANYTHING))
def test_no_body_whatever_breaks_the_openai_side(fields: dict[str, Any]) -> None:
    for path in ("/v1/chat/completions", "/v1/responses"):
        answer = simulated().post(path, {"model": "gpt-5", **fields}, {"authorization": f"Bearer {KEY}"})
        assert answer.status in (200, 400, 404)


# Windows


def test_older_models_refuse_a_prompt_that_leaves_no_room_for_the_answer(wire: Wire) -> None:
    answer = wire.messages("x" * 190_000, model="claude-opus-4-1", max_tokens=20_000)
    assert answer.error == (
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, "
        "decrease input length or `max_tokens` and try again"
    )


def test_a_header_makes_the_window_long_on_models_that_have_it(wire: Wire) -> None:
    long = {"messages": [user("x" * 200_001)], "betas": ["context-1m-2025-08-07"]}
    assert wire.messages(**long, model="claude-sonnet-4-5").status == 200
    answer = wire.messages(**long, model="claude-haiku-4-5")
    assert answer.error == "prompt is too long: 200001 tokens > 200000 maximum"


def test_newer_models_stop_where_the_window_ends() -> None:
    models = {"tiny": small(window=1_000)}
    wire = simulated(always(text("y" * 500)), setup=Setup(counter=BY_HAND, models=models))
    answer = wire.messages("x" * 900, model="tiny", max_tokens=800)
    assert answer.body["stop_reason"] == "model_context_window_exceeded"
    assert (answer.content, answer.usage["output_tokens"]) == ([text("y" * 100)], 100)


def test_an_answer_stops_at_max_tokens() -> None:
    wire = simulated(always(text("y" * 50), call("a")))
    answer = wire.messages(max_tokens=20)
    assert (answer.content, answer.body["stop_reason"]) == ([text("y" * 20)], "max_tokens")


def test_an_answer_stops_at_a_stop_sequence() -> None:
    wire = simulated(always(text("one two END three")))
    answer = wire.messages(stop_sequences=["END", "three"])
    assert answer.content == [text("one two ")]
    assert (answer.body["stop_reason"], answer.body["stop_sequence"]) == ("stop_sequence", "END")


# Counting


def test_counting_takes_no_fields_of_answering(wire: Wire) -> None:
    assert (
        wire.messages(path="/v1/messages/count_tokens").error
        == "max_tokens: Extra inputs are not permitted"
    )
    assert wire.count(stream=True).error == "stream: Extra inputs are not permitted"


def test_counting_refuses_what_answering_refuses(wire: Wire) -> None:
    assert wire.count([user("a"), assistant("b")]).error.startswith("This model does not support assistant")
    assert wire.count(tools=[tool("a")], tool_choice={"type": "any"}).error == FORCED


def test_counting_does_not_mind_a_prompt_over_the_window(wire: Wire) -> None:
    assert wire.count("x" * 1_000_001).body == {"input_tokens": 1_000_001}


# Headers, limits, models


def test_every_answer_carries_rate_limits_that_count_down(wire: Wire) -> None:
    first, second = wire.messages(), wire.messages()
    name = "anthropic-ratelimit-requests-remaining"
    assert int(first.headers[name]) - int(second.headers[name]) == 1
    assert "anthropic-ratelimit-input-tokens-reset" in first.headers


def test_requests_over_the_limit_are_told_when_to_come_back() -> None:
    wire = simulated(setup=Setup(counter=BY_HAND, limits=RateLimits(requests=1)))
    assert wire.messages().status == 200
    answer = wire.messages()
    assert (answer.status, answer.body["error"]["type"]) == (429, "rate_limit_error")
    assert answer.headers["retry-after"] == "60"


def test_tokens_read_from_the_cache_do_not_count_against_the_limit() -> None:
    wire = simulated(setup=Setup(counter=BY_HAND, limits=RateLimits(input_tokens=2_000)))
    messages = [user(text("x" * 1_500, "-"))]
    assert [wire.messages(messages).status for _ in range(5)] == [200] * 5


def test_models_are_listed_with_window_and_abilities(wire: Wire) -> None:
    listed = {model["id"]: model for model in wire.get("/v1/models", headers()).body["data"]}
    model = listed["claude-opus-5-5"]
    assert (model["max_input_tokens"], model["max_tokens"]) == (1_000_000, 128_000)
    assert model["capabilities"]["thinking"]["types"]["disabled"] == {"supported": False}
    assert "gpt-5" not in listed
    assert wire.get("/v1/models/claude-opus-5-5", headers()).body == model
    choosy = simulated(setup=Setup(any_model=False))
    assert choosy.get("/v1/models/claude-opus-9", headers()).status == 404


def test_a_listing_read_back_gives_the_profile_it_was_made_from(wire: Wire) -> None:
    for model in wire.get("/v1/models", headers()).body["data"]:
        profile = find(model["id"])
        listing = Listing(model["max_input_tokens"], model["max_tokens"], model["capabilities"])
        read = profile.listed(listing)
        assert msgspec.structs.replace(read, window_source=profile.window_source) == profile


def test_a_window_can_be_announced_wrongly() -> None:
    setup = Setup(counter=BY_HAND, announced_windows={"claude-opus-5-5": 123})
    wire = simulated(setup=setup)
    assert wire.get("/v1/models/claude-opus-5-5", headers()).body["max_input_tokens"] == 123


def test_threads_are_declined_in_a_way_that_clients_fall_back_from(wire: Wire) -> None:
    answer = wire.messages(thread={"type": "create"}, betas=["message-threads-2026-08-12"])
    assert (answer.status, answer.code) == (400, "thread_unsupported_request")
    assert wire.messages(thread={"type": "create"}).error == "thread: Extra inputs are not permitted"
