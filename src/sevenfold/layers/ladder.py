"""The ladder: the layers in their order, cheapest first, and the rule that chooses between them."""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import chain

from msgspec import Struct

from sevenfold.conversation import layer as abilities
from sevenfold.conversation.conversation import Conversation
from sevenfold.conversation.flow import Flow
from sevenfold.conversation.layer import Layer, Offer, TooFull
from sevenfold.errors import ModelError
from sevenfold.events import Proposed
from sevenfold.layers import shown
from sevenfold.layers.clear.layer import Clear
from sevenfold.layers.compact.layer import Compact
from sevenfold.layers.dream.layer import Dream
from sevenfold.layers.keep_warm import KeepWarm
from sevenfold.layers.notes.layer import Notes
from sevenfold.layers.offload.layer import Offload
from sevenfold.layers.remember.layer import Remember
from sevenfold.record.blocks import Block

STANDARD: tuple[Layer, ...] = (Offload(), Clear(), Notes(), Compact(), KeepWarm())
REMEMBERING: tuple[Layer, ...] = (*STANDARD, Remember(), Dream())
"""The standard layers and those for lasting memory, for sessions that have it."""


class Step(Struct, frozen=True):
    """A layer that should act, and what it offered."""

    rung: int
    layer: abilities.Relieves
    offer: Offer


class Ladder:
    """The layers of a conversation, grouped by what they can do. Stateless, so conversations may share one."""

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
        self._suffices = [layer for layer in layers if isinstance(layer, abilities.Suffices)]
        self.restores = [layer for layer in layers if isinstance(layer, abilities.Restores)]
        self.top = len(self._relieves)

    def choose(self, c: Conversation, below: int, without: Set[int] = frozenset()) -> Step | None:
        """The layer that should act next, with its offer; None if no layer has one.

        Urgent offers come first, then offers that are enough; among equals, the cheapest layer wins.
        """
        c.measure()
        steps = []
        for rung, layer in enumerate(self._relieves[:below]):
            if rung in without or not layer.on(c.settings):
                continue
            if (offer := layer.offer(c)) is not None:
                steps.append(Step(rung, layer, offer))
        # Of equals, `max` returns the first: the cheapest.
        return max(steps, key=lambda step: (step.offer.urgent, step.offer.enough), default=None)

    def has_costlier_layer(self, c: Conversation) -> bool:
        """Whether a layer that comes after cheaper ones could act in this pass."""
        return any(layer.on(c.settings) and layer.may_follow(c) for layer in self._relieves)

    def refused(self, c: Conversation, error: ModelError | TooFull) -> Flow[bool]:
        """Let the layers, cheapest first, react to a refused request; True as soon as one has made room."""
        for layer in self._answers:
            if layer.on(c.settings) and (yield from layer.on_refusal(c, error)):
                return True
        return False

    def has_free_summary(self, c: Conversation, most: int) -> bool:
        """Whether a layer could compact to fewer than ``most`` tokens without a model call."""
        return any(layer.on(c.settings) and layer.has_free_summary(c, most) for layer in self._spares)

    def needs_no_summary(self, c: Conversation) -> bool:
        """Whether a layer that costs no model call would make enough room at the threshold by itself."""
        return any(layer.on(c.settings) and layer.suffices(c) for layer in self._suffices)

    def admit(self, c: Conversation, results: Sequence[Block]) -> None:
        """Record tool results as they are, then what the layers show in place of them."""
        changes = shown.changes(c, self._takes, results)
        if self._admits is None:
            c.transcript.user(results)
        else:
            self._admits.admit(c, results)
        shown.record(c, changes)

    def freeze(self, c: Conversation) -> None:
        """Decide how to send each result that no request has contained yet."""
        if self._admits is not None:
            self._admits.freeze(c)

    def propose(self, c: Conversation) -> list[Proposed]:
        """What the layers would do before the next request, without doing it."""
        with c.lock:
            c.refresh()
            c.measure()
            proposals = chain.from_iterable(layer.propose(c) for layer in self._proposes)
            return list(map(c.events.stamped, proposals))
