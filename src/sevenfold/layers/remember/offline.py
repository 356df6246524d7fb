"""What the offline model answers when it is asked what is worth remembering: what the user states by fixed rules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sevenfold.layers.compact.offline import items_of
from sevenfold.memory.rules import facts
from sevenfold.record import blocks
from sevenfold.record.layout import Item

_LISTED = re.compile(r"messages of the user, which have left the conversation:\n\n((?:- [^\n]*\n)+)")


def find_facts(request: Mapping[str, Any]) -> str:
    """A model's answer: the facts in the messages that the instruction at the end lists, or else in those before it."""
    *before, instruction = request["messages"]
    listed = _LISTED.search("\n".join(map(_words, items_of([instruction]))))
    said = (
        {line: line.removeprefix("- ") for line in listed[1].splitlines()}
        if listed
        else {
            item.said.uuid: _words(item)
            for item in items_of(before)
            if item.said.role == "user"
            and not (item.said.meta or item.said.summary or item.said.attachment)
        }
    )
    found = [
        f'<fact type="{fact.kind}">\n<quote>{quotation}</quote>\n</fact>'
        for fact in facts(said)
        for quotation in fact.quotations
        if "<" not in quotation
    ]
    return "\n".join(found) or "<nothing/>"


def _words(item: Item) -> str:
    return "\n".join(map(blocks.words_of, item.said.blocks))
