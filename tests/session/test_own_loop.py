"""A program that sends requests itself: what it is given, what it may give back, and what it is told is wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import pytest
from msgspec.structs import replace

import sevenfold
from sevenfold.conversation import provider_edits
from sevenfold.errors import (
    ContextFull,
    InputError,
    Overloaded,
    Refused,
    TranscriptLocked,
    TranscriptTooNew,
)
from sevenfold.events import Failed, Sending
from sevenfold.lab.simulator.faults import Fault
from sevenfold.lab.simulator.provider import Setup
from sevenfold.profiles import find
from sevenfold.record import blocks
from sevenfold.record.decisions import CompactMetadata
from tests.session.talking import (
    BOUND,
    FREE,
    OLD,
    World,
    alone,
    answer,
    calling,
    fake_reply,
    kinds_of,
    output,
    reader,
    said,
    streamed,
    talker,
    uuids,
    work,
    world,
)

VERSION = "2026-10-21"


# Sending


@pytest.mark.spec("S9.2", "S6.2")
@pytest.mark.parametrize("model", [BOUND, FREE])
def test_the_request_goes_into_the_sdks_plain_methods(model: str) -> None:
    with world() as here, here.session(model=model) as session:
        session.user("begin")
        for turn in range(6):
            request = session.prepare()
            if turn % 2:
                with here.sdk.messages.stream(**request) as stream:
                    done = session.observe(stream.get_final_message())
            else:
                done = session.observe(here.sdk.messages.create(**request))
            answer(session, done)
        assert here.moved() == []
        sent = here.simulator.requests.answered()
        assert [json.loads(session.at(n)) for n in range(6)] == [
            {name: value for name, value in one.body.items() if name != "stream"} for one in sent
        ]


@pytest.mark.spec("S2.6", "S9.3")
def test_what_the_plain_method_does_not_know_goes_in_beside_what_it_knows() -> None:
    with world() as here, here.session(fields={"metadata": {"user_id": "u"}}) as session:
        provider_edits.open_epoch(session.conversation)
        session.user("begin")
        request = session.prepare()
        assert set(request) == {
            "model",
            "max_tokens",
            "tools",
            "system",
            "thinking",
            "metadata",
            "messages",
            "extra_body",
            "extra_headers",
        }
        assert len(request) == 9
        assert set(request["extra_body"]) == {"context_management"}
        assert "context-management" in request["extra_headers"]["anthropic-beta"]
        with pytest.raises(KeyError):
            request["context_management"]
        here.sdk.messages.create(**request)


@pytest.mark.spec("S8.4", "S10.1")
def test_body_and_headers_can_be_sent_by_hand() -> None:
    with world() as here, here.session() as session:
        session.user("begin")
        for _ in range(3):
            request = session.prepare()
            fixed = {"x-api-key": "simulated-key", "anthropic-version": VERSION}
            reply = httpx2.post(
                here.url + "/v1/messages",
                content=request.body,
                headers={**fixed, **request.headers, "content-type": "application/json"},
            )
            assert reply.status_code == 200, reply.text
            answer(session, session.observe(reply.content))
        assert [session.at(n) for n in range(3)] == here.bodies


@pytest.mark.spec("S8.4")
def test_every_look_at_a_request_gives_objects_nobody_else_has() -> None:
    with world() as here, here.session() as session:
        provider_edits.open_epoch(session.conversation)
        session.user("begin")
        request = session.prepare()
        request["messages"].append("rubbish")
        request["messages"][0]["content"][0]["text"] = "changed"
        request["extra_body"]["context_management"].clear()
        request["tools"].clear()
        assert said(request.body)[0]["content"][0]["text"] == "begin"
        assert request["messages"][0]["content"][0]["text"] == "begin"
        done = session.observe(here.sdk.messages.create(**request))
        answer(session, done)
        assert session.prepare()["messages"][0]["content"][0]["text"] == "begin"


@pytest.mark.spec("S8.4")
def test_nothing_is_on_record_until_a_request_is_looked_at() -> None:
    with world() as here, here.session() as session:
        session.user("begin")
        request = session.prepare()
        assert session.gauge.requests == 0
        assert here.told(Sending) == []
        with pytest.raises(Refused, match="no recorded requests"):
            session.at(-1)
        body = request.body
        assert session.gauge.requests == 1
        assert len(here.told(Sending)) == 1
        assert session.at(-1) == request.body == body
        assert session.gauge.requests == 1


@pytest.mark.spec("S8.4")
def test_a_request_that_nobody_looked_at_does_not_take_the_place_of_the_one_that_was_sent() -> None:
    with world() as here, here.session() as session:
        session.user("begin")
        sent = session.prepare()
        reply = here.sdk.messages.create(**sent)
        session.prepare()
        session.observe(reply)
        assert session.gauge.requests == 1
        assert session.why(0).actual_tokens == here.simulator.requests[0].usage["input_tokens"] + sum(  # type: ignore[index]
            here.simulator.requests[0].usage[name]  # type: ignore[index]
            for name in ("cache_read_input_tokens", "cache_creation_input_tokens")
        )


# Taking answers in


@pytest.mark.spec("S8.4")
def test_an_answer_may_come_in_any_shape_and_reads_the_same_afterwards() -> None:
    shapes: list[Any] = ["message", "dict", "bytes", "stream", "text"]
    for shape in shapes:
        with world() as here, here.session() as session:
            session.user("begin")
            request = session.prepare()
            match shape:
                case "message":
                    reply: Any = here.sdk.messages.create(**request)
                case "dict":
                    reply = here.sdk.messages.create(**request).to_dict()
                case "stream":
                    with here.sdk.messages.stream(**request) as reply:
                        reply.until_done()
                case _:
                    raw = here.sdk.messages.with_raw_response.create(**request).http_response.content
                    reply = raw if shape == "bytes" else raw.decode()
            done = session.observe(reply)
            assert (done.text, [call.name for call in done.calls]) == ("Looking at part 1.", ["Shell"])
            answer(session, done)
            work(session, 2)
            assert here.moved() == [], shape


@pytest.mark.spec("S8.4")
def test_the_shape_of_an_answer_is_settled_when_it_is_taken_in(tmp_path: Path) -> None:
    with world() as here:
        with here.open(tmp_path / "s.jsonl") as session:
            session.user("begin")
            reply = here.sdk.messages.create(**session.prepare())
            answer(session, session.observe(reply))
            next_body = session.prepare().body
        with here.open(tmp_path / "s.jsonl") as session:
            assert session.prepare().body == next_body


@pytest.mark.spec("S8.5")
def test_of_an_answer_that_broke_off_what_is_whole_is_kept() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "x"}
    words = {"type": "text", "text": "I will look at"}
    call = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {}}
    with world() as here, here.session(model=FREE) as session:
        session.user("begin")
        _ = session.prepare().body
        done = session.observe(fake_reply(thought, words, call, stop_reason=None), partial=True)
        assert (done.text, done.calls) == ("I will look at", ())
        session.user("go on")
        assert kinds_of(session.prepare().body) == ["text", "thinking", "text", "text"]
        with pytest.raises(InputError, match="the answer has no complete block"):
            session.observe(fake_reply(thought, stop_reason=None), partial=True)
        done = session.observe(fake_reply(words, call, number=2, stop_reason="tool_use"), partial=True)
        assert [one.id for one in done.calls] == ["toolu_1"]


@pytest.mark.spec("S8.5")
def test_a_stream_that_is_cut_off_leaves_what_it_had_said() -> None:
    with world(talker()) as here, here.session() as session:
        session.user("begin")
        request = session.prepare()
        here.simulator.faults.then(Fault("cut_stream", after=8))
        with pytest.raises(httpx2.HTTPError), here.sdk.messages.stream(**request) as stream:
            stream.until_done()
        done = session.observe(stream.current_message_snapshot, partial=True)
        assert "Looking at part 1.".startswith(done.text)
        assert done.text
        session.user("go on")
        assert session.complete().text == "Looking at part 2."


@pytest.mark.spec("S0.6", "S0.11")
def test_what_was_reported_of_an_answer_before_it_broke_off_does_not_make_it_smaller(
    tmp_path: Path,
) -> None:
    words = "The parser reads one token ahead. " * 300
    seen: dict[str | None, int] = {}
    with world() as here:
        for stop_reason in (None, "end_turn"):
            file = tmp_path / f"{stop_reason}.jsonl"
            with here.open(file, model=FREE) as session:
                session.user("begin")
                _ = session.prepare().body
                whole = session.conversation.count(words)
                reported = {"input_tokens": 1_000, "output_tokens": whole * 7 // 10}
                said_so_far = {"type": "text", "text": words}
                reply = fake_reply(said_so_far, model=FREE, stop_reason=stop_reason, usage=reported)
                session.observe(reply, partial=stop_reason is None)
                seen[stop_reason] = session.gauge.seen
            with here.open(file, model=FREE) as session:
                assert session.gauge.seen == pytest.approx(seen[stop_reason], rel=0.01)
    assert seen["end_turn"] == 1_000 + whole * 7 // 10
    assert seen[None] >= 0.99 * (1_000 + whole)


@pytest.mark.spec("S9.2")
def test_what_is_said_while_the_model_answers_comes_after_the_answer() -> None:
    with world(talker()) as here, here.session() as session:
        session.user("begin")
        reply = here.sdk.messages.create(**session.prepare())
        session.user("and be quick", key="k")
        session.observe(reply)
        assert session.user("and be quick", key="k") in uuids(session)
        session.complete()
        assert here.moved() == []
        assert [message["role"] for message in said(here.bodies[-1])] == ["user", "assistant", "user"]
        session.user("thanks")
        session.complete()
        assert here.moved() == []


@pytest.mark.spec("S9.2")
def test_a_decision_made_while_the_model_answers_does_not_leave_stale_reasoning_behind() -> None:
    with world(talker()) as here, here.session() as session:
        for words in ("one", "two", "three"):
            session.user(words)
            session.complete()
        session.user("four")
        reply = here.sdk.messages.create(**session.prepare())
        records = uuids(session)
        session.snip(records[1], records[1 + 1])
        session.observe(reply)
        session.user("five")
        session.complete()


# Failures


def until_refused(here: World, session: sevenfold.Session, result: str) -> anthropic.APIStatusError:
    """Work on until a request is refused."""
    for _ in range(20):
        try:
            reply = here.sdk.messages.create(**session.prepare())
        except anthropic.APIStatusError as error:
            return error
        answer(session, session.observe(reply), result)
    raise AssertionError("every request was taken")


@pytest.mark.spec("S4.13", "S8.5")
def test_a_prompt_that_is_too_long_is_made_shorter_if_it_can_be() -> None:
    setup = Setup(models={OLD: replace(find(OLD), window=30_000)})
    settings = {"offload": False, "size_keep": 1}
    with (
        world(reader(thinks=False), setup) as here,
        here.session(model=OLD, thinking=None, settings=settings) as session,
    ):
        session.user("begin")
        error = until_refused(here, session, output(times=900))
        assert "prompt is too long" in str(error)
        assert session.failed(error)
        assert here.told(Failed)[-1].again
        session.observe(here.sdk.messages.create(**session.prepare()))
        assert b"Old tool result content cleared" in here.bodies[-1]


@pytest.mark.spec("S4.13")
def test_a_body_that_is_too_large_is_made_smaller_if_it_can_be() -> None:
    with (
        world(reader(thinks=False), Setup(body_bytes=150_000)) as here,
        here.session(model=OLD, thinking=None, settings={"offload": False}) as session,
    ):
        session.user("begin")
        error = until_refused(here, session, output(times=1_000))
        assert error.status_code == 413
        assert session.failed(error)
        session.observe(here.sdk.messages.create(**session.prepare()))


@pytest.mark.spec("S9.2")
def test_reasoning_that_is_refused_is_left_out_and_no_second_time() -> None:
    with world(talker()) as here, here.session() as session:
        session.user("begin")
        session.complete()
        session.user("and again")
        request = session.prepare()
        changed = {**request, "system": "another one"}
        with pytest.raises(anthropic.BadRequestError) as refused:
            here.sdk.messages.create(**changed)
        assert session.failed(refused.value)
        request = session.prepare()
        assert "thinking" not in kinds_of(request.body)
        assert not session.failed(refused.value)
        session.observe(here.sdk.messages.create(**request))


@pytest.mark.spec("S8.5")
@pytest.mark.parametrize("kind", ["rate_limited", "overloaded", "server_error"])
def test_errors_that_no_change_of_the_request_mends_are_the_callers(kind: Any) -> None:
    with world() as here, here.session() as session:
        session.user("begin")
        request = session.prepare()
        here.simulator.faults.then(Fault(kind, retry_after=1.0))
        with pytest.raises(anthropic.APIError) as caught:
            here.sdk.messages.create(**request)
        assert session.failed(caught.value) is False
        session.observe(here.sdk.messages.create(**request))
        assert session.gauge.requests == 1


@pytest.mark.spec("S8.5")
def test_an_error_that_is_no_models_is_none_of_ours() -> None:
    with world() as here, here.session() as session:
        session.user("begin")
        _ = session.prepare().body
        assert session.failed(ValueError("max_tokens")) is False
        with here.session() as fresh:
            assert (
                fresh.failed(anthropic.APIConnectionError(request=httpx2.Request("POST", here.url)))
                is False
            )


# Asking through our own clients


@pytest.mark.spec("S10.1", "S8.4")
def test_complete_asks_waits_and_shows_the_pieces() -> None:
    with world() as here, here.session() as session:
        session.user("begin")
        pieces: list[str] = []
        done = session.complete(lambda piece: pieces.append(piece.words))
        assert done.text in "".join(pieces)
        assert done.stop_reason == "tool_use"
        assert done.usd is not None
        assert done.usd > 0
        answer(session, done)
        session.complete()
        assert [streamed(session.at(n)) for n in range(2)] == here.bodies


@pytest.mark.spec("S4.13", "S8.5")
def test_complete_mends_what_can_be_mended_and_raises_the_rest() -> None:
    with (
        world(reader(thinks=False), Setup(body_bytes=150_000)) as here,
        here.session(model=OLD, thinking=None, settings={"offload": False}) as session,
    ):
        session.user("begin")
        work(session, 12, output(times=1_000))
        refused = [request for request in here.simulator.requests if request.status == 413]
        assert refused
        here.simulator.faults.then(Fault("overloaded"))
        with pytest.raises(Overloaded):
            session.complete()


# What is said twice


@pytest.mark.spec("S8.4")
def test_what_is_said_twice_under_one_key_is_said_once_also_after_a_restart(tmp_path: Path) -> None:
    with world(talker()) as here:
        with here.open(tmp_path / "s.jsonl") as session:
            first = session.user("begin", key="a")
            assert session.user("begin", key="a") == first
            assert session.user("begin", key="b") != first
        with here.open(tmp_path / "s.jsonl") as session:
            assert session.user("begin", key="a") == first
            session.complete()
            session.conversation.transcript.compact(CompactMetadata(), [blocks.text("in short")])
            assert session.user("begin", key="a") == first
            session.user("more", key="c")
        with here.open(tmp_path / "s.jsonl") as session:
            assert session.user("begin", key="a") == first
            assert len(session.conversation.transcript.view) == 2


@pytest.mark.spec("S8.4")
def test_a_key_that_was_used_on_a_branch_left_behind_is_free_again() -> None:
    with world(talker()) as here, here.session() as session:
        session.user("begin", key="a")
        session.complete()
        there = session.user("this way", key="b")
        session.rewind(uuids(session)[1])
        assert session.user("this way", key="b") != there
        session.conversation.transcript.compact(CompactMetadata(), [blocks.text("in short")])
        session.user("on", key="c")
        session.rewind(None)
        assert session.user("anew", key="b") in uuids(session)


@pytest.mark.spec("S8.4")
def test_results_are_taken_in_once_also_after_a_restart_and_a_compaction(tmp_path: Path) -> None:
    with world(reader(2)) as here:
        with here.open(tmp_path / "s.jsonl") as session:
            session.user("begin")
            done = session.complete()
            first, second = (call.id for call in done.calls)
            assert session.tool_results({first: "one"}) == [second]
        with here.open(tmp_path / "s.jsonl") as session:
            assert session.tool_results({first: "one"}) == [second]
            with pytest.raises(InputError, match=f"calls still wait for results: {second}"):
                session.prepare()
            assert session.tool_results({first: "one", second: "two"}) == []
            session.complete()
            session.conversation.transcript.compact(CompactMetadata(), [blocks.text("in short")])
            assert session.tool_results({first: "one"}) == []
        with here.open(tmp_path / "s.jsonl") as session:
            assert session.tool_results({second: "two"}) == []
            assert session.fetch(first) == b"one"
        results = [block for message in said(here.bodies[-1]) for block in message["content"]]
        assert [one["content"] for one in results if one["type"] == "tool_result"] == ["one", "two"]


# What is wrong is said: what, where, and what to do


WRONG: list[tuple[Any, str]] = [
    ("", "nothing in this message"),
    ([" ", "\n"], "nothing in this message"),
    (None, "a message is a NoneType; give a text"),
    (b"bytes", "a message is bytes; decode it"),
    (7, "a message is a int; give a text"),
    ([7], r"content\[0\] is a int; give a text or a content block"),
    (["x", {"text": "no type"}], r"content\[1\] has no type"),
    (
        ["x", {"type": "text", "text": float("nan")}],
        r"content\[1\]: \$\.text is nan.*send a number or null",
    ),
    ({"type": "document", "source": {"data": b"raw"}}, r"content\[0\]: \$\.source\.data is bytes.*base64"),
    ({"type": "image", 1: "x"}, r"content\[0\]: \$ has the key 1; JSON keys are strings"),
    ("half \ud83d", r"content\[0\]: \$\.text holds half a surrogate pair at character 5"),
    (
        {"type": "tool_result", "tool_use_id": "t", "content": "x"},
        r"content\[0\].*give results with tool_results\(\)",
    ),
    ([{"type": "thinking", "thinking": "x"}], r"content\[0\] is a thinking block, which only a model says"),
    ([{"type": "bogus"}], r"content\[0\] is not a content block a provider accepts: Invalid value 'bogus'"),
    ([{"type": "text"}], r"content\[0\] is not a content block.*missing required field `text`"),
    ([{"type": "text", "text": 5}], r"content\[0\] is not a content block.*Expected `str`, got `int`"),
    (
        [{"type": "text", "text": "x", "colour": 1}],
        r"content\[0\] is not a content block.*unknown field `colour`",
    ),
    ([{"type": "image", "source": {"type": "base64"}}], r"content\[0\] is not a content block.*media_type"),
    ([" " * 1_000], "nothing in this message"),
]


@pytest.mark.spec("S8.4")
@pytest.mark.parametrize(("content", "words"), WRONG)
def test_what_cannot_be_said_is_refused_with_its_place(content: Any, words: str) -> None:
    with alone() as session:
        with pytest.raises(InputError, match=words):
            session.user(content)
        assert uuids(session) == []


WRONG_RESULTS: list[tuple[Any, str]] = [
    ({"toolu_9": "x"}, "no call 'toolu_9' waits for a result; those that do: toolu_1_0"),
    ({"type": "tool_result", "tool_use_id": 5, "content": "x"}, r"results\[0\].*its tool_use_id is 5"),
    ({1: "x"}, "1 is not the id of one"),
    (["x"], r"results\[0\] is not a tool result; give a mapping"),
    (None, "what tools answered is a NoneType"),
]


@pytest.mark.spec("S8.4")
@pytest.mark.parametrize(("given", "words"), WRONG_RESULTS)
def test_results_that_cannot_be_taken_are_refused_with_their_call(given: Any, words: str) -> None:
    with alone() as session:
        session.user("begin")
        _ = session.prepare().body
        session.observe(fake_reply(calling("toolu_1_0")))
        before = uuids(session)
        with pytest.raises(InputError, match=words):
            session.tool_results(given)
        assert uuids(session) == before


@pytest.mark.spec("S8.4")
def test_calls_in_the_wrong_order_are_told_what_comes_first() -> None:
    with world() as here, here.session() as session:
        with pytest.raises(InputError, match=r"nothing to send yet: say something with user\(\)"):
            session.prepare()
        with pytest.raises(InputError, match="no request is under way; prepare one"):
            session.observe(fake_reply())
        session.user("begin")
        request = session.prepare()
        with pytest.raises(InputError, match="never looked at"):
            session.observe(fake_reply())
        session.user("more")
        with pytest.raises(InputError, match="the conversation went on since this request was prepared"):
            request.body  # noqa: B018 (looking is the point)
        with pytest.raises(InputError, match=r"this is an error.*pass it to failed\(\)"):
            session.observe({"type": "error", "error": {"type": "api_error", "message": "no"}})
        with pytest.raises(InputError, match="the list is empty, or was read already"):
            session.observe([])
        done = session.complete()
        with pytest.raises(InputError, match=r"the model spoke last.*tool_results\(\) for toolu_1_0"):
            session.prepare()
        answer(session, done)
        with pytest.raises(InputError, match="no request is under way"):
            session.observe(fake_reply())


@pytest.mark.spec("S8.4")
def test_an_answer_whose_open_call_went_out_of_view_has_nothing_to_go_on_with() -> None:
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    with alone() as session:
        session.user("begin")
        _ = session.prepare().body
        session.observe(fake_reply(search, stop_reason="pause_turn"))
        asked = uuids(session)[-1]
        _ = session.prepare().body
        session.observe(fake_reply(found, number=2, stop_reason="pause_turn"))
        session.snip(asked, asked)
        with pytest.raises(InputError, match="the model spoke last"):
            session.prepare()


WRONG_OPENINGS: list[tuple[dict[str, Any], str]] = [
    ({"system": 7}, r"system\[0\] is a int; pass a string"),
    ({"system": ["x", {"type": "image"}]}, r"system\[1\] is a dict"),
    ({"max_tokens": 0}, "max_tokens is 0; claude-sonnet-5-5 takes 1 to 128,000"),
    ({"max_tokens": 10**9}, "claude-sonnet-5-5 takes 1 to 128,000"),
    ({"tools": [{"description": "x"}]}, "tool number 1 has no name"),
    ({"tools": [{"name": "a"}, {"name": "a"}]}, "two tools are called 'a'"),
]


@pytest.mark.spec("S8.4")
@pytest.mark.parametrize(("options", "words"), WRONG_OPENINGS)
def test_a_session_that_cannot_be_opened_says_why(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        sevenfold.Session.in_memory(**{"model": BOUND, **options})


@pytest.mark.spec("S6.1")
def test_a_system_prompt_may_come_as_the_sdks_blocks() -> None:
    block = {"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}
    with alone(system=[block, "and kind"]) as session:
        session.user("hello")
        sent = json.loads(session.prepare().body)["system"]
        assert [part["text"] for part in sent] == ["be brief", "and kind"]


@pytest.mark.spec("S0.4")
def test_what_cannot_fit_is_not_sent_and_the_next_step_is_named() -> None:
    settings = {"context_window": 20_000, "offload": False}
    with (
        world() as here,
        here.session(model=OLD, thinking=None, system="short", settings=settings) as session,
    ):
        session.user("many words " * 20_000)
        with pytest.raises(ContextFull, match="sending stops at"):
            session.prepare()


# Whose session it is


@pytest.mark.spec("S8.4")
def test_one_writer_at_a_time_and_the_error_names_who_it_is(tmp_path: Path) -> None:
    with (
        world() as here,
        here.open(tmp_path / "s.jsonl"),
        pytest.raises(TranscriptLocked, match=f"process {os.getpid()} on"),
    ):
        here.open(tmp_path / "s.jsonl", lock_wait=0.1)
    with world() as here, here.open(tmp_path / "s.jsonl") as session:
        session.user("free again")


@pytest.mark.spec("S8.4")
def test_a_closed_session_takes_nothing_more_and_says_so(tmp_path: Path) -> None:
    with world() as here:
        for opened in (here.open(tmp_path / "s.jsonl"), here.session()):
            with opened as session:
                session.user("begin")
            with pytest.raises(Refused, match=r"this session is closed.*open it again"):
                session.user("more")
            with pytest.raises(Refused, match="this session is closed"):
                session.prepare()
            assert session.gauge.requests == 0
            session.close()


@pytest.mark.spec("S8.4")
def test_a_transcript_of_a_newer_version_can_be_looked_at_and_not_written(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with world() as here:
        with here.open(file) as session:
            session.user("begin")
            answer(session, session.complete())
            sent = session.at(0)
        with file.open("ab") as log:
            log.write(b'{"type":"sevenfold","v":1,"kind":"telepathy","id":"x"}\n')
        size = file.stat().st_size
        with here.open(file, system="another one", model=FREE) as session:
            assert session.at(0) == sent
            assert session.gauge.requests == 1
            assert session.fetch("toolu_1_0") == output().encode()
            for write in (lambda: session.user("x"), session.prepare, lambda: session.rewind(None)):
                with pytest.raises(TranscriptTooNew, match="telepathy"):
                    write()
        assert file.stat().st_size == size
