"""What a layer can do. Each ability is a separate protocol; a layer implements any number of them and has no state.

The state a layer needs lives in the conversation (`Conversation.state`), so conversations and forks that share a
ladder share nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from msgspec import Struct

from sevenfold.conversation.flow import Flow
from sevenfold.errors import ModelError
from sevenfold.events import Proposed
from sevenfold.record.blocks import Block
from sevenfold.settings import Settings

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation
    from sevenfold.conversation.restore import Slot
    from sevenfold.conversation.room import Check


class Offer(Struct, frozen=True):
    """What a layer could do to make room now."""

    enough: bool
    """Whether the conversation would be below the threshold afterwards."""
    plan: Any = None
    """Private data of the layer, passed back to `relieve`."""
    urgent: bool = False
    """Whether the layer must act now, even if a cheaper one would be enough."""


class Instead(Struct, frozen=True):
    """What a layer shows in place of a tool result."""

    block: Block
    """The tool result as it should be sent; only its content counts."""
    reason: str
    """Why, in one sentence; `why` and the listeners are told."""


class TooFull(Struct, frozen=True):
    """Our own refusal: the next request is over the blocking limit."""

    check: Check


class Layer(Protocol):
    """One way of keeping a conversation within its window."""

    name: str

    def on(self, settings: Settings) -> bool:
        """Whether the layer is switched on."""


@runtime_checkable
class Settles(Layer, Protocol):
    """Handles new content before each request."""

    def settle(self, c: Conversation) -> Flow[None]:
        """Decide about content that is about to be sent for the first time."""


@runtime_checkable
class Relieves(Layer, Protocol):
    """Makes room. The ladder compares offers before any layer acts."""

    def offer(self, c: Conversation) -> Offer | None:
        """What the layer could do now, or None; writes nothing."""

    def relieve(self, c: Conversation, offer: Offer) -> Flow[bool]:
        """Carry out the offer; False if that is not possible and another layer should act."""

    def may_follow(self, c: Conversation) -> bool:
        """Whether the layer could act in this pass if cheaper layers are not enough."""


@runtime_checkable
class Proposes(Layer, Protocol):
    """Can predict what it would do before the next request."""

    def propose(self, c: Conversation) -> Sequence[Proposed]:
        """What the layer would do now, without doing it."""


@runtime_checkable
class TakesResults(Layer, Protocol):
    """Can show other content in place of new tool results, which are recorded as they are."""

    def on_tool_results(self, c: Conversation, results: Sequence[Block]) -> Sequence[Block | Instead]:
        """Return the results as they should be sent; each change is a decision of its own, which can be undone.

        A result left out of what is returned is sent unchanged.
        """


@runtime_checkable
class Admits(Layer, Protocol):
    """Records tool results, and makes the final decision how they are sent."""

    def admit(self, c: Conversation, results: Sequence[Block]) -> None:
        """Record results as they will be sent."""

    def freeze(self, c: Conversation) -> None:
        """Make the final decision about all results that have not been sent yet."""


@runtime_checkable
class Follows(Layer, Protocol):
    """Works in the background after an answer."""

    def after_answer(self, c: Conversation) -> None:
        """Start background work; never waits."""


@runtime_checkable
class AnswersRefusal(Layer, Protocol):
    """Can remedy the refusal of a request."""

    def on_refusal(self, c: Conversation, error: ModelError | TooFull) -> Flow[bool]:
        """Try to remedy the refusal; True if the next request may succeed."""


@runtime_checkable
class Spares(Layer, Protocol):
    """May have a summary ready when one is needed."""

    def has_free_summary(self, c: Conversation, most: int) -> bool:
        """Whether it could compact the conversation to fewer than ``most`` tokens at no cost and without waiting."""


@runtime_checkable
class Suffices(Layer, Protocol):
    """Can tell in advance whether a compaction will be needed at the threshold."""

    def suffices(self, c: Conversation) -> bool:
        """Whether it alone would make enough room at the threshold, as far as can be told now."""


@runtime_checkable
class Restores(Layer, Protocol):
    """Restores content after a compaction."""

    def slots(self, c: Conversation) -> Sequence[Slot]:
        """The slots that the layer restores, most important first."""
