"""Metrics, as a real OpenTelemetry SDK gets them."""

from __future__ import annotations

import pytest

from sevenfold.events import (
    Acted,
    Answered,
    CacheBroke,
    Checked,
    Event,
    Failed,
    Sending,
    SteppedAside,
    Vetoed,
)
from tests.telemetry.collecting import Collected
from tests.telemetry.making import MODEL, SAMPLES, stamped


def sample(kind: type[Event]) -> Event:
    (found,) = (event for event in SAMPLES if type(event) is kind)
    return stamped(found)


ASKED = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "anthropic",
    "gen_ai.request.model": MODEL,
}


@pytest.mark.spec("S9.6")
def test_an_answer_counts_its_tokens_its_time_and_its_money():
    answer = stamped(
        sample(Answered),
        seconds=4.5,
        input_tokens=20,
        cache_read_tokens=40_000,
        cache_write_tokens=9_980,
        output_tokens=700,
        usd=0.06,
    )
    measured = Collected()(answer, answer).measured()
    answered = {**ASKED, "gen_ai.response.model": MODEL}
    assert measured["gen_ai.client.token.usage"] == [
        ({**answered, "gen_ai.token.type": "input"}, 100_000),
        ({**answered, "gen_ai.token.type": "output"}, 1_400),
    ]
    assert measured["gen_ai.client.operation.duration"] == [(answered, 9.0)]
    assert measured["sevenfold.cost"] == [({**answered, "sevenfold.source": "main"}, 0.12)]


def test_a_failure_counts_its_time_under_its_error():
    collected = Collected()(stamped(sample(Sending), request="r2"), stamped(sample(Failed), 3))
    assert collected.measured() == {
        "gen_ai.client.operation.duration": [({**ASKED, "error.type": "Overloaded"}, 3.0)]
    }


def test_a_look_at_the_size_sets_the_gauges_of_its_kind_of_source():
    collected = Collected()(sample(Checked), stamped(sample(Checked), used=51_000, percent_left=67))
    collected(
        stamped(sample(Checked), source="agent:reviewer"), stamped(sample(Checked), source="agent:writer")
    )
    main, agent = {"sevenfold.source": "main"}, {"sevenfold.source": "agent"}
    assert collected.measured() == {
        "sevenfold.context.tokens": [(main, 51_000), (agent, 50_000)],
        "sevenfold.context.percent_left": [(main, 67), (agent, 68)],
        "sevenfold.context.wire_bytes": [(main, 210_000), (agent, 210_000)],
    }


def test_layers_are_counted_by_what_they_did_and_freed():
    collected = Collected()(sample(Acted), sample(Acted), sample(Vetoed), sample(SteppedAside))
    clear = {"sevenfold.layer": "clear", "sevenfold.mechanism": "local"}
    assert collected.measured() == {
        "sevenfold.layer.actions": [(clear, 2)],
        "sevenfold.layer.freed_tokens": [(clear, 1_400)],
        "sevenfold.layer.vetoes": [({"sevenfold.layer": "snip", "sevenfold.mechanism": "rounds"}, 1)],
        "sevenfold.layer.stepped_aside": [({"sevenfold.layer": "compact", "error.type": "Overloaded"}, 1)],
    }


@pytest.mark.spec("S6.6")
def test_breaks_of_the_cache_are_counted_by_cause():
    expired = stamped(sample(CacheBroke), cause="expired", expected=True)
    measured = Collected()(sample(CacheBroke), expired, expired).measured()
    tool = {"sevenfold.cause": "tool", "sevenfold.expected": False}
    idle = {"sevenfold.cause": "expired", "sevenfold.expected": True}
    assert measured["sevenfold.cache.breaks"] == [(tool, 1), (idle, 2)]
    assert measured["sevenfold.cache.lost_tokens"] == [(tool, 9_000), (idle, 18_000)]


@pytest.mark.parametrize("usd", [None, 0.0, -1.0, float("inf"), float("nan")])
def test_what_is_not_known_is_not_measured(usd):
    answer = stamped(sample(Answered), usd=usd, input_tokens=0, output_tokens=0, seconds=0.0)
    assert Collected()(answer).measured() == {}


def test_no_metric_is_kept_apart_by_session_or_request():
    def series(sessions: int) -> list[tuple[str, dict[str, object]]]:
        collected = Collected()
        for number in range(sessions):
            for event in SAMPLES:
                name = f"{number}"
                more = {"request": name} if hasattr(event, "request") else {}
                collected(stamped(event, session=name, **more))
        return [(metric, by) for metric, points in collected.measured().items() for by, _ in points]

    assert series(1) == series(5) != []
