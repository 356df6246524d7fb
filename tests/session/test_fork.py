"""Forks: they begin with the session's bytes, read its cache, and leave no trace in it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sevenfold.conversation.flow import drive
from sevenfold.conversation.fork import UNDER_WAY, Fork
from sevenfold.conversation.fork import fork as take_fork
from sevenfold.errors import InputError
from sevenfold.events import Answered, CacheBroke, Sending
from sevenfold.lab.simulator.invariant import extends
from sevenfold.providers.registry import client_of
from tests.session.talking import (
    BOUND,
    FREE,
    World,
    alone,
    answer,
    calling,
    fake_reply,
    hear,
    kinds_of,
    output,
    reader,
    said,
    streamed,
    talker,
    thought,
    uuids,
    work,
    world,
)


def ask(here: World, fork: Fork, words: str) -> dict[str, Any]:
    """Say something in a fork and let it ask; returns the usage the provider reported."""
    fork.user(words)
    drive(fork.turn(), client_of(here.sdk))
    return dict(here.simulator.requests.answered()[-1].usage or {})


@pytest.mark.spec("S7.1", "S6.7", "S6.3")
@pytest.mark.parametrize("model", [BOUND, FREE])
@pytest.mark.parametrize("source", ["compact", "session_memory", "prompt_suggestion"])
def test_a_fork_of_one_turn_reads_the_cache_and_writes_no_tail(model: str, source: str) -> None:
    with world() as here, here.session(model=model) as session:
        session.user("begin")
        work(session, 5, output(times=300), clock=here.clock)
        session.complete()
        before = here.bodies[-1]
        cached = dict(here.simulator.requests.answered()[-1].usage or {})
        held = cached["cache_read_input_tokens"] + cached["cache_creation_input_tokens"]
        fork = session.fork(source)
        usage = ask(here, fork, "in one word: " + "how is it going? " * 300)
        assert extends(before, here.bodies[-1]) is None
        assert usage["cache_read_input_tokens"] == held
        assert usage["input_tokens"] > 1_000
        assert usage["cache_creation_input_tokens"] < 200
        assert not list(here.told(CacheBroke))


@pytest.mark.spec("S7.1", "S6.3")
def test_a_fork_of_many_turns_keeps_a_cache_of_its_own() -> None:
    with world(talker()) as here, here.session() as session:
        session.user("begin")
        session.complete()
        fork = session.fork("agent:reviewer")
        first = ask(here, fork, "look " * 2_000)
        second = ask(here, fork, "and now?")
        assert first["cache_creation_input_tokens"] > 1_000
        assert second["cache_read_input_tokens"] >= first["cache_creation_input_tokens"]


@pytest.mark.spec("S6.5", "S7.10")
def test_a_fork_of_many_turns_is_watched_under_a_key_of_its_own() -> None:
    with world(talker()) as here, here.session() as session:
        session.user("begin")
        session.complete()
        held = session.conversation.epoch.watched.cached
        fork = session.fork("agent:reviewer")
        ask(here, fork, "look " * 4_000)
        added = dict(here.simulator.requests.answered()[-1].usage or {})["cache_creation_input_tokens"]
        assert added > 3_000
        session.user("and here?")
        session.complete()
        assert not here.told(CacheBroke)
        here.clock.advance(400)
        ask(here, fork, "and now?")
        (lost,) = here.told(CacheBroke)
        assert (lost.source, lost.cause) == ("agent:reviewer", "expired")
        assert lost.tokens == held + added
        session.user("and now?")
        session.complete()
        mine = here.told(CacheBroke)[1:]
        assert [event.source for event in mine] == ["main"] * len(mine)
        assert all(event.tokens < held + added for event in mine)


@pytest.mark.spec("S6.5")
def test_a_fork_of_one_turn_is_watched_under_the_key_of_its_session() -> None:
    with world(talker()) as here, here.session() as session:
        session.user("begin")
        session.complete()
        held = session.conversation.epoch.watched.cached
        here.clock.advance(400)
        ask(here, session.fork("compact"), "in short?")
        (lost,) = here.told(CacheBroke)
        assert (lost.source, lost.cause, lost.tokens) == ("compact", "expired", held)


@pytest.mark.spec("S7.1", "S2.7")
@pytest.mark.parametrize("model", [BOUND, FREE])
def test_the_session_goes_on_as_if_nobody_had_asked_aside(model: str) -> None:
    with world() as here, here.session(model=model) as session:
        session.user("begin")
        work(session, 3)
        before = uuids(session)
        expected = session.prepare().body
        ask(here, session.fork("compact"), "in short?")
        assert uuids(session) == before
        assert session.prepare().body == expected
        cached = here.simulator.requests.answered()[2].usage or {}
        answer(session, session.complete())
        main = [body for n, body in enumerate(here.bodies) if n != 3]
        assert extends(main[-2], main[-1]) is None
        usage = here.simulator.requests.answered()[-1].usage or {}
        assert usage["cache_read_input_tokens"] >= cached["cache_read_input_tokens"]
        assert not here.told(CacheBroke)


@pytest.mark.spec("S7.2", "S7.1")
@pytest.mark.parametrize("calls", [1, 3])
def test_calls_under_way_get_the_same_line_as_their_result(calls: int) -> None:
    with world(reader(calls)) as here, here.session() as session:
        session.user("begin")
        session.complete()
        ask(here, session.fork("session_memory"), "what do you know?")
        newest = said(here.bodies[-1])[-1]["content"]
        assert [block["type"] for block in newest] == ["tool_result"] * calls + ["text"]
        assert {block["content"] for block in newest[:calls]} == {UNDER_WAY}
        session.tool_results({f"toolu_1_{each}": output() for each in range(calls)})
        session.complete()
        assert extends(here.bodies[0], here.bodies[-1]) is None


@pytest.mark.spec("S7.1", "S9.6")
def test_what_a_fork_costs_is_on_the_sessions_bill_and_told() -> None:
    with world(talker()) as here, here.session() as session:
        session.user("begin")
        session.complete()
        before = session.gauge.usd or 0
        ask(here, session.fork("compact"), "in short?")
        (cost,) = [event.usd for event in here.told(Answered) if event.source == "compact"]
        assert session.gauge.usd == pytest.approx(before + cost)
        assert [event.source for event in here.told(Sending)] == ["main", "compact"]
        assert session.gauge.requests == 2


@pytest.mark.spec("S7.1", "S10.1")
def test_a_fork_with_other_messages_than_those_in_view_is_on_record_whole() -> None:
    with world(talker()) as here, here.session() as session:
        for words in ("one", "two", "three"):
            session.user(words)
            session.complete()
        shared = session.conversation.transcript.view.messages()[:2]
        fork = take_fork(session.conversation, "compact", shared)
        ask(here, fork, "in short?")
        session.user("four")
        session.complete()
        assert [streamed(session.at(number)) for number in range(5)] == here.bodies
        assert len(said(here.bodies[3])) == 3


@pytest.mark.spec("S7.1")
def test_a_fork_reads_the_cache_also_after_a_turn_of_many_blocks() -> None:
    with world(talker()) as here, here.session() as session:
        session.user("begin")
        session.complete()
        held = here.simulator.requests.answered()[-1].usage or {}
        for number in range(30):
            session.user(f"point {number}")
        usage = ask(here, session.fork("compact"), "in short?")
        assert usage["cache_read_input_tokens"] >= held["cache_creation_input_tokens"]


@pytest.mark.spec("S6.4", "S7.1")
def test_a_fork_keeps_the_sessions_cache_alive() -> None:
    with world(talker()) as here, here.session() as session:
        session.user("begin " * 3_000)
        session.complete()
        here.clock.advance(250)
        ask(here, session.fork("compact"), "in short?")
        here.clock.advance(250)
        session.user("go on")
        _ = session.prepare().body
        assert here.told(Sending)[-1].lost == 0


@pytest.mark.spec("S7.1")
def test_a_fork_asks_nothing_before_something_was_said_in_it() -> None:
    with alone() as session:
        session.user("begin")
        hear(session, fake_reply())
        fork: Any = session.fork()
        with pytest.raises(InputError, match="nothing to ask before something was said"):
            fork.prepare()
        with pytest.raises(InputError, match="no request is under way"):
            fork.observe(None)
        assert kinds_of(session.at(0)) == ["text"]


@pytest.mark.spec("S7.1", "S9.2")
def test_a_fork_leaves_out_reasoning_behind_a_message_that_changed_since_it_was_sent() -> None:
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
    with alone() as session:
        session.user("begin")
        hear(session, fake_reply(thought("first"), search, stop_reason="pause_turn"))
        hear(session, fake_reply(thought("second"), calling("toolu_1"), number=2))
        session.user("never mind the search")
        aside = session.fork("compact")
        aside.user("in short?")
        sent = json.loads(aside.prepare().body.raw)["messages"]
    kinds = [[block["type"] for block in message["content"]] for message in sent]
    assert kinds == [["text"], ["text"], ["tool_use"], ["tool_result", "text"], ["text"]]
