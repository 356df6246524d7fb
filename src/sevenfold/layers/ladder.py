"""The ladder: the layers in their order, cheapest first, and the rule that chooses between them."""

from __future__ import annotations

from collections.abc import Sequence, Set

from msgspec import Struct

from sevenfold.conversation import layer as abilities
from sevenfold.conversation.conversation import Conversation
from sevenfold.conversation.flow import Flow
from sevenfold.conversation.layer import Layer, Offer, TooFull
from sevenfold.errors import ModelError
from sevenfold.events import Proposed
from sevenfold.layers.clear.layer import Clear
from sevenfold.layers.compact.layer import Compact
from sevenfold.layers.dream.layer import Dream
from sevenfold.layers.notes.layer import Notes
from sevenfold.layers.offload.layer import Offload
from sevenfold.layers.remember.layer import Remember
from sevenfold.record.blocks import Block

STANDARD: tuple[Layer, ...] = (Offload(), Clear(), Notes(), Compact())
REMEMBERING: tuple[Layer, ...] = (*STANDARD, Remember(), Dream())
"""With lasting memory, where a session has one."""


class Step(Struct, frozen=True):
    """A layer that should act, and what it offered."""

    rung: int
    layer: abilities.Relieves
    offer: Offer


class Ladder:
    """The layers of a conversation by what they can do. Holds no state, so conversations may share one."""

    def __init__(self, layers: Sequence[Layer] = STANDARD) -> None:
        self.layers = tuple(layers)
        self.settles = [layer for layer in layers if isinstance(layer, abilities.Settles)]
        self._relieves = [layer for layer in layers if isinstance(layer, abilities.Relieves)]
        self._proposes = [layer for layer in layers if isinstance(layer, abilities.Proposes)]
        self._takes = [layer for layer in layers if isinstance(layer, abilities.TakesResults)]
        self._admits = next((layer for layer in layers if isinstance(layer, abilities.Admits)), None)
        self.follows = [layer for layer in layers if isinstance(layer, abilities.Follows)]
        self._answers = [layer for layer in layers if isinstance(layer, abilities.AnswersRefusal)]
        self._spares = [layer for layer in layers if isinstance(layer, abilities.Spares)]
        self.restores = [layer for layer in layers if isinstance(layer, abilities.Restores)]
        self.top = len(self._relieves)

    def choose(self, c: Conversation, below: int, without: Set[int] = frozenset()) -> Step | None:
        """The cheapest layer whose offer is enough; without need of room, the cheapest with an offer.

        An urgent offer goes first. If no offer is enough, the cheapest does what it can.
        """
        c.last_size = c.size()
        steps = [
            Step(rung, layer, offer)
            for rung, layer in enumerate(self._relieves[:below])
            if rung not in without and layer.on(c.settings) and (offer := layer.offer(c)) is not None
        ]
        return max(steps, key=lambda step: (step.offer.urgent, step.offer.enough), default=None)

    def dearer(self, c: Conversation) -> bool:
        """Could a layer that follows cheaper ones act in this pass?"""
        return any(layer.on(c.settings) and layer.may_follow(c) for layer in self._relieves)

    def refused(self, c: Conversation, error: ModelError | TooFull) -> Flow[bool]:
        """Let the layers do something about a refusal, cheapest first; True once one could."""
        for layer in self._answers:
            if layer.on(c.settings) and (yield from layer.on_refusal(c, error)):
                return True
        return False

    def spared(self, c: Conversation, most: int) -> bool:
        """Would a layer have a summary at hand, so that none need be prepared ahead of need?"""
        return any(layer.on(c.settings) and layer.would_spare(c, most) for layer in self._spares)

    def admit(self, c: Conversation, results: Sequence[Block]) -> None:
        """Record tool results."""
        for layer in self._takes:
            if layer.on(c.settings):
                results = layer.on_tool_results(c, results)
        if self._admits is None:
            c.transcript.user(results)
        else:
            self._admits.admit(c, results)

    def freeze(self, c: Conversation) -> None:
        """Decide about all results that no request has held yet."""
        if self._admits is not None:
            self._admits.freeze(c)

    def propose(self, c: Conversation) -> list[Proposed]:
        """What the layers would do before the next request, without doing it."""
        with c.lock:
            c.refresh()
            c.last_size = c.size()
            found = [one for layer in self._proposes for one in layer.propose(c)]
            return [c.events.stamped(one) for one in found]
