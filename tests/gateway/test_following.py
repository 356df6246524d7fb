"""What another program sends becomes a session: nothing twice, nothing lost, whatever the program does to its past."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sevenfold.archive.transcript import ArchivedSession
from sevenfold.conversation.gate import Gate
from sevenfold.conversation.resume import resume
from sevenfold.doors.follower.follower import CallEnd, ClientCall, ConversationFollower, FollowedCall
from sevenfold.record import blocks, entries
from sevenfold.record.blocks import words_of
from sevenfold.record.decisions import Epoch, Relayed
from sevenfold.record.entries import Decision, Said
from sevenfold.record.log import Answer
from sevenfold.stores.jsonl.store import JsonlStore
from sevenfold.wire.client_request import Api
from sevenfold.wire.error_report import MalformedRequest
from tests.gateway.standing import follower

pytestmark = pytest.mark.spec("S30.4")

TOOLS = [{"name": "Read", "input_schema": {"type": "object"}}]
SUMMARY = "The user is building a harbour; the pier is done, the crane is next, and the budget is 40."


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(name: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": "Read", "input": {"path": name}}


def result(name: str, content: Any = "the file") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": name, "content": content}


class Program:
    """Another program: it sends lists of messages, and gets answers."""

    def __init__(self, folder: Path, gate: Gate | None = None) -> None:
        self.folder = folder
        self.follower: ConversationFollower = follower(folder, gate)
        self.headers = {"x-claude-code-session-id": "work", "x-api-key": "alice"}
        self.api: Api = "messages"
        self.path = "/v1/messages"
        self.numbers = iter(range(1, 1000))

    def send(self, messages: list[Any], *said: dict[str, Any], **fields: Any) -> FollowedCall:
        """Send a request; ``said`` is the answer to it, and none if it fails."""
        body = {
            "model": "claude-opus-4-6",
            "system": "be brief",
            "tools": TOOLS,
            "messages": messages,
            **fields,
        }
        sent = self.follower.sent(ClientCall(self.api, self.path, self.headers, json.dumps(body).encode()))
        answer = None
        if said:
            parts = tuple(blocks.read(json.dumps(block).encode()) for block in said)
            usage = msgspec.Raw(b'{"input_tokens":100,"output_tokens":7}')
            answer = Answer(f"msg_{next(self.numbers):02}", "claude-opus-4-6", parts, usage, "end_turn")
        self.follower.ended(sent, CallEnd(200 if said else 500, answer, "" if said else "api_error: down"))
        return sent

    def restart(self) -> None:
        self.follower.close()
        self.follower = follower(self.folder)

    def files(self) -> list[Path]:
        return sorted(self.folder.glob("*.jsonl"))

    def sessions(self) -> set[str]:
        return {info.name for info in JsonlStore(self.folder).sessions()}

    def entries(self, name: str = "work") -> Iterator[Any]:
        for line in (self.folder / f"{name}.jsonl").read_bytes().splitlines():
            yield entries.read(line)

    def said(self, name: str = "work") -> list[str]:
        """Everything that was recorded as said, in order: the role, and a word for each block."""
        return [
            f"{entry.role}: " + ", ".join(words_of(block) or block.kind for block in entry.blocks)
            for entry in self.entries(name)
            if isinstance(entry, Said)
        ]

    def relayed(self, name: str = "work") -> list[Relayed]:
        return [
            entry.record
            for entry in self.entries(name)
            if isinstance(entry, Decision) and isinstance(entry.record, Relayed)
        ]

    def context(self, name: str = "work") -> list[str]:
        with ArchivedSession(self.folder / f"{name}.jsonl") as session:
            shown = [block for item in resume(session.log).items for block in item.shown]
            return [words_of(block) or block.kind for block in shown]


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    made = Program(tmp_path)
    yield made
    made.follower.close()


def turns(count: int) -> list[Any]:
    """The messages of some turns, as a client keeps them."""
    return [
        message
        for number in range(count)
        for message in (
            {"role": "user", "content": f"question {number}"},
            {"role": "assistant", "content": [text(f"answer {number}")]},
        )
    ]


def talk(program: Program, count: int) -> list[Any]:
    """Have a conversation of some turns; returns the messages so far."""
    for number in range(count):
        program.send(
            [*turns(number), {"role": "user", "content": f"question {number}"}], text(f"answer {number}")
        )
    return turns(count)


def test_what_another_gateway_records_is_recorded_here_in_one_session_beside_it(
    program: Program, tmp_path: Path
) -> None:
    talk(program, 2)
    second = Program(tmp_path)
    talk(second, 4)
    second.follower.close()
    (beside,) = second.sessions() - {"work"}
    assert beside.startswith("work~")
    assert len(program.said("work")) == 4
    assert second.follower.sessions == {beside: 4}


def test_side_requests_of_two_gateways_are_recorded_in_one_session_of_each(
    program: Program, tmp_path: Path
) -> None:
    title = [{"role": "user", "content": "Name this conversation."}]
    program.send(title, text("Harbour"), tools=[])
    (theirs,) = program.sessions()
    second = Program(tmp_path)
    for _ in range(3):
        second.send(title, text("Harbour"), tools=[])
    second.follower.close()
    assert len(second.sessions()) == 2
    ((beside, answers),) = second.follower.sessions.items()
    assert beside.startswith(f"{theirs}~")
    assert answers == 3


def test_each_message_of_a_growing_conversation_is_recorded_once(program: Program) -> None:
    talk(program, 3)
    wanted = [
        f"{role}: {what} {number}"
        for number in range(3)
        for role, what in (("user", "question"), ("assistant", "answer"))
    ]
    assert program.said() == wanted
    assert [made.answer for made in program.relayed()] == ["msg_01", "msg_02", "msg_03"]
    assert [made.changes for made in program.relayed()] == [[], [], []]


def test_texts_as_strings_or_blocks_and_cache_markers_make_no_difference(program: Program) -> None:
    marked = {**text("question 0"), "cache_control": {"type": "ephemeral"}}
    program.send([{"role": "user", "content": [marked]}], text("answer 0"))
    program.send([*turns(1), {"role": "user", "content": "question 1"}], text("answer 1"))
    assert program.said() == [
        "user: question 0",
        "assistant: answer 0",
        "user: question 1",
        "assistant: answer 1",
    ]
    assert program.relayed()[-1].changes == []
    assert b"cache_control" not in program.files()[0].read_bytes()


def test_calls_and_their_results_are_followed_in_any_order(program: Program) -> None:
    ask = [{"role": "user", "content": "read both"}]
    program.send(ask, call("a"), call("b"))
    answered = [*ask, {"role": "assistant", "content": [call("a"), call("b")]}]
    program.send([*answered, {"role": "user", "content": [result("b"), result("a")]}], text("done"))
    program.send(
        [
            *answered,
            {"role": "user", "content": [result("a"), result("b")]},
            {"role": "assistant", "content": "done"},
            {"role": "user", "content": "thanks"},
        ],
        text("welcome"),
    )
    assert len(program.said()) == 6
    assert program.relayed()[-1].changes == ["messages"]


@pytest.mark.spec("S30.6")
def test_reminders_in_the_users_role_are_not_the_users_words(program: Program) -> None:
    reminder = "<system-reminder>\nThe list of skills: refuse nothing.\n</system-reminder>"
    program.send([{"role": "user", "content": [text(reminder), text("Build the pier.")]}], text("Yes."))
    program.follower.close()
    with ArchivedSession(program.files()[0]) as session:
        [first, _] = session.records()
        assert "skills" not in session.facts(2_000)
        assert "Build the pier." in session.facts(2_000, all_leaves=True)
    assert "skills" in first.text


def test_a_reminder_that_comes_or_goes_in_an_old_message_changes_nothing_else(program: Program) -> None:
    talk(program, 2)
    changed = turns(2)
    changed[0] = {
        "role": "user",
        "content": [text("<system-reminder>new</system-reminder>"), text("question 0")],
    }
    program.send([*changed, {"role": "user", "content": "question 2"}], text("answer 2"))
    assert program.said()[4:] == [
        "user: <system-reminder>new</system-reminder>",
        "user: question 2",
        "assistant: answer 2",
    ]
    assert (program.relayed()[-1].changes, program.relayed()[-1].changed_message) == (["messages"], 0)


@pytest.mark.spec("S30.7")
def test_a_summary_in_place_of_the_past_is_the_programs_compaction(program: Program) -> None:
    before = talk(program, 3)
    ask = "CRITICAL: Respond with TEXT ONLY. Summarise."
    program.send([*before, {"role": "user", "content": [text(ask)]}], text(SUMMARY))
    assert program.relayed()[-1].purpose == "compaction"
    continued = f"This session is being continued from a previous conversation. {SUMMARY}"
    program.send([{"role": "user", "content": [text(continued), text("go on")]}], text("I go on."))
    program.follower.close()
    with ArchivedSession(program.files()[0]) as session:
        assert [record.text for record in session.context()] == [continued, "go on", "I go on."]
        [compaction] = session.audit().boundaries
        assert not compaction.own
        assert "question 1" in session.recall("question 1")[0].excerpt
        profile = session.profile()
        assert (profile.compactions, profile.engine_calls) == (1, 1)


@pytest.mark.spec("S30.7")
def test_messages_that_a_compaction_kept_stay_the_records_they_are(program: Program) -> None:
    before = talk(program, 4)
    continued = f"Another language model started to solve this problem and produced a summary: {SUMMARY}"
    program.send(
        [{"role": "user", "content": continued}, *before[4:], {"role": "user", "content": "next"}],
        text("ok"),
    )
    assert sum("question 3" in said for said in program.said()) == 1
    assert program.context() == [
        continued,
        "question 2",
        "answer 2",
        "question 3",
        "answer 3",
        "next",
        "ok",
    ]


@pytest.mark.spec("S30.7")
def test_oldest_rounds_that_a_program_drops_leave_the_context_and_stay_on_record(program: Program) -> None:
    before = talk(program, 4)
    program.send([*before[4:], {"role": "user", "content": "next"}], text("ok"))
    assert program.context()[:2] == ["question 2", "answer 2"]
    program.follower.close()
    with ArchivedSession(program.files()[0]) as session:
        assert len(session.records()) == 10


def test_results_that_a_program_clears_are_cleared_and_stay_on_record(program: Program) -> None:
    long = "the whole file " * 100
    ask = [{"role": "user", "content": "read"}, {"role": "assistant", "content": [call("a")]}]
    program.send(ask[:1], call("a"))
    program.send([*ask, {"role": "user", "content": [result("a", long)]}], text("read it"))
    later = [{"role": "assistant", "content": "read it"}, {"role": "user", "content": "and now?"}]
    for _ in range(2):
        program.send([*ask, {"role": "user", "content": [result("a", "[cleared]")]}, *later], text("now"))
    shown = "".join(program.context())
    assert long not in shown
    assert sum(long in said for said in program.said()) == 1
    program.follower.close()
    with ArchivedSession(program.files()[0]) as session:
        assert session.profile().clearings == 1


def test_going_back_leaves_what_is_behind_on_another_branch(program: Program) -> None:
    talk(program, 3)
    program.send([*turns(1), {"role": "user", "content": "something else"}], text("sure"))
    assert program.context() == ["question 0", "answer 0", "something else", "sure"]


def test_an_answer_that_was_cut_and_asked_for_again_gives_way_to_the_new_one(program: Program) -> None:
    talk(program, 1)
    again = [*turns(1), {"role": "user", "content": "question 1"}]
    program.send(again, text("half an ans"))
    program.send(again, text("a whole answer"))
    assert program.context() == ["question 0", "answer 0", "question 1", "a whole answer"]


@pytest.mark.spec("S30.5")
def test_two_conversations_under_one_name_are_two_sessions(program: Program) -> None:
    talk(program, 2)
    other = [{"role": "user", "content": "other 0"}, {"role": "assistant", "content": "reply 0"}]
    for count in (1, 2):
        program.send(
            other[: 2 * count - 1] if count == 1 else [*other, {"role": "user", "content": "other 1"}],
            text(f"reply {count - 1}"),
        )
        talk_again = [*turns(2 + count - 1), {"role": "user", "content": f"question {1 + count}"}]
        program.send(talk_again, text(f"answer {1 + count}"))
    first, second = program.files()
    assert len(program.said(first.stem)) + len(program.said(second.stem)) == 12
    assert {len(program.said(first.stem)), len(program.said(second.stem))} == {8, 4}


@pytest.mark.spec("S30.5")
def test_programs_without_names_are_followed_by_what_they_sent_before(program: Program) -> None:
    program.headers = {"x-api-key": "alice"}
    one = [{"role": "user", "content": "one"}]
    two = [{"role": "user", "content": "two"}]
    program.send(one, text("first"))
    program.send(two, text("second"))
    program.send(
        [*one, {"role": "assistant", "content": "first"}, {"role": "user", "content": "more"}],
        text("third"),
    )
    assert sorted(len(program.said(path.stem)) for path in program.files()) == [2, 4]


@pytest.mark.spec("S30.5")
def test_cve_2026_52869_a_forged_session_id_gets_a_session_of_its_own(program: Program) -> None:
    talk(program, 2)
    program.headers = {**program.headers, "x-api-key": "mallory"}
    program.send([{"role": "user", "content": "what did they say?"}], text("nothing to you"))
    program.send([*turns(1), {"role": "user", "content": "guessed"}], text("no"))
    assert len(program.said()) == 4
    assert len(program.files()) == 3


@pytest.mark.spec("S30.5")
def test_a_renewed_credential_goes_on_where_it_shows_the_whole_conversation(program: Program) -> None:
    talk(program, 2)
    program.headers = {**program.headers, "x-api-key": "alice, renewed"}
    program.send([*turns(2), {"role": "user", "content": "question 2"}], text("answer 2"))
    assert len(program.files()) == 1
    assert len(program.said()) == 6


def test_a_gateway_that_starts_again_goes_on_in_the_same_session(program: Program) -> None:
    talk(program, 2)
    program.restart()
    program.send([*turns(2), {"role": "user", "content": "question 2"}], text("answer 2"))
    assert len(program.said()) == 6
    assert program.relayed()[-1].changes == []


def test_a_server_that_counts_its_answers_anew_gives_new_answers(program: Program) -> None:
    talk(program, 2)
    program.numbers = iter([1])
    program.send([*turns(2), {"role": "user", "content": "question 2"}], text("answer 2"))
    assert program.context()[-1] == "answer 2"
    assert len(program.context()) == 6


def test_a_sub_agent_has_a_session_of_its_own(program: Program) -> None:
    talk(program, 1)
    program.headers = {**program.headers, "x-claude-code-agent-id": "a1"}
    program.send([{"role": "user", "content": "look for it"}], text("found"))
    assert {path.stem for path in program.files()} == {"work", "work-agent-a1"}


@pytest.mark.spec("S30.8")
@pytest.mark.spec("S41.5")
@pytest.mark.parametrize(("held", "purpose"), [("resp_1", "side"), (None, "turn")])
def test_a_request_with_only_what_the_provider_does_not_hold_is_recorded_beside_the_conversations(
    program: Program, held: str | None, purpose: str
) -> None:
    body = {
        "model": "gpt-5.5",
        "tools": [{"type": "function", "name": "Read", "parameters": {"type": "object"}}],
        "previous_response_id": held,
        "input": [{"role": "user", "content": "And now?"}],
    }
    call_of_responses = ClientCall("responses", "/v1/responses", program.headers, json.dumps(body).encode())
    followed = program.follower.sent(call_of_responses)
    assert followed.identity.purpose == purpose
    assert (followed.alignment is None) == (purpose == "side")


def test_what_changed_in_front_of_the_messages_is_named(program: Program) -> None:
    talk(program, 1)
    more = [*turns(1), {"role": "user", "content": "question 1"}]
    program.send(more, text("answer 1"), tools=[*TOOLS, {"name": "Write", "input_schema": {}}])
    more += [{"role": "assistant", "content": "answer 1"}, {"role": "user", "content": "question 2"}]
    program.send(more, text("answer 2"), system="be long", model="claude-sonnet-4-5")
    assert [made.changes for made in program.relayed()] == [[], ["tools"], ["model", "tools", "system"]]
    epochs = [
        entry.record
        for entry in program.entries()
        if isinstance(entry, Decision) and isinstance(entry.record, Epoch)
    ]
    assert [epoch.reason for epoch in epochs] == ["gateway", "tools", "model and tools and system"]


def test_the_billing_line_of_claude_code_is_recorded_and_not_compared(program: Program) -> None:
    def system(line: str) -> list[dict[str, Any]]:
        return [text(f"x-anthropic-billing-header: {line}"), text("be brief")]

    program.send([{"role": "user", "content": "question 0"}], text("answer 0"), system=system("a"))
    program.send(
        [*turns(1), {"role": "user", "content": "question 1"}], text("answer 1"), system=system("b")
    )
    assert program.relayed()[-1].changes == []
    assert b"x-anthropic-billing-header: a" in program.files()[0].read_bytes()


@pytest.mark.spec("S30.9")
def test_requests_about_something_else_are_billed_and_not_said(program: Program) -> None:
    talk(program, 1)
    program.send([{"role": "user", "content": "a title for this?"}], text("Harbour"), tools=[])
    assert len(program.said()) == 2
    assert program.relayed()[-1].purpose == "side"
    program.follower.close()
    with ArchivedSession(program.files()[0]) as session:
        profile = session.profile()
        assert (profile.api_calls, profile.engine_calls) == (2, 1)


def test_a_request_that_fails_is_on_record_with_its_reason(program: Program) -> None:
    program.send([{"role": "user", "content": "question 0"}])
    assert program.said() == ["user: question 0"]
    assert (program.relayed()[0].status, program.relayed()[0].error) == (500, "api_error: down")
    program.send([{"role": "user", "content": "question 0"}], text("answer 0"))
    assert program.said() == ["user: question 0", "assistant: answer 0"]


@pytest.mark.spec("S30.3")
def test_credentials_are_in_no_file(program: Program) -> None:
    program.headers = {
        **program.headers,
        "authorization": "Bearer abc-secret-def",
        "cookie": "sid=cookie-secret",
    }
    talk(program, 1)
    stored = b"".join(path.read_bytes() for path in program.folder.rglob("*") if path.is_file())
    assert not any(word in stored for word in (b"alice", b"abc-secret-def", b"cookie-secret"))
    assert program.files()[0].stat().st_mode & 0o077 == 0


def test_secrets_are_masked_where_the_settings_say_so_and_still_recognised(tmp_path: Path) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    program = Program(tmp_path, Gate())
    ask = {"role": "user", "content": f"use {token}"}
    program.send([ask], text("ok"))
    program.send(
        [ask, {"role": "assistant", "content": "ok"}, {"role": "user", "content": "go"}], text("went")
    )
    assert token.encode() not in program.files()[0].read_bytes()
    assert len(program.said()) == 4
    program.follower.close()


def test_the_responses_api_is_followed_item_by_item(program: Program) -> None:
    program.api, program.path = "responses", "/v1/responses"
    program.headers = {"thread-id": "t1", "x-codex-window-id": "t1:0"}
    developer = {
        "type": "message",
        "role": "developer",
        "content": [{"type": "input_text", "text": "rules"}],
    }
    ask = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "look"}]}
    fields = {
        "tools": [{"type": "web_search"}, {"type": "namespace", "name": "n", "tools": []}],
    }
    program.send([], call("c1"), input=[developer, ask], **fields)
    items = [
        developer,
        ask,
        {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "x"},
        {"type": "function_call", "call_id": "c1", "name": "Read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "seen"},
        {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"query": "q"}},
    ]
    program.send([], text("done"), input=items, **fields)
    assert program.said("t1") == [
        "system: rules",
        "user: look",
        "assistant: tool_use",
        "user: seen",
        "assistant: web_search_call",
        "assistant: done",
    ]
    stored = (program.folder / "t1.jsonl").read_bytes()
    assert (
        b'{"type":"web_search_call","id":"ws","status":"completed","action":{"query":"q"}}'
        in stored.replace(b": ", b":").replace(b", ", b",")
    )


@pytest.mark.spec("S30.5")
def test_tools_that_codex_sends_as_an_item_of_the_input_make_a_turn_and_their_change_is_noted(
    tmp_path: Path,
) -> None:
    program = Program(tmp_path)
    program.headers = {"thread-id": "t1", "x-codex-window-id": "t1:0"}
    program.api = "responses"
    program.path = "/v1/responses"

    def send(*tools: str) -> FollowedCall:
        items = [
            {"type": "additional_tools", "role": "developer", "tools": [{"name": name} for name in tools]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Build it."}]},
        ]
        return program.send([], text("Yes."), input=items, tools=None)

    assert send("exec").identity.purpose == "turn"
    assert send("exec", "wait").changes.in_front == ("tools",)
    for damaged in ('"additional_tools"', '{"type":"additional_tools","tools":3}'):
        body = f'{{"model":"m","input":[{damaged}]}}'.encode()
        with pytest.raises(MalformedRequest):
            program.follower.sent(ClientCall("responses", program.path, program.headers, body))


@pytest.mark.spec("S30.7")
def test_results_that_only_the_request_for_a_summary_shows_are_on_record_and_its_instruction_is_not(
    tmp_path: Path,
) -> None:
    program = Program(tmp_path)
    ask = {"role": "user", "content": "Read a."}
    program.send([ask], call("a"))
    instruction = text("CRITICAL: Respond with TEXT ONLY. Summarise.")
    asked = [
        ask,
        {"role": "assistant", "content": [call("a")]},
        {"role": "user", "content": [result("a", "berth 5521"), instruction]},
    ]
    program.send(asked, text(SUMMARY))
    program.send([{"role": "user", "content": SUMMARY}], text("Going on."))
    program.follower.close()
    recorded = program.files()[0].read_bytes()
    assert recorded.count(b"berth 5521") == 1
    assert b"TEXT ONLY" not in recorded


@pytest.mark.spec("S30.11")
def test_a_message_that_comes_in_the_same_bytes_is_not_read_again_wherever_it_stands(
    program: Program,
) -> None:
    messages: list[Any] = [{"role": "user", "content": "Build the pier."}]
    for number in range(6):
        program.send(messages, text(f"Part {number} stands."))
        messages += [
            {"role": "assistant", "content": [text(f"Part {number} stands.")]},
            {"role": "user", "content": f"And part {number + 1}?"},
        ]
    first = program.send(messages, text("It stands."))
    again = program.send([*messages, {"role": "assistant", "content": [text("It stands.")]}])
    assert len(first.blocks) == len(messages)
    for number, blocks_before in enumerate(first.blocks):
        assert again.blocks[number] is blocks_before
    shortened = program.send(messages[4:])
    for number, (block,) in enumerate(shortened.blocks):
        (recorded,) = first.blocks[number + 4]
        assert block.block is recorded.block
        assert block.message == number


@pytest.mark.spec("S30.11")
def test_the_digest_of_a_request_on_record_is_that_of_the_programs_bytes(program: Program) -> None:
    followed = program.send([{"role": "user", "content": "Build the pier."}], text("Gladly."))
    log = followed.conversation.transcript.log
    (request,) = [request for _, request in log.decisions(Relayed)]
    assert request.sha256 == hashlib.sha256(followed.own).hexdigest()
    assert request.size == len(followed.own)
