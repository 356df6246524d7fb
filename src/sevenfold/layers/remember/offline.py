"""The offline model's answer to the request for lasting facts: those that fixed rules find in the user's words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sevenfold.layers.compact.offline import items_of
from sevenfold.layers.remember.look import SHOWN, in_quotes
from sevenfold.memory.statements import facts
from sevenfold.record import blocks
from sevenfold.record.authorship import from_user
from sevenfold.record.layout import Item

_LISTED = re.compile(r"^\[(\d+)\] [^\n]*$", re.MULTILINE)
_BEGINNING = re.compile(r'^\[\d+\] [^":]*: "(.*)"$')


def find_facts(request: Mapping[str, Any]) -> str:
    """Answer a request for facts: find them in the messages that the instruction in its last message lists."""
    *conversation, instruction_message = request["messages"]
    instruction = "\n".join(map(_words, items_of([instruction_message])))
    earlier = [_words(item) for item in items_of(conversation) if from_user(item.record)]
    messages: dict[str, str] = {}
    headings = list(_LISTED.finditer(instruction))
    ends = [*(heading.start() for heading in headings[1:]), len(instruction)]
    for heading, end in zip(headings, ends, strict=False):
        if begins := _BEGINNING.match(heading[0]):
            alike = (message for message in reversed(earlier) if _begins(message) == begins[1])
            messages[heading[1]] = next(alike, "")
        else:
            lines = instruction[heading.end() : end].splitlines()
            quoted = (line for line in lines if line.startswith(">"))
            messages[heading[1]] = "\n".join(line.removeprefix("> ") for line in quoted)
    if not headings:  # a request that lists nothing is about the whole conversation
        messages = {"": "\n".join(earlier)}
    answers = []
    for number, message in messages.items():
        for fact in facts({number: message}):
            quotes = (f"<quote>{quote}</quote>" for quote in fact.quotations if "<" not in quote)
            answers += [
                f'<fact message="{number}" type="{fact.kind}">\n{quote}\n</fact>' for quote in quotes
            ]
    return "\n".join(answers) or "<nothing/>"


def _begins(message: str) -> str:
    return in_quotes(message, SHOWN)


def _words(item: Item) -> str:
    return "\n".join(map(blocks.words_of, item.record.blocks))
