"""Ranges in the middle of a conversation, and the manager that folds finished spans."""

from __future__ import annotations

import json
from typing import Any

import pytest

import sevenfold
from sevenfold.errors import ContextFull, Refused
from sevenfold.events import Acted, Answered, CacheBroke, Compacted
from tests.engine.working import (
    ASKED,
    BOUND,
    FREE,
    MODELS,
    Mind,
    begun,
    body,
    messages,
    rounds_of,
    texts,
    uuids,
    world,
)


def span(session: sevenfold.Session, first: int, rounds: int) -> dict[str, Any]:
    """So many rounds from one on, as a wish."""
    starts, names = rounds_of(session), uuids(session)
    return {
        "span": "range",
        "record": starts[first],
        "until": names[names.index(starts[first + rounds]) - 1],
    }


@pytest.mark.spec("S4.5", "S2.9", "S9.2")
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("engine", ["fork", "plain", "extractive"])
def test_a_range_is_folded_and_all_around_it_stays(model: str, engine: Any) -> None:
    with world() as here, begun(here, 9, model=model) as session:
        before = messages(body(session))
        done = session.compact(engine=engine, **span(session, 2, 4))
        assert done is not None
        assert done.engine == engine
        assert done.score.total.lost == 0
        raw = body(session)
        said = texts(raw)
        assert "<folded-rounds>" in said
        assert "<continued-session>" not in said
        seen = [n for n in range(1, 10) if f"Looking at part {n}." in said.partition("<folded-rounds>")[0]]
        assert seen == [1, 2]
        assert all(f"Looking at part {n}." in said.partition("</folded-rounds>")[2] for n in (7, 8, 9))
        after = messages(raw)
        assert [m["content"] for m in after[:4] if m["role"] == "assistant"] == [
            m["content"] for m in before[:4] if m["role"] == "assistant"
        ]
        here.work(session, 2)
        assert session.gauge.seen < done.tokens_before + 2_500
        assert [session.at(n) for n in range(session.gauge.requests)]


@pytest.mark.spec("S4.5", "S10.1")
@pytest.mark.parametrize("model", MODELS)
def test_a_fold_undone_at_once_gives_the_same_bytes_again(model: str) -> None:
    with world() as here, begun(here, 9, model=model) as session:
        known = body(session)
        done = session.compact(engine="extractive", **span(session, 1, 3))
        assert done is not None
        assert body(session) != known
        assert session.undo(done.boundary) == done.boundary
        assert body(session) == known


@pytest.mark.spec("S10.1")
def test_what_was_decided_last_is_undone_first() -> None:
    with world() as here, begun(here, 6) as session:
        known = body(session)
        compaction = session.compact(engine="extractive")
        here.work(session, 5)
        fold = session.compact(engine="extractive", **span(session, 1, 2))
        assert compaction is not None
        assert fold is not None
        assert session.undo() == fold.boundary
        assert session.undo() == compaction.boundary
        assert messages(body(session))[: len(messages(known)) - 1] == messages(known)[:-1]
        assert session.redo() == compaction.boundary


@pytest.mark.spec("S4.5")
def test_a_range_that_tears_a_round_or_ends_with_the_newest_is_refused() -> None:
    with world() as here, begun(here, 6) as session:
        names, starts = uuids(session), rounds_of(session)
        with pytest.raises(Refused, match="followed by more of the same round"):
            session.compact(span="range", record=starts[1], until=starts[3])
        with pytest.raises(Refused, match="before the newest round"):
            session.compact(span="range", record=starts[1], until=names[-1])
        with pytest.raises(Refused, match="not a span"):
            session.compact(span="range", record=starts[3], until=starts[1])
        with pytest.raises(Refused, match="belongs to the answer before it"):
            session.compact(span="from", record=names[names.index(starts[2]) + 1])
        assert not here.told(Compacted)


@pytest.mark.spec("S4.5", "S4.12")
def test_what_is_pinned_in_a_range_stays_word_for_word() -> None:
    with world() as here, begun(here, 6) as session:
        session.user("The budget is 4,711 euros and not a cent more.")
        here.work(session, 3)
        pinned = next(
            item.record.uuid
            for item in session.conversation.transcript.view.items
            if b"4,711" in item.record.blocks[0].raw
        )
        session.pin(pinned)
        done = session.compact(engine="extractive", **span(session, 3, 4))
        assert done is not None
        assert done.restored == ("pins",)
        assert "The budget is 4,711 euros" in texts(body(session)).partition("<pinned>")[2]


@pytest.mark.spec("S10.3", "S4.12")
def test_what_was_folded_is_not_lost_when_the_whole_is_compacted_later() -> None:
    with world() as here, begun(here, 5) as session:
        session.user("Rename nothing in lib/ledger.go, ticket PAY-4711 says why.")
        here.work(session, 4)
        first = session.compact(engine="extractive", **span(session, 2, 4))
        done = session.compact(engine="extractive")
        assert first is not None
        assert done is not None
        assert done.score.total.lost == 0
        assert "Rename nothing in lib/ledger.go, ticket PAY-4711 says why." in texts(body(session))
        assert "src/part3.py" in done.summary


@pytest.mark.spec("S2.9", "S4.1", "S8.3")
@pytest.mark.parametrize("model", [BOUND, FREE])
def test_collapse_folds_finished_spans_and_auto_compaction_stands_down(model: str) -> None:
    with world() as here, here.session(model=model, settings={"collapse": True}) as session:
        session.user(ASKED)
        largest = 0
        for _ in range(30):
            here.work(session, 1, 3_000)
            largest = max(largest, json.loads(here.bodies[-1])["max_tokens"] and session.gauge.seen)
        folds = here.told(Compacted)
        assert len(folds) >= 2
        assert {event.trigger for event in folds} == {"collapse"}
        assert all(event.tokens_before >= 0.85 * session.gauge.effective for event in folds)
        assert "<folded-rounds>" in texts(here.bodies[-1])
        assert "<continued-session>" not in texts(here.bodies[-1])
        assert ASKED in texts(here.bodies[-1])
        assert here.mind.asked.count("summary") == len(folds) or here.told(Acted)
        forks = [line for line in here.line.sources if line == "collapse"]
        assert len(forks) == len(folds)


@pytest.mark.spec("S2.9", "S6.6")
def test_a_fork_that_is_shown_the_beginning_only_breaks_no_cache_and_is_estimated_by_what_it_sends() -> (
    None
):
    with world() as here, begun(here, 12) as session:
        session.compact(engine="fork", **span(session, 2, 3))
        asked = [event for event in here.told(Answered) if event.source == "compact"]
        assert asked
        for event in asked:
            sent = event.input_tokens + event.cache_read_tokens + event.cache_write_tokens
            assert abs(event.estimated - sent) < 0.15 * sent
        assert [event.source for event in here.told(CacheBroke) if event.source == "compact"] == []


@pytest.mark.spec("S2.9")
def test_collapse_stops_sending_at_95_percent_when_nothing_can_be_folded() -> None:
    with world() as here, here.session(settings={"collapse": True}) as session:
        session.user(ASKED + " word" * 19_000)
        with pytest.raises(ContextFull, match="fold"):
            here.work(session, 3, 100)


@pytest.mark.spec("S2.9", "S4.17")
def test_with_collapse_on_a_manual_compaction_works_and_notes_go_on() -> None:
    with world(Mind()) as here, begun(here, 8, settings={"collapse": True, "notes": True}) as session:
        done = session.compact(engine="fork")
        assert done is not None
        assert done.trigger == "manual"
        session.settle(30)
        assert "notes" in here.mind.asked
