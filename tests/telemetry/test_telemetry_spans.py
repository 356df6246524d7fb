"""Spans, as a real OpenTelemetry SDK gets them."""

from __future__ import annotations

import sys

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from sevenfold.errors import SettingError
from sevenfold.events import Acted, Answered, Failed, Proposed, Repaired, Sending
from sevenfold.telemetry.otel import OtelSink
from tests.telemetry.collecting import Collected
from tests.telemetry.making import BEGAN, MODEL, SAMPLES, stamped

SENDING = Sending(
    request="r1",
    model=MODEL,
    provider="anthropic",
    epoch="e1",
    tokens=50_000,
    body_bytes=210_000,
    max_tokens=8_000,
    lost=300,
    lost_because="tool",
    session="s1",
    at=BEGAN,
)
ANSWERED = Answered(
    request="r1",
    model=f"{MODEL}-20260901",
    provider="anthropic",
    response="msg_1",
    stop_reason="tool_use",
    input_tokens=20,
    cache_read_tokens=40_000,
    cache_write_tokens=9_980,
    output_tokens=700,
    thinking_tokens=250,
    estimated=49_800,
    usd=0.06,
    uncached_usd=0.17,
    ideal_usd=0.05,
    seconds=4.5,
    session="s1",
    at=BEGAN + 4.5,
)
FAILED = Failed(
    request="r1",
    model=MODEL,
    provider="anthropic",
    error="Overloaded",
    reason="busy",
    again=True,
    session="s1",
    at=BEGAN + 2,
)
ACTED = Acted(
    layer="clear",
    mechanism="local",
    what="3 cleared",
    why="room",
    tokens_before=900,
    tokens_after=200,
    usd=0.01,
    session="s1",
    at=BEGAN + 1,
)


@pytest.mark.spec("S9.6")
def test_a_request_is_one_span_with_the_names_of_the_conventions():
    span = Collected()(SENDING, ANSWERED).span
    assert (span.name, span.kind) == (f"chat {MODEL}", SpanKind.CLIENT)
    assert (span.began, span.seconds) == (int(BEGAN * 1e9), 4.5)
    assert span.status is StatusCode.UNSET
    assert span.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.conversation.id": "s1",
        "gen_ai.request.model": MODEL,
        "gen_ai.request.max_tokens": 8_000,
        "gen_ai.response.id": "msg_1",
        "gen_ai.response.model": f"{MODEL}-20260901",
        "gen_ai.response.finish_reasons": ("tool_use",),
        "gen_ai.usage.input_tokens": 50_000,
        "gen_ai.usage.output_tokens": 700,
        "gen_ai.usage.cache_read.input_tokens": 40_000,
        "gen_ai.usage.cache_write.input_tokens": 9_980,
        "gen_ai.usage.reasoning.output_tokens": 250,
        "sevenfold.source": "main",
        "sevenfold.request": "r1",
        "sevenfold.epoch": "e1",
        "sevenfold.tokens": 50_000,
        "sevenfold.body_bytes": 210_000,
        "sevenfold.lost": 300,
        "sevenfold.lost_because": "tool",
        "sevenfold.estimated": 49_800,
        "sevenfold.usd": 0.06,
        "sevenfold.uncached_usd": 0.17,
        "sevenfold.ideal_usd": 0.05,
        "sevenfold.seconds": 4.5,
        "sevenfold.cleared_by_provider": 0,
    }


def test_a_failure_ends_the_span_with_its_error():
    span = Collected()(SENDING, FAILED).span
    assert span.attributes["error.type"] == "Overloaded"
    assert span.attributes["sevenfold.again"] is True
    assert (span.status, span.description) == (StatusCode.ERROR, "busy")
    assert span.seconds == 2


def test_what_is_not_known_is_left_out():
    sending, answered = (stamped(sample) for sample in SAMPLES if isinstance(sample, Sending | Answered))
    span = Collected()(sending, stamped(answered, usd=None)).span
    missing = {"gen_ai.request.max_tokens", "gen_ai.usage.reasoning.output_tokens", "sevenfold.usd"}
    assert not missing & set(span.attributes)


def test_a_span_belongs_to_what_the_program_is_doing():
    collected = Collected()
    with collected.tracers.get_tracer("program").start_as_current_span("the program's own") as own:
        collected(ACTED, SENDING)
    collected(ANSWERED)
    for span in collected.spans:
        if span.name != "the program's own":
            assert span.parent == own.get_span_context()


# Requests that cross


def test_requests_of_other_sources_and_sessions_are_kept_apart():
    collected = Collected()
    for session in ("s1", "s2"):
        for source in ("main", "compact"):
            collected(stamped(SENDING, session=session, source=source))
    collected(stamped(ANSWERED, 3, session="s2", source="compact"))
    assert (collected.span.attributes["gen_ai.conversation.id"], collected.span.seconds) == ("s2", 3)
    assert collected.span.attributes["sevenfold.source"] == "compact"
    assert collected.open_spans == 3


def test_an_answer_to_a_request_nobody_saw_is_a_span_as_long_as_it_took():
    collected = Collected()(ANSWERED)
    assert (collected.span.name, collected.span.seconds) == (f"chat {ANSWERED.model}", 4.5)
    assert collected.span.attributes["gen_ai.operation.name"] == "chat"


def test_a_request_sent_anew_ends_the_span_of_the_first():
    first, second = Collected()(SENDING, stamped(SENDING, 5), stamped(ANSWERED, 6)).spans
    assert (first.attributes["error.type"], first.seconds) == ("unanswered", 5)
    assert ("error.type" in second.attributes, second.seconds) == (False, 1)


def test_at_the_end_no_span_stays_open():
    collected = Collected()(SENDING)
    collected.sink.close()
    assert collected.span.attributes["error.type"] == "unanswered"
    assert collected.span.status is StatusCode.ERROR
    collected(ANSWERED)
    assert (len(collected.spans), collected.sink.dropped) == (1, 1)


def test_a_clock_that_goes_back_makes_no_span_of_negative_length():
    assert Collected()(SENDING, stamped(ANSWERED, -60)).span.seconds == 0


# What happens beside requests


def test_what_happens_during_a_request_is_an_event_on_its_span():
    (event,) = Collected()(SENDING, ACTED, ANSWERED).span.events
    assert (event.name, event.at) == ("sevenfold.acted", int((BEGAN + 1) * 1e9))
    assert event.attributes["sevenfold.layer"] == "clear"


def test_what_happens_on_behalf_of_another_source_is_no_event_on_that_span():
    collected = Collected()(SENDING, stamped(ACTED, source="agent:reviewer"))
    assert collected.span.name == "sevenfold.clear"


@pytest.mark.spec("S2.11")
def test_what_happens_between_requests_is_a_span_of_its_own():
    span = Collected()(ACTED).span
    assert (span.name, span.kind, span.seconds) == ("sevenfold.clear", SpanKind.INTERNAL, 0)
    assert span.attributes == {
        "sevenfold.event": "Acted",
        "gen_ai.conversation.id": "s1",
        "sevenfold.source": "main",
        "sevenfold.layer": "clear",
        "sevenfold.mechanism": "local",
        "sevenfold.what": "3 cleared",
        "sevenfold.why": "room",
        "sevenfold.items": 0,
        "sevenfold.tokens_before": 900,
        "sevenfold.tokens_after": 200,
        "sevenfold.usd": 0.01,
        "sevenfold.undoable": True,
    }


def test_a_layer_s_span_begins_with_its_proposal():
    proposed = Proposed(layer="clear", mechanism="local", what="3 results", why="room")
    collected = Collected()(stamped(proposed, -3), ACTED, stamped(ACTED, 9))
    assert [span.seconds for span in collected.spans] == [4, 0]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: type(sample).__name__)
def test_every_kind_of_event_is_told_in_its_way(sample):
    told = {
        "Proposed": [],
        "Acted": ["sevenfold.clear"],
        "Vetoed": ["sevenfold.snip"],
        "SteppedAside": ["sevenfold.compact"],
        "Checked": [],
        "Sending": [f"chat {MODEL}"],
        "Answered": [f"chat {MODEL}"],
        "Failed": [f"chat {MODEL}"],
        "CacheBroke": ["sevenfold.cache"],
        "Waiting": ["sevenfold.wait"],
        "EpochOpened": ["sevenfold.epoch"],
        "Compacting": ["sevenfold.compacting"],
        "Compacted": ["sevenfold.compacted"],
        "Dreaming": ["sevenfold.dreaming"],
        "Repaired": ["sevenfold.repair"],
        "Masked": ["sevenfold.mask"],
        "AgentChanged": ["sevenfold.agent"],
    }
    collected = Collected()(stamped(sample))
    collected.sink.close()
    assert [span.name for span in collected.spans] == told[type(sample).__name__]
    assert collected.sink.dropped == 0


def test_a_layer_that_failed_is_an_error_and_one_that_could_not_help_is_none():
    (failed,) = (stamped(sample) for sample in SAMPLES if type(sample).__name__ == "SteppedAside")
    error, aside = Collected()(failed, stamped(failed, error="")).spans
    assert (error.attributes["error.type"], error.status) == ("Overloaded", StatusCode.ERROR)
    assert ("error.type" in aside.attributes, aside.status) == (False, StatusCode.UNSET)


@pytest.mark.spec("S4.18")
def test_a_compaction_marks_the_later_requests_of_its_conversation():
    compaction = stamped(
        ACTED, layer="compact", mechanism="fork", tokens_before=170_000, tokens_after=20_000
    )
    collected = Collected()(SENDING, ANSWERED, compaction)
    for source in ("main", "agent:reviewer"):
        collected(stamped(SENDING, 9, source=source), stamped(ANSWERED, 10, source=source))
    before, acted, main, agent = collected.spans
    mark = "gen_ai.conversation.compacted"
    assert [span.attributes.get(mark) for span in (before, acted, main, agent)] == [None, None, True, None]
    assert acted.attributes["sevenfold.tokens_before"] == 170_000


def test_every_text_is_masked():
    collected = Collected(mask=lambda text: text.replace("hunter2", "***"))
    collected(
        stamped(SENDING, lost_because="hunter2"),
        Repaired(what="hunter2", where="x", session="s1", at=BEGAN),
        stamped(FAILED, reason="hunter2 refused"),
    )
    assert "hunter2" not in repr(collected.span)
    assert collected.span.description == "*** refused"


def test_without_the_api_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    with pytest.raises(SettingError, match=r"pip install 'sevenfold\[otel\]'"):
        OtelSink()


def test_without_a_provider_nothing_is_recorded_and_nothing_fails():
    with OtelSink() as sink:
        for sample in SAMPLES:
            sink(stamped(sample))
    assert sink.dropped == 0
