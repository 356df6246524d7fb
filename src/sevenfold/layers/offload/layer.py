"""Layer 1: records tool results; an empty one gets a placeholder text, and one that is too big is offloaded.

A failure to store a result loses nothing and does not interrupt the agent's loop: the result stays whole in the
transcript and is sent cut. If the transcript accepts no decision either, it is decided when the next request is
prepared, as it is for results that are too big only in total.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sevenfold.conversation.flow import Flow
from sevenfold.conversation.layer import TooFull
from sevenfold.conversation.results import is_empty, with_placeholder
from sevenfold.conversation.room import Check, unsent_results
from sevenfold.errors import ModelError, TranscriptError, TranscriptFull
from sevenfold.events import Proposed
from sevenfold.layers.offload import policy as offload
from sevenfold.layers.offload.policy import Big, Budget
from sevenfold.record import blocks
from sevenfold.record.blocks import Block
from sevenfold.record.decisions import Keep, Offloaded
from sevenfold.record.entries import Stored
from sevenfold.settings import Settings

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation

CHARACTERS_PER_TOKEN = 3
"""For reporting roughly how much an offload saves; the gauge is more exact once the preview is in view."""
SAFE_CHARACTERS_PER_TOKEN = 2
"""A cautious ratio for when a given number of tokens must be freed."""


class Offload:
    """Moves big tool results to disk and leaves a preview."""

    name = "offload"

    def on(self, settings: Settings) -> bool:
        """Always: even with offloading switched off, it records results and fills empty ones."""
        return True

    def freeze(self, c: Conversation) -> None:
        """Decide how to send results that no request has contained yet, including those too big only in total.

        From then on they are sent the same way.
        """
        view = c.transcript.view
        state = c.state(Settled)
        moment = (view, view.version, len(view), c.settings, c.account.tip)
        if moment != state.settled:
            if unsent := unsent_results(c):
                _settle(c, unsent, _budget(c))
            state.settled = moment

    def on_refusal(self, c: Conversation, error: ModelError | TooFull) -> Flow[bool]:
        """Over the blocking limit, offload more of the results that were never sent."""
        yield from ()
        if isinstance(error, TooFull) and error.check.budget == "tokens":
            return _squeeze(c, error.check)
        return False

    def propose(self, c: Conversation) -> Sequence[Proposed]:
        """The results that would be offloaded."""
        budget = _budget(c)
        return [_proposal(big, budget) for big in _due(c, unsent_results(c), budget)]

    def admit(self, c: Conversation, results: Sequence[Block]) -> None:
        """Record results as they will be sent: as a preview if over their tool's limit."""
        c.clearable.follow(c.transcript.view)
        tool_of = c.clearable.tool_of
        budget = _budget(c)
        shown: list[Block] = []
        stored: dict[str, Stored] = {}
        refused: list[str] = []
        # Results that could not be stored, each with the cut text to send instead.
        failed: dict[str, tuple[str, Stored]] = {}
        for block in results:
            block = with_placeholder(block) if is_empty(block) else block
            big = offload.too_big(block, tool_of(block.id), budget) if budget.settings.offload else None
            if big is not None:
                match _put_away(c, big, budget):
                    case None:
                        refused.append(block.id)
                    case text, Stored(path="") as location:
                        failed[block.id] = text, location
                    case text, location:
                        stored[block.id] = location
                        block = blocks.with_words(block, text)
            shown.append(block)
        try:
            c.transcript.user(shown, stored=stored)
        except TranscriptFull:
            if not failed:
                raise
            # The disk accepted neither the file nor the record: record at least the cut text.
            for number, block in enumerate(shown):
                if block.id in failed:
                    shown[number] = blocks.with_words(block, failed[block.id][0])
            c.transcript.user(shown, stored=stored)
            return
        for call, (text, location) in failed.items():
            _decide(c, call, text, location)
        if refused:
            _try(c, Keep(tool_use_ids=refused))


class Settled:
    """The state of a conversation when its results were last decided, to skip the work if nothing changed."""

    def __init__(self, c: Conversation) -> None:
        self.settled: tuple[object, ...] = ()


def _budget(c: Conversation) -> Budget:
    """The limits on tool results in this conversation."""
    return Budget(c.settings, c.window, c.kinds)


def _due(c: Conversation, unsent: Sequence[Block], budget: Budget) -> list[Big]:
    """The results among ``unsent`` that must be offloaded, except those with a decision to keep them."""
    if not budget.settings.offload:
        return []
    tools = [(c.clearable.tool_of(block.id), block) for block in unsent]
    alone = [big for tool, block in tools if (big := offload.too_big(block, tool, budget))]
    within_limit = {block.id for block in unsent} - {big.block.id for big in alone}
    sharing = [(tool, block) for tool, block in tools if block.id in within_limit]
    due = alone + offload.too_much_together(sharing, budget)
    if not due:
        return []
    kept_calls: set[str] = set()
    for decision in c.transcript.view.decisions():
        if isinstance(decision, Keep):
            kept_calls.update(decision.tool_use_ids)
    return [big for big in due if big.block.id not in kept_calls]


def _squeeze(c: Conversation, check: Check) -> bool:
    """Offload unsent results until the conversation fits, which costs nothing; True if it became smaller."""
    unsent = unsent_results(c)
    over = check.size.high - c.window.blocking + 1
    allowed = sum(len(block.raw) for block in unsent) - over * SAFE_CHARACTERS_PER_TOKEN
    tight = replace(c.settings, round_characters=max(1, int(allowed / c.window.scale)))
    tokens_before = c.size().tokens
    _settle(c, unsent, Budget(tight, c.window, c.kinds))
    return c.size().tokens < tokens_before


def _settle(c: Conversation, unsent: Sequence[Block], budget: Budget) -> None:
    if due := _due(c, unsent, budget):
        gone = {big.block.id for big in due if _replace(c, big, budget)}
        _try(c, Keep(tool_use_ids=[block.id for block in unsent if block.id not in gone]))


def _proposal(big: Big, budget: Budget) -> Proposed:
    """The proposal to offload a result, as listeners see it."""
    return Proposed(
        layer="offload",
        mechanism=big.mechanism,
        what=f"offload a result of {len(big.content.text):,} characters",
        why=big.why,
        items=1,
        tokens=max(0, len(big.content.text) - budget.preview) // CHARACTERS_PER_TOKEN,
        targets=(big.block.id,),
    )


def _replace(c: Conversation, big: Big, budget: Budget) -> bool:
    """Offload a recorded result; True if a preview or a cut text is now sent in its place."""
    away = _put_away(c, big, budget)
    if away is None or (big.mechanism == "share" and not away[1].path):
        return False
    return _decide(c, big.block.id, *away)


def _put_away(c: Conversation, big: Big, budget: Budget) -> tuple[str, Stored] | None:
    """Store a result; returns the text to send in its place and where it is stored, or None if a listener refuses.

    A result that could not be stored has an empty path, and as much of it is sent as its limit allows.
    """
    proposed = _proposal(big, budget)
    if not c.events.may(proposed):
        return None
    content = c.gate.content(big.content.content) if c.gate else big.content.content
    try:
        path = c.services.results.keep(big.block.id + big.content.name_ending, content)
    except TranscriptError as error:
        c.events.aside("offload", str(error), error=error)
        return offload.truncated(big, str(error)), _stored("", big.content.content)
    characters = len(big.content.text)
    per_token = CHARACTERS_PER_TOKEN
    c.events.acted(proposed, characters // per_token, min(characters, budget.preview) // per_token, path)
    return offload.stored(big, path, budget), _stored(path, content)


def _decide(c: Conversation, call: str, shown: str, stored: Stored) -> bool:
    location = {"path": stored.path, "sha256": stored.sha256}
    return _try(c, Offloaded(tool_use_id=call, preview=shown, size=stored.size, **location))


def _try(c: Conversation, decision: Offloaded | Keep) -> bool:
    """Write a decision; False if that fails, in which case it is redone before the next request."""
    try:
        c.transcript.decide(decision)
    except TranscriptError as error:
        c.events.aside("offload", str(error), error=error)
        return False
    return True


def _stored(path: str, content: bytes) -> Stored:
    """Where a result is stored; without a path, it is in the transcript only."""
    return Stored(path, len(content), hashlib.sha256(content).hexdigest())
