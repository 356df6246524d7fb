"""The offline model's answer to the request for lasting facts: those that fixed rules find in the user's words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sevenfold.layers.compact.offline import items_of
from sevenfold.layers.remember.policy import SHOWN
from sevenfold.memory.entry import shortened
from sevenfold.memory.statements import facts
from sevenfold.record import blocks
from sevenfold.record.authorship import from_user
from sevenfold.record.layout import Item

_LISTED = re.compile(r"messages of the user, which have left the conversation:\n\n((?:- [^\n]*\n)+)")
_SINCE = re.compile(r'from this message of the user on: "(.*)"')


def find_facts(request: Mapping[str, Any]) -> str:
    """Answer a request for facts: find them in the messages that the instruction in its last message asks about."""
    *before, last = request["messages"]
    instruction = "\n".join(map(_words, items_of([last])))
    if listed := _LISTED.search(instruction):
        said = {line: line.removeprefix("- ") for line in listed[1].splitlines()}
    else:
        said = {item.said.uuid: _words(item) for item in items_of(before) if from_user(item.said)}
        since = _SINCE.search(instruction)
        fits = (since is not None and shortened(words, SHOWN) == since[1] for words in said.values())
        start = max((place for place, fit in enumerate(fits) if fit), default=0)
        said = dict(list(said.items())[start:])
    quotes = ((fact.kind, words) for fact in facts(said) for words in fact.quotations if "<" not in words)
    found = [f'<fact type="{kind}">\n<quote>{words}</quote>\n</fact>' for kind, words in quotes]
    return "\n".join(found) or "<nothing/>"


def _words(item: Item) -> str:
    return "\n".join(map(blocks.words_of, item.said.blocks))
