"""The tool results in view that a clearing could take, kept up to date as the view grows.

Looking at every result before every request would cost more the longer a session gets. This list is only ever
extended by what is new, and made again when the view itself is laid out again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from sevenfold.conversation.provider_edits import REPRODUCIBLE
from sevenfold.record import blocks
from sevenfold.record.blocks import PLACEHOLDER_CLEARED, Block, ToolResult, ToolUse
from sevenfold.record.layout import Item
from sevenfold.record.view import View
from sevenfold.record.weight import NOTHING, Weight, measure

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation

_CLEARED = PLACEHOLDER_CLEARED.encode()


class Held(Struct, frozen=True):
    """A result in view that may be cleared."""

    call: str
    tool: str
    record: str
    place: int
    """Which record of the view holds it."""
    weight: Weight
    error: bool


class Stock:
    """Results of reproducible tools in view, in order; ``kinds`` says of what kind each tool is."""

    def __init__(self, kinds: Mapping[str, str]) -> None:
        self._kinds = kinds
        self._view: View | None = None
        self._version = (0, 0)
        self._forget()

    def follow(self, view: View) -> None:
        """Take in what is new in the view."""
        if view is not self._view or view.version != self._version:
            self._view, self._version = view, view.version
            self._forget()
        for item in view.items_from(self._seen):
            self._take(item, self._seen)
            self._seen += 1

    def tool_of(self, call: str) -> str:
        """The tool a call in view was made to; empty for a call that is not."""
        return self._tools.get(call, "")

    def _forget(self) -> None:
        self._seen = 0
        self._tools: dict[str, str] = {}
        self.results: list[Held] = []
        self.weight = NOTHING
        """Of all of them together."""
        self.answered = -1
        """The place of the model's newest answer: it has not seen results behind it."""

    def _take(self, item: Item, place: int) -> None:
        if item.said.role == "assistant":
            if not item.said.synthetic:
                self.answered = place
            for block in item.said.blocks:
                match block.body() if block.kind == "tool_use" else None:
                    case ToolUse(id=call, name=name):
                        self._tools[call] = name
        if not item.said.answers:
            return
        said = {block.id: block for block in item.said.blocks}
        for block in item.shown:
            if (
                block.kind == "tool_result"
                and self._kinds.get(self._tools.get(block.id, "")) in REPRODUCIBLE
            ):
                self._hold(block, said.get(block.id), item, place)

    def _hold(self, block: Block, said: Block | None, item: Item, place: int) -> None:
        cleared = len(block.raw) < 300 and _CLEARED in block.raw
        if cleared or said is None or not blocks.same(block, said):
            # A preview that a decision put in the place of a result stays for good.
            return
        body = block.body()
        error = isinstance(body, ToolResult) and bool(body.is_error)
        weight = item.weight if len(item.shown) == 1 else measure(block)
        self.weight += weight
        self.results.append(Held(block.id, self._tools[block.id], item.said.uuid, place, weight, error))


def unsent(c: Conversation) -> list[Item]:
    """What no request has held yet."""
    view = c.transcript.view
    c.stock.follow(view)
    newest = view.items_from(c.stock.answered + 1)
    tip = view.said_at(c.account.tip)
    sent = next((place for place, item in enumerate(newest) if item.said.uuid == tip), -1)
    return newest[sent + 1 :]


def unsent_results(c: Conversation) -> list[Block]:
    """Tool results that no request has held yet."""
    answers = [item for item in unsent(c) if item.said.answers]
    return [block for item in answers for block in item.shown if block.kind == "tool_result"]
