"""Everything that can be made to go wrong does, when it should and only then."""

from __future__ import annotations

import httpx2
import msgspec
import pytest

from sevenfold.lab.simulator.brains import ScriptedBrain
from sevenfold.lab.simulator.clock import VirtualClock
from sevenfold.lab.simulator.faults import Fault, Faults
from sevenfold.lab.simulator.server import serve
from tests.simulator.wire import Wire, always, headers, simulated, text, user

BODY = {"model": "claude-sonnet-5-5", "max_tokens": 100, "messages": [user("hi")]}


def failing(*faults: Fault) -> Wire:
    """A simulator whose first requests meet these faults, one after the other."""
    schedule = dict(enumerate(faults, 1))
    return simulated(always(text("one two three four five six seven eight")), faults=Faults(schedule))


@pytest.mark.parametrize(
    ("fault", "status", "kind"),
    [
        (Fault("rate_limited", retry_after=7), 429, "rate_limit_error"),
        (Fault("overloaded"), 529, "overloaded_error"),
        (Fault("server_error"), 500, "api_error"),
        (Fault("compaction_unavailable"), 529, "overloaded_error"),
    ],
)
def test_a_scheduled_error_comes_once(fault: Fault, status: int, kind: str) -> None:
    wire = failing(fault)
    answer = wire.messages()
    assert (answer.status, answer.body["error"]["type"]) == (status, kind)
    assert answer.headers.get("retry-after") == ("7" if fault.retry_after else None)
    assert wire.messages().status == 200


def test_a_rate_limit_may_come_without_a_time_to_wait() -> None:
    assert "retry-after" not in failing(Fault("rate_limited")).messages().headers


def test_an_unavailable_compaction_says_so_in_its_code() -> None:
    assert failing(Fault("compaction_unavailable")).messages().code == "compaction_unavailable"


def test_faults_come_in_openai_bodies_too() -> None:
    wire = failing(Fault("rate_limited", retry_after=1))
    body = {"model": "gpt-5", "messages": [{"role": "user", "content": "hi"}]}
    answer = wire.post("/v1/chat/completions", body, {"authorization": "Bearer simulated-key"})
    assert (answer.status, set(answer.body["error"])) == (429, {"message", "type", "param", "code"})


def test_counting_and_listing_meet_no_faults() -> None:
    wire = failing(Fault("server_error"))
    assert wire.count().status == 200
    assert wire.get("/v1/models", headers()).status == 200
    assert wire.messages().status == 500


def test_a_stream_can_break_off_with_an_error_event() -> None:
    events = failing(Fault("error_event", after=4)).messages(stream=True).events
    assert events[-1] == (
        "error",
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
    )
    assert len(events) == 5


def test_a_stream_can_end_early_without_a_word() -> None:
    kinds = [
        kind for kind, _ in failing(Fault("cut_stream", after=4, clean=True)).messages(stream=True).events
    ]
    assert kinds == ["message_start", "ping", "content_block_start", "content_block_delta"]


def test_a_stream_can_hold_an_event_that_is_not_json() -> None:
    raw = failing(Fault("malformed_event", after=3)).messages(stream=True).raw
    broken = [line for line in raw.decode().splitlines() if line.startswith("data: ") and line[-1] != "}"]
    assert len(broken) == 1
    assert raw.count(b"message_stop") > 0


def test_a_body_can_be_cut_in_half() -> None:
    answer = failing(Fault("truncated_body")).messages()
    assert answer.status == 200
    with pytest.raises(msgspec.DecodeError):
        _ = answer.body


def test_a_slow_first_byte_takes_time_on_the_clock() -> None:
    clock = VirtualClock(start=1_000.0)
    faults = Faults({1: Fault("slow_first_byte", seconds=42)})
    wire = simulated(always(text("ok")), clock=clock, faults=faults)
    assert wire.messages().status == 200
    assert clock.now() == 1_042.0


def test_a_broken_connection_breaks() -> None:
    wire = failing(Fault("cut_stream", after=4))
    with serve(wire.simulator) as url, httpx2.Client(base_url=url, headers=headers()) as client:
        with (
            client.stream("POST", "/v1/messages", json={**BODY, "stream": True}) as response,
            pytest.raises(httpx2.RemoteProtocolError),
        ):
            list(response.iter_bytes())
        assert client.post("/v1/messages", json=BODY).status_code == 200


def test_no_answer_is_no_answer() -> None:
    wire = failing(Fault("no_answer"))
    with serve(wire.simulator) as url, httpx2.Client(base_url=url, headers=headers()) as client:
        with pytest.raises(httpx2.ReadTimeout):
            client.post("/v1/messages", json=BODY, timeout=0.1)
        assert client.post("/v1/messages", json=BODY).status_code == 200


def test_faults_by_chance_are_the_same_for_the_same_seed() -> None:
    def statuses(seed: int) -> list[int]:
        faults = Faults(chances=[(0.3, Fault("overloaded")), (0.2, Fault("server_error"))], seed=seed)
        wire = simulated(always(text("ok")), faults=faults)
        return [wire.messages().status for _ in range(40)]

    first = statuses(1)
    assert first == statuses(1)
    assert first != statuses(2)
    assert {200, 500, 529} == set(first)


def test_the_next_requests_can_be_told_to_fail() -> None:
    wire = simulated(always(text("ok")))
    wire.messages()
    wire.simulator.faults.then(Fault("overloaded"), requests=2)
    assert [wire.messages().status for _ in range(4)] == [529, 529, 200, 200]


def test_a_script_that_ran_out_answers_with_an_error_nobody_should_retry() -> None:
    wire = simulated(ScriptedBrain(["one"]))
    wire.messages()
    answer = wire.messages()
    assert (answer.status, answer.headers["x-should-retry"]) == (500, "false")
    assert "the script has 1 steps, and this is request 2" in answer.error
