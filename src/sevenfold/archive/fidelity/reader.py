"""Who said what in a range of records, as decided by `sevenfold.record.authorship`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from sevenfold.archive.profile.labels import decoded
from sevenfold.record import authorship, blocks
from sevenfold.record.blocks import Block, Compaction, Text, ToolResult, ToolUse
from sevenfold.record.entries import Said
from sevenfold.record.layout import Item

_REFUSAL = "The user doesn't want to proceed with this tool use"


class Excerpt(Struct, frozen=True):
    """A text, its record, and the kind that recall gives the record."""

    record: str
    text: str
    recall_kind: str


class Call(Struct, frozen=True):
    """A tool call with its arguments."""

    record: str
    id: str
    name: str
    given: dict[str, Any]


class ContentByAuthor(Struct, frozen=True):
    """The content of a range of records, by author, in order."""

    user: list[Excerpt]
    refusals: list[Excerpt]
    """The user's remarks on refused calls."""
    model: list[Excerpt]
    calls: list[Call]
    tools: dict[str, str]
    """Tool names, by the call's id."""
    failures: list[Excerpt]
    results: dict[str, Excerpt]
    """Results of successful calls, by the call's id."""
    preceding: dict[str, Excerpt]
    """The model's last text before each message of the user, by the user's record."""


def read_items(items: Iterable[Item]) -> ContentByAuthor:
    """Read the records in view; records hidden by an earlier decision are skipped."""
    content = ContentByAuthor([], [], [], [], {}, [], {}, {})
    for item in items:
        if not item.hidden_by:
            _enter(content, item.record)
    return content


def texts(items: Iterable[Item]) -> list[str]:
    """The texts the model sees in these records, one for each block that has any."""
    texts_found = []
    for item in items:
        for block in item.shown:
            shown = shown_text(block)
            # A command is shown inside a client's tags, but probes look for it as typed: add both.
            typed = authorship.users_words(item.record) if "<command-" in shown else ""
            texts_found += [text for text in (shown, typed) if text.strip()]
    return texts_found


def strings(value: Any) -> Iterator[str]:
    """Yield all strings in a JSON value, in order."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                yield text
            case dict() as fields:
                waiting.extend(reversed(fields.values()))
            case list() as parts:
                waiting.extend(reversed(parts))


def _enter(content: ContentByAuthor, message: Said) -> None:
    for block in message.blocks:
        match block.body():
            case ToolUse(id=id, name=name, input=raw_input):
                value = decoded(raw_input)
                content.calls.append(Call(message.uuid, id, name, value if isinstance(value, dict) else {}))
                content.tools[id] = name
            case ToolResult(is_error=failed):
                _result(content, message.uuid, block, failed=bool(failed))
            case _ if block.kind == "text" and not message.synthetic:
                _words(content, message, block)


def _words(content: ContentByAuthor, message: Said, block: Block) -> None:
    match authorship.author(message, block):
        case "model":
            content.model.append(Excerpt(message.uuid, blocks.words_of(block), "assistant"))
        case "user":
            content.user.append(Excerpt(message.uuid, authorship.typed(message, block).strip(), "user"))
            if content.model:
                content.preceding[message.uuid] = content.model[-1]


def _result(content: ContentByAuthor, record: str, block: Block, *, failed: bool) -> None:
    text = blocks.words_of(block)
    reply = authorship.reply(block, content.tools.get(block.id, ""))
    if not failed:
        content.results[block.id] = Excerpt(record, text, "tool_result")
    elif reply:
        content.refusals.append(Excerpt(record, reply, "user"))
    elif not text.startswith(_REFUSAL):
        content.failures.append(Excerpt(record, text, "error"))


def shown_text(block: Block) -> str:
    """The text that the model sees of a block; empty for reasoning and pictures."""
    match block.body():
        case Text(text=text):
            return text
        case ToolUse(name=name, input=raw_input):
            return "\n".join([name, *strings(decoded(raw_input))])
        case Compaction(content=str() as text):
            return text
        case ToolResult():
            return blocks.words_of(block)
        case _:
            return ""
