"""The conversation in API rounds: one answer of the model, and everything up to the next.

A round is the smallest piece that can be let go: cut anywhere else, a call would lose its result or an
answer a part of itself. What stands before the first answer is a round too, the opening.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from sevenfold.record.layout import Item
from sevenfold.record.weight import NOTHING, Weight


class Round(Struct, frozen=True):
    """An answer, its results, and what else was said before the next one."""

    items: tuple[Item, ...]

    @property
    def answer(self) -> tuple[Item, ...]:
        """The records of the model's answer; none in the opening."""
        return tuple(item for item in self.items if item.said.role == "assistant")

    @property
    def weight(self) -> Weight:
        """Of all it sends."""
        return sum((item.weight for item in self.items), NOTHING)


def rounds(items: Iterable[Item]) -> list[Round]:
    """The records of a view, grouped."""
    groups: list[list[Item]] = []
    answering = ""
    for item in items:
        begins = item.said.role == "assistant" and _answer_of(item) != answering
        if begins or not groups:
            groups.append([])
        if begins:
            answering = _answer_of(item)
        groups[-1].append(item)
    return [Round(tuple(group)) for group in groups]


def _answer_of(item: Item) -> str:
    return item.said.message_id or item.said.uuid
