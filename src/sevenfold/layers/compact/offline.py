"""The offline model's answers to requests for a summary or for notes: extraction without judgement.

This lets everything run without an API key: the code that fills a summary's mechanical sections reads the request, as a
model would, and writes what it finds. It invents nothing, but it is no substitute for a model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec

from sevenfold.layers.compact.extract import facts as facts_of
from sevenfold.layers.compact.extract.notation import Facts
from sevenfold.layers.compact.extract.outline import heading
from sevenfold.layers.compact.summary import extractive, prose
from sevenfold.layers.notes import policy as notes_layer
from sevenfold.prompts.compact import Continued
from sevenfold.prompts.text import tags
from sevenfold.record import blocks
from sevenfold.record.blocks import Block
from sevenfold.record.entries import Said
from sevenfold.record.layout import Item

BUDGET = 8_000
CHARACTERS_PER_TOKEN = 4
_UNKNOWN = re.compile(r" \[m\d{7}(?:\.\d+)?(?: to m\d{7}(?:\.\d+)?)?\]")
"""Citations of messages by number: a request does not contain the ids of their records."""
_FRAMES = re.compile(r"</?(?:recorded|said)\b[^>\n]*>\n?")
"""The tags around text copied from a record: a model's own text has none."""
_TAG = re.compile(r"\s*<([a-z-]+)>")
LINES = 12
"""The most entries of a list in notes."""

Json = Mapping[str, Any]


def summarise(request: Json) -> str:
    """Summarise the conversation in a request; the last message is the instruction."""
    *conversation, instruction = request["messages"]
    # Our own instruction says that a program adds the lists; any other caller gets them in the summary.
    write = prose if heading(6) in _words(instruction) else extractive
    text = write(facts_of(items_of(conversation)), BUDGET, _count).text
    return f"<summary>\n{_FRAMES.sub('', _UNKNOWN.sub('', text))}\n</summary>"


def take_notes(request: Json) -> str:
    """Write notes on the conversation in a request; the last message is the instruction."""
    return notes_of(items_of(request["messages"][:-1]))


def notes_of(items: Sequence[Item]) -> str:
    """The sections of session notes that code can fill, in the format of a model's answer."""
    facts = facts_of(items)
    sections = {name: text for name, text in _sections(facts).items() if text}
    if not sections:
        return "<no-changes/>"
    return "\n".join(f'<section name="{name}">\n{text}\n</section>' for name, text in sections.items())


def _sections(facts: Facts) -> dict[str, str]:
    first = facts.messages[0].head if facts.messages else ""
    wrong = [*(fact.lines for fact in facts.problems), *(fact.text for fact in facts.permissions)]
    sections = {
        "Session Title": " ".join(first.split()[:10]),
        "Current State": _lines(facts.current),
        "Task Specification": _lines(words.head for words in facts.messages),
        "Files and Functions": _lines(f"{file.path}{' (changed)' * file.changed}" for file in facts.files),
        "Workflow": _lines(f"`{command.line}`: {command.state}" for command in facts.commands),
        "Errors & Corrections": _lines([*wrong, *(fact.text for fact in facts.corrections)]),
        "Worklog": _lines(fact.text for fact in facts.outcomes),
    }
    assert sections.keys() <= notes_layer.SECTIONS.keys()
    return sections


def _lines(entries: Any) -> str:
    listed = [" ".join(str(entry).split()).removeprefix("- ") for entry in entries]
    return "\n".join(f"- {entry[:400]}" for entry in listed[-LINES:] if entry)


def items_of(messages: Sequence[Json]) -> list[Item]:
    """Convert the messages of a request to records, separating the user's words from what a program added."""
    items: list[Item] = []
    for number, message in enumerate(messages):
        parts = _parts(message)
        role = str(message.get("role"))
        nature_of = _nature if role == "user" else lambda part: "said"
        for index, (nature, run) in enumerate(groupby(parts, nature_of)):
            record = Said(
                f"m{number:07d}" + f".{index}" * (index > 0),
                None,
                role,
                tuple(run),
                message_id=f"a{number}" * (role == "assistant"),
                summary=nature == "summary",
                meta=nature == "program",
            )
            items.append(Item.of(record, len(items)))
    return items


def _parts(message: Json) -> list[Block]:
    content = message.get("content")
    listed = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    return [blocks.read(msgspec.json.encode(part)) for part in listed]


def _words(message: Json) -> str:
    return "\n".join(map(blocks.words_of, _parts(message)))


def _nature(block: Block) -> str:
    """What a part of a user message is, as far as a request shows: "said", "summary" or "program"."""
    opened = _TAG.match(blocks.words_of(block)) if block.kind == "text" else None
    if opened is None:
        return "said"
    if opened[1] == Continued.tag:
        return "summary"
    return "program" if opened[1] in tags() else "said"


def _count(text: str) -> int:
    return len(text) // CHARACTERS_PER_TOKEN
