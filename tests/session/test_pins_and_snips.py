"""What the user decides: what stays, what goes, and where the conversation goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from sevenfold.errors import Refused
from sevenfold.events import Acted, CacheBroke, EpochOpened, Event, Proposed, Veto
from sevenfold.lab.simulator.brains import ModelReply, ScriptedBrain, tool_use
from sevenfold.record import blocks
from sevenfold.record.decisions import CompactMetadata
from tests.session.talking import (
    BOUND,
    FREE,
    alone,
    answer,
    calling,
    fake_reply,
    hear,
    kinds_of,
    output,
    said,
    talker,
    uuids,
    work,
    world,
)


@pytest.mark.spec("S8.2", "S2.4")
def test_what_is_pinned_is_not_cleared_until_it_is_unpinned(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    settings = {"gap_keep": 1, "offload": False}
    with world() as here:
        with here.open(file, model=FREE, settings=settings) as session:
            session.user("begin")
            work(session, 5, output(times=300))
            session.pin(uuids(session)[2])
        with here.open(file, model=FREE, settings=settings) as session:
            here.clock.advance(4_000)
            answer(session, session.complete())
            results = [
                b["content"]
                for m in said(here.bodies[-1])
                for b in m["content"]
                if b["type"] == "tool_result"
            ]
            assert [content.startswith("a line") for content in results] == [
                True,
                False,
                False,
                False,
                True,
            ]
            session.unpin(uuids(session)[2])
            here.clock.advance(4_000)
            session.complete()
            results = [
                b["content"]
                for m in said(here.bodies[-1])
                for b in m["content"]
                if b["type"] == "tool_result"
            ]
            assert not results[0].startswith("a line")


@pytest.mark.spec("S8.2")
def test_pins_have_a_budget_and_refuse_what_is_not_there() -> None:
    with alone(settings={"pins_tokens": 500}) as session:
        record = session.user("word " * 200)
        session.pin(record)
        session.pin(record)
        other = session.user("word " * 200)
        with pytest.raises(
            Refused, match=r"about [\d,]+ tokens, [\d,]+ are pinned already.*budget.*500 \(pins_tokens\)"
        ):
            session.pin(other)
        with pytest.raises(Refused, match="nonsense is not a record in view"):
            session.pin("nonsense")
        with pytest.raises(Refused, match="is not pinned"):
            session.unpin(other)
        session.unpin(record)
        session.pin(other)


@pytest.mark.spec("S2.9", "S9.2", "S6.6")
@pytest.mark.parametrize("model", [BOUND, FREE])
def test_a_snip_takes_whole_rounds_out_of_sight_and_nothing_else(model: str) -> None:
    with world() as here, here.session(model=model) as session:
        session.user("begin")
        work(session, 5, output(times=400), clock=here.clock)
        before, records = session.gauge.seen, uuids(session)
        name = session.snip(records[3], records[6])
        assert session.gauge.seen < before
        session.complete()
        body = here.bodies[-1]
        assert [f"toolu_{n}_0".encode() in body for n in range(1, 6)] == [True, False, False, True, True]
        assert kinds_of(body).count("thinking") == (0 if model == BOUND else 3)
        acted = here.told(Acted)[-1]
        assert (acted.layer, acted.items, acted.reference) == ("snip", 4, name)
        assert acted.tokens_after < acted.tokens_before
        assert all(event.expected for event in here.told(CacheBroke))
        assert session.fetch("toolu_2_0") == output(times=400).encode()
        assert session.why().expected_tokens == pytest.approx(session.why().actual_tokens, rel=0.05)


@pytest.mark.spec("S2.9")
def test_a_snip_is_refused_where_it_would_tear_or_take_too_much() -> None:
    with alone() as session:
        session.user("begin")
        hear(session, fake_reply(calling("t1")))
        session.tool_results({"t1": "x"})
        hear(session, fake_reply(calling("t2"), number=2))
        session.tool_results({"t2": "y"})
        records = uuids(session)
        for first, last, words in (
            (records[1], records[1], "whole rounds"),
            (records[2], records[3], "whole rounds"),
            (records[3], records[4], "newest round"),
            (records[4], records[1], "not a span"),
            ("nonsense", records[2], "not a span"),
        ):
            with pytest.raises(Refused, match=words):
                session.snip(first, last)
        session.pin(records[2])
        with pytest.raises(Refused, match="is pinned; unpin it first"):
            session.snip(records[1], records[2])
        session.unpin(records[2])
        session.snip(records[1], records[2])
        with pytest.raises(Refused, match="out of the context already"):
            session.snip(records[1], records[2])
    with alone(settings={"snip": False}) as session, pytest.raises(Refused, match="switched off"):
        session.snip("a", "b")


@pytest.mark.spec("S2.9", "S8.2")
def test_a_listener_can_refuse_a_snip() -> None:
    def refuse(event: Event) -> Veto | None:
        return Veto("not that") if isinstance(event, Proposed) and event.layer == "snip" else None

    with alone(listen=[refuse]) as session:
        session.user("begin")
        hear(session, fake_reply())
        session.user("go on")
        records = uuids(session)
        with pytest.raises(Refused, match="a listener refused"):
            session.snip(records[0], records[1])
        assert len(said(session.prepare().body)) == 3


@pytest.mark.spec("S8.6", "S9.2")
@pytest.mark.parametrize("model", [BOUND, FREE])
def test_a_rewind_goes_on_from_an_earlier_record_and_keeps_the_reasoning_before_it(model: str) -> None:
    with world() as here, here.session(model=model) as session:
        session.user("begin")
        work(session, 4, clock=here.clock)
        here.events.clear()
        session.rewind(uuids(session)[4])
        session.user("another way")
        answer(session, session.complete())
        assert here.told(EpochOpened) == []
        assert kinds_of(here.bodies[-1]).count("thinking") == 2
        assert all(event.expected for event in here.told(CacheBroke))
        usage = here.simulator.requests.answered()[-1].usage or {}
        assert usage["cache_read_input_tokens"] > 0
        session.complete()
        session.rewind(None)
        session.user("from the start")
        session.complete()
        assert kinds_of(here.bodies[-1]) == ["text"]


@pytest.mark.spec("S8.6", "S9.2")
@pytest.mark.parametrize("model", [BOUND, FREE])
def test_a_rewind_may_go_to_before_a_boundary_and_onto_another_branch(model: str, tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with world(talker()) as here:
        with here.open(file, model=model) as session:
            for words in ("one", "two"):
                session.user(words)
                session.complete()
            early = uuids(session)
            session.conversation.open_epoch("compaction", drops_thinking=True)
            session.conversation.transcript.compact(CompactMetadata(), [blocks.text("in short")])
            session.user("three")
            session.complete()
            late = uuids(session)
        with here.open(file, model=model) as session:
            session.rewind(early[1])
            session.user("two, but otherwise")
            session.complete()
            texts = [
                block["text"]
                for message in said(here.bodies[-1])
                for block in message["content"]
                if "text" in block
            ]
            assert texts == ["one", "Looking at part 1.", "two, but otherwise"]
        with here.open(file, model=model) as session:
            session.user("go on")
            session.complete()
            session.rewind(late[-1])
            session.user("back again")
            session.complete()
            assert [block["text"] for block in said(here.bodies[-1])[0]["content"]] == ["in short", "three"]
        with here.open(file, model=model) as session:
            session.user("still here")
            session.complete()
            assert b"back again" in here.bodies[-1]


@pytest.mark.spec("S8.6", "S9.2")
def test_a_rewind_to_before_a_clearing_brings_back_no_reasoning_the_server_would_refuse(
    tmp_path: Path,
) -> None:
    file = tmp_path / "s.jsonl"
    with world() as here:
        with here.open(file, settings={"gap_keep": 1, "offload": False}) as session:
            session.user("begin")
            work(session, 8, output(times=900), clock=here.clock)
            place = uuids(session)[-1]
            here.simulator.brain = talker()
            session.complete()
            here.clock.advance(4_000)
            session.user("good morning")
            session.complete()
            assert here.told(Acted)
        for system in ("You are a careful assistant. " * 600, "Somebody else. " * 400):
            with here.open(file, system=system) as session:
                session.rewind(place)
                session.user(f"another way with {system[:8]}")
                session.complete()


@pytest.mark.spec("S8.6", "S8.9", "S9.2")
@pytest.mark.parametrize("back", [1, 2])
def test_a_rewind_to_behind_an_unfinished_server_tool_keeps_no_reasoning_that_words_would_invalidate(
    tmp_path: Path, back: int
) -> None:
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
    answers = iter(
        (
            ModelReply([{"type": "thinking", "thinking": "first"}, search], "pause_turn"),
            [{"type": "thinking", "thinking": "then"}, tool_use("Shell", {}, "toolu_1")],
        )
    )
    file = tmp_path / "s.jsonl"
    with world(ScriptedBrain(lambda prompt: next(answers, "Done."))) as here:
        with here.open(file) as session:
            session.user("begin")
            session.complete()
            session.complete()
            session.tool_results({"toolu_1": "found"})
            session.complete()
            session.rewind(uuids(session)[-1 - back])
        with here.open(file) as session:
            session.user("why?")
            session.complete()
    assert [request.status for request in here.simulator.requests] == [200] * 4


@pytest.mark.spec("S8.6")
def test_a_rewind_to_nowhere_is_refused_and_changes_nothing() -> None:
    with alone() as session:
        session.user("begin")
        hear(session, fake_reply())
        with pytest.raises(Refused, match="there is no record nonsense"):
            session.rewind("nonsense")
        session.user("go on")
        assert len(said(session.prepare().body)) == 3
