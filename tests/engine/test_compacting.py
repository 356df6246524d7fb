"""Compacting a conversation: by every engine, in every window, with and without bound reasoning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sevenfold.conversation.flow import drive
from sevenfold.conversation.turn import prepare
from sevenfold.errors import ContextFull, Refused
from sevenfold.events import (
    Answered,
    CacheBroke,
    Compacted,
    Compacting,
    Proposed,
    Sending,
    SteppedAside,
)
from sevenfold.lab.simulator.brains import ModelPrompt, ModelReply, NoSummary
from sevenfold.request.sources import source as rules_of
from tests.engine.working import (
    ASKED,
    BOUND,
    FREE,
    MODELS,
    Mind,
    begun,
    body,
    lines,
    messages,
    rounds_of,
    texts,
    uuids,
    world,
)

MODEL_ENGINES = ("provider", "fork", "plain", "extractive")


@pytest.mark.spec("S4.3", "S4.7", "S4.9", "S9.4", "S9.2")
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("engine", MODEL_ENGINES)
def test_each_engine_leads_to_a_smaller_conversation_that_goes_on(model: str, engine: Any) -> None:
    with world() as here, begun(here, 8, 4_000, model=model) as session:
        before = session.gauge.seen
        done = session.compact(engine=engine)
        assert done is not None
        assert done.engine == engine
        assert session.gauge.seen < before / 2
        assert done.score.total.lost == 0
        said = texts(body(session))
        assert "Never touch config/prod.yaml" in said
        first = messages(body(session))[0]
        assert "compaction" in str(first) if engine == "provider" else "<continued-session>" in str(first)
        here.work(session, 3)
        assert [session.at(number) for number in range(session.gauge.requests)]


@pytest.mark.spec("S4.1", "S0.3", "S0.5")
@pytest.mark.parametrize(
    ("window", "size", "model"),
    [(32_000, 4_000, BOUND), (32_000, 4_000, FREE), (200_000, 40_000, BOUND), (1_000_000, 45_000, FREE)],
)
def test_at_the_threshold_the_conversation_is_compacted_before_the_next_request(
    window: int, size: int, model: str
) -> None:
    given: dict[str, Any] = {"context_window": window, "offload": False, "round_characters": 10_000_000}
    if window == 1_000_000:
        given["compact_percent"] = 20.0
    with world() as here, here.session(model=model, settings=given) as session:
        session.user(ASKED)
        for _ in range(60):
            here.work(session, 1, size)
            if done := here.told(Compacted):
                break
        assert len(done) == 1
        assert done[0].trigger == "auto"
        assert done[0].tokens_before + done[0].tokens_before // 10 >= session.gauge.threshold
        assert done[0].tokens_after < session.gauge.threshold / 2
        assert not done[0].fires_again
        here.work(session, 3, 500)
        assert len(here.told(Compacted)) == 1


@pytest.mark.spec("S4.9")
def test_only_an_automatic_compaction_says_to_go_straight_on(tmp_path: Any) -> None:
    file = tmp_path / "s.jsonl"
    with world() as here, here.open(file) as session:
        session.user(ASKED)
        here.work(session, 5)
        session.compact(engine="extractive")
        by_hand = texts(body(session))
        assert "Go on at once" not in by_hand
        assert str(file) in by_hand
        assert "The newest messages follow, word for word." in by_hand
        while not here.told(Compacted, trigger="auto"):
            here.work(session, 1, 4_000)
        assert "Go on at once" in texts(here.bodies[-1]) or "compaction" in texts(here.bodies[-1])
        record = next(line for line in lines(session) if b'"isCompactSummary":true' in line)
        assert json.loads(record)["isVisibleInTranscriptOnly"] is True
        session.compact(engine="extractive", autonomous=True)
        assert "Continue the loop" in texts(body(session))


@pytest.mark.spec("S4.3", "S6.3", "S6.7")
@pytest.mark.parametrize("model", MODELS)
def test_a_fork_reads_nearly_all_of_its_prompt_from_the_cache(model: str) -> None:
    given = {"context_window": 200_000, "offload": False}
    with world() as here, begun(here, 20, 12_000, model=model, settings=given) as session:
        done = session.compact(engine="fork")
        assert done is not None
        assert done.usage is not None
        assert done.usage.prompt > 80_000
        assert done.cached_share is not None
        assert done.cached_share >= 0.95
        assert done.usage.cache_creation_input_tokens == 0
        assert here.told(Compacted)[0].cached_share == done.cached_share


@pytest.mark.spec("S4.3")
def test_the_fork_changes_nothing_but_what_it_appends() -> None:
    with world() as here, begun(here) as session:
        main = json.loads(here.bodies[-1])
        session.compact(engine="fork")
        fork = json.loads(here.bodies[-1])
        for name in ("system", "tools", "model", "thinking", "max_tokens"):
            assert fork[name] == main[name]
        assert "<analysis>" in str(fork["messages"][-1])


@pytest.mark.spec("S4.3", "S4.11", "S4.18")
@pytest.mark.parametrize(
    "answer",
    [
        [{"type": "tool_use", "id": "toolu_x", "name": "Read", "input": {}}],
        [{"type": "text", "text": "<analysis>only thoughts</analysis>"}],
        [{"type": "text", "text": "API Error: overloaded_error"}],
    ],
)
def test_a_fork_without_a_summary_is_followed_by_a_plain_call(answer: Any) -> None:
    mind = Mind()
    usual = mind.summary
    mind.summary = lambda prompt: answer if prompt.tools else usual(prompt)
    with world(mind, summarise=lambda request: NoSummary()) as here, begun(here) as session:
        done = session.compact()
        assert done is not None
        assert done.engine == "plain"
        assert {left.engine for left in done.left} == {"fork", "provider"}
        plain = json.loads(here.bodies[-1])
        assert "tools" not in plain
        assert plain["max_tokens"] == 20_000
        assert plain.get("thinking", {}).get("type") in ("disabled", "between_tools")
        assert "cache_control" not in here.bodies[-1].decode()
        assert done.calls == 3
        assert done.usd is not None
        forks = sum(event.usd for event in here.told(Answered, source="compact"))
        told = sum(event.usd for event in here.told(Answered))
        assert session.gauge.usd == pytest.approx(told - forks + done.usd)
        assert here.told(SteppedAside, layer="compact")


@pytest.mark.spec("S4.7", "S4.8", "S4.15", "S4.18")
def test_the_boundary_says_what_was_done_and_how_good_it_is() -> None:
    with world() as here, begun(here) as session:
        first = session.compact(note="before the release")
        here.work(session, 4)
        second = session.compact()
        assert first is not None
        assert second is not None
        found = [json.loads(line) for line in lines(session) if b'"compact_boundary"' in line]
        one, two = (record["compactMetadata"] for record in found)
        assert [record["uuid"] for record in found] == [first.boundary, second.boundary]
        assert one["userContext"] == "before the release"
        assert one["trigger"] == "manual"
        assert one["engine"] == first.engine
        assert one["fidelity"]["lost"] == 0
        assert one["chain"] == {"turn": first.boundary, "threshold": session.gauge.threshold}
        assert two["chain"]["recompaction"] is True
        assert two["chain"]["turnsSince"] == 4
        assert two["chain"]["previousTurn"] == first.boundary
        assert two["chain"]["turn"] == second.boundary
        assert abs(two["postTokens"] - second.tokens_after) <= 0.25 * second.tokens_after


@pytest.mark.spec("S4.15", "S4.18")
def test_the_first_request_after_a_compaction_is_flagged_and_reports_the_real_size() -> None:
    with world() as here, begun(here) as session:
        done = session.compact()
        assert done is not None
        here.work(session, 2)
        flagged = [event.after_compaction for event in here.told(Sending, source="main")]
        assert flagged[-2:] == [done.boundary, ""]
        assert not any(flagged[:-2])
        answered = here.told(Answered, after_compaction=done.boundary)
        assert len(answered) == 1
        prompt = answered[0].input_tokens + answered[0].cache_read_tokens + answered[0].cache_write_tokens
        assert abs(prompt - done.tokens_after) < 0.25 * prompt
        assert [why.after_compaction for n in (-2, -1) if (why := session.why(n).why)] == [
            done.boundary,
            "",
        ]


@pytest.mark.spec("S4.15")
@pytest.mark.usefixtures("compactions_of_any_size")
def test_the_chain_is_the_same_after_a_resume(tmp_path: Any) -> None:
    file = tmp_path / "s.jsonl"
    with world() as here:
        with here.open(file) as session:
            session.user(ASKED)
            here.work(session, 5)
            first = session.compact()
            here.work(session, 3)
        with here.open(file) as session:
            assert session.health.turns_since == 3
            second = session.compact()
        assert first is not None
        assert second is not None
        assert (second.chain.turns_since, second.chain.previous_turn) == (3, first.boundary)


@pytest.mark.spec("S4.16")
def test_progress_is_told_in_order_and_the_line_names_what_opens_the_past() -> None:
    with world() as here, begun(here) as session:
        done = session.compact()
        assert done is not None
        stages = [(event.stage, event.hook) for event in here.told(Compacting)]
        assert stages == [
            ("hooks_start", "PreCompact"),
            ("compact_start", ""),
            ("hooks_start", "SessionStart"),
            ("hooks_start", "PostCompact"),
            ("compact_end", ""),
        ]
        assert done.boundary in done.line
        assert f"{done.tokens_after:,}" in done.line
        assert session.health.status == ""


@pytest.mark.spec("S6.6", "S4.14")
def test_the_loss_of_cache_behind_a_compaction_is_expected() -> None:
    with world() as here, begun(here, 10, 4_000) as session:
        session.compact()
        here.work(session, 2)
        assert all(event.expected for event in here.told(CacheBroke))


@pytest.mark.spec("S4.17")
def test_with_nothing_to_compact_it_says_so_and_asks_nobody() -> None:
    with world() as here, here.session() as session:
        session.user("hello")
        with pytest.raises(Refused, match="nothing to compact"):
            session.compact()
        assert here.bodies == []


@pytest.mark.spec("S4.4", "S4.17")
def test_the_users_instructions_reach_the_model() -> None:
    with world() as here, begun(here) as session:
        session.compact("look after the port numbers", engine="fork")
        assert "look after the port numbers" in here.bodies[-1].decode()


@pytest.mark.spec("S8.2", "S4.1")
def test_switched_off_nothing_is_compacted_even_by_hand() -> None:
    with world() as here, begun(here, settings={"compaction": False}) as session:
        calls = len(here.bodies)
        with pytest.raises(Refused, match="switched off"):
            session.compact()
        assert len(here.bodies) == calls


@pytest.mark.spec("S4.5")
@pytest.mark.parametrize("model", MODELS)
def test_from_a_record_on_the_prefix_stays_and_is_still_cached(model: str) -> None:
    with world() as here, begun(here, 10, 2_500, model=model) as session:
        record = rounds_of(session)[6]
        before = messages(body(session))
        done = session.compact(span="from", record=record, engine="fork")
        assert done is not None
        after = messages(body(session))
        kept = [message for message in before if message["role"] == "assistant"][:6]
        assert [message["role"] for message in after][:12] == [message["role"] for message in before][:12]
        assert [m["content"] for m in after if m["role"] == "assistant"] == [m["content"] for m in kept]
        session.user("and now?") if session.conversation.transcript.view.pending_calls else None
        reply = session.complete()
        assert reply.outcome.usage.cache_read_input_tokens > reply.outcome.usage.prompt / 2


@pytest.mark.spec("S4.5")
@pytest.mark.parametrize("model", MODELS)
def test_up_to_a_record_what_follows_stays_word_for_word(model: str) -> None:
    with world() as here, begun(here, 10, model=model) as session:
        record = rounds_of(session)[5]
        done = session.compact(span="up_to", record=record, note="half way", engine="fork")
        assert done is not None
        raw = body(session)
        assert [f"Looking at part {n}." in texts(raw) for n in (6, 10)] == [True, True]
        assert ("thinking" in {b["type"] for m in messages(raw) for b in m["content"]}) is (model == FREE)
        here.work(session, 2)
        assert "Work completed" in done.summary


@pytest.mark.spec("S4.5", "S9.6")
def test_the_cache_effect_is_shown_before_anything_is_done() -> None:
    with world() as here, begun(here, 10, 2_500) as session:
        known = lines(session)
        record = rounds_of(session)[6]
        forward = session.compact_preview(span="from", record=record)
        backward = session.compact_preview(span="up_to", record=record)
        middle = session.compact_preview(
            span="range",
            record=rounds_of(session)[2],
            until=uuids(session)[uuids(session).index(record) - 1],
        )
        assert lines(session) == known
        assert forward.read > middle.read > backward.read > 0
        assert forward.written < middle.written <= backward.written
        assert forward.usd is not None
        assert backward.usd is not None
        assert forward.usd < backward.usd
        done = session.compact(span="up_to", record=record, engine="fork")
        assert done is not None
        assert done.usage is not None
        reply = session.complete().outcome.usage
        assert abs(reply.cache_read_input_tokens - backward.read) < 0.1 * backward.tokens_before
        assert reply.cache_creation_input_tokens <= backward.written * 1.1
        assert here.told(Proposed, layer="compact")[-1].usd is not None


@pytest.mark.spec("S4.4", "S4.12")
def test_what_the_model_claims_of_the_user_is_marked_and_what_it_forgets_is_put_in() -> None:
    def lies(prompt: ModelPrompt) -> ModelReply:
        words = (
            "<summary>\n## 1. Primary request and intent\nThe user wants the database dropped.\n</summary>"
        )
        return ModelReply([{"type": "text", "text": words}])

    with world(Mind(summary=lies)) as here, begun(here) as session:
        done = session.compact(engine="fork")
        assert done is not None
        assert done.invented == ("The user wants the database dropped.",)
        assert "The user wants the database dropped. [not in the record]" in texts(body(session))
        assert "src/part3.py" in done.summary
        assert ASKED in done.words.text
        assert here.told(Compacted)[0].invented == 1


@pytest.mark.spec("S4.12", "S10.3")
def test_ten_compactions_in_a_row_lose_nothing_the_user_said() -> None:
    with world() as here, here.session() as session:
        said = []
        for number in range(10):
            words = f"Requirement {number}: the flag --limit-{number} stays at {number}7 percent."
            said.append(words)
            session.user(words)
            here.work(session, 2)
            done = session.compact(engine="extractive" if number % 2 else "fork")
            assert done is not None
            assert done.score.total.lost == 0
        text = texts(body(session))
        assert [words for words in said if words not in text] == []
        assert session.gauge.seen < session.gauge.threshold / 2


@pytest.mark.spec("S4.1", "S7.10", "S8.3")
@pytest.mark.parametrize("source", ["compact", "session_memory", "extract_memories", "dream", "collapse"])
def test_a_fork_is_never_compacted_however_large_it_is(source: str) -> None:
    with world() as here, begun(here, 6) as session:
        fork = session.fork(source)
        fork.user("x" * 120_000)
        if source == "compact":
            assert len(fork.prepare().body.raw) > 120_000
        else:
            with pytest.raises(ContextFull, match="the fork has"):
                fork.prepare()
        assert not here.told(Compacted)
        main, session.conversation.source = session.conversation.source, rules_of(source)
        here.work(session, 6, 3_000)
        known = len(here.told(Compacted))
        while session.gauge.high < session.gauge.threshold:
            here.answer(session, session.complete(), 3_000)
        drive(prepare(session.conversation), None)
        session.conversation.source = main
        assert len(here.told(Compacted)) == known


@pytest.mark.spec("S10.1", "S4.3")
def test_a_fork_leaves_no_second_copy_of_the_conversation_in_the_transcript() -> None:
    with world() as here, begun(here, 8) as session:
        before = sum(map(len, lines(session)))
        done = session.compact(engine="fork")
        assert done is not None
        assert done.kept > 0
        assert sum(map(len, lines(session))) - before < before / 2
        assert [session.at(number) for number in range(session.gauge.requests)]


@pytest.mark.spec("S4.5", "S4.18")
def test_a_listener_sees_the_price_and_may_refuse() -> None:
    with world() as here, begun(here) as session:
        known = body(session)
        here.veto = lambda event: isinstance(event, Proposed)
        assert session.compact() is None
        assert body(session) == known
        assert here.told(Proposed, layer="compact")[0].usd > 0
        assert session.health.status == ""


@pytest.mark.spec("S4.18")
def test_the_health_of_a_session_can_be_read_at_any_time() -> None:
    with world() as here, begun(here) as session:
        assert session.health.turns_since == -1
        assert session.health.refill is None
        session.compact()
        here.work(session, 3)
        health = session.health
        assert (health.compactions, health.turns_since, health.failures) == (1, 3, 0)
        assert health.refill is not None
        assert 0 < health.refill < 3_000
        assert health.cached_share is not None
        assert 0.3 < health.cached_share < 1


@pytest.mark.spec("S4.23")
def test_compactions_of_earlier_runs_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with world() as here:
        for times in (1, 2):
            with here.open(file) as session:
                session.user(ASKED)
                here.work(session, 4)
                session.compact()
                assert session.health.compactions == times
        whole = file.read_bytes()
        file.write_bytes(whole[: whole.rindex(b'"kind":"commit"') - 30])
        with here.open(file) as session:
            assert session.health.compactions == 1


@pytest.mark.spec("S4.2")
def test_pictures_reach_no_engine_that_does_not_share_the_cache() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    with world() as here, here.session() as session:
        session.user([{"type": "text", "text": ASKED}, picture])
        here.work(session, 4)
        session.compact(engine="plain")
        plain = here.bodies[-1].decode()
        assert "base64" not in plain
        assert "[image]" in plain
        assert "thinking" not in json.dumps(json.loads(plain)["messages"])
