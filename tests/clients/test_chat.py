"""A request of the Messages API says the same in Chat Completions and in Responses, or is refused."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sevenfold.errors import RequestRefused
from sevenfold.wire.chat_request import chat_request
from sevenfold.wire.responses_request import responses_request
from tests.clients.asking import TOOLS, body

PIXEL = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
DATA = "data:image/png;base64,AAAA"


def chat(*messages: Any, reasoning: str | None = None, stream: bool = False, **fields: Any) -> Any:
    raw = body("gpt-5", messages=list(messages), **fields)
    return msgspec.json.decode(chat_request(raw, stream=stream, room="max_tokens", reasoning=reasoning))


def responses(*messages: Any, stream: bool = False, **fields: Any) -> Any:
    return msgspec.json.decode(
        responses_request(body("gpt-5.6", messages=list(messages), **fields), stream=stream)
    )


def user(*blocks: Any) -> Any:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> Any:
    return {"role": "assistant", "content": list(blocks)}


def text(words: str) -> Any:
    return {"type": "text", "text": words, "cache_control": {"type": "ephemeral"}}


def call(name: str, **given: Any) -> Any:
    return {"type": "tool_use", "id": name, "name": "Read", "input": given}


def result(name: str, content: Any) -> Any:
    return {"type": "tool_result", "tool_use_id": name, "content": content}


THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}
HIDDEN = {"type": "redacted_thinking", "data": "xyz"}


def test_a_talk_with_tools_becomes_messages_of_their_own() -> None:
    sent = chat(
        user(text("read a")),
        assistant(THOUGHT, text("Reading."), call("c1", path="a"), call("c2", path="b")),
        user(result("c1", "A"), result("c2", [text("B"), text("b")]), text("go on")),
    )
    assert sent["messages"] == [
        {"role": "user", "content": "read a"},
        {
            "role": "assistant",
            "content": "Reading.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "Read", "arguments": '{"path":"a"}'}},
                {"id": "c2", "type": "function", "function": {"name": "Read", "arguments": '{"path":"b"}'}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "A"},
        {"role": "tool", "tool_call_id": "c2", "content": "B\n\nb"},
        {"role": "user", "content": "go on"},
    ]


def test_the_same_talk_becomes_items_of_the_responses_api() -> None:
    sent = responses(
        user(text("read a")),
        assistant(THOUGHT, {**HIDDEN, "id": "rs_1"}, text("Reading."), call("c1", path="a")),
        user(result("c1", "A"), text("go on")),
        system="Be brief.",
    )
    assert sent["input"] == [
        {"role": "user", "content": [{"type": "input_text", "text": "read a"}]},
        {"type": "reasoning", "id": "rs_1", "encrypted_content": "xyz", "summary": []},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Reading."}]},
        {"type": "function_call", "call_id": "c1", "name": "Read", "arguments": '{"path":"a"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "A"},
        {"role": "user", "content": [{"type": "input_text", "text": "go on"}]},
    ]
    assert sent["instructions"] == "Be brief."
    assert sent["store"] is False


@pytest.mark.parametrize("system", ["Be brief.", [text("Be"), text("brief.")]])
def test_the_system_prompt_comes_first(system: Any) -> None:
    first = chat(user(text("hi")), system=system)["messages"][0]
    assert first["role"] == "system"
    assert first["content"].split() == ["Be", "brief."]


def test_a_system_message_in_the_talk_stays_where_it_is() -> None:
    sent = chat(user(text("hi")), {"role": "system", "content": "from now on, rhyme"})
    assert sent["messages"][-1] == {"role": "system", "content": "from now on, rhyme"}


def test_images_are_shown_as_addresses_and_those_of_results_to_the_user() -> None:
    sent = chat(user(text("look"), PIXEL), assistant(call("c1")), user(result("c1", [text("a"), PIXEL])))
    shown = {"type": "image_url", "image_url": {"url": DATA}}
    assert sent["messages"][0]["content"] == [{"type": "text", "text": "look"}, shown]
    assert sent["messages"][2:] == [
        {"role": "tool", "tool_call_id": "c1", "content": "a"},
        {"role": "user", "content": [shown]},
    ]
    items = responses(assistant(call("c1")), user(result("c1", [text("a"), PIXEL])))["input"]
    image = {"type": "input_image", "image_url": DATA, "detail": "auto"}
    assert items[-1]["output"] == [{"type": "input_text", "text": "a"}, image]


def test_thinking_is_left_out_unless_the_server_has_a_field_for_it() -> None:
    talk = [user(text("hi")), assistant(THOUGHT, HIDDEN, text("ok")), user(text("more"))]
    assert "hm" not in str(chat(*talk))
    assert chat(*talk, reasoning="reasoning_content")["messages"][1]["reasoning_content"] == "hm"


def test_an_answer_that_was_nothing_but_thinking_is_left_out() -> None:
    sent = chat(user(text("hi")), assistant(THOUGHT), user(text("more")))
    assert [message["role"] for message in sent["messages"]] == ["user", "user"]


def test_parameters_have_their_counterparts() -> None:
    sent = chat(
        user(text("hi")),
        tools=TOOLS,
        tool_choice={"type": "any", "disable_parallel_tool_use": True},
        stop_sequences=["END"],
        output_config={"effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}},
        stream=True,
    )
    assert sent["tools"][0]["function"]["name"] == "Read"
    assert sent["tools"][0]["function"]["parameters"] == {"type": "object"}
    assert sent["tool_choice"] == "required"
    assert sent["parallel_tool_calls"] is False
    assert sent["stop"] == ["END"]
    assert sent["reasoning_effort"] == "low"
    assert sent["response_format"]["json_schema"]["schema"] == {"type": "object"}
    assert sent["max_tokens"] == 1_000
    assert sent["stream_options"] == {"include_usage": True}


def test_parameters_have_their_counterparts_in_the_responses_api() -> None:
    sent = responses(
        user(text("hi")),
        tools=TOOLS,
        tool_choice={"type": "tool", "name": "Read", "disable_parallel_tool_use": True},
        output_config={"effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}},
        stream=True,
    )
    assert sent["tools"][0]["name"] == "Read"
    assert sent["tool_choice"] == {"type": "function", "name": "Read"}
    assert sent["parallel_tool_calls"] is False
    assert sent["reasoning"] == {"effort": "low"}
    assert sent["text"]["format"]["schema"] == {"type": "object"}
    assert sent["max_output_tokens"] == 1_000
    assert sent["stream"] is True


def test_one_tool_can_be_asked_for_by_name() -> None:
    chosen = chat(user(text("hi")), tools=TOOLS, tool_choice={"type": "tool", "name": "Read"})[
        "tool_choice"
    ]
    assert chosen == {"type": "function", "function": {"name": "Read"}}


def test_what_only_steers_the_provider_is_left_out() -> None:
    sent = chat(
        user(text("hi")),
        thinking={"type": "adaptive"},
        metadata={"user_id": "u"},
        cache_control={"type": "x"},
    )
    assert set(sent) == {"model", "messages", "max_tokens"}
    assert "cache_control" not in str(sent)


SEARCHED = {
    "type": "search_result",
    "title": "Owls",
    "source": "birds.example",
    "content": [{"type": "text", "text": "They see in the dark."}],
}
PAPER = {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}
ADDRESS = "https://birds.example/owls.pdf"


@pytest.mark.spec("S9.7")
def test_blocks_without_a_counterpart_are_said_in_words() -> None:
    for ask, name in ((chat, "messages"), (responses, "input")):
        searched = str(ask(user(SEARCHED), assistant({"type": "compaction", "content": "so far"}))[name])
        assert "Owls (birds.example)\\nThey see in the dark." in searched
        assert "so far" in searched
        inside = str(ask(assistant(call("c")), user(result("c", [SEARCHED, PIXEL])))[name])
        assert "They see in the dark." in inside
        plain = {"type": "text", "media_type": "text/plain", "data": "plain words"}
        assert "plain words" in str(ask(user({"type": "document", "source": plain}))[name])
        server = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
        found = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
        assert "web_search" not in str(ask(user(text("hi")), assistant(server, found, text("well")))[name])
        removal = {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "Read"}}
        changed = {"role": "system", "content": [text("Be brief."), removal]}
        told = str(ask(user(text("hi")), changed)[name])
        assert "Be brief." in told
        assert "tool_removal" not in told


@pytest.mark.spec("S9.7")
def test_documents_go_out_as_files() -> None:
    paper = user({"type": "document", "source": PAPER, "title": "owls.pdf"})
    data = "data:application/pdf;base64,JVBERg=="
    assert chat(paper)["messages"][0]["content"] == [
        {"type": "file", "file": {"filename": "owls.pdf", "file_data": data}}
    ]
    assert responses(paper)["input"][0]["content"] == [
        {"type": "input_file", "filename": "owls.pdf", "file_data": data}
    ]
    address = user({"type": "document", "source": {"type": "url", "url": ADDRESS}})
    assert chat(address)["messages"][0]["content"] == f"[document: {ADDRESS}]"
    assert responses(address)["input"][0]["content"] == [{"type": "input_file", "file_url": ADDRESS}]
    kept = user({"type": "image", "source": {"type": "file", "file_id": "f"}})
    assert chat(kept)["messages"][0]["content"] == "[image: f]"
    assert responses(kept)["input"][0]["content"] == [{"type": "input_image", "file_id": "f"}]


@pytest.mark.parametrize("ask", [chat, responses])
@pytest.mark.parametrize(
    ("messages", "fields", "named"),
    [
        ([user(text("hi"))], {"context_management": {"edits": []}}, "context_management"),
        ([user(text("hi"))], {"compaction": {"type": "summarize"}}, "compaction"),
        ([user(text("hi"))], {"tools": [{"type": "memory_20250818", "name": "memory"}]}, "memory"),
        ([user({"type": "document", "source": {}})], {}, "messages.0.content.0: .*document"),
        ([user({"type": "container_upload", "file_id": "f"})], {}, "container_upload"),
        ([user(result("c", [{"type": "search_result"}]))], {}, "search_result"),
    ],
)
def test_what_cannot_be_said_is_refused_by_name(ask: Any, messages: Any, fields: Any, named: str) -> None:
    with pytest.raises(RequestRefused, match=named):
        ask(*messages, **fields)


@pytest.mark.spec("S8.11")
@pytest.mark.parametrize("ask", [chat, responses])
def test_how_answers_are_drawn_is_said_in_the_same_words(ask: Any) -> None:
    sent = ask(user(text("hi")), temperature=0.2, top_p=0.9)
    assert (sent["temperature"], sent["top_p"]) == (0.2, 0.9)


def test_the_responses_api_has_no_stop_sequences() -> None:
    with pytest.raises(RequestRefused, match="stop sequences"):
        responses(user(text("hi")), stop_sequences=["END"])


turns = st.lists(
    st.sampled_from(
        [
            user(text("a"), text("b")),
            user(result("c1", "A"), PIXEL),
            assistant(THOUGHT, text("t"), call("c1", path="ä")),
            assistant(text("t")),
            {"role": "system", "content": "s"},
        ]
    ),
    min_size=1,
    max_size=6,
)


@given(turns, turns)
def test_a_longer_talk_begins_with_the_bytes_of_the_shorter(first: Any, more: Any) -> None:
    # Results go right behind the call they answer, in front of what was said since.
    at_once = takewhile(lambda message: message["role"] != "assistant", more)
    assume(first[-1]["role"] == "assistant" or user(result("c1", "A"), PIXEL) not in at_once)
    for ask, name in ((chat, "messages"), (responses, "input")):
        short, long = (msgspec.json.encode(ask(*talk)[name]) for talk in (first, [*first, *more]))
        assert long.startswith(short[:-1])


@pytest.mark.spec("S9.7")
def test_every_result_comes_before_the_pictures_of_another_also_in_a_message_of_its_own() -> None:
    sent = chat(
        assistant(call("c1"), call("c2")),
        user(result("c1", [PIXEL])),
        user(result("c2", "B"), text("go on")),
        assistant(call("c3")),
        user(result("c3", "C")),
    )
    shown = [(said["role"], said.get("tool_call_id")) for said in sent["messages"]]
    assert shown == [
        ("assistant", None),
        ("tool", "c1"),
        ("tool", "c2"),
        ("user", None),
        ("user", None),
        ("assistant", None),
        ("tool", "c3"),
    ]
