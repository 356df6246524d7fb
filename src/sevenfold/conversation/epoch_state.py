"""The state of a conversation's epoch: all that its requests depend on besides the transcript, as one frozen value."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.record.decisions import Epoch
from sevenfold.record.gauge import Gauge
from sevenfold.record.usage import BilledCall
from sevenfold.request.frame import Frame, Lifetimes, Tail
from sevenfold.request.watch import Watched


class EpochState(Struct, frozen=True):
    """What is sent before the messages, and what is known about how they are sent.

    A decision replaces it as a whole, so one that fails leaves the old value in force.
    """

    frame: Frame
    wanted: Frame
    """The frame to switch to as soon as that loses nothing."""
    lifetimes: Lifetimes
    gauge: Gauge
    """Estimates the size of the conversation, and learns from the usage that answers report."""
    watched: Watched = Watched()
    """What is known of the prompt cache."""
    tail: Tail | None = None
    """The last cache marker of the last answered request; None after a compaction, its undo or its redo."""
    billed: BilledCall | None = None
    """The last billed request, which the next one extends; None if it does not."""
    amended: object = None
    """The state of the view for which changes to the system prompt or tools were last considered."""
    opened: tuple[Epoch, ...] = ()
    """Epochs not yet reported."""
    new_fork: bool = False
    """Whether this is a fork that has its parent's messages but no answer of its own yet."""
    thinking_known_valid: bool = False
    """Whether the thinking in view is known to be valid despite changes to earlier content."""

    def announced(self, reason: str) -> EpochState:
        """The state after a decision that changes content already sent, so that the cache miss is expected."""
        return replace(self, watched=self.watched.announce(reason), billed=None)

    def sending(self, frame: Frame) -> EpochState:
        """The state with another frame, whose size the gauge knows."""
        return replace(self, frame=frame, gauge=self.gauge.opened(*frame.tools, *frame.system))
