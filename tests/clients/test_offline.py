"""The offline model plays what it was given, the same way every time, and says when there is no more."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from sevenfold.errors import InputError, RequestRefused
from sevenfold.ports import AsyncClient, Call, Client, Piece, Reply
from sevenfold.providers.offline import NAME, AsyncOfflineClient, OfflineClient, Script
from sevenfold.record import blocks
from sevenfold.record.usage import Usage
from tests.clients.asking import body, words

CALLING: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "hm"},
    {"type": "tool_use", "name": "Read", "input": {"path": "a"}},
]


def asked(client: Client, count: int = 1, **fields: Any) -> list[Reply]:
    return [client.ask(Call(body(system=str(number), **fields))) for number in range(count)]


def test_steps_are_texts_blocks_or_functions_of_the_request() -> None:
    script = Script(["hello", CALLING, lambda request: f"you said {request['messages'][0]['content']}"])
    first, second, third = asked(OfflineClient(script), 3)
    assert (words(first.answer), first.answer.stop_reason) == ("hello", "end_turn")
    assert [block.kind for block in second.answer.blocks] == ["thinking", "tool_use"]
    assert second.answer.stop_reason == "tool_use"
    assert second.answer.blocks[1].id
    assert words(third.answer) == "you said hi"
    assert third.answer.model == "claude-sonnet-5-5"


def test_two_runs_agree_to_the_byte_and_two_requests_never_share_an_id() -> None:
    runs = [asked(OfflineClient(Script([CALLING, CALLING])), 2) for _ in range(2)]
    assert runs[0] == runs[1]
    assert len({reply.answer.id for reply in runs[0]}) == 2
    assert len({reply.answer.blocks[1].id for reply in runs[0]}) == 2


def test_waiting_in_line_or_not_makes_no_difference() -> None:
    seen: list[Piece] = []
    client: AsyncClient = AsyncOfflineClient(Script([CALLING]))
    reply = asyncio.run(client.ask(Call(body(system="0")), seen.append))
    assert reply == asked(OfflineClient(Script([CALLING])))[0]
    assert seen == [Piece("thinking", "hm"), Piece("tool", "Read"), Piece("input", '{"path":"a"}')]


def test_one_question_too_many_says_who_asked_it() -> None:
    client = OfflineClient(Script(["one"]))
    asked(client)
    with pytest.raises(RequestRefused, match=r"1 steps, and this is request 2 \(notes\)"):
        client.ask(Call(body(), source="notes"))


def test_steps_nobody_asked_for_are_told() -> None:
    script = Script(["one", "two", "three"])
    asked(OfflineClient(script))
    assert script.unused == 2
    with pytest.raises(InputError, match="2 of the script's 3 steps"):
        script.check_finished()
    asked(OfflineClient(script), 2)
    script.check_finished()


def test_recorded_blocks_keep_their_bytes() -> None:
    raw = b'{"text": "as it was",\t"type":"text"}'
    assert asked(OfflineClient(Script([[blocks.read(raw)]])))[0].answer.blocks[0].raw == raw


def test_recorded_thinking_is_signed_anew_and_nothing_else_of_it_changes() -> None:
    recorded = [
        blocks.read(b'{"type":"thinking","thinking":"hm","signature":"old","more":1.0}'),
        blocks.read(b'{"type":"redacted_thinking","data":"old"}'),
        blocks.text("so"),
    ]
    signed = []

    def sign(request: Any, before: Any, block: Any) -> str:
        signed.append((request["model"], len(before), block.kind))
        return f"new-{len(before)}"

    answer = asked(OfflineClient(Script([recorded], sign=sign)))[0].answer
    assert [block.raw for block in answer.blocks[:2]] == [
        b'{"type":"thinking","thinking":"hm","signature":"new-0","more":1.0}',
        b'{"type":"redacted_thinking","data":"new-1"}',
    ]
    assert answer.blocks[2] == recorded[2]
    assert signed == [("claude-sonnet-5-5", 0, "thinking"), ("claude-sonnet-5-5", 1, "redacted_thinking")]


def test_a_job_answers_calls_from_its_source_and_leaves_the_script_alone() -> None:
    script = Script(["main"], jobs={"compact": lambda request: f"{len(request['messages'])} messages"})
    client = OfflineClient(script)
    assert words(client.ask(Call(body(), source="compact")).answer) == "1 messages"
    assert words(asked(client)[0].answer) == "main"
    script.check_finished()


def test_longer_prompts_and_answers_are_counted_as_more_tokens() -> None:
    def counted(question: str, said: str) -> Usage:
        talk = [{"role": "user", "content": [{"type": "text", "text": question}]}]
        reply = asked(OfflineClient(Script([said])), messages=talk)[0]
        return Usage.of(msgspec.json.decode(reply.answer.usage, type=dict))

    small, large = counted("hi", "ok"), counted("word " * 1_000, "word " * 500)
    assert 500 < large.input_tokens - small.input_tokens < 3_000
    assert 250 < large.output_tokens - small.output_tokens < 1_500


def test_it_says_what_it_is() -> None:
    assert OfflineClient(Script([])).name == AsyncOfflineClient(Script([])).name == NAME
    assert "no network" in NAME
    assert "no weights" in NAME
