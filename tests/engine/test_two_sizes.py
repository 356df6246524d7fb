"""What is sent and what is seen of it: the provider's own edits come between the two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sevenfold.clock import CountedIds
from sevenfold.conversation import provider_edits
from sevenfold.events import Acted, Compacted, SteppedAside
from tests.engine.working import ASKED, MODELS, begun, output, rounds_of, uuids, world

BY_PROVIDER: dict[str, Any] = {
    "provider_edits": True,
    "compact_engines": ["provider"],
    "context_window": 40_000,
}


@pytest.mark.spec("S4.1", "S4.3")
def test_before_more_is_sent_than_the_provider_can_summarise_it_does() -> None:
    with world() as here, here.session(settings=BY_PROVIDER) as session:
        provider_edits.open_epoch(session.conversation)
        session.user(ASKED)
        while not here.told(Compacted):
            here.work(session, 1, 2_500)
        window, done = session.conversation.window, here.told(Compacted)[0]
        assert done.engine == "provider"
        assert done.tokens_before < window.threshold
        assert done.sent_before >= 0.95 * (window.context - window.reserve)
        assert done.tokens_after < done.sent_before // 2
        assert not done.fires_again
        here.work(session, 5, 500)
        assert len(here.told(Compacted)) == 1


@pytest.mark.spec("S4.17", "S4.1")
def test_compactions_that_free_little_of_what_is_seen_do_not_come_to_rest() -> None:
    with world() as here, here.session(settings=BY_PROVIDER) as session:
        provider_edits.open_epoch(session.conversation)
        session.user(ASKED)
        while len(here.told(Compacted)) < 5:
            here.work(session, 1, 4_000)
        assert not here.told(SteppedAside, layer="compact")
        assert {done.engine for done in here.told(Compacted)} == {"provider"}
        assert all(done.turns_since > 2 for done in here.told(Compacted)[1:])


@pytest.mark.spec("S4.1")
def test_where_nobody_would_ask_the_provider_what_is_sent_is_no_reason_to_compact() -> None:
    settings = {**BY_PROVIDER, "compact_engines": ["fork", "provider"]}
    with world() as here, here.session(settings=settings) as session:
        provider_edits.open_epoch(session.conversation)
        session.user(ASKED)
        window = session.conversation.window
        while session.conversation.size().sent < window.context:
            here.work(session, 1, 2_500)
        assert not here.told(Compacted)


@pytest.mark.spec("S2.2", "S2.6")
def test_what_the_provider_left_out_before_is_not_cleared_for_nothing() -> None:
    """The user's words fill the window, and of all results that could go nothing is seen any more."""
    settings = {**BY_PROVIDER, "size_clearing": True, "auto_compact": False, "size_least_tokens": 1_000}
    with world() as here, here.session(settings=settings) as session:
        provider_edits.open_epoch(session.conversation)
        session.user(ASKED)
        while not session.conversation.edited:
            here.work(session, 1, 2_500)
        while session.gauge.seen < session.gauge.threshold:
            here.work(session, 1, 500)
            session.user(output(6_000))
        assert session.conversation.edited > 10_000
        assert session.dry_run() == []
        assert not here.told(Acted, layer="clear")


@pytest.mark.spec("S9.6", "S4.5")
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("span", ["whole", "up_to", "from"])
@pytest.mark.parametrize("engine", ["extractive", "fork"])
def test_a_preview_says_what_the_compaction_then_reports(model: str, span: Any, engine: Any) -> None:
    # With random ids the estimate would differ by a little from run to run.
    with world() as here, begun(here, 10, 2_500, model=model, ids=CountedIds()) as session:
        record = "" if span == "whole" else rounds_of(session)[6]
        seen = session.compact_preview(engine=engine, span=span, record=record)
        done = session.compact(engine=engine, span=span, record=record)
        assert done is not None
        unused = seen.tokens_summary - session.conversation.count(done.summary)
        assert seen.tokens_before == done.tokens_before
        assert seen.tokens_after - unused == pytest.approx(done.tokens_after, rel=0.02)
        assert done.tokens_after == pytest.approx(session.complete().outcome.usage.prompt, rel=0.06)


@pytest.mark.spec("S9.6")
def test_a_preview_of_a_range_leaves_what_is_around_it() -> None:
    with world() as here, begun(here, 10, 2_500) as session:
        first, behind = rounds_of(session)[2], rounds_of(session)[6]
        until = uuids(session)[uuids(session).index(behind) - 1]
        seen = session.compact_preview(engine="extractive", span="range", record=first, until=until)
        done = session.compact(engine="extractive", span="range", record=first, until=until)
        assert done is not None
        assert seen.tokens_after == pytest.approx(done.tokens_after, rel=0.1)


@pytest.mark.spec("S0.6", "S8.4")
def test_opened_again_a_session_knows_what_the_provider_left_out(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with world() as here:
        with here.open(file, settings=BY_PROVIDER) as session:
            provider_edits.open_epoch(session.conversation)
            session.user(ASKED)
            while not session.conversation.edited:
                here.work(session, 1, 2_500)
            before, body = session.conversation.size(), session.prepare().body
        with here.open(file, settings=BY_PROVIDER) as session:
            after = session.conversation.size()
            assert before.sent - before.tokens == after.sent - after.tokens > 1_000
            assert before.low <= after.tokens <= before.high
            assert session.prepare().body == body
