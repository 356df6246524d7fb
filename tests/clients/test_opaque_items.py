"""Summaries that only the provider can read, on their way out and in."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from sevenfold.errors import BoundThinking, ProviderFailed, RequestRefused
from sevenfold.ports import Call
from sevenfold.record.usage import Usage
from sevenfold.wire.chat_request import chat_request
from sevenfold.wire.responses_request import compact_request, responses_request
from tests.clients.test_openai_client import answering, client

pytestmark = pytest.mark.spec("S9.7")

ITEM = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA+/=", "created_by": "model"}
SAID = {"role": "user", "content": [ITEM, {"type": "text", "text": "the summary"}]}


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "gpt-5.6", "max_tokens": 9, "messages": [SAID], **fields}).encode()


def heard(answer: bytes, status: int = 200) -> Any:
    transport = answering(answer, kind="application/json", status=status)
    return client(transport).ask(Call(body(compaction={"type": "summarize"})))


def test_an_item_goes_back_as_it_came_but_for_markers() -> None:
    marked = {**ITEM, "cache_control": {"type": "ephemeral"}}
    for item in (ITEM, marked):
        said = [{"role": "user", "content": [item, {"type": "text", "text": "the summary"}]}]
        sent = json.loads(responses_request(body(messages=said), stream=True))["input"]
        assert sent == [ITEM, {"role": "user", "content": [{"type": "input_text", "text": "the summary"}]}]


def test_chat_completions_is_sent_the_readable_summary_alone() -> None:
    sent = json.loads(chat_request(body(), stream=False, room="max_tokens", reasoning=None))
    assert sent["messages"] == [{"role": "user", "content": "the summary"}]


def test_a_summary_that_can_be_read_is_said_in_words() -> None:
    signed = {"type": "compaction", "content": "so it was", "signature": "s"}
    said = [{"role": "assistant", "content": [signed]}]
    sent = json.loads(responses_request(body(messages=said), stream=True))["input"]
    assert sent == [{"role": "assistant", "content": [{"type": "output_text", "text": "so it was"}]}]


def test_a_request_for_a_summary_holds_the_conversation_and_nothing_the_address_does_not_take() -> None:
    tools = [{"name": "Read", "input_schema": {"type": "object"}}]
    asked = body(compaction={"type": "summarize"}, system="Be brief.", tools=tools)
    sent = json.loads(compact_request(asked))
    assert set(sent) == {"model", "instructions", "input"}
    assert sent["input"][0] == ITEM


def test_instructions_for_a_summary_are_refused_by_name() -> None:
    with pytest.raises(RequestRefused, match="takes no instructions"):
        compact_request(body(compaction={"type": "summarize", "instructions": "keep the SQL"}))


def test_the_item_is_kept_byte_for_byte_and_the_users_messages_are_not() -> None:
    spelt = b'{ "type":"compaction", "encrypted_content":"gA\\/\\u00e9", "new":1.0 }'
    said = b'{"type":"message","role":"user","content":[]}'
    usage = b'{"input_tokens":90,"output_tokens":7,"input_tokens_details":{"cached_tokens":30}}'
    reply = heard(b'{"id":"resp_1","output":[' + said + b"," + spelt + b'],"usage":' + usage + b"}")
    [block] = reply.answer.blocks
    assert block.raw == b'{"type":"compaction","encrypted_content":"gA\\/\\u00e9","new":1.0}'
    assert (reply.answer.stop_reason, reply.answer.id) == ("compaction", "resp_1")
    counted = Usage.read(reply.answer.usage)
    assert (counted.input_tokens, counted.cache_read_input_tokens, counted.output_tokens) == (60, 30, 7)


def test_an_answer_without_an_item_is_an_answer_without_a_summary() -> None:
    reply = heard(b'{"output":[]}')
    assert (reply.answer.blocks, reply.answer.stop_reason) == ((), "end_turn")


def test_an_answer_that_cannot_be_read_is_the_providers_failure() -> None:
    with pytest.raises(ProviderFailed):
        heard(b'{"output":7}')


def test_an_item_that_cannot_be_verified_is_something_to_go_on_without() -> None:
    error = {
        "message": "The encrypted content gAAA could not be verified.",
        "code": "invalid_encrypted_content",
    }
    with pytest.raises(BoundThinking, match="could not be verified"):
        heard(msgspec.json.encode({"error": {"type": "invalid_request_error", **error}}), 400)
