"""The searchable content of a record.

A record gives one passage for each block with text: the text, its kind, and the tool it belongs to. Reasoning
is left out: it is not a search target, and its outcome is in the answer. Long passages are split into overlapping
pieces, so that any `NEEDLE` characters of a passage are together in at least one of its pieces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import msgspec
from msgspec import Raw, Struct

from sevenfold.record import authorship, blocks
from sevenfold.record.blocks import Block, Compaction, Document, Opaque, Text, ToolResult, ToolUse
from sevenfold.record.decisions import Fold
from sevenfold.record.entries import Decision, Entry, Said

USER = "user"
ASSISTANT = "assistant"
SUMMARY = "summary"
ATTACHMENT = "attachment"
CALL = "tool_use"
EDIT = "edit"
RESULT = "tool_result"
ERROR = "error"
KINDS = (USER, ASSISTANT, CALL, EDIT, RESULT, ERROR, SUMMARY, ATTACHMENT)
"""The user's words, the model's, tool calls, calls that change a file, results, failures (of tools and of the
provider), summaries, and attachments."""
SPOKEN = (USER, ASSISTANT, SUMMARY)
"""The kinds of passages that are compared by meaning."""

NEEDLE = 200
"""Characters that are never split between two pieces, counting each run of white space as one."""
PIECE = 3_000
"""The most characters in a piece."""
OVERLAP = 2 * NEEDLE
"""Characters that two pieces share. White space is cut to runs of at most two, so a needle is never longer."""
LONGEST = 4_000_000
"""Characters of one passage that are indexed, half from its beginning and half from its end."""

_PATHS = frozenset({"file_path", "path", "notebook_path", "filename", "file"})
_CHANGES = frozenset(
    {"content", "new_string", "new_str", "file_text", "edits", "new_source", "patch", "diff"}
)
_NO_WORDS = frozenset(
    {"type", "id", "tool_use_id", "signature", "data", "encrypted_content", "cache_control"}
)
_KINDS = {"user": ATTACHMENT, "model": ASSISTANT, "program": ATTACHMENT, "summary": SUMMARY}
_LONG_RUN = re.compile(r"\s\s\s+")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


class Passage(Struct, frozen=True):
    """One searchable text of a record."""

    kind: str
    text: str
    tool: str = ""
    call: str = ""
    """The id of the tool call that it makes or answers."""


def passages(entry: Entry, tool_of: Callable[[str], str] = lambda call: "") -> list[Passage]:
    """The passages of an entry; none for most decisions. ``tool_of`` returns the name of a call's tool."""
    match entry:
        case Said():
            by_block = (_passages(entry, block, tool_of) for block in entry.blocks)
            return [passage for passage in chain.from_iterable(by_block) if passage.text.strip()]
        case Decision(record=Fold(summary=summary)) if summary.strip():
            return [Passage(SUMMARY, tidy(summary))]
        case _:
            return []


def tidy(text: str) -> str:
    """The text as it is indexed: unstorable characters replaced, long runs of white space shortened."""
    if not text.isascii() or "\0" in text:
        text = _UNSTORABLE.sub("\ufffd", text)
    return _LONG_RUN.sub(lambda run: run[0][:2], text)


def pieces(text: str) -> Iterator[str]:
    """Split a tidy text into overlapping pieces."""
    if len(text) > LONGEST:
        yield from pieces(text[: LONGEST // 2])
        yield from pieces(text[-LONGEST // 2 :])
        return
    for start in range(0, max(1, len(text) - OVERLAP), PIECE - OVERLAP):
        yield text[start : start + PIECE]


def _passages(record: Said, block: Block, tool_of: Callable[[str], str]) -> Iterator[Passage]:
    match block.body():
        case Text(text=text):
            yield from _texts(record, block, text)
        case ToolUse(id=call, name=name, input=arguments):
            value = _value(arguments)
            fields = value if isinstance(value, dict) else {}
            patches = str(fields.get("input", "")).startswith("*** Begin Patch")
            edits = patches or (_PATHS & fields.keys() and _CHANGES & fields.keys())
            yield Passage(EDIT if edits else CALL, tidy(f"{name}\n{readable(value)}"), name, call)
        case ToolResult(tool_use_id=call, is_error=failed):
            yield Passage(ERROR if failed else RESULT, tidy(blocks.words_of(block)), "", call)
            yield Passage(USER, tidy(authorship.reply(block, tool_of(call))))
        case Compaction(content=str() as text):
            yield Passage(SUMMARY, tidy(text))
        case Document() as document:
            text = "\n".join(map(blocks.words_of, blocks.parts_of(document) or ()))
            yield Passage(ATTACHMENT, tidy(text))
        case Opaque(type=kind):
            said_as = RESULT if kind.endswith("_result") else CALL if kind.endswith("_use") else ATTACHMENT
            yield Passage(said_as, tidy(readable(_value(Raw(block.raw)))))


def _texts(record: Said, block: Block, text: str) -> Iterator[Passage]:
    """Passages of a text block, by author; text that a client put around the user's words is a separate passage."""
    author = authorship.author(record, block)
    typed = authorship.typed(record, block) if author == "user" else ""
    if typed:
        yield Passage(USER, tidy(typed))
    if typed != text:
        yield Passage(ERROR if record.synthetic else _KINDS[author], tidy(text))


def readable(value: Any) -> str:
    """JSON as plain text, one value per line, in order; numbers and booleans get their key as a label."""
    lines: list[str] = []
    waiting: list[tuple[str, Any]] = [("", value)]
    while waiting:
        label, inner = waiting.pop()
        match inner:
            case dict():
                fields = [(str(key), held) for key, held in inner.items() if key not in _NO_WORDS]
                waiting += reversed(fields)
            case list():
                waiting.extend((label, held) for held in reversed(inner))
            case str():
                lines.append(inner)
            case None:
                continue
            case _:
                lines.append(f"{label} {msgspec.json.encode(inner).decode()}")
    return "\n".join(lines)


def _value(raw: Raw) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return bytes(raw).decode(errors="replace")
