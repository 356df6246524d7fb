"""Looking back in a conversation: the user's messages to rewind to, and the whole of it as a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from sevenfold.cli.chat.session_list import spoken
from sevenfold.cli.chat.words import clean
from sevenfold.conversation import history
from sevenfold.errors import InputError, UserError
from sevenfold.ports import Log
from sevenfold.record import blocks
from sevenfold.record.blocks import Block, ToolResult, ToolUse
from sevenfold.record.entries import Said
from sevenfold.record.layout import Item
from sevenfold.record.redact import mask
from sevenfold.record.view import View
from sevenfold.stores.jsonl.log import JsonlLog
from sevenfold.stores.jsonl.secrets import masked_record

_FENCE = "````"


class Turning(Struct, frozen=True):
    """A place a conversation can go back to: before something the user said."""

    before: str | None
    """The record to go on from; None: the beginning."""
    words: str
    at: str
    """When it was said."""
    after: int
    """How many records would be left behind."""
    compacted: bool = False
    """Is it out of view, because the conversation was compacted since?"""


def turnings(log: Log, view: View) -> list[Turning]:
    """The user's messages that led to the present, also those before compactions, the newest first."""
    whole = history.whole(log)
    items = whole.items
    found = []
    for place, item in enumerate(items):
        if words := _own_words(item):
            said, previous = item.said, items[place - 1].said.uuid if place else None
            before = _parent(log, whole, said) or previous
            gone = view.item(said.uuid) is None
            found.append(Turning(before, words, said.timestamp, len(items) - place, gone))
    return found[::-1]


def last_words(view: View) -> str:
    """What the user said last, of what is in view."""
    return next(filter(None, map(_own_words, reversed(view.items))), "")


def _own_words(item: Item) -> str:
    said = item.said
    ours = said.role != "user" or said.meta or said.summary or said.attachment or item.hidden_by
    return "" if ours else spoken(said)


def _parent(log: Log, whole: View, said: Said) -> str | None:
    """The summary a message follows at once; the view without compactions passes over it."""
    parent = said.parent
    follows = parent is not None and whole.entry(parent) is None and history.holds(log, parent)
    return parent if follows else None


def export(log: JsonlLog, target: Path, title: str) -> int:
    """Write the conversation to a new file, as Markdown, or as it is kept if the file ends in .jsonl.

    Returns how many records it holds. What was compacted is in it too; secrets are masked.
    """
    view = history.whole(log)
    if target.suffix == ".jsonl":
        text = b"".join(masked_record(line) for _, line in log.read() if line)
    else:
        text = mask("\n".join([f"# {title}\n", *_sections(view)])).text.encode(errors="replace")
    try:
        with target.open("xb") as file:
            file.write(text)
    except FileExistsError:
        raise InputError(f"{target}: this file exists and is not overwritten; name another one") from None
    except OSError as error:
        raise UserError(f"{target}: cannot be written: {error.strerror or error}") from error
    return len(view)


def _sections(view: View) -> Iterator[str]:
    for item in view.items:
        if said := _said(item.said):
            yield f"## {_speaker(item.said)}\n\n{said}\n"


def _speaker(said: Said) -> str:
    if said.role == "assistant":
        return said.model or "model"
    if said.answers:
        return "tool results"
    return "note" if said.meta or said.attachment or said.role != "user" else "user"


def _said(said: Said) -> str:
    return "\n\n".join(filter(None, map(_block, said.blocks)))


def _block(block: Block) -> str:
    match block.body():
        case ToolUse(name=name, input=given):
            return f"{_FENCE}json\n{name} {msgspec.json.format(bytes(given)).decode()}\n{_FENCE}"
        case ToolResult():
            return f"{_FENCE}\n{clean(blocks.words_of(block))}\n{_FENCE}"
        case _:
            return clean(blocks.words_of(block)).strip()
