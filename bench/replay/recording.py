"""A recorded session as a list of steps: the input to the model, and its answer.

Compactions and clearings in the recording are skipped: a step has the full content, in the order of the live branch,
and the engine decides what to remove.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from sevenfold.record import blocks, entries
from sevenfold.record.blocks import Block, ToolUse
from sevenfold.record.entries import Boundary, Clearing, Decision, Entry, Link, Said
from sevenfold.record.layout import Item
from sevenfold.record.view import View
from sevenfold.stores.jsonl import log as lines

KINDS: Mapping[str, str] = {
    "Read": "read",
    "Bash": "shell",
    "BashOutput": "shell",
    "Grep": "search",
    "Glob": "search",
    "LS": "search",
    "WebFetch": "web",
    "WebSearch": "web",
    "Edit": "edit",
    "MultiEdit": "edit",
    "Write": "write",
}
"""The kinds of tools by the names that coding agents use."""
SPOKEN = frozenset({"text", "thinking", "redacted_thinking", "tool_use"})
"""Blocks that a replayed model can produce; it cannot produce results of the provider's own tools."""
NO_RESULT = "No result was recorded for this call."
OPENING = "Please begin."
"""The first message for a recording that begins with an answer."""


class RecordedStep(Struct, frozen=True):
    """The input to the session after an answer, and the next answer."""

    results: tuple[Block, ...]
    words: tuple[Block, ...]
    asked_at: float
    answer: tuple[Mapping[str, Any], ...]
    answered_at: float


class Recording(Struct, frozen=True):
    """A session as it was recorded."""

    name: str
    steps: tuple[RecordedStep, ...]

    @property
    def tools(self) -> list[str]:
        """The tools it uses, in order of first use."""
        used = (
            block["name"] for step in self.steps for block in step.answer if block["type"] == "tool_use"
        )
        return list(dict.fromkeys(used))


def read(path: Path) -> Recording:
    """Read the recording in a transcript."""
    view = View()
    for line in lines.scan(path):
        if (entry := _uncompacted(entries.read(line.raw))) is not None:
            view.add(entry)
    return Recording(path.stem, tuple(_steps(view.items)))


def _uncompacted(entry: Entry) -> Entry | None:
    """The entry as it would be if nothing had been compacted."""
    match entry:
        case Boundary(uuid=uuid, logical_parent=parent) | Clearing(uuid=uuid, parent=parent):
            return Link(uuid, parent)
        case Said(uuid=uuid, parent=parent, summary=True):
            return Link(uuid, parent)
        case Decision():
            return None
        case _:
            return entry


def _steps(items: Iterable[Item]) -> Iterator[RecordedStep]:
    said = [item.said for item in items if not item.said.synthetic]
    incoming: list[Said] = []
    open_calls: list[str] = []
    for speaks, run in groupby(said, key=lambda one: one.role == "assistant"):
        if not speaks:
            incoming = list(run)
            continue
        answers = list(run)
        answer = tuple(_spoken(block) for one in answers for block in one.blocks if block.kind in SPOKEN)
        if not any(block["type"] != "thinking" for block in answer):
            continue
        asked, answered = _time(incoming[-1:] or answers), _time(answers[-1:])
        yield RecordedStep(
            _results(incoming, open_calls), _words(incoming, open_calls), asked, answer, answered
        )
        incoming, open_calls = [], [block["id"] for block in answer if block["type"] == "tool_use"]


def _results(incoming: Iterable[Said], calls: Iterable[str]) -> tuple[Block, ...]:
    """A result for every call; if none was recorded, an error result that says so."""
    given = {block.id: block for one in incoming for block in one.blocks if block.kind == "tool_result"}
    return tuple(given.get(call) or blocks.result(call, NO_RESULT, is_error=True) for call in calls)


def _words(incoming: Iterable[Said], calls: list[str]) -> tuple[Block, ...]:
    found = tuple(
        block
        for one in incoming
        for block in one.blocks
        if block.kind in ("text", "image", "document") and not block.blank
    )
    return found or (() if calls else (blocks.text(OPENING),))


def _spoken(block: Block) -> Mapping[str, Any]:
    """The block as the scripted model's output, without citations and signatures: the provider makes its own."""
    match block.body():
        case ToolUse(id=call, name=name, input=given):
            return {"type": "tool_use", "id": call, "name": name, "input": msgspec.json.decode(given)}
        case _:
            decoded: dict[str, Any] = msgspec.json.decode(block.raw)
            return {name: decoded[name] for name in decoded if name not in ("signature", "citations")}


def _time(said: Iterable[Said]) -> float:
    for one in said:
        if one.timestamp:
            return datetime.fromisoformat(one.timestamp).timestamp()
    return 0.0
