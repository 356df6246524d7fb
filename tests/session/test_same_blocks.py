"""Blocks that came through an SDK are the same as ours, whatever it added (S8.10)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sevenfold.conversation.results import same
from sevenfold.record import blocks
from sevenfold.record.blocks import Block


def block(**fields: Any) -> Block:
    return blocks.read(json.dumps(fields).encode())


OURS = block(type="tool_result", tool_use_id="t1", content="four files")


@pytest.mark.parametrize(
    "added",
    [
        {},
        {"is_error": False},
        {"is_error": None},
        {"cache_control": {"type": "ephemeral"}},
        {"content": [{"type": "text", "text": "four files"}]},
        {"cache_control": None, "is_error": False, "caller": "x"},
    ],
    ids=str,
)
def test_what_an_sdk_adds_changes_nothing(added: dict[str, Any]) -> None:
    theirs = block(**{"type": "tool_result", "tool_use_id": "t1", "content": "four files", **added})
    assert same(OURS, theirs, None)
    assert same(theirs, OURS, None)


@pytest.mark.parametrize(
    "other",
    [
        {"content": "five files"},
        {"tool_use_id": "t2"},
        {"is_error": True},
        {"content": [{"type": "text", "text": "four files"}, {"type": "text", "text": "more"}]},
        {"content": None},
    ],
    ids=str,
)
def test_another_result_is_another(other: dict[str, Any]) -> None:
    theirs = block(**{"type": "tool_result", "tool_use_id": "t1", "content": "four files", **other})
    assert not same(OURS, theirs, None)


def test_blocks_of_other_kinds_are_never_the_same() -> None:
    assert not same(block(type="text", text="a"), block(type="thinking", text="a"), None)
    assert same(block(type="text", text="a"), block(type="text", text="a", citations=None), None)
    assert not same(block(type="text", text="a"), block(type="text", text="b"), None)


@pytest.mark.parametrize("content", ["", "  ", None, [], [{"type": "text", "text": " "}]], ids=str)
def test_an_empty_result_is_the_same_as_what_was_put_in_its_place(content: Any) -> None:
    from sevenfold.conversation.results import with_placeholder

    theirs = block(type="tool_result", tool_use_id="t1", content=content)
    assert same(with_placeholder(theirs), theirs, None)
