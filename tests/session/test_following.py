"""Conversations that are kept in somebody else's list."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sevenfold.errors import InputError, Refused
from sevenfold.events import EpochOpened
from sevenfold.lab.simulator.brains import ScriptedBrain
from sevenfold.record import blocks
from sevenfold.record.decisions import CompactMetadata
from tests.session.talking import (
    BOUND,
    FREE,
    World,
    alone,
    calling,
    fake_reply,
    hear,
    kinds_of,
    output,
    reader,
    said,
    talker,
    uuids,
    world,
)

Messages = list[dict[str, Any]]


def turn(here: World, session: Any, messages: Messages, result: str | None = None) -> None:
    """One turn of a loop that keeps its own list: sync, ask, append."""
    session.sync(messages)
    reply = here.sdk.messages.create(**session.prepare())
    session.observe(reply)
    messages.append({"role": "assistant", "content": [block.to_dict() for block in reply.content]})
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": output() if result is None else result}
        for block in reply.content
        if block.type == "tool_use"
    ]
    if results:
        messages.append({"role": "user", "content": results})


@pytest.mark.spec("S8.4", "S9.2")
@pytest.mark.parametrize("model", [BOUND, FREE])
def test_a_growing_list_adds_only_what_is_new(model: str, tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    messages: Messages = [{"role": "user", "content": "begin"}]
    with world() as here:
        for _ in range(3):
            with here.open(file, model=model) as session:
                turn(here, session, messages)
                turn(here, session, messages)
                assert session.sync(messages) == 1
                assert session.sync(messages) == 0
                assert len(uuids(session)) == len(messages)
        assert here.moved() == []
        assert [event.reason for event in here.told(EpochOpened)] == ["start"]


@pytest.mark.spec("S8.6")
@pytest.mark.parametrize("model", [BOUND, FREE])
def test_an_edited_message_begins_a_branch(model: str) -> None:
    with world(talker()) as here, here.session(model=model) as session:
        messages: Messages = [{"role": "user", "content": "begin"}]
        turn(here, session, messages)
        messages.append(
            {"role": "user", "content": [{"type": "text", "text": "go"}, {"type": "text", "text": "left"}]}
        )
        turn(here, session, messages)
        messages = messages[:-2]
        messages.append(
            {"role": "user", "content": [{"type": "text", "text": "go"}, {"type": "text", "text": "right"}]}
        )
        turn(here, session, messages)
        assert [block["text"] for block in said(here.bodies[-1])[-1]["content"]] == ["go", "right"]
        assert len(said(here.bodies[-1])) == 3
        assert b"left" in b"".join(line for _, line in session.conversation.transcript.log.read())
        assert session.sync(messages) == 0


@pytest.mark.spec("S8.6")
def test_a_shorter_list_goes_back() -> None:
    with world(talker()) as here, here.session() as session:
        messages: Messages = [{"role": "user", "content": "one"}]
        turn(here, session, messages)
        messages.append({"role": "user", "content": "two"})
        turn(here, session, messages)
        assert session.sync(messages[:1]) == 0
        assert len(uuids(session)) == 1
        session.complete()
        assert kinds_of(here.bodies[-1]) == ["text"]
        assert session.sync([]) == 0
        assert uuids(session) == []


@pytest.mark.spec("S8.6")
def test_the_same_words_at_the_same_place_of_two_branches_are_two_answers() -> None:
    with alone() as session:
        session.messages([{"role": "user", "content": "a"}, {"role": "assistant", "content": "yes"}])
        session.sync(
            [
                {"role": "user", "content": "b"},
                {"role": "assistant", "content": "yes"},
                {"role": "user", "content": "c"},
            ]
        )
        assert [m["content"][0]["text"] for m in said(session.prepare().body)] == ["b", "yes", "c"]
        session.sync(
            [
                {"role": "user", "content": "b"},
                {"role": "assistant", "content": "yes"},
                {"role": "user", "content": "c"},
                {"role": "assistant", "content": "yes"},
                {"role": "user", "content": "d"},
            ]
        )
        assert [m["content"][0]["text"] for m in said(session.prepare().body)] == [
            "b",
            "yes",
            "c",
            "yes",
            "d",
        ]


@pytest.mark.spec("S1.3", "S2.1")
def test_offloaded_and_cleared_results_are_recognised(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    messages: Messages = [{"role": "user", "content": "begin"}]
    settings = {"offload_characters": 20_000, "gap_keep": 1}
    with world(reader(2)) as here:
        for _ in range(2):
            with here.open(file, model=FREE, settings=settings) as session:
                turn(here, session, messages, output(times=2_000))
                turn(here, session, messages, output(times=900))
        here.clock.advance(4_000)
        with here.open(file, model=FREE, settings=settings) as session:
            turn(here, session, messages, "")
            assert b"persisted-output" in here.bodies[1]
            assert b"Old tool result content cleared" in here.bodies[-1]
            assert session.sync(messages) == 1
            assert session.sync(messages) == 0
            theirs = said(here.bodies[-1])
            assert session.sync([*theirs, *messages[-2:]]) == 0


@pytest.mark.spec("S1.3", "S8.6")
def test_another_result_for_a_call_that_has_one_is_refused() -> None:
    called = [calling("toolu_01Fn8xQ2"), calling("toolu_01Kd7wP5")]
    with world(ScriptedBrain([called])) as here, here.session() as session:
        messages: Messages = [{"role": "user", "content": "begin"}]
        turn(here, session, messages)
        session.sync(messages)
        before = uuids(session)
        messages[-1]["content"][1]["content"] = "something else"
        with pytest.raises(
            Refused, match=r"messages\[2\] has another result for the call toolu_01Kd7wP5.*new session"
        ):
            session.sync(messages)
        messages[0]["content"] = "begin otherwise"
        with pytest.raises(Refused, match="the call toolu_01Kd7wP5 has another result already"):
            session.sync(messages)
        assert uuids(session) == before


@pytest.mark.spec("S8.4")
def test_a_list_is_followed_across_a_compaction_and_back_before_it(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    messages: Messages = [{"role": "user", "content": "begin"}]
    with world() as here:
        with here.open(file) as session:
            turn(here, session, messages)
            turn(here, session, messages)
            session.sync(messages)
            session.conversation.open_epoch("compaction", drops_thinking=True)
            session.conversation.transcript.compact(CompactMetadata(), [blocks.text("in short")])
            messages.append({"role": "user", "content": "go on"})
            turn(here, session, messages)
            assert said(here.bodies[-1])[0]["content"][0]["text"] == "in short"
        with here.open(file) as session:
            turn(here, session, messages)
            assert session.sync(messages) == 1
            assert session.sync(messages[:3]) == 0
            session.complete()
            assert len(said(here.bodies[-1])) == 3


@pytest.mark.spec("S8.4", "S9.2")
def test_a_conversation_is_brought_in_once_without_its_reasoning() -> None:
    imported: Messages = [
        {"role": "user", "content": "what is in a.py?"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "elsewhere", "signature": "bm90IG91cnM="},
                {"type": "tool_use", "id": "toolu_x", "name": "Read", "input": {"path": "a.py"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_x", "content": ""},
                {"type": "text", "text": "well?"},
            ],
        },
        {"role": "assistant", "content": []},
    ]
    with world() as here, here.session() as session:
        session.messages(imported)
        session.complete()
        assert [event.reason for event in here.told(EpochOpened)] == ["start", "imported"]
        assert kinds_of(here.bodies[-1]) == ["text", "tool_use", "tool_result", "text"]
        assert said(here.bodies[-1])[-1]["content"][0]["content"]
        with pytest.raises(Refused, match=r"needs an empty session; use sync\(\)"):
            session.messages(imported)


class Broken:
    """A list of the caller's that fails while it is read."""

    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError("the connection to the caller's database is gone")


@pytest.mark.spec("S21.7")
@pytest.mark.parametrize(
    "value", [7, 1.5, object(), b"x", Broken()], ids=lambda value: type(value).__name__
)
def test_what_is_no_list_of_messages_or_parts_is_an_error_that_records_nothing(value: Any) -> None:
    question = {"role": "user", "content": "Begin."}
    for messages in (
        value,
        [{"role": "user", "content": value}],
        [question, {"role": "assistant", "content": value}],
        [question, {"role": "assistant", "content": "Well.", "tool_calls": value}],
    ):
        with alone() as session:
            with pytest.raises(InputError):
                session.sync(messages)
            assert len(session.conversation.transcript.view) == 0
            session.user("And now?")
            session.prepare()


@pytest.mark.spec("S8.4")
def test_a_message_that_is_none_is_named() -> None:
    with alone() as session:
        for wrong, words in (
            ([{"role": "function", "content": "x"}], r"messages\[0\] has the role 'function'"),
            ([{"type": "web_search_call"}], r"messages\[0\] is an item of the type 'web_search_call'"),
            (["x"], r"messages\[0\] has the role None"),
            (
                [{"role": "assistant", "content": [{"type": "image"}]}],
                r"messages\[0\]: content\[0\] is a image",
            ),
            (
                [{"role": "assistant", "tool_calls": [{"id": "c"}]}],
                r"messages\[0\]: content\[0\] has no type",
            ),
            (
                [
                    {"role": "user", "content": "x"},
                    {"role": "user", "content": [{"type": "text", "text": float("nan")}]},
                ],
                r"messages\[1\]: content\[0\]: \$\.text is nan",
            ),
            ([{"role": "user", "content": ""}], r"messages\[0\]: there is nothing in this message"),
        ):
            with pytest.raises(InputError, match=words):
                session.sync(wrong)  # type: ignore[arg-type]
        assert uuids(session) == []
        session.user("x")
        hear(session, fake_reply())
        assert (
            session.sync([{"role": "user", "content": "x"}, {"role": "assistant", "content": "answer 1"}])
            == 0
        )


# The same list, written in another way


def called(name: str, **given: Any) -> dict[str, Any]:
    return {"id": name, "type": "function", "function": {"name": "Read", "arguments": json.dumps(given)}}


CHAT: Messages = [
    {"role": "user", "content": "what is in a.py and b.py?"},
    {
        "role": "assistant",
        "content": "Looking.",
        "reasoning_content": "two files",
        "tool_calls": [called("call_1a2b3c4d", path="a.py"), called("call_5e6f7g8h", path="b.py")],
    },
    {"role": "tool", "tool_call_id": "call_1a2b3c4d", "content": "A"},
    {"role": "tool", "tool_call_id": "call_5e6f7g8h", "content": "B"},
    {"role": "developer", "content": "Answer in one word."},
]
RESPONSES: Messages = [
    {"role": "user", "content": [{"type": "input_text", "text": "what is in a.py and b.py?"}]},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"},
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Looking.", "annotations": []}],
    },
    {
        "type": "function_call",
        "call_id": "call_1a2b3c4d",
        "name": "Read",
        "arguments": '{"path": "a.py"}',
    },
    {"type": "function_call", "call_id": "call_5e6f7g8h", "name": "Read", "arguments": '{"path":"b.py"}'},
    {"type": "function_call_output", "call_id": "call_5e6f7g8h", "output": "B"},
    {
        "type": "function_call_output",
        "call_id": "call_1a2b3c4d",
        "output": [{"type": "input_text", "text": "A"}],
    },
    {
        "type": "message",
        "role": "developer",
        "content": [{"type": "input_text", "text": "Answer in one word."}],
    },
]
MESSAGES: Messages = [
    {"role": "user", "content": [{"type": "text", "text": "what is in a.py and b.py?"}]},
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "Looking."},
            {"type": "tool_use", "id": "call_1a2b3c4d", "name": "Read", "input": {"path": "a.py"}},
            {"type": "tool_use", "id": "call_5e6f7g8h", "name": "Read", "input": {"path": "b.py"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "call_1a2b3c4d", "content": "A"},
            {"type": "tool_result", "tool_use_id": "call_5e6f7g8h", "content": "B"},
        ],
    },
    {"role": "system", "content": "Answer in one word."},
]


@pytest.mark.spec("S8.10")
@pytest.mark.parametrize("given", [CHAT, RESPONSES, MESSAGES], ids=["chat", "responses", "messages"])
def test_a_list_of_any_api_is_taken_in_whole(given: Messages) -> None:
    with world(talker()) as here, here.session() as session:
        session.messages(given)
        session.complete()
        first, answer, results, system = said(here.bodies[-1])
        assert first["content"][0]["text"] == "what is in a.py and b.py?"
        assert [part["type"] for part in answer["content"]] == ["text", "tool_use", "tool_use"]
        assert [part["input"] for part in answer["content"][1:]] == [{"path": "a.py"}, {"path": "b.py"}]
        contents = {part["tool_use_id"]: part["content"] for part in results["content"]}
        assert {name: str(words) for name, words in contents.items()}.keys() == {
            "call_1a2b3c4d",
            "call_5e6f7g8h",
        }
        assert (system["role"], system["content"][0]["text"]) == ("system", "Answer in one word.")


@pytest.mark.spec("S8.6", "S8.10")
@pytest.mark.parametrize("first", [CHAT, RESPONSES, MESSAGES], ids=["chat", "responses", "messages"])
@pytest.mark.parametrize("then", [CHAT, RESPONSES, MESSAGES], ids=["chat", "responses", "messages"])
def test_a_list_written_for_another_api_is_the_same_list(first: Messages, then: Messages) -> None:
    with alone() as session:
        session.messages(first)
        before = uuids(session)
        assert session.sync(then) == 0
        assert uuids(session) == before
        assert session.sync([*then, {"role": "user", "content": "well?"}]) == 1
        assert uuids(session)[:-1] == before


@pytest.mark.spec("S8.6", "S8.10")
@pytest.mark.parametrize("model", [BOUND, FREE])
def test_reasoning_may_be_missing_from_a_list_and_stays_in_the_session(model: str) -> None:
    with world() as here, here.session(model=model) as session:
        messages: Messages = [{"role": "user", "content": "begin"}]
        for _ in range(2):
            turn(here, session, messages)
            messages[-2]["content"] = [
                part for part in messages[-2]["content"] if part["type"] != "thinking"
            ]
        turn(here, session, messages)
        assert kinds_of(here.bodies[-1]).count("thinking") == 2
        assert here.moved() == []


@pytest.mark.spec("S8.6", "S8.10")
def test_texts_may_be_joined_and_split() -> None:
    parts = [{"type": "text", "text": "one\n"}, {"type": "text", "text": "two"}]
    with alone() as session:
        session.user(parts)
        hear(session, fake_reply())
        before = uuids(session)
        answer = {"role": "assistant", "content": "answer 1"}
        assert session.sync([{"role": "user", "content": "one\n\ntwo"}, answer]) == 0
        assert (
            session.sync([{"role": "user", "content": "one"}, {"role": "user", "content": "two"}, answer])
            == 0
        )
        assert uuids(session) == before
        # An indentation is no way of writing.
        assert session.sync([{"role": "user", "content": "one\n\nt  wo"}, answer]) == 2
        assert uuids(session) != before


@pytest.mark.spec("S8.6", "S8.10")
@pytest.mark.parametrize("model", [BOUND, "claude-sonnet-5"])
def test_system_messages_may_move_to_the_first_message_and_back(model: str) -> None:
    agents = {"role": "system", "content": [{"type": "text", "text": "Agents: none."}]}
    question: dict[str, Any] = {"role": "user", "content": [{"type": "text", "text": "hello"}]}
    answer = {"role": "assistant", "content": "answer 1"}
    moved = {"role": "user", "content": [*question["content"], {"type": "text", "text": "Agents: none."}]}
    with alone(model=model) as session:
        session.sync([question, agents])
        hear(session, fake_reply())
        before = uuids(session)
        assert session.sync([question, agents, answer]) == 0
        assert session.sync([moved, answer]) == 0
        assert session.sync([question, answer]) == 0
        assert uuids(session) == before
        assert session.sync([moved, answer, {"role": "user", "content": "go on"}]) == 1
        assert uuids(session)[:-1] == before
    with alone(model=model) as session:
        session.sync([moved])
        hear(session, fake_reply())
        before = uuids(session)
        assert session.sync([question, agents, answer]) == 1
        assert uuids(session)[: len(before)] == before


@pytest.mark.spec("S8.10")
def test_another_system_message_in_the_past_is_told_now_and_begins_no_branch() -> None:
    question, answer = {"role": "user", "content": "hello"}, {"role": "assistant", "content": "answer 1"}
    with alone() as session:
        session.sync([question, {"role": "system", "content": "It is Monday."}])
        hear(session, fake_reply())
        before = uuids(session)
        later = [question, {"role": "system", "content": "It is Tuesday."}, answer]
        assert session.sync([*later, {"role": "user", "content": "and now?"}]) == 2
        assert uuids(session)[: len(before)] == before
        sent = str(said(session.prepare().body))
        assert "Monday" in sent
        assert "Tuesday" in sent
        assert session.sync([*later, {"role": "user", "content": "and now?"}]) == 0


@pytest.mark.spec("S8.10")
def test_a_leading_system_message_that_is_the_sessions_prompt_is_known() -> None:
    with alone(system="Be brief.") as session:
        session.messages([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}])
        assert len(uuids(session)) == 1
        assert (
            session.sync(
                [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "hello"}]
            )
            == 0
        )


@pytest.mark.spec("S8.10")
def test_a_result_whose_call_was_cut_off_is_not_lost() -> None:
    cut: Messages = [
        {"role": "tool", "tool_call_id": "call_0", "content": "forty-two"},
        {"role": "user", "content": "so?"},
    ]
    with alone() as session:
        session.messages(cut)
        assert "forty-two" in str(said(session.prepare().body))
        assert session.sync(cut) == 0


@pytest.mark.spec("S8.6", "S8.10")
@pytest.mark.parametrize("model", [BOUND, FREE])
def test_a_rewind_into_what_was_brought_in_brings_back_no_reasoning_from_elsewhere(
    model: str, tmp_path: Path
) -> None:
    thought = {"type": "thinking", "thinking": "elsewhere", "signature": "theirs"}
    answers = [{"role": "assistant", "content": [thought, {"type": "text", "text": one}]} for one in "ab"]
    listed: Messages = [{"role": "user", "content": "one"}, answers[0], {"role": "user", "content": "two"}]
    with world(talker()) as here:
        with here.open(tmp_path / "s.jsonl", model=model) as session:
            session.messages([*listed, answers[1]])
            session.rewind(uuids(session)[1])
        with here.open(tmp_path / "s.jsonl", model=model) as session:
            session.user("otherwise")
            session.complete()
        assert b"elsewhere" not in here.bodies[-1]
