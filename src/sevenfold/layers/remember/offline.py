"""What the offline model answers when it is asked what is worth remembering: what the user states by fixed rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sevenfold.layers.compact.offline import items_of
from sevenfold.memory.rules import facts
from sevenfold.record import blocks


def find_facts(request: Mapping[str, Any]) -> str:
    """The facts in a request, without the instruction at its end, in the format a model answers in."""
    said = {
        item.said.uuid: "\n".join(map(blocks.words_of, item.said.blocks))
        for item in items_of(request["messages"][:-1])
        if item.said.role == "user" and not (item.said.meta or item.said.summary or item.said.attachment)
    }
    found = [
        f'<fact type="{fact.kind}">\n<quote>{quotation}</quote>\n</fact>'
        for fact in facts(said)
        for quotation in fact.quotations
        if "<" not in quotation
    ]
    return "\n".join(found) or "<nothing/>"
