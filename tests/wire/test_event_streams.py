"""What is written as the events of an API is read from them again: the two directions fit each other."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import sevenfold
from sevenfold.record.log import Answer
from sevenfold.wire.chat_answer import ChatReader
from sevenfold.wire.chat_events import assistant_message, completion_events, finish_reason
from sevenfold.wire.messages_answer import MessagesReader
from sevenfold.wire.messages_events import message_events
from sevenfold.wire.reader import EventLines, Reader
from sevenfold.wire.responses_answer import ResponsesReader
from sevenfold.wire.responses_events import ID_PREFIXES, call_item, response_events, text_item

Json = Mapping[str, Any]
SIMULATOR = Path(sevenfold.__file__).parent / "lab" / "simulator"

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40).filter(str.strip)
values = st.dictionaries(texts, st.one_of(texts, st.integers(-9, 9), st.booleans(), st.none()), max_size=3)
text_blocks = st.builds(lambda text: {"type": "text", "text": text}, texts)
# Many servers of Chat Completions begin a text with a blank, which its reader drops.
trimmed_blocks = st.builds(lambda text: {"type": "text", "text": text.strip()}, texts)
call_blocks = st.builds(
    lambda number, value: {"type": "tool_use", "id": f"call_{number}", "name": "Read", "input": value},
    st.integers(0, 99),
    values,
)
thinking_blocks = st.builds(
    lambda text: {"type": "thinking", "thinking": text, "signature": "c2lnbmVk"}, texts
)
ASKED = json.dumps({"tools": [{"name": "Read", "input_schema": {"type": "object"}}]}).encode()


def read(reader: Reader, events: Sequence[bytes], chunk: int) -> Answer:
    """What a reader makes of a stream that arrives in chunks of so many bytes."""
    lines = EventLines()
    raw = b"".join(events)
    for start in range(0, len(raw), chunk):
        for data in lines.feed(raw[start : start + chunk]):
            reader.event(data)
    assert reader.whole
    return reader.reply("req_1").answer


def contents(answer: Answer) -> list[Any]:
    return [json.loads(block.raw) for block in answer.blocks]


@pytest.mark.spec("S24.4")
@given(st.lists(text_blocks | call_blocks | thinking_blocks, min_size=1, max_size=4), st.integers(1, 9))
@example([{"type": "redacted_thinking", "data": "c2VhbA=="}, {"type": "new_kind", "x": [1]}], 3)
def test_a_message_that_is_written_as_events_is_read_again(blocks: list[Json], piece: int) -> None:
    usage = {"input_tokens": 3, "output_tokens": 5}
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": blocks,
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": usage,
    }
    answer = read(MessagesReader(), [*message_events(message, piece)], 7 * piece)
    assert contents(answer) == blocks
    assert answer.stop_reason == "end_turn"
    assert json.loads(bytes(answer.usage)) == usage


@pytest.mark.spec("S24.4")
@given(trimmed_blocks, st.lists(call_blocks, max_size=3), st.integers(1, 9))
def test_a_completion_that_is_written_as_events_is_read_again(
    text: Json, calls: list[Json], piece: int
) -> None:
    calls = [{**call, "id": f"call_{number}"} for number, call in enumerate(calls)]
    stop_reason = "tool_use" if calls else "end_turn"
    message = assistant_message([text, *calls], lambda call: "function")
    completion = {
        "id": "chatcmpl-1",
        "created": 1,
        "model": "m",
        "system_fingerprint": "fp",
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason(stop_reason)}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 5},
    }
    answer = read(ChatReader(ASKED), [*completion_events(completion, piece, with_usage=True)], 7 * piece)
    assert contents(answer) == [text, *calls]
    assert answer.stop_reason == stop_reason


@pytest.mark.spec("S24.4")
@given(st.lists(text_blocks | call_blocks, min_size=1, max_size=4), st.integers(1, 9))
def test_a_response_that_is_written_as_events_is_read_again(blocks: list[Json], piece: int) -> None:
    blocks = [
        {**block, "id": f"call_{number}"} if "id" in block else block for number, block in enumerate(blocks)
    ]
    items = [
        text_item(f"{ID_PREFIXES['text']}{number}", block["text"], "completed")
        if block["type"] == "text"
        else call_item(f"{ID_PREFIXES['function']}{number}", block, "function", "completed")
        for number, block in enumerate(blocks)
    ]
    response = {
        "id": "resp_1",
        "model": "m",
        "status": "completed",
        "output": items,
        "usage": {"input_tokens": 3, "output_tokens": 5},
    }
    answer = read(ResponsesReader(ASKED), [*response_events(response, piece)], 7 * piece)
    assert contents(answer) == blocks
    calls = any(block["type"] == "tool_use" for block in blocks)
    assert answer.stop_reason == ("tool_use" if calls else "end_turn")


def imports(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}


@pytest.mark.spec("S24.4")
def test_the_simulator_writes_its_answers_with_the_wire_and_uses_no_door() -> None:
    modules = {path.name: imports(path) for path in SIMULATOR.glob("*.py")}
    used = set().union(*modules.values())
    assert {name for name in used if name.startswith("sevenfold.doors")} == set()
    for api in ("messages", "chat", "responses"):
        assert f"sevenfold.wire.{api}_events" in used
    for path in SIMULATOR.glob("*.py"):
        if path.name == "faults.py":  # a fault breaks events on purpose
            continue
        assert "event: " not in path.read_text(encoding="utf-8"), f"{path.name} writes events of its own"
