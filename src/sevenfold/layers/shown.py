"""What layers show in place of new tool results.

A layer returns the results as it would send them. The results are recorded as the tools returned them, and each
change becomes a decision, so whatever a layer leaves out can be fetched and brought back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Raw, Struct

from sevenfold.conversation.layer import Instead, TakesResults
from sevenfold.errors import TranscriptError
from sevenfold.events import Proposed
from sevenfold.record import blocks
from sevenfold.record.blocks import Block, ToolResult
from sevenfold.record.decisions import ShownResult
from sevenfold.record.weight import measure

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation


class ChangedResult(Struct, frozen=True):
    """One result as a layer shows it; no listener refused."""

    recorded: Block
    shown: Block
    proposed: Proposed


def changes(
    c: Conversation, layers: Sequence[TakesResults], results: Sequence[Block]
) -> list[ChangedResult]:
    """What the layers change in these results, in order; each layer is given what the one before it shows."""
    current = {block.id: block for block in results}
    changed: list[ChangedResult] = []
    for layer in layers:
        if not layer.on(c.settings):
            continue
        for returned in layer.on_tool_results(c, list(current.values())):
            change = _change(c, layer.name, current, returned)
            if change is not None and c.events.may(change.proposed):
                current[change.shown.id] = change.shown
                changed.append(change)
    return changed


def record(c: Conversation, changed: Sequence[ChangedResult]) -> None:
    """Record the changes of results that have been recorded; where that fails, the result itself is sent."""
    for change in changed:
        proposed = change.proposed
        content = Raw(blocks.encode_json(_content(change.shown)))
        try:
            decision = c.transcript.decide(
                ShownResult(
                    tool_use_id=change.shown.id,
                    content=content,
                    layer=proposed.layer,
                    reason=proposed.why,
                )
            )
        except TranscriptError as error:
            c.events.aside(proposed.layer, str(error), error=error)
            continue
        tokens_before = _tokens(c, change.recorded)
        tokens_after = _tokens(c, change.shown)
        c.events.acted(proposed, tokens_before, tokens_after, decision.id, undoable=True)


def _change(
    c: Conversation, layer: str, current: dict[str, Block], returned: Block | Instead
) -> ChangedResult | None:
    """What a layer changes with one of the blocks it returned; None if nothing."""
    shown = returned.block if isinstance(returned, Instead) else returned
    recorded = current.get(shown.id)
    if recorded is None or shown.raw == recorded.raw or not isinstance(shown.body(), ToolResult):
        return None
    # The call, and whether it failed, stay as the tool reported them.
    shown = blocks.with_content(recorded, _content(shown))
    characters_before = len(blocks.words_of(recorded))
    characters_after = len(blocks.words_of(shown))
    proposed = Proposed(
        layer=layer,
        mechanism="show",
        what=f"show {characters_after:,} characters in place of a result of {characters_before:,}",
        why=returned.reason if isinstance(returned, Instead) else "",
        items=1,
        tokens=max(0, _tokens(c, recorded) - _tokens(c, shown)),
        targets=(shown.id,),
    )
    return ChangedResult(recorded, shown, proposed)


def _content(block: Block) -> object:
    body = block.body()
    content = body.content if isinstance(body, ToolResult) else None
    return "" if content is None else content


def _tokens(c: Conversation, block: Block) -> int:
    return c.tokens(measure(block))
