"""Going on where a session stopped: the same bytes, the same account, the same gauge."""

from __future__ import annotations

from pathlib import Path

import pytest

from sevenfold.conversation.flow import drive
from sevenfold.providers.registry import client_of
from sevenfold.record import blocks
from sevenfold.record.decisions import CompactMetadata, Segment
from tests.session.talking import BOUND, FREE, answer, output, reader, streamed, uuids, work, world


@pytest.mark.spec("S8.4", "S9.2")
@pytest.mark.parametrize("model", [BOUND, FREE])
def test_a_resumed_session_sends_the_very_bytes_the_first_would_have_sent(
    model: str, tmp_path: Path
) -> None:
    file = tmp_path / "s.jsonl"
    with world() as here:
        for turn in range(6):
            with here.open(file, model=model) as session:
                if not turn:
                    session.user("begin")
                expected = session.prepare().body
            with here.open(file, model=model) as session:
                assert session.prepare().body == expected
                answer(session, session.complete())
            here.clock.advance(10)
        assert here.moved() == []


@pytest.mark.spec("S8.4", "S6.3")
def test_a_turn_of_many_calls_is_marked_the_same_after_a_restart(tmp_path: Path) -> None:
    """The safety marker stands where the last tail was, also when that was before the restart."""
    file = tmp_path / "s.jsonl"
    with world(reader(1)) as here:
        with here.open(file) as session:
            session.user("begin")
            work(session, 3)
            for number in range(25):
                session.user(f"more {number}")
            expected = session.prepare().body
            assert expected.count(b'"cache_control"') >= 3
        with here.open(file) as session:
            assert session.prepare().body == expected


@pytest.mark.spec("S0.6", "S9.6")
def test_cost_requests_and_what_the_gauge_has_learnt_survive_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with world() as here:
        with here.open(file) as session:
            session.user("begin")
            work(session, 6, output(times=200), clock=here.clock)
            fork = session.fork("prompt_suggestion")
            fork.user("what next?")
            drive(fork.turn(), client_of(here.sdk))
            before = session.gauge
            gauge = session.conversation.gauge
            assert before.usd
            assert before.usd > 0
        with here.open(file) as session:
            assert session.gauge == before
            assert session.conversation.gauge == gauge


@pytest.mark.spec("S8.4", "S10.1")
@pytest.mark.parametrize("keeps", [True, False])
def test_past_requests_and_the_next_one_survive_a_boundary_and_a_restart(
    keeps: bool, tmp_path: Path
) -> None:
    file = tmp_path / "s.jsonl"
    with world() as here:
        with here.open(file) as session:
            session.user("begin")
            work(session, 4)
            script = session.conversation.transcript
            records, anchor = uuids(session), script.new_id()
            kept = Segment(records[-2], anchor, records[-1]) if keeps else None
            session.conversation.open_epoch("compaction", drops_thinking=True)
            script.compact(
                CompactMetadata(preserved_segment=kept), [blocks.text("in short")], anchor=anchor
            )
            session.user("go on")
            expected = session.prepare().body
        with here.open(file) as session:
            assert session.prepare().body == expected
            work(session, 3)
            count = session.gauge.requests
            sent = {streamed(session.at(number)) for number in range(count)}
            assert set(here.bodies) <= sent
            assert session.at(0) == session.at(-count)


@pytest.mark.spec("S8.4")
def test_a_line_torn_by_a_crash_costs_that_line_and_no_more(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with world(reader(0)) as here:
        with here.open(file) as session:
            session.user("begin")
            session.complete()
            session.user("go on")
            expected = session.prepare().body
        with file.open("ab") as log:
            log.write(b'{"type":"user","uuid":"torn","mess')
        with here.open(file) as session:
            assert session.prepare().body == expected
            session.complete()
        assert here.moved() == []
