"""What holds for every provider in the registry, however it is asked: waiting or not, streamed or whole."""

from __future__ import annotations

import msgspec
import pytest

from sevenfold.errors import (
    BodyTooLarge,
    ModelError,
    ModelNotServed,
    NotAuthenticated,
    Overloaded,
    PromptTooLong,
    ProviderFailed,
    RateLimited,
    RequestRefused,
    Unreachable,
)
from sevenfold.lab.simulator.faults import Fault
from sevenfold.lab.simulator.provider import Setup
from sevenfold.ports import Piece
from sevenfold.record.blocks import THINKING
from sevenfold.record.usage import Usage
from tests.clients.asking import MODELS, PROVIDERS, SAID, STREAMS, TOOLS, WAYS, Provider, Way, words

every_way = pytest.mark.parametrize("way", WAYS, ids=str)
every_stream = pytest.mark.parametrize("way", STREAMS, ids=str)
every_api = pytest.mark.parametrize("way", [way for way in STREAMS if not way.awaited], ids=str)


def test_every_api_that_is_asked_through_an_sdk_is_asked_here() -> None:
    assert MODELS.keys() == PROVIDERS.keys()


@every_way
def test_an_answer_comes_back_with_its_blocks_its_pieces_and_what_it_cost(
    way: Way, provider: Provider
) -> None:
    seen: list[Piece] = []
    answer = way.ask(provider.url, way.call(tools=TOOLS), seen.append).answer
    assert words(answer) == SAID
    assert [block.kind for block in answer.blocks if block.kind not in THINKING] == ["text", "tool_use"]
    assert answer.blocks[-1].id
    assert msgspec.json.decode(answer.blocks[-1].raw)["input"] == {"a": [1, 2.5]}
    assert answer.stop_reason == "tool_use"
    assert answer.model == MODELS[way.api]
    assert answer.request_id is not None
    assert answer.request_id.startswith("req_")
    usage = Usage.of(msgspec.json.decode(answer.usage, type=dict))
    assert usage.prompt > 0
    assert usage.output_tokens > 0
    kinds = ("text", "tool", "input")
    told = {kind: "".join(piece.words for piece in seen if piece.kind == kind) for kind in kinds}
    assert told == {"text": SAID, "tool": "Read", "input": '{"a":[1,2.5]}'}


@every_way
def test_a_tool_call_can_be_answered_and_the_talk_goes_on(way: Way, provider: Provider) -> None:
    said = way.ask(provider.url, way.call(tools=TOOLS)).answer
    content = [msgspec.json.decode(block.raw) for block in said.blocks]
    result = {"type": "tool_result", "tool_use_id": said.blocks[-1].id, "content": "forty-two"}
    talk = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": content},
        {"role": "user", "content": [result, {"type": "text", "text": "and?"}]},
    ]
    again = way.ask(provider.url, way.call(tools=TOOLS, messages=talk)).answer
    assert b"forty-two" in provider.simulator.requests[-1].raw
    assert words(again) == SAID
    assert again.id != said.id


@every_api
def test_a_key_that_is_not_accepted_is_named_with_what_to_do(way: Way, provider: Provider) -> None:
    with pytest.raises(NotAuthenticated) as raised:
        way.ask(provider.url, way.call(), api_key="wrong")
    line = str(raised.value)
    assert provider.url in line
    assert way.provider.vendor.key_variable in line
    assert "sevenfold simulate" not in line
    assert "\n" not in line


@every_api
def test_a_model_nobody_serves_is_named(way: Way, provider: Provider) -> None:
    with pytest.raises(ModelNotServed, match="no model 'gpt-99-none'"):
        way.ask(provider.url, way.call(model="gpt-99-none"), wire=way.api)


@every_api
def test_an_address_where_nobody_answers_is_named_with_what_to_do(way: Way) -> None:
    with pytest.raises(Unreachable) as raised:
        way.ask("http://127.0.0.1:9", way.call())
    line = str(raised.value)
    assert "http://127.0.0.1:9" in line
    assert way.provider.vendor.url_variable in line
    assert "sevenfold simulate" in line


@every_stream
@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Fault("rate_limited", retry_after=7), RateLimited),
        (Fault("rate_limited"), RateLimited),
        (Fault("overloaded"), Overloaded),
        (Fault("server_error"), ProviderFailed),
        (Fault("compaction_unavailable"), Overloaded),
    ],
    ids=["wait", "cap", "overloaded", "error", "compaction"],
)
def test_a_refusal_becomes_its_class_and_the_next_question_is_answered(
    way: Way, fault: Fault, expected: type[ModelError], provider: Provider
) -> None:
    provider.fails(fault)
    with pytest.raises(expected) as raised:
        way.ask(provider.url, way.call())
    assert type(raised.value) is expected
    assert raised.value.retryable
    assert raised.value.partial is None
    assert raised.value.request_id.startswith("req_")
    if isinstance(raised.value, RateLimited):
        assert raised.value.retry_after == fault.retry_after
    assert words(way.ask(provider.url, way.call()).answer) == SAID


@every_api
def test_a_server_that_says_nothing_is_given_up(way: Way, provider: Provider) -> None:
    provider.fails(Fault("no_answer"))
    with pytest.raises(ProviderFailed, match="took too long"):
        way.ask(provider.url, way.call(), timeout=0.1)


@every_api
@pytest.mark.parametrize("fault", [Fault("slow_first_byte", seconds=100), Fault("cache_eviction")])
def test_what_only_takes_longer_or_costs_more_is_no_error(
    way: Way, fault: Fault, provider: Provider
) -> None:
    provider.fails(fault)
    assert words(way.ask(provider.url, way.call()).answer) == SAID


@every_stream
@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Fault("cut_stream", after=5), ProviderFailed),
        (Fault("cut_stream", after=5, clean=True), ProviderFailed),
        (Fault("malformed_event", after=5), ProviderFailed),
        (Fault("error_event", after=5), Overloaded),
    ],
    ids=["broken", "cut", "malformed", "error"],
)
def test_what_was_said_before_a_stream_broke_is_kept_and_not_asked_for_again(
    way: Way, fault: Fault, expected: type[ModelError], provider: Provider
) -> None:
    provider.says(SAID * 3)
    provider.fails(fault)
    seen: list[Piece] = []
    with pytest.raises(expected) as raised:
        way.ask(provider.url, way.call(), seen.append, max_retries=3)
    shown = "".join(piece.words for piece in seen)
    assert shown
    assert (SAID * 3).startswith(shown)
    assert words(raised.value.partial) == shown
    assert raised.value.request_id.startswith("req_")
    assert provider.asked == 1


@pytest.mark.parametrize("way", [way for way in WAYS if not way.stream], ids=str)
def test_a_body_cut_in_half_is_a_failure_of_the_provider(way: Way, provider: Provider) -> None:
    provider.fails(Fault("truncated_body"))
    with pytest.raises(ProviderFailed, match="cannot be read"):
        way.ask(provider.url, way.call(), max_retries=3)
    assert provider.asked == 1


@every_api
def test_retries_before_an_answer_are_bounded(way: Way, provider: Provider) -> None:
    provider.fails(Fault("rate_limited", retry_after=0.001), requests=9)
    with pytest.raises(RateLimited):
        way.ask(provider.url, way.call(), max_retries=2)
    assert provider.asked == 3


@every_api
def test_a_refusal_that_passes_is_not_seen(way: Way, provider: Provider) -> None:
    provider.fails(Fault("rate_limited", retry_after=0.001))
    assert words(way.ask(provider.url, way.call(), max_retries=1).answer) == SAID
    assert provider.asked == 2


@every_api
def test_a_prompt_over_the_window_says_by_how_much_where_the_provider_does(
    way: Way, provider: Provider
) -> None:
    long = [{"role": "user", "content": "seven words that fill a window fast " * 150_000}]
    with pytest.raises(PromptTooLong) as raised:
        way.ask(provider.url, way.call(messages=long))
    if way.api == "responses":
        assert raised.value.gap is None
    else:
        assert raised.value.gap is not None
        assert raised.value.gap > 0


@every_api
def test_a_body_with_too_many_bytes_is_told_from_a_prompt_with_too_many_tokens(
    way: Way, provider: Provider
) -> None:
    provider.simulator.setup = Setup(body_bytes=1_000)
    with pytest.raises(BodyTooLarge):
        way.ask(provider.url, way.call(messages=[{"role": "user", "content": "x" * 2_000}]))


@every_api
def test_a_request_with_a_wrong_structure_is_refused_once_and_for_all(way: Way, provider: Provider) -> None:
    orphan = {"type": "tool_result", "tool_use_id": "nobody", "content": "done"}
    with pytest.raises(RequestRefused) as raised:
        way.ask(provider.url, way.call(messages=[{"role": "user", "content": [orphan]}]), max_retries=3)
    assert raised.value.status == 400
    assert not raised.value.retryable
    assert provider.asked == 1
