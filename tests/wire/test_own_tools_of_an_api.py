"""Tools and items that only one API has: the engine knows nothing of them and keeps their bytes and their place."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

import sevenfold
from sevenfold.errors import RequestRefused
from sevenfold.wire.chat_request import chat_request
from sevenfold.wire.error_report import MalformedAnswer
from sevenfold.wire.responses_answer import ResponsesReader
from sevenfold.wire.responses_events import response_events, text_item
from sevenfold.wire.responses_request import responses_request

pytestmark = pytest.mark.spec("S24.5")

READ = '{"name":"Read","input_schema":{"type":"object"}}'
SEARCH = '{"type":"web_search","filters":{"weight":1.50},"new":1e2}'
NAMESPACE = '{"type":"namespace","name":"crm","tools":[{"type":"function","name":"find"}]}'
SEARCHED = '{"type":"web_search_call","id":"ws_1","status":"completed","action":{"score":1.0,"name":3}}'


def request_with(*tools: str) -> bytes:
    messages = [{"role": "user", "content": "hello"}]
    fields = {"model": "gpt-5.6", "max_tokens": 9, "messages": messages}
    return json.dumps(fields)[:-1].encode() + f',"tools":[{",".join(tools)}]}}'.encode()


def tools_in(body: bytes) -> list[str]:
    class Tools(msgspec.Struct):
        tools: list[msgspec.Raw]

    return [bytes(tool).decode() for tool in msgspec.json.decode(body, type=Tools).tools]


def test_a_tool_of_the_api_keeps_its_bytes_and_its_place() -> None:
    request = request_with(SEARCH, READ, NAMESPACE)
    bodies = [
        responses_request(request, stream=True),
        chat_request(request, stream=True, room="max_tokens", reasoning=None),
    ]
    for body in bodies:
        first, second, third = tools_in(body)
        assert (first, third) == (SEARCH, NAMESPACE)
        assert '"Read"' in second


@pytest.mark.parametrize("kind", ["web_search_20250305", "code_execution_20290101", "memory_20250818"])
def test_a_tool_that_runs_at_anthropic_is_refused_by_its_name(kind: str) -> None:
    with pytest.raises(RequestRefused, match="the tool search runs on Anthropic's servers"):
        responses_request(request_with(f'{{"type":"{kind}","name":"search"}}'), stream=True)


def response(*items: dict[str, Any]) -> dict[str, Any]:
    usage = {"input_tokens": 3, "output_tokens": 5}
    fields = {"object": "response", "id": "resp_1", "model": "gpt-5.6", "status": "completed"}
    return {**fields, "output": items, "usage": usage}


@pytest.mark.parametrize("streamed", [True, False])
def test_an_item_that_is_not_known_is_a_block_with_its_own_bytes(streamed: bool) -> None:
    answer = response(json.loads(SEARCHED), text_item("msg_1", "Found.", "completed"))
    reader = ResponsesReader(request_with(SEARCH))
    if streamed:
        for event in response_events(answer, 3):
            reader.event(event.partition(b"data: ")[2])
    else:
        reader.body(msgspec.json.encode(answer))
    search, text = reader.reply("req_1").answer.blocks
    assert (search.kind, search.raw.decode()) == ("web_search_call", SEARCHED)
    assert json.loads(text.raw)["text"] == "Found."


@pytest.mark.parametrize("item", ["null", "[]", "3", '{"type":7}', '{"type":"message","content":[null]}'])
def test_an_item_that_is_no_item_costs_only_itself_or_is_told(item: str) -> None:
    found = json.dumps(text_item("msg_1", "Found.", "completed"))
    raw = json.dumps(response())[:-1].replace('"output": []', f'"output": [{item}, {found}]') + "}"
    reader = ResponsesReader(b"{}")
    try:
        reader.body(raw.encode())
    except MalformedAnswer:
        return
    assert [json.loads(block.raw)["text"] for block in reader.reply(None).answer.blocks] == ["Found."]


def test_a_session_sends_what_the_api_searched_back_as_it_came_and_forks_keep_its_tools() -> None:
    tools = [json.loads(tool) for tool in (SEARCH, READ)]
    with sevenfold.Session.in_memory(model="gpt-5.6", wire="responses", tools=tools) as session:
        session.user("What does the harbour master say?")
        first = session.prepare()
        assert first["tools"][0]["type"] == "web_search"
        item = text_item("msg_1", "High water at four.", "completed")
        session.observe(response(json.loads(SEARCHED), item))
        session.user("And tomorrow?")
        sent = session.prepare()
        assert SEARCHED.encode() in sent.body
        assert [entry.get("type", entry.get("role")) for entry in sent["input"]] == [
            "user",
            "web_search_call",
            "assistant",
            "user",
        ]
        session.observe(response(text_item("msg_2", "The same.", "completed")))
        fork = session.fork("side")
        fork.user("In one word?")
        assert tools_in(fork.prepare().body.raw)[0] == tools_in(first.body)[0]
