"""An answer is the same bytes however it came, and nothing that was complete is lost when it breaks off."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.ports import Piece, Reply
from sevenfold.record.blocks import INVALID_INPUT, minify, tool_input
from sevenfold.record.usage import Usage
from sevenfold.wire.error_report import ErrorAnswer, MalformedAnswer
from sevenfold.wire.messages_answer import MessagesReader
from sevenfold.wire.reader import EventLines
from tests.clients.making import Style, Written, block_bytes, body_of, events_of, styles, written

PLAIN = Style(ascii=False, spaced=False)


def streamed(events: list[bytes]) -> tuple[MessagesReader, list[Piece]]:
    reader, seen = MessagesReader(), []
    for data in events:
        seen += reader.event(data)
    return reader, seen


def whole(raw: bytes) -> tuple[Reply, list[Piece]]:
    reader = MessagesReader()
    seen = list(reader.body(raw))
    assert reader.whole
    return reader.reply("req_1"), seen


def said(seen: list[Piece], kind: str) -> str:
    return "".join(piece.words for piece in seen if piece.kind == kind)


@given(written, styles)
def test_a_streamed_answer_has_the_bytes_of_the_whole_one(blocks: list[Written], style: Style) -> None:
    reader, seen = streamed(events_of(blocks, style))
    at_once, shown = whole(body_of(blocks, style))
    assert reader.whole
    reply = reader.reply("req_1")
    expected = tuple(minify(block_bytes(block.whole, style)) for block in blocks)
    assert tuple(block.raw for block in at_once.answer.blocks) == expected
    assert reply.answer.blocks == at_once.answer.blocks
    for name in ("diagnostics", "input_transformations", "stop_details"):
        assert bytes(getattr(reply, name)) == bytes(getattr(at_once, name)) != b"null"
    managed = at_once.answer.context_management
    assert bytes(reply.answer.context_management) == bytes(managed) != b"null"
    assert reply.answer.stop_reason == at_once.answer.stop_reason == "end_turn"
    assert said(seen, "text") == said(shown, "text") == "".join(block.words for block in blocks)


@given(written, styles, st.data())
def test_events_are_the_same_wherever_their_bytes_are_cut(
    blocks: list[Written], style: Style, data: st.DataObject
) -> None:
    end = data.draw(st.sampled_from([b"\n", b"\r\n", b"\r"]))
    events = events_of(blocks, style)
    raw = b"".join(
        b"event: x" + end + b": a comment" + end + b"data: " + each + end + end for each in events
    )
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=12)))
    lines = EventLines()
    chunks = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    read = [event for chunk in [*chunks, b"\n"] for event in lines.feed(chunk)]
    assert read == events


@given(written.filter(bool), styles, st.data())
def test_a_stream_cut_anywhere_keeps_every_block_that_was_complete(
    blocks: list[Written], style: Style, data: st.DataObject
) -> None:
    events = events_of(blocks, style)
    kept = events[: data.draw(st.integers(1, len(events)))]
    partial = streamed(kept)[0].partial("req_1")
    assert partial is not None
    done = sum(b"content_block_stop" in event for event in kept)
    complete = [minify(block_bytes(block.whole, style)) for block in blocks[:done]]
    assert [block.raw for block in partial.blocks[:done]] == complete
    for unfinished in partial.blocks[done:]:
        text = msgspec.json.decode(unfinished.raw)["text"]
        assert text.strip()
        assert blocks[done].words.startswith(text)
    assert len(partial.blocks) <= done + 1


@given(written, styles)
def test_a_whole_answer_needs_no_more_than_the_reason_why_it_ended(
    blocks: list[Written], style: Style
) -> None:
    *events, _, _ = events_of(blocks, style)
    reader, _ = streamed(events)
    assert reader.whole
    assert not streamed(events[:-1])[0].whole


def test_usage_keeps_the_split_of_the_start_and_takes_the_totals_of_the_end() -> None:
    reader, _ = streamed(events_of([], PLAIN))
    usage = Usage.of(msgspec.json.decode(reader.reply(None).answer.usage, type=dict))
    assert (usage.input_tokens, usage.output_tokens) == (3, 9)
    assert (usage.cache_creation_5m, usage.cache_creation_1h, usage.cache_read_input_tokens) == (5, 15, 100)


def test_a_partial_answer_knows_what_was_used_before_a_word_was_said() -> None:
    partial = streamed(events_of([], PLAIN)[:1])[0].partial("req_1")
    assert partial is not None
    assert partial.blocks == ()
    assert partial.stop_reason is None
    assert msgspec.json.decode(partial.usage)["cache_read_input_tokens"] == 100


def test_there_is_no_partial_answer_before_anything_came() -> None:
    assert MessagesReader().partial(None) is None


def test_deltas_of_two_open_blocks_may_alternate() -> None:
    text = {"type": "text", "text": ""}
    events = [
        {"type": "content_block_start", "index": 1, "content_block": text},
        {"type": "content_block_start", "index": 0, "content_block": text},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "b"}},
        {"type": "content_block_stop", "index": 1},
        {"type": "content_block_stop", "index": 0},
    ]
    start, *_, stop = events_of([], PLAIN)
    reader, _ = streamed([start, *map(PLAIN.write, events), stop])
    assert [msgspec.json.decode(block.raw)["text"] for block in reader.reply(None).answer.blocks] == [
        "a",
        "b",
    ]


@pytest.mark.parametrize(
    "event",
    [
        b'{"type":"content_block_delta","ind',
        b"",
        b"[]",
        b'{"type":"content_block_delta","index":7,"delta":{"type":"text_delta","text":"x"}}',
        b'{"type":"content_block_stop","index":7}',
        b'{"type":"content_block_start","index":0,"content_block":"no object"}',
    ],
)
def test_an_event_that_cannot_be_is_garbled(event: bytes) -> None:
    reader, _ = streamed(events_of([], PLAIN)[:1])
    with pytest.raises(MalformedAnswer):
        reader.event(event)


def test_an_end_without_a_beginning_is_garbled() -> None:
    with pytest.raises(MalformedAnswer):
        MessagesReader().event(b'{"type":"message_delta","delta":{"stop_reason":"end_turn"}}')


@pytest.mark.parametrize("read", ["event", "body"])
def test_an_error_in_place_of_an_answer_is_a_complaint(read: str) -> None:
    raw = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
    with pytest.raises(ErrorAnswer) as raised:
        getattr(MessagesReader(), read)(raw)
    assert raised.value.report.kind == "overloaded_error"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", b"{}"),
        ('{ "a" : 1.0 }', b'{"a":1.0}'),
        ('{"a": "cut', b'{"INVALID_JSON":"{\\"a\\": \\"cut"}'),
        ("[1]", b'{"INVALID_JSON":"[1]"}'),
    ],
)
def test_a_tool_input_is_an_object_whatever_the_model_wrote(text: str, expected: bytes) -> None:
    assert tool_input(text) == expected
    assert INVALID_INPUT.encode() == b"INVALID_JSON"
