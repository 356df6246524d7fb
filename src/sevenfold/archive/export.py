"""A conversation as text: the whole of it in a new Markdown or JSONL file, or the words of one record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from sevenfold.archive.untrusted import clean
from sevenfold.conversation import history
from sevenfold.errors import InputError, UserError
from sevenfold.ports import Log
from sevenfold.record import blocks
from sevenfold.record.authorship import is_users
from sevenfold.record.blocks import Block, ToolResult, ToolUse
from sevenfold.record.entries import Said
from sevenfold.record.redact import mask_json, mask_text
from sevenfold.record.view import View

_FENCE = "````"
_HEADINGS = {"tool": "tool results", "summary": "note"}


def speaker_of(message: Said) -> Literal["user", "model", "tool", "note", "summary"]:
    """Whose text a record is; ``note`` stands for what a program put in."""
    if message.role == "assistant":
        return "model"
    if message.summary:
        return "summary"
    if message.answers:
        return "tool"
    return "user" if is_users(message) else "note"


def text_of(blocks: Sequence[Block]) -> str:
    """The blocks as Markdown; a tool call is its input, fenced."""
    return "\n\n".join(filter(None, map(_block, blocks)))


def export(log: Log, target: Path, heading: str) -> int:
    """Write the conversation to a new file, as Markdown, or as raw records if the file name ends in .jsonl.

    It includes what compactions have hidden; secrets are masked. Returns the number of records. Raises `InputError` if
    the file exists, and `UserError` if it cannot be written.
    """
    view = history.whole(log)
    if target.suffix == ".jsonl":
        text = b"".join(mask_json(line, whole=True).raw.rstrip() + b"\n" for _, line in log.read() if line)
    else:
        text = mask_text("\n".join([f"# {heading}\n", *_sections(view)])).encode(errors="replace")
    try:
        with target.open("xb") as file:
            file.write(text)
    except FileExistsError:
        raise InputError(f"{target}: this file exists and is not overwritten; choose another") from None
    except OSError as error:
        raise UserError(f"{target}: cannot write: {error.strerror or error}") from error
    return len(view)


def as_text(log: Log) -> str:
    """The whole conversation as text, including what compactions have hidden."""
    return "\n".join(_sections(history.whole(log)))


def _sections(view: View) -> Iterator[str]:
    for item in view.items:
        if text := text_of(item.record.blocks):
            yield f"## {_heading(item.record)}\n\n{text}\n"


def _heading(message: Said) -> str:
    speaker = speaker_of(message)
    if speaker == "model":
        return message.model or speaker
    return _HEADINGS.get(speaker, speaker)


def _block(block: Block) -> str:
    match block.body():
        case ToolUse(name=name, input=given):
            return f"{_FENCE}json\n{name} {msgspec.json.format(bytes(given)).decode()}\n{_FENCE}"
        case ToolResult():
            return f"{_FENCE}\n{clean(blocks.words_of(block))}\n{_FENCE}"
        case _:
            return clean(blocks.words_of(block)).strip()
