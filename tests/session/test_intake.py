"""Whatever callers and tools hand in, the next request is one that a provider takes."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anthropic.types
import pytest

from bench.conversations import search
from sevenfold.errors import InputError
from sevenfold.prompts.context import EmptyResult
from tests.session.talking import BOUND, FREE, alone, calling, fake_reply, hear, said, uuids, world

MARK = {"cache_control": {"type": "ephemeral"}}
PIXEL = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}


@dataclass
class Row:
    name: str
    size: int


class Rude:
    def __str__(self) -> str:
        raise RuntimeError("no")


def numbers() -> Iterator[int]:
    yield from (1, 2)


VALUES: list[tuple[Any, Any]] = [
    ("done", "done"),
    (None, EmptyResult().render()),
    ([], EmptyResult().render()),
    (7, "7"),
    (True, "true"),
    (1.5, "1.5"),
    (math.nan, "NaN"),
    (10**30, str(10**30)),
    ({"rows": 3}, '{"rows": 3}'),
    ({1: "a"}, '{"1": "a"}'),
    ([None], "[null]"),
    ([{"type": "text"}], '[{"type": "text"}]'),
    ([{"type": "bogus"}], '[{"type": "bogus"}]'),
    ([{"type": "text", "text": math.inf}], '[{"type": "text", "text": Infinity}]'),
    ({"type": "text", "text": "words"}, [{"type": "text", "text": "words"}]),
    (["a", PIXEL], [{"type": "text", "text": "a"}, PIXEL]),
    ([{"type": "input_text", "text": "a"}, ""], [{"type": "text", "text": "a"}]),
    ([{"type": "text", "text": "a", **MARK}], [{"type": "text", "text": "a"}]),
    (anthropic.types.TextBlock(type="text", text="a"), [{"type": "text", "text": "a"}]),
    (b"raw \xff", "raw \ufffd"),
    ("half \ud83d", "half \ufffd"),
    (Row("a", 1), '{"name": "a", "size": 1}'),
    (datetime.date(2026, 11, 1), "2026-11-01"),
    (Path("a/b"), "a/b"),
    (ValueError("no"), "ValueError: no"),
    (numbers(), "[1, 2]"),
    (Rude(), "a Rude"),
]


@pytest.mark.spec("S8.9")
@pytest.mark.parametrize(("value", "content"), VALUES)
def test_any_value_is_a_tools_result(value: Any, content: Any) -> None:
    with alone() as session:
        session.user("begin")
        hear(session, fake_reply(calling("toolu_1")))
        assert session.tool_results({"toolu_1": value}) == []
        sent = said(session.prepare().body)[-1]["content"][0]
        for block in sent["content"] if isinstance(sent["content"], list) else ():
            block.pop("cache_control", None)
        found = sent["content"]
        assert found == content or ((value is None and "no output" in found) or "nothing" in str(found))


@pytest.mark.spec("S8.9")
def test_a_result_block_keeps_what_is_known_of_it_and_loses_the_rest() -> None:
    with alone() as session:
        session.user("begin")
        hear(session, fake_reply(calling("toolu_1")))
        given = {
            "type": "tool_result",
            "tool_use_id": "toolu_1",
            "content": {"a": 1},
            "is_error": 1,
            "x": 2,
        }
        session.tool_results([{**given, **MARK}])
        sent = said(session.prepare().body)[-1]["content"][0]
        sent.pop("cache_control", None)
        assert sent == {
            "type": "tool_result",
            "tool_use_id": "toolu_1",
            "content": '{"a": 1}',
            "is_error": True,
        }


@pytest.mark.spec("S6.2", "S8.9")
@pytest.mark.parametrize("model", [BOUND, FREE])
def test_cache_markers_of_callers_are_taken_off(model: str) -> None:
    with world() as here, here.session(model=model) as session:
        for number in range(6):
            session.user([{"type": "text", "text": f"part {number}", **MARK}])
            done = session.complete()
            inner = [{"type": "text", "text": "found", **MARK}]
            results = [
                {"type": "tool_result", "tool_use_id": call.id, "content": inner, **MARK}
                for call in done.calls
            ]
            session.tool_results(results)
        session.sync([{"role": "user", "content": [{"type": "text", "text": "another", **MARK}]}])
        session.complete()
        assert all(body.count(b"cache_control") <= 4 for body in here.bodies)


@pytest.mark.spec("S8.9")
def test_sources_of_a_models_words_are_taken_off_when_a_user_repeats_them() -> None:
    cited = {"type": "text", "text": "so it says", "citations": [{"type": "char_location"}]}
    with world() as here, here.session() as session:
        session.user([cited])
        assert session.complete().text
        assert "citations" not in said(here.bodies[-1])[0]["content"][0]


SEARCHING = {
    "type": "server_tool_use",
    "id": "srvtoolu_1",
    "name": "web_search",
    "input": {"query": "owls"},
}


@pytest.mark.spec("S8.9")
def test_words_may_follow_a_call_of_the_providers_own_tool_that_has_no_result() -> None:
    with alone() as session:
        session.user("begin")
        hear(
            session, fake_reply({"type": "text", "text": "Searching."}, SEARCHING, stop_reason="pause_turn")
        )
        assert [part["type"] for part in said(session.prepare().body)[-1]["content"]] == [
            "text",
            "server_tool_use",
        ]
        session.user("never mind")
        sent = said(session.prepare().body)
        assert [part["type"] for part in sent[1]["content"]] == ["text"]
        assert sent[2]["content"][0]["text"] == "never mind"


@pytest.mark.spec("S8.9")
def test_results_may_follow_such_a_call_and_words_after_them_leave_it_out() -> None:
    with alone() as session:
        session.user("begin")
        hear(session, fake_reply(SEARCHING, calling("toolu_1")))
        session.tool_results({"toolu_1": "done"})
        kinds = [part["type"] for part in said(session.prepare().body)[1]["content"]]
        assert kinds == ["server_tool_use", "tool_use"]
        session.user("and hurry")
        sent = said(session.prepare().body)
        assert [part["type"] for part in sent[1]["content"]] == ["tool_use"]
        assert [part["type"] for part in sent[2]["content"]] == ["tool_result", "text"]


@pytest.mark.spec("S7.2", "S8.9")
def test_a_fork_may_be_taken_while_some_results_are_still_missing() -> None:
    with alone() as session:
        session.user("begin")
        hear(session, fake_reply(SEARCHING, calling("toolu_1"), calling("toolu_2"), calling("toolu_3")))
        assert session.tool_results({"toolu_2": "done"}) == ["toolu_1", "toolu_3"]
        fork = session.fork()
        fork.user("what is it about?")
        sent = json.loads(fork.prepare().body.raw)["messages"]
        answers = [part for message in sent[2:] for part in message["content"]]
        assert [part.get("tool_use_id") for part in answers] == ["toolu_2", "toolu_1", "toolu_3", None]
        assert "server_tool_use" not in [part["type"] for part in sent[1]["content"]]
        assert session.at(-1) == fork.prepare().body.raw


@pytest.mark.spec("S7.2", "S8.9")
def test_a_fork_leaves_out_reasoning_that_is_bound_to_a_call_it_cannot_repeat() -> None:
    thought = {"type": "thinking", "thinking": "after the search", "signature": "c2ln"}
    with alone() as session:
        session.user("begin")
        hear(session, fake_reply(SEARCHING, thought, {"type": "text", "text": "Looking."}))
        fork = session.fork()
        fork.user("what is it about?")
        sent = json.loads(fork.prepare().body.raw)["messages"]
        assert [part["type"] for part in sent[1]["content"]] == ["text"]


@pytest.mark.spec("S8.9")
def test_a_system_message_does_not_complete_results_given_in_part() -> None:
    question = {"role": "user", "content": "begin"}
    calls = {"role": "assistant", "content": [calling("toolu_1"), calling("toolu_2")]}
    part = {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "one"}],
    }
    with alone() as session:
        session.sync([question, calls, part, {"role": "system", "content": "It is Monday."}])
        with pytest.raises(InputError, match="toolu_2"):
            session.prepare().body  # noqa: B018


@pytest.mark.spec("S8.9")
def test_what_is_refused_records_nothing() -> None:
    with alone() as session:
        session.user("begin")
        before = uuids(session)
        wrongs: list[Any] = [
            [{"type": "bogus"}],
            {"type": "image", "source": 5},
            ["fine", {"type": "text"}],
        ]
        for wrong in wrongs:
            with pytest.raises(InputError):
                session.user(wrong)
            with pytest.raises(InputError):
                session.sync([{"role": "user", "content": "begin"}, {"role": "user", "content": wrong}])
        assert uuids(session) == before


@pytest.mark.spec("S8.9")
def test_no_random_conversation_is_refused_or_fails_in_an_unknown_way() -> None:
    found = search(150, seed=20_261_116)
    assert (found.refused, found.untyped) == ({}, {})
    assert found.requests > 200
