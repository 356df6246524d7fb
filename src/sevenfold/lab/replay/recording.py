"""A recorded session as a list of steps: the input to the model, and its answer.

Compactions and clearings in the recording are skipped: a step has the full content, in the order of the live branch,
and whoever replays it decides what to remove. The summaries that were recorded are kept apart.
"""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import cached_property
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from sevenfold.archive.formats import not_a_conversation, open_log
from sevenfold.conversation.resume import read as entries_of
from sevenfold.lab.simulator.tokens import Counter
from sevenfold.profiles import find
from sevenfold.record import authorship, blocks
from sevenfold.record.blocks import Block, ToolUse
from sevenfold.record.entries import Boundary, Clearing, Decision, Entry, Link, Said
from sevenfold.record.layout import Item
from sevenfold.record.view import View

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
    # Codex, pi, Kimi and opencode.
    "shell": "shell",
    "shell_command": "shell",
    "exec_command": "shell",
    "write_stdin": "shell",
    "apply_patch": "edit",
    "read": "read",
    "bash": "shell",
    "grep": "search",
    "glob": "search",
    "find": "search",
    "ls": "search",
    "edit": "edit",
    "write": "write",
    "webfetch": "web",
}
"""The kinds of tools by the names that coding agents use."""
SPOKEN = frozenset({"text", "thinking", "redacted_thinking", "tool_use"})
"""Blocks that a replayed model can produce; it cannot produce results of the provider's own tools."""
CONTENT = frozenset({"text", "image", "document"})
NO_RESULT = "No result was recorded for this call."
OPENING = "Please begin."
"""The first message for a recording that begins with an answer."""
USUAL_OPENING = 12_000
"""Tokens of system prompt and tools if the recording does not tell."""
LEAST_OPENING = 2_000
MOST_OPENING = 40_000
"""A first prompt that is larger has more in it than system prompt and tools: it continues another session."""


class RecordedStep(Struct, frozen=True):
    """The input to the session after an answer, and the next answer."""

    results: tuple[Block, ...]
    user_content: tuple[Block, ...]
    """What the user said."""
    asked_at: float
    answer: tuple[Mapping[str, Any], ...]
    answered_at: float
    notes: tuple[Block, ...] = ()
    """What a program put in: reminders, attachments, output of commands."""
    records: tuple[str, ...] = ()
    """The records of the answer."""


class RecordedSummary(Struct, frozen=True):
    """A summary in the recording, and how many steps came before it."""

    step: int
    text: str


class Recording(Struct, frozen=True, dict=True):
    """A session as it was recorded."""

    name: str
    steps: tuple[RecordedStep, ...]
    items: tuple[Item, ...] = ()
    """Its records, in order."""
    summaries: tuple[RecordedSummary, ...] = ()
    model: str = ""
    """The model that gave most of its answers."""
    opening: int = USUAL_OPENING
    """Tokens of system prompt and tools, as the model counted them."""

    @property
    def tools(self) -> list[str]:
        """The tools it uses, in order of first use."""
        blocks = chain.from_iterable(step.answer for step in self.steps)
        return list(dict.fromkeys(block["name"] for block in blocks if block["type"] == "tool_use"))

    @cached_property
    def step_of(self) -> Mapping[str, int]:
        """The step of each record: that of its answer, or the one it is input to."""
        answers: dict[str, int] = {}
        for number, step in enumerate(self.steps):
            answers |= dict.fromkeys(step.records, number)
        steps: dict[str, int] = {}
        newest = -1
        for item in self.items:
            newest = answers.get(item.record.uuid, newest)
            steps[item.record.uuid] = newest if item.record.role == "assistant" else newest + 1
        return steps


def read(path: Path) -> Recording:
    """Read the recording in a session's file, of any tool; raises `TranscriptError` if there is none to replay."""
    view = View()
    order: dict[str, int] = {}
    summaries: list[tuple[int, str]] = []
    for _, entry in entries_of(open_log(path)):
        if isinstance(entry, Said):
            if entry.summary and not entry.sidechain:
                summaries.append((len(order), "\n".join(map(blocks.words_of, entry.blocks))))
            order[entry.uuid] = len(order)
        uncompacted = _uncompacted(entry)
        if uncompacted is not None:
            view.add(uncompacted)
    items = tuple(item for item in view.items if not item.record.synthetic)
    steps = tuple(_steps(items))
    if not steps:
        raise not_a_conversation(path)
    return Recording(
        path.stem,
        steps,
        items,
        tuple(_placed(summaries, steps, order)),
        _usual_model(items),
        _opening(items, steps[0]),
    )


def path_of(arguments: Any) -> str:
    """The path in the input of a call that reads a file, by the names that agents use; empty if there is none."""
    fields = arguments if isinstance(arguments, dict) else {}
    paths = (fields.get(name) for name in ("file_path", "filePath", "path"))
    return next((path for path in paths if isinstance(path, str) and path), "")


def _placed(
    summaries: Iterable[tuple[int, str]], steps: Iterable[RecordedStep], order: Mapping[str, int]
) -> Iterator[RecordedSummary]:
    """Yield the summaries with the number of steps before each."""
    ends = [max(order.get(uuid, 0) for uuid in step.records) for step in steps]
    for position, text in summaries:
        if text.strip():
            yield RecordedSummary(sum(end < position for end in ends), text)


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
    incoming: list[Said] = []
    open_calls: list[str] = []
    for speaks, run in groupby((item.record for item in items), key=lambda said: said.role == "assistant"):
        if not speaks:
            # An answer that broke off while it was thinking leaves what it was asked for the next one.
            incoming += run
            continue
        answers = list(run)
        answer_blocks = chain.from_iterable(message.blocks for message in answers)
        answer = tuple(_spoken(block) for block in answer_blocks if block.kind in SPOKEN)
        if not any(block["type"] != "thinking" for block in answer):
            continue
        asked_at = _time(incoming[-1:] or answers)
        user_content, notes = _content(incoming, open_calls)
        yield RecordedStep(
            _results(incoming, open_calls),
            user_content,
            asked_at,
            answer,
            max(asked_at, _time(answers[-1:])),
            notes,
            tuple(message.uuid for message in answers),
        )
        incoming = []
        open_calls = [block["id"] for block in answer if block["type"] == "tool_use"]


def _results(incoming: Iterable[Said], calls: Iterable[str]) -> tuple[Block, ...]:
    """A result for every call; if none was recorded, an error result that says so."""
    incoming_blocks = chain.from_iterable(message.blocks for message in incoming)
    recorded = {block.id: block for block in incoming_blocks if block.kind == "tool_result"}
    return tuple(recorded.get(call) or blocks.result(call, NO_RESULT, is_error=True) for call in calls)


def _content(incoming: Iterable[Said], calls: list[str]) -> tuple[tuple[Block, ...], tuple[Block, ...]]:
    """The user's messages, and what a program put in."""
    user_content: list[Block] = []
    notes: list[Block] = []
    for message in incoming:
        for block in message.blocks:
            if block.kind in CONTENT and not block.blank:
                from_user = block.kind != "text" or authorship.author(message, block) == "user"
                (user_content if from_user else notes).append(block)
    if not (user_content or notes or calls):
        user_content.append(blocks.text(OPENING))
    return tuple(user_content), tuple(notes)


def _spoken(block: Block) -> Mapping[str, Any]:
    """The block as the scripted model's output, without citations and signatures: the provider makes its own."""
    match block.body():
        case ToolUse(id=call, name=name, input=arguments):
            return {"type": "tool_use", "id": call, "name": name, "input": msgspec.json.decode(arguments)}
        case _:
            decoded: dict[str, Any] = msgspec.json.decode(block.raw)
            return {name: decoded[name] for name in decoded if name not in ("signature", "citations")}


def _time(records: Iterable[Said]) -> float:
    for message in records:
        if message.timestamp:
            return datetime.fromisoformat(message.timestamp).timestamp()
    return 0.0


def _usual_model(items: Iterable[Item]) -> str:
    models = Counts(
        item.record.model for item in items if item.record.role == "assistant" and item.record.model
    )
    return models.most_common(1)[0][0] if models else ""


def _opening(items: Iterable[Item], first: RecordedStep) -> int:
    """What the first reported prompt has beyond the first messages."""
    answers = (item.record for item in items if item.record.role == "assistant" and item.record.usage)
    answer = next(answers, None)
    if answer is None or answer.usage is None or answer.uuid not in first.records:
        return USUAL_OPENING
    counter = Counter()
    tokenizer = find(answer.model).tokenizer
    shown = (msgspec.json.decode(block.raw) for block in (*first.user_content, *first.notes))
    opening_tokens = answer.usage.prompt - sum(counter.block(block, tokenizer) for block in shown)
    if opening_tokens > MOST_OPENING:
        return USUAL_OPENING
    return max(LEAST_OPENING, opening_tokens)
