"""The parts of a request that stay, and the body made of them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.errors import InputError
from sevenfold.record import blocks
from sevenfold.record.wire import Message
from sevenfold.request.frame import Frame, Marker, assemble, marked, tool_name
from tests.support import Story

TOOL = {"name": "Read", "description": "reads", "input_schema": {"type": "object"}}


def _message(*words: str, role: str = "user") -> Message:
    parts = tuple(blocks.text(word) for word in words)
    return Message.of(role, parts)


@pytest.mark.spec("S6.2")
def test_tools_keep_the_order_in_which_they_are_given():
    tools = [{**TOOL, "name": name} for name in ("b", "a", "c")]
    assert [tool_name(raw) for raw in Frame.of("m", 1, tools=tools).tools] == ["b", "a", "c"]


def test_two_tools_of_one_name_are_refused():
    with pytest.raises(InputError, match="two tools are called 'Read'"):
        Frame.of("m", 1, tools=[TOOL, TOOL])


def test_a_tool_without_a_name_is_refused():
    with pytest.raises(InputError, match="tool number 1 has no name"):
        Frame.of("m", 1, tools=[{"description": "?"}])


def test_a_body_holds_what_it_was_made_of():
    frame = Frame.of(
        "m", 9, system=[blocks.text("be kind").raw], tools=[TOOL], thinking={"type": "adaptive"}
    )
    body = json.loads(assemble(frame, [_message("hi")], extra={"diagnostics": b"{}"}).raw)
    assert body == {
        "model": "m",
        "max_tokens": 9,
        "tools": [TOOL],
        "system": [{"type": "text", "text": "be kind"}],
        "thinking": {"type": "adaptive"},
        "diagnostics": {},
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    }


def test_a_body_is_the_same_from_messages_and_from_their_pieces():
    story = Story()
    story.user("one")
    story.assistant("two", "three")
    story.user("four")
    view, frame = story.view(), Frame.of("m", 9)
    markers = [Marker("messages", 1, 1), Marker("messages", 2, 0)]
    whole = assemble(frame, view.messages(), markers).raw
    assert assemble(frame, view.messages(), markers, message_pieces=view.pieces()).raw == whole
    assert [message.size for message in view.messages()] == [len(raw) for raw in view.encoded()]
    assert whole.count(b"cache_control") == 2


def test_markers_are_put_on_tools_system_and_blocks():
    frame = Frame.of("m", 9, system=[blocks.text("be kind").raw], tools=[TOOL])
    markers = [Marker("tools", 0, ttl="1h"), Marker("system", 0), Marker("messages", 0, 1)]
    body = json.loads(assemble(frame, [_message("one", "two")], markers).raw)
    assert body["tools"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert body["system"][0]["cache_control"] == {"type": "ephemeral"}
    first, second = body["messages"][0]["content"]
    assert "cache_control" not in first
    assert second["cache_control"] == {"type": "ephemeral"}


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=4))
def test_a_marker_adds_one_field_and_changes_no_other(fields):
    fields.pop("cache_control", None)
    raw = json.dumps(fields).encode()
    assert json.loads(marked(raw, "5m")) == {**fields, "cache_control": {"type": "ephemeral"}}


@pytest.mark.spec("S6.2")
@given(st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=8))
def test_a_longer_conversation_has_the_bytes_of_the_shorter_as_its_beginning(words):
    frame = Frame.of("m", 9, tools=[TOOL])
    story, before = Story(), b""
    for word in words:
        story.user(f"say {word}")
        story.assistant("yes")
        body = assemble(frame, story.view().messages()).raw
        assert body.startswith(before)
        before = body[: -len(b"]}")]
