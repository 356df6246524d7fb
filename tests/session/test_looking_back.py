"""What a session can say about itself: what was sent, why, what it cost, how full it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sevenfold
from sevenfold.conversation.flow import drive
from sevenfold.conversation.resume import read
from sevenfold.errors import Refused
from sevenfold.providers.registry import client_of
from sevenfold.record.decisions import Request
from sevenfold.record.entries import Decision
from tests.session.talking import (
    BOUND,
    FREE,
    World,
    alone,
    answer,
    output,
    streamed,
    talker,
    uuids,
    work,
    world,
)


def ask_aside(here: World, session: sevenfold.Session, source: str = "prompt_suggestion") -> None:
    fork = session.fork(source)
    fork.user("what next?")
    drive(fork.turn(), client_of(here.sdk))


@pytest.mark.spec("S10.1", "S8.4")
@pytest.mark.parametrize("model", [BOUND, FREE])
def test_every_request_can_be_had_again_byte_for_byte(model: str, tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    settings = {"offload_characters": 2_000, "preview_bytes": 500, "gap_keep": 1}
    with world() as here:
        with here.open(file, model=model, settings=settings) as session:
            session.user("begin")
            work(session, 4, output(times=900), clock=here.clock)
            ask_aside(here, session)
            here.clock.advance(4_000)
            work(session, 2, clock=here.clock)
            records = uuids(session)
            session.snip(records[1], records[2])
            work(session, 1)
            session.undo()
            session.rewind(records[2])
            session.user("another way")
            work(session, 2)
        with here.open(file, model=model, settings=settings) as session:
            count = session.gauge.requests
            assert count == len(here.bodies) == 10
            assert [streamed(session.at(number)) for number in range(count)] == here.bodies
            assert [session.at(number - count) for number in range(count)] == [
                session.at(number) for number in range(count)
            ]
            for number in (count, -count - 1):
                with pytest.raises(
                    Refused, match=f"no request number {number} on record; the newest is number 9"
                ):
                    session.at(number)


@pytest.mark.spec("S10.1", "S7.1")
def test_a_fork_that_was_sent_late_is_rebuilt_from_where_it_was_taken() -> None:
    with world() as here, here.session() as session:
        session.user("begin")
        work(session, 2)
        fork = session.fork("agent:reviewer")
        fork.user("look at it")
        answer(session, session.complete())
        drive(fork.turn(), client_of(here.sdk))
        fork.tool_results({"toolu_4_0": "fine"})
        drive(fork.turn(), client_of(here.sdk))
        assert [streamed(session.at(number)) for number in range(5)] == here.bodies
        assert session.why(3).source == "agent:reviewer"


@pytest.mark.spec("S10.1")
def test_after_a_purge_the_bytes_are_said_to_be_gone(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with world(talker()) as here:
        with here.open(file) as session:
            session.user("the password is swordfish")
            session.complete()
        file.write_bytes(file.read_bytes().replace(b"swordfish", b"[masked]"))
        with here.open(file) as session:
            with pytest.raises(Refused, match=r"cannot be rebuilt byte for byte.*purge"):
                session.at(0)
            session.user("go on")
            _ = session.prepare().body
            assert b"[masked]" in session.at(-1)


@pytest.mark.spec("S9.6", "S10.1")
def test_why_compares_what_was_expected_with_what_came_true() -> None:
    with world() as here, here.session() as session:
        session.user("begin")
        work(session, 5, output(times=200), clock=here.clock)
        for number in range(1, 5):
            why = session.why(number)
            usage = here.simulator.requests.answered()[number].usage or {}
            prompt = sum(usage[name] for name in usage if name.endswith("input_tokens"))
            assert why.actual_tokens == prompt
            assert why.expected_tokens == pytest.approx(prompt, rel=0.06 if number == 1 else 0.02)
            assert why.expected_usd == pytest.approx(why.actual_usd, rel=0.3 if number == 1 else 0.2)
            assert why.usd is not None
            assert why.actual_usd is not None
            assert why.usd > why.actual_usd
            assert why.why is not None
            assert why.why.rule
        assert sum(session.why(number).usd or 0 for number in range(5)) == pytest.approx(session.gauge.usd)


@pytest.mark.spec("S9.6")
def test_a_request_without_an_answer_has_no_figures_and_the_repeat_has_its_own(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with world(talker()) as here:
        with here.open(file) as session:
            session.user("begin")
            _ = session.prepare().body
            assert (session.why(0).actual_tokens, session.why(0).usd) == (None, None)
        with here.open(file) as session:
            session.complete()
            assert session.why(0).actual_tokens is None
            assert session.why(1).actual_tokens is not None


@pytest.mark.spec("S9.6", "S7.1")
def test_a_forks_request_is_explained_by_its_own_answer() -> None:
    with world(talker()) as here, here.session() as session:
        session.user("begin")
        request = session.prepare()
        reply = here.sdk.messages.create(**request)
        ask_aside(here, session)
        session.observe(reply)
        main, aside = (request.usage or {} for request in here.simulator.requests.answered())
        for number, usage in enumerate((main, aside)):
            prompt = sum(usage[name] for name in usage if name.endswith("input_tokens"))
            assert session.why(number).actual_tokens == prompt


@pytest.mark.spec("S0.4", "S0.10", "S9.6")
def test_the_gauge_shows_sizes_levels_and_cost() -> None:
    with world() as here, here.session(settings={"context_window": 200_000}) as session:
        session.user("begin")
        work(session, 4, output(times=300))
        gauge = session.gauge
        assert (gauge.context, gauge.effective, gauge.threshold) == (200_000, 180_000, 167_000)
        assert gauge.low <= gauge.seen <= gauge.high == gauge.seen + gauge.band
        assert gauge.sent >= gauge.seen
        assert gauge.percent_left == round((gauge.limit - gauge.seen) / gauge.limit * 100)
        assert not (gauge.above_warning)
        assert not (gauge.above_error)
        assert not (gauge.at_blocking)
        assert not (gauge.above_auto_compact)
        assert 0 < gauge.wire < (gauge.wire_limit or 0)
        assert (gauge.images, gauge.requests) == (0, 4)
        assert gauge.usd == pytest.approx(sum(session.why(number).usd or 0 for number in range(4)))


@pytest.mark.spec("S9.6")
def test_a_model_without_a_price_has_no_cost() -> None:
    with alone(model="local-8k", tools=[]) as session:
        session.user("hello")
        _ = session.prepare().body
        session.observe(
            {
                "id": "m",
                "role": "assistant",
                "model": "local-8k",
                "content": [{"type": "text", "text": "x"}],
                "usage": {"input_tokens": 10, "output_tokens": 1},
            }
        )
        assert session.gauge.usd is None
        assert session.why().usd is None


@pytest.mark.spec("S10.1")
def test_a_request_record_stays_small(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with world() as here, here.open(file) as session:
        session.user("begin")
        work(session, 3, output(times=900))
        log = session.conversation.transcript.log
        sizes = [
            len(line)
            for offset, entry in read(log)
            if isinstance(entry, Decision) and isinstance(entry.record, Request)
            for _, line in [next(iter(log.read(offset)))]
        ]
        assert len(sizes) == 3
        assert max(sizes) < 1_000
        assert json.loads(session.at(0))["model"] == BOUND
