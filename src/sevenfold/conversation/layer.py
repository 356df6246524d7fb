"""What a layer can do. Each ability is a protocol of its own; a layer has any of them, and holds no state.

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
    """Would the conversation be below the threshold afterwards?"""
    plan: Any = None
    """The layer's own, handed back to `relieve`."""
    urgent: bool = False
    """It must act now, even where a cheaper layer would be enough."""


class TooFull(Struct, frozen=True):
    """Our own refusal: the next request is over the blocking limit."""

    check: Check


class Layer(Protocol):
    """One way of keeping a conversation within its window."""

    name: str

    def on(self, settings: Settings) -> bool:
        """Is it switched on?"""


@runtime_checkable
class Settles(Layer, Protocol):
    """Does something about what is new before each request."""

    def settle(self, c: Conversation) -> Flow[None]:
        """Decide about what goes out for the first time."""


@runtime_checkable
class Relieves(Layer, Protocol):
    """Makes room. The ladder compares offers before any layer acts."""

    def offer(self, c: Conversation) -> Offer | None:
        """What it could do now; writes nothing."""

    def relieve(self, c: Conversation, offer: Offer) -> Flow[bool]:
        """Do it; False if it cannot, and the next layer should."""

    def may_follow(self, c: Conversation) -> bool:
        """Could it act in this pass, if cheaper layers are not enough?"""


@runtime_checkable
class Proposes(Layer, Protocol):
    """Can say what it would do before the next request."""

    def propose(self, c: Conversation) -> Sequence[Proposed]:
        """What it would do now, without doing it."""


@runtime_checkable
class TakesResults(Layer, Protocol):
    """Sees tool results before they are recorded."""

    def on_tool_results(self, c: Conversation, results: Sequence[Block]) -> Sequence[Block]:
        """The results as they are to be recorded."""


@runtime_checkable
class Admits(Layer, Protocol):
    """Records tool results, and decides for good how they are sent."""

    def admit(self, c: Conversation, results: Sequence[Block]) -> None:
        """Record results as they will be sent."""

    def freeze(self, c: Conversation) -> None:
        """Decide about all results that no request has held yet."""


@runtime_checkable
class Follows(Layer, Protocol):
    """Works in the background after an answer."""

    def after_answer(self, c: Conversation) -> None:
        """Start background work; never waits."""


@runtime_checkable
class AnswersRefusal(Layer, Protocol):
    """Can do something about a request that was refused."""

    def on_refusal(self, c: Conversation, error: ModelError | TooFull) -> Flow[bool]:
        """True if the next request may succeed."""


@runtime_checkable
class Spares(Layer, Protocol):
    """May have a summary at hand when one is needed."""

    def would_spare(self, c: Conversation, most: int) -> bool:
        """Could it compact the conversation to fewer tokens than ``most``, at no cost and with no wait?"""


@runtime_checkable
class Restores(Layer, Protocol):
    """Brings things back after a compaction."""

    def slots(self, c: Conversation) -> Sequence[Slot]:
        """What it restores, the most important first."""
