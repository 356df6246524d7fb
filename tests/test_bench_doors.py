"""The benchmarks of doors that act, on the smallest scale: what holds, and a control that does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import door_kills, keeping_bill, policies
from bench.clients import conversation, judging
from bench.points import Outcome, clients
from sevenfold.lab.simulator.provider import Received


@pytest.mark.spec("S40.10")
def test_a_killed_gateway_has_the_request_on_record() -> None:
    figures = door_kills.measure(kills=2)
    assert len(figures.new) == 2
    assert figures.holds


@pytest.mark.spec("S40.10")
def test_what_was_deleted_is_recorded_again() -> None:
    assert not door_kills.measure(kills=3, forgetting=True).holds


@pytest.mark.spec("S40.9")
def test_a_session_is_billed_alone_and_below_a_follower_that_keeps() -> None:
    recording = policies.made(40, 8_000, 1_000)
    row = keeping_bill.compared(recording, "claude-opus-4-6", 100_000)
    assert row.alone.compactions > 0
    assert row.kept.changed > 0
    assert row.same_bytes
    assert row.problems == ()
    assert row.share <= keeping_bill.MOST_EACH
    assert [name for name, _, met in keeping_bill.bars([row]) if not met] == []


def request(*texts: str, system: str = "Be brief.") -> Received:
    """A request of a program with these messages of the user."""
    messages = [{"role": "user", "content": text} for text in texts]
    body = {"system": system, "tools": [{"name": "read_log"}], "messages": messages}
    return Received(0.0, "POST", "/v1/messages", "", {}, json.dumps(body).encode())


def summarised(words: str) -> str:
    """A summary of ours with this in the block of the user's words."""
    return f"{judging.BOUNDARY}Work went on.<user-words>{words}</user-words></continued-session>"


FIRST, SECOND, THIRD = (conversation.message(turn) for turn in range(3))


@pytest.mark.spec("S40.3")
def test_what_a_program_was_kept_with_is_judged_by_its_requests() -> None:
    kept = [request(FIRST), request(FIRST, SECOND), request(summarised(f"{FIRST} {SECOND}"), THIRD)]
    judgement = judging.judge(kept)
    assert judgement == judging.Judgement(3, 1, (), (), head_same=True, tags=(), changed=1)
    assert judgement.is_whole
    assert not judgement.is_long


@pytest.mark.spec("S40.3")
@pytest.mark.parametrize(
    ("last", "lost"),
    [
        (request(summarised(SECOND), THIRD), "missing"),
        (request(summarised(f"{FIRST} {SECOND.replace('not', '')}"), THIRD), "missing"),
        (request(summarised(f"{FIRST} <system-reminder>{SECOND}"), THIRD), "tags"),
        (request(summarised(f"{FIRST} {SECOND}"), THIRD, system="Be long."), "head"),
    ],
)
def test_what_was_lost_or_added_is_noticed(last: Received, lost: str) -> None:
    judgement = judging.judge([request(FIRST), request(FIRST, SECOND), last])
    assert not judgement.is_whole
    assert bool(judgement.missing) is (lost == "missing")
    assert bool(judgement.tags) is (lost == "tags")
    assert judgement.head_same is (lost != "head")


@pytest.mark.spec("S40.3")
def test_nothing_is_expected_of_a_message_that_was_taken_back() -> None:
    requests = [request(FIRST), request(FIRST, SECOND), request(FIRST, THIRD)]
    assert judging.judge(requests).missing == conversation.sentences(1)
    assert not judging.judge(requests, left_out={1}).missing


@pytest.mark.spec("S40.3")
def test_real_programs_are_named_as_not_tested_where_they_cannot_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, measurement in clients.POINTS:
        assert measurement(None) == [
            Outcome(name, None, "not tested: not installed: node, npm, unshare, ip")
        ]
