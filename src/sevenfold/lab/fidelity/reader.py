"""Who said what in a stretch of records.

A record on the user's side is not always the user speaking: clients wrap notices, command output and results of
background work in tags and send them as user messages. Those envelopes are taken off, so that only the user's own
words count as such. Words the user gave elsewhere, as the reason for refusing a call or the answer to a question,
are the user's too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Raw, Struct

from sevenfold.record import blocks
from sevenfold.record.blocks import Block, Compaction, Text, ToolResult, ToolUse
from sevenfold.record.entries import Said
from sevenfold.record.layout import Item

_ENVELOPE = re.compile(
    r"<(system-reminder|task-notification|command-(?:name|message|args|contents)|local-command-\w+"
    r"|bash-(?:input|stdout|stderr)|ide_\w+|user-prompt-submit-hook|persisted-output)>"
)
_THE_USERS = frozenset({"command-args", "bash-input"})
"""Envelopes around something the user typed."""
_NOTICE = re.compile(r"\[Request interrupted by user[^\]]*\]")
_REFUSED = re.compile(
    r"(?:the user said:|the following reason for the rejection:)\s*(.*?)"
    r"(?:\n\nNote: The user's next message may contain|\Z)",
    re.S,
)
_REFUSAL = "The user doesn't want to proceed with this tool use"


class Told(Struct, frozen=True):
    """A stretch of words, the record it stands in, and as what recall knows that record."""

    record: str
    text: str
    known_as: str


class Call(Struct, frozen=True):
    """A tool call with its arguments."""

    record: str
    id: str
    name: str
    given: dict[str, Any]


class Account(Struct, frozen=True):
    """Everything said in a stretch of records, by who said it, in order."""

    user: list[Told]
    refusals: list[Told]
    """Among the user's words: why a call was not let through."""
    model: list[Told]
    calls: list[Call]
    failures: list[Told]
    results: dict[str, Told]
    """Answers to calls, by the call's id."""
    beside: list[Told]
    """Summaries, reminders and whatever else was put on the user's side by a program."""
    preceding: dict[str, Told]
    """What the model said last before each stretch of the user's words, by the user's record."""


def account(items: Iterable[Item]) -> Account:
    """The records in view, read; those an earlier decision took out of sight are not part of it."""
    told = Account([], [], [], [], [], {}, [], {})
    for item in items:
        if not item.hidden_by:
            _enter(told, item.said)
    return told


def texts(items: Iterable[Item]) -> list[str]:
    """What the model is shown of these records, a text for each block that says something."""
    return [said for item in items for block in item.shown if (said := _shown(block)).strip()]


def users_words(text: str) -> list[str]:
    """The stretches of a user message that the user typed."""
    if "<" not in text:
        return [text.strip()] if _typed(text) else []
    found: list[str] = []
    place = 0
    for opening in _ENVELOPE.finditer(text):
        if opening.start() < place:
            continue
        end = text.find(f"</{opening[1]}>", opening.end())
        if end < 0:
            # Without its end it may be part of what the user wrote, and that is never dropped.
            continue
        found.append(text[place : opening.start()])
        if opening[1] in _THE_USERS:
            found.append(text[opening.end() : end])
        place = end + len(opening[1]) + 3
    return [part.strip() for part in (*found, text[place:]) if _typed(part)]


def strings(value: Any) -> Iterator[str]:
    """All texts in a JSON value, in order."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                yield text
            case dict() as fields:
                waiting.extend(reversed(fields.values()))
            case list() as parts:
                waiting.extend(reversed(parts))


def _typed(text: str) -> bool:
    return bool(text.strip()) and not _NOTICE.fullmatch(text.strip())


def _enter(told: Account, said: Said) -> None:
    for block in said.blocks:
        match block.kind:
            case "text" if not said.synthetic:
                _words(told, said, blocks.words_of(block))
            case "tool_use":
                if (call := _call(said.uuid, block)) is not None:
                    told.calls.append(call)
            case "tool_result":
                _result(told, said.uuid, block)


def _words(told: Account, said: Said, text: str) -> None:
    if said.role == "assistant":
        told.model.append(Told(said.uuid, text, "assistant"))
    elif said.summary or said.meta:
        told.beside.append(Told(said.uuid, text, "summary" if said.summary else "attachment"))
    else:
        # In our own records whatever a program put there is flagged, and tags are what the user typed.
        for part in filter(None, [text.strip()]) if said.own else users_words(text):
            told.user.append(Told(said.uuid, part, "user"))
            if told.model:
                told.preceding[said.uuid] = told.model[-1]


def _call(record: str, block: Block) -> Call | None:
    match block.body():
        case ToolUse(id=id, name=name, input=given):
            value = _decoded(given)
            return Call(record, id, name, value if isinstance(value, dict) else {})
        case _:
            return None


def _result(told: Account, record: str, block: Block) -> None:
    body = block.body()
    if not isinstance(body, ToolResult):
        return
    text = blocks.words_of(block)
    if not body.is_error:
        told.results[block.id] = Told(record, text, "tool_result")
    elif text.startswith(_REFUSAL):
        for words in _REFUSED.findall(text):
            if words.strip():
                told.refusals.append(Told(record, words.strip(), "error"))
    else:
        told.failures.append(Told(record, text, "error"))


def _shown(block: Block) -> str:
    match block.body():
        case Text(text=words):
            return words
        case ToolUse(name=name, input=given):
            return "\n".join([name, *strings(_decoded(given))])
        case Compaction(content=str() as words):
            return words
        case ToolResult():
            return blocks.words_of(block)
        case _:
            return ""


def _decoded(raw: Raw) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None
