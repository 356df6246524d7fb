"""Hooks that steer or refuse a compaction, requests that are refused as too long, and when to stop."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

import sevenfold
from sevenfold.errors import ContextFull, PromptTooLong, Refused
from sevenfold.events import Compacted, Compacting, Proposed, Sending, SteppedAside
from sevenfold.lab.simulator.provider import Setup
from sevenfold.layers.compact.compactor import Compactor
from sevenfold.ports import Call
from sevenfold.profiles import find
from tests.engine.working import (
    ASKED,
    BOUND,
    FREE,
    begun,
    body,
    lines,
    rounds_of,
    texts,
    world,
)
from tests.hooks.hooking import hooks


def raising(error: BaseException, when: str = "compact") -> Callable[[Call], None]:
    def before(call: Call) -> None:
        if call.source == when:
            raise error

    return before


@pytest.mark.spec("S8.1", "S4.4")
def test_a_hook_may_refuse_a_compaction_and_that_is_no_failure() -> None:
    registered = hooks()
    registered.add("PreCompact", lambda given: {"decision": "block", "reason": "not today"})
    with world() as here, begun(here, hooks=registered) as session:
        known = body(session)
        assert session.compact() is None
        assert body(session) == known
        assert session.health.failures == 0
        assert "not today" in here.told(SteppedAside, layer="compact")[0].reason


@pytest.mark.spec("S8.1", "S4.22")
def test_a_hook_that_refused_is_asked_again_when_the_user_has_spoken() -> None:
    asked: list[str] = []
    registered = hooks()

    def refuse(given: Any) -> dict[str, str]:
        asked.append(given.trigger)
        return {"decision": "block", "reason": "not today"}

    registered.add("PreCompact", refuse)
    settings = {"compact_percent": 5.0, "background_compaction": False, "notes": False}
    with world() as here, begun(here, 1, 60_000, hooks=registered, settings=settings) as session:
        here.work(session, 5, 100)
        assert asked == ["auto"]
        session.user("go on")
        here.work(session, 3, 100)
        assert asked == ["auto", "auto"]
        session.compact()
        assert asked == ["auto", "auto", "manual"]


@pytest.mark.spec("S8.1", "S4.22")
def test_a_hook_that_refused_is_asked_once_for_each_request_that_cannot_be_sent_otherwise() -> None:
    asked: list[str] = []
    registered = hooks()

    def refuse(given: Any) -> dict[str, str]:
        asked.append(given.trigger)
        return {"decision": "block", "reason": "not today"}

    registered.add("PreCompact", refuse)
    settings = {"context_window": 20_000, "background_compaction": False, "notes": False, "offload": False}
    with world() as here, begun(here, 1, 60_000, hooks=registered, settings=settings) as session:
        for times in (1, 2):
            with pytest.raises(ContextFull):
                session.complete()
            assert len(asked) == times


@pytest.mark.spec("S8.1", "S4.4", "S4.10", "S4.7")
def test_hooks_steer_by_json_alone_and_what_they_add_stands_last() -> None:
    registered = hooks()
    told: list[Any] = []
    registered.add("PreCompact", lambda given: {"additionalInstructions": "look after the ports"})
    registered.add(
        "SessionStart",
        lambda given: {
            "hookSpecificOutput": {
                "hookEventName": "SessionStart",
                "additionalContext": f"source {given.source}: speak French",
            }
        },
    )
    registered.add("PostCompact", lambda given: told.append(given))
    with world() as here, begun(here, hooks=registered) as session:
        done = session.compact("keep the flags", engine="fork")
        assert done is not None
        asked = json.loads(here.bodies[-1])["messages"][-1]["content"][-1]["text"]
        assert asked.index("keep the flags") < asked.index("look after the ports")
        last = json.loads(body(session))["messages"][-1]["content"][-1]
        assert "source compact: speak French" in last["text"]
        assert told
        assert told[0].compact_summary == done.summary


@pytest.mark.spec("S4.13")
@pytest.mark.parametrize("model", [BOUND, FREE])
@pytest.mark.parametrize("setting", ["auto_compact", "reactive_only", "collapse"])
def test_a_refused_request_is_compacted_and_repeated_once_a_turn(model: str, setting: str) -> None:
    given = {"reactive_only": setting == "reactive_only", "collapse": setting == "collapse"}
    with world() as here, begun(here, 7, model=model, settings=given) as session:
        refusals = [PromptTooLong("prompt is too long")]

        def before(call: Call) -> None:
            if call.source == "main" and refusals:
                raise refusals.pop()

        here.line.before = before
        here.work(session, 1)
        assert [event.trigger for event in here.told(Compacted)] == ["reactive"]
        assert "Looking at part 7." in texts(here.bodies[-1])
        assert "Looking at part 1." not in texts(here.bodies[-1])
        refusals.extend([PromptTooLong("prompt is too long")] * 5)
        with pytest.raises(PromptTooLong):
            session.complete()
        assert len(here.told(Compacted)) <= 2


@pytest.mark.spec("S4.13", "S0.4")
@pytest.mark.parametrize("model", [BOUND, FREE])
def test_with_reactive_only_the_window_is_used_until_the_provider_refuses(model: str) -> None:
    given = {"reactive_only": True, "context_window": 32_000}
    setup = Setup(models={model: replace(find(model), window=32_000)})
    with world(setup=setup) as here, here.session(model=model, settings=given) as session:
        session.user(ASKED)
        blocking = session.gauge.blocking
        most = 0
        while not here.told(Compacted):
            here.work(session, 1, 3_000)
            most = max(most, *(event.tokens for event in here.told(Sending)))
        assert most > blocking
        assert [event.trigger for event in here.told(Compacted)] == ["reactive"]
        here.work(session, 3, 3_000)


@pytest.mark.spec("S4.13", "S0.4")
def test_with_reactive_only_more_than_the_window_holds_is_not_even_sent() -> None:
    """A local server may cut such a prompt short without a word."""
    with world() as here, begun(here, 7, settings={"reactive_only": True}) as session:
        session.user("a word or two " * 9_000)
        session.user("and so on " * 9_000)
        here.work(session, 1)
        assert [event.trigger for event in here.told(Compacted)] == ["reactive"]
        assert all(event.tokens < 32_000 for event in here.told(Sending, source="main"))


@pytest.mark.spec("S17.2", "S4.13")
@pytest.mark.parametrize("size", [1_500, 2_500, 4_000])
def test_with_reactive_only_a_result_made_a_little_smaller_does_not_stand_in_for_a_compaction(
    size: int,
) -> None:
    given = {"reactive_only": True, "context_window": 30_000}
    with world() as here, here.session(settings=given) as session:
        session.user(ASKED)
        here.work(session, 60, size)
        assert {event.trigger for event in here.told(Compacted)} == {"reactive"}
        assert all(event.tokens < 30_000 for event in here.told(Sending, source="main"))


@pytest.mark.spec("S0.4", "S8.1")
def test_where_an_automatic_compaction_was_refused_a_full_window_offers_compact() -> None:
    with world() as here, here.session() as session:
        here.veto = lambda event: isinstance(event, Proposed) and event.layer == "compact"
        session.user(ASKED)
        with pytest.raises(ContextFull, match=r"next: compact the conversation \(compact\(\)"):
            here.work(session, 40, 3_000)
        here.veto = lambda event: False
        assert session.compact() is not None
        here.work(session, 1)


@pytest.mark.spec("S4.13")
def test_with_auto_compaction_off_the_error_is_shown() -> None:
    with world() as here, begun(here, settings={"auto_compact": False}) as session:
        here.line.before = raising(PromptTooLong("prompt is too long"), "main")
        with pytest.raises(PromptTooLong):
            session.complete()
        assert not here.told(Compacted)


@pytest.mark.spec("S4.13", "S4.11")
def test_in_ones_own_loop_failed_compacts_even_with_the_breaker_open() -> None:
    with world() as here, begun(here, 7) as session:
        session.conversation.state(Compactor).chooser.failures = 3
        request = session.prepare()
        assert request.body
        assert session.failed(PromptTooLong("prompt is too long")) is True
        assert here.told(Compacted)[0].engine != "extractive"
        here.work(session, 1)


@pytest.mark.spec("S4.1")
def test_a_compaction_that_gains_nothing_is_not_repeated_for_ever() -> None:
    given = {"context_window": 32_000, "keep_recent_tokens": 100_000}
    with world() as here, here.session(settings=given, system="word " * 18_500) as session:
        session.user(ASKED)
        for _ in range(12):
            try:
                here.work(session, 1, 200)
            except sevenfold.errors.ContextFull:
                break
        assert len(here.told(Compacted)) <= 4
        assert lines(session)


@pytest.mark.spec("S4.1", "S3.7")
@pytest.mark.parametrize("engine", ["fork", "extractive"])
def test_a_call_that_is_under_way_finds_its_answer_after_the_compaction(engine: Any) -> None:
    with world() as here, begun(here, 6) as session:
        answer = session.complete()
        with pytest.raises(Refused, match="wait for results"):
            session.compact(span="from", record=rounds_of(session)[2])
        done = session.compact(engine=engine)
        assert done is not None
        session.tool_results({call.id: "the result" for call in answer.calls})
        here.work(session, 2)
        assert "the result" in texts(here.bodies[-1])


@pytest.mark.spec("S8.1", "S4.21")
def test_what_hooks_say_during_a_compaction_and_which_of_them_fail_is_reported() -> None:
    registered = hooks()

    def broken(given: Any) -> None:
        raise ValueError("no such branch")

    for event in ("PreCompact", "SessionStart", "PostCompact"):
        registered.add(event, lambda given: {"systemMessage": f"{type(given).__name__} was here"})
        registered.add(event, broken)
    with world() as here, begun(here, hooks=registered) as session:
        assert session.compact(engine="fork") is not None
        said = [(one.hook, one.text) for one in here.told(Compacting, stage="hook_message")]
        assert said == [
            (name, f"{name} was here") for name in ("PreCompact", "SessionStart", "PostCompact")
        ]
        failed = [one.reason for one in here.told(SteppedAside, layer="hooks")]
        assert len(failed) == 3
        assert all("no such branch" in reason for reason in failed)


@pytest.mark.spec("S4.8")
def test_every_boundary_says_what_triggered_it() -> None:
    with world() as here, begun(here) as session:
        session.compact(engine="extractive")
        here.work(session, 60, 40_000)
        boundaries = [json.loads(line) for line in lines(session) if b'"compact_boundary"' in line]
        triggers = [one["compactMetadata"]["trigger"] for one in boundaries]
        assert triggers[0] == "manual"
        assert set(triggers[1:]) == {"auto"}
