"""Going on where a session stopped: the same bytes, the same account, the same gauge."""

from __future__ import annotations

from pathlib import Path

import pytest

import sevenfold
from sevenfold.conversation.flow import drive
from sevenfold.conversation.resume import SizeReport, fold, resume
from sevenfold.providers.offline import OfflineClient, Script
from sevenfold.providers.registry import client_of
from sevenfold.record import blocks
from sevenfold.record.decisions import CompactMetadata, Segment, Undone
from sevenfold.record.layout import Measured
from sevenfold.record.view import View
from sevenfold.stores.jsonl.log import JsonlLog
from sevenfold.stores.memory import MemoryLog
from tests.session.talking import (
    ALONE,
    BOUND,
    FREE,
    answer,
    fake_reply,
    hear,
    output,
    reader,
    streamed,
    uuids,
    work,
    world,
)
from tests.support import answer as spoken
from tests.support import transcript

pytestmark = pytest.mark.usefixtures("compactions_of_any_size")


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


@pytest.mark.spec("S0.6")
def test_what_was_reported_while_a_compaction_was_undone_teaches_nothing_about_the_view_after_it() -> None:
    log = MemoryLog()
    script = transcript(log)
    script.user([blocks.text("long ago " * 5_000)])
    script.model(spoken("indeed", id="m1", prompt=40_000))
    boundary = script.compact(CompactMetadata("manual"), [blocks.text("so far")])
    script.decide(Undone(decision=boundary))
    script.user([blocks.text("go on")])
    script.model(spoken("going", id="m2", prompt=40_100))
    script.decide(Undone(decision=boundary, redo=True))
    script.user([blocks.text("and on")])
    reports: list[SizeReport] = []
    view = resume(log, reports)
    assert view.boundary == boundary
    assert reports == []
    script.model(spoken("still", id="m3", prompt=300))
    resume(log, reports)
    assert [one.usage.prompt for one in reports if isinstance(one, Measured)] == [300]


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
            gauge = session.conversation.epoch.gauge
            assert before.usd
            assert before.usd > 0
        with here.open(file) as session:
            assert session.gauge == before
            assert session.conversation.epoch.gauge == gauge


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


@pytest.mark.spec("S12.3", "S8.4")
def test_a_log_with_lines_twice_folds_and_resumes_as_with_each_once(tmp_path: Path) -> None:
    file, twice = tmp_path / "s.jsonl", tmp_path / "twice.jsonl"
    client = OfflineClient(Script([f"Answer {number}. " + "word " * 50 for number in range(20)]))

    def seen(view: View) -> object:
        return view.encoded(), view.tip, view.boundary, view.epoch and view.epoch.id, view.undone

    def same_twice() -> bool:
        text = file.read_bytes()
        lines = text.splitlines(keepends=True)
        expected = seen(fold(JsonlLog(file)))
        for doubled in (lines * 2, [line for line in lines for _ in range(2)], [*lines, *lines[-3:]]):
            twice.write_bytes(b"".join(doubled))
            log = JsonlLog(twice)
            if not seen(fold(log)) == seen(resume(log)) == expected:
                return False
        return True

    def say(words: str) -> bool:
        session.user(words)
        session.complete()
        return same_twice()

    with sevenfold.Session.open(
        "s", file=file, folder=tmp_path, model=FREE, client=client, settings=ALONE
    ) as session:
        assert all(say(f"question {number}") for number in range(4))
        session.rewind(uuids(session)[3])
        assert say("another way")
        session.compact(engine="extractive")
        assert say("go on")
        session.undo()
        assert same_twice()
        session.redo()
        assert say("and on")
        session.rewind(uuids(session)[-3])
        assert same_twice()


@pytest.mark.spec("S0.6", "S8.4")
def test_opened_again_behind_a_compaction_what_it_hid_does_not_count_as_overhead(tmp_path: Path) -> None:
    def opened() -> sevenfold.Session:
        file = tmp_path / "s.jsonl"
        return sevenfold.Session.open("s", file=file, folder=tmp_path, model=FREE, settings=ALONE)

    with opened() as session:
        for number in range(3):
            session.user("words of it " * 4_000)
            hear(session, fake_reply(number=number, prompt=20_000 * (number + 1)))
        session.user("go on")
        session.compact(engine="extractive", span="up_to", record=uuids(session)[-2])
        before = session.conversation.size()
    with opened() as session:
        after = session.conversation.size()
        assert before.low <= after.tokens <= before.high
