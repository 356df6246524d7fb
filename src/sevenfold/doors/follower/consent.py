"""What a person has agreed to in a conversation in which our layers only propose, and what was done in it.

Nobody is waited for: what is not decided does not happen, and the program's own bytes are sent. An agreement holds for
the next act of that layer, which concerns what was proposed and what has come since. An answer about large results
holds from then on, as each of them can be moved only before it is sent for the first time.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from msgspec import Struct

from sevenfold.agent.team.proposals import Done, PendingProposal
from sevenfold.errors import Refused
from sevenfold.events import Acted, Proposed

STANDING = frozenset({"offload"})
"""Layers about which an answer holds from then on."""
ASKED_AGAIN = 0.1
"""Share of the window by which a conversation has to grow until a layer that was declined proposes again."""
MOST_DONE = 50


class AtHand(Struct, frozen=True):
    """What a proposal has to be told by the conversation that it is about."""

    size: int
    """Tokens of the conversation."""
    window: int
    read_usd: float | None
    """What it costs to read a token from the cache; None if prices are unknown."""
    own_usd: float = 0.0
    """What our own call for it would cost."""


class Consent:
    """The proposals for one conversation, and what became of them; used from several threads."""

    def __init__(
        self, new_id: Callable[[], str], now: Callable[[], float], *, agrees_to_all: bool = False
    ) -> None:
        """With ``agrees_to_all``, nothing is proposed: what was done is only noted, and can be undone."""
        self._agrees_to_all = agrees_to_all
        self._new_id = new_id
        self._now = now
        self._lock = threading.Lock()
        self._waiting: dict[str, PendingProposal] = {}
        """By layer."""
        self._agreed: set[str] = set()
        self._fresh: set[str] = set()
        """Layers that were agreed to and have not been told yet."""
        self._standing: dict[str, bool] = {}
        self._declined_at: dict[str, int] = {}
        """The size of the conversation when a layer was declined."""
        self._size = 0
        self._done: deque[Done] = deque(maxlen=MOST_DONE)

    @property
    def waiting(self) -> tuple[PendingProposal, ...]:
        """What nobody has decided yet."""
        with self._lock:
            return tuple(self._waiting.values())

    @property
    def done(self) -> tuple[Done, ...]:
        """What the layers did since, oldest first."""
        with self._lock:
            return tuple(self._done)

    def may(self, event: Proposed, at_hand: AtHand) -> bool:
        """Whether a layer may act now; if nobody has decided, it is proposed."""
        layer = event.layer
        if self._agrees_to_all:
            return True
        with self._lock:
            self._size = at_hand.size
            if layer in self._standing:
                return self._standing[layer]
            if layer in self._agreed:
                return True
            declined_at = self._declined_at.get(layer)
            if declined_at is not None and at_hand.size < declined_at + ASKED_AGAIN * at_hand.window:
                return False
            before = self._waiting.get(layer)
            self._waiting[layer] = self._proposal(event, at_hand, before)
            return False

    def acted(self, event: Acted) -> None:
        """Take note that a layer acted: it has used its agreement."""
        with self._lock:
            self._agreed.discard(event.layer)
            self._waiting.pop(event.layer, None)
            freed = max(0, event.tokens_before - event.tokens_after)
            reference = event.reference if event.undoable else ""
            done = Done(id=reference, layer=event.layer, what=event.what, tokens=freed, at=self._now())
            self._done.append(done)

    def newly_agreed(self, layer: str) -> bool:
        """Whether a layer was agreed to since this was last asked."""
        with self._lock:
            is_fresh = layer in self._fresh
            self._fresh.discard(layer)
            return is_fresh

    def agree(self, name: str) -> str:
        """Agree to a proposal; returns what happens now."""
        proposal = self._taken(name)
        with self._lock:
            if proposal.layer in STANDING:
                self._standing[proposal.layer] = True
                return "agreed: from now on, large results are shown as previews in this conversation"
            self._agreed.add(proposal.layer)
            self._fresh.add(proposal.layer)
            self._declined_at.pop(proposal.layer, None)
        return f"agreed: {proposal.what}, with the next request"

    def decline(self, name: str) -> str:
        """Decline a proposal; returns what happens now."""
        proposal = self._taken(name)
        with self._lock:
            if proposal.layer in STANDING:
                self._standing[proposal.layer] = False
                return "declined: results stay whole in this conversation"
            self._declined_at[proposal.layer] = self._size
        return f"declined: it is proposed again when the conversation has grown by {ASKED_AGAIN:.0%} of the window"

    def _taken(self, name: str) -> PendingProposal:
        """Take a proposal out of those that wait; raises `Refused` if it does not wait any more."""
        with self._lock:
            for layer, proposal in self._waiting.items():
                if proposal.id == name:
                    del self._waiting[layer]
                    return proposal
        raise Refused(
            f"no proposal {name} waits for a decision any more; `sevenfold decisions` lists those that do"
        )

    def _proposal(
        self, event: Proposed, at_hand: AtHand, before: PendingProposal | None
    ) -> PendingProposal:
        own_usd = at_hand.own_usd if event.layer == "compact" else 0.0
        saves = None if at_hand.read_usd is None else event.tokens * at_hand.read_usd
        return PendingProposal(
            id=before.id if before else self._new_id()[:6],
            layer=event.layer,
            what=event.what,
            why=event.why,
            at=before.at if before else self._now(),
            tokens=event.tokens,
            usd=event.usd,
            own_usd=own_usd,
            saves_usd=saves,
            stands=event.layer in STANDING,
        )
