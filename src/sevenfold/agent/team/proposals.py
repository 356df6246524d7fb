"""What waits for the user's decision in a session that another program leads, and what was done to its context."""

from __future__ import annotations

from msgspec import Struct


class PendingProposal(Struct, frozen=True, kw_only=True):
    """What a layer would do if the user agrees."""

    id: str
    layer: str
    what: str
    why: str
    """The rule that triggered it."""
    at: float
    """When it was made, in seconds since 1970."""
    tokens: int = 0
    """About how many tokens would leave the context."""
    usd: float | None = None
    """What it costs once, our own call included; negative if it saves at once, None if prices are unknown."""
    own_usd: float = 0.0
    """Of that, what our own call costs."""
    saves_usd: float | None = None
    """What each request after it costs less."""
    stands: bool = False
    """Whether the answer holds for everything of this kind from now on."""


class Done(Struct, frozen=True, kw_only=True):
    """What a layer did to the context of a session."""

    id: str
    """The decision on record, for `undo`; empty if it cannot be undone."""
    layer: str
    what: str
    tokens: int = 0
    """About how many tokens left the context."""
    at: float = 0.0


def described(proposal: PendingProposal) -> str:
    """A proposal in a sentence or two: what would leave, how much, what it costs and what it saves."""
    leaves = (
        f"about {proposal.tokens:,} tokens would leave the context"
        if proposal.tokens
        else "little would leave"
    )
    parts = [f"{proposal.what} ({proposal.why}): {leaves}", _price(proposal)]
    if proposal.stands:
        parts.append("the answer holds for all results of this conversation from now on")
    return "; ".join(filter(None, parts))


def _price(proposal: PendingProposal) -> str:
    saves = f"then about {_money(proposal.saves_usd)} less with each request" if proposal.saves_usd else ""
    if proposal.usd is None:
        return saves and f"it costs an unknown amount once, {saves}"
    if proposal.usd <= 0:
        return f"it costs nothing, {saves}" if saves else "it costs nothing"
    own = f", {_money(proposal.own_usd)} of it for our own call" if proposal.own_usd else ""
    return ", ".join(filter(None, [f"it costs about {_money(proposal.usd)} once{own}", saves]))


def _money(usd: float | None) -> str:
    amount = usd or 0.0
    return f"${amount:.2f}" if amount >= 0.01 else f"${amount:.4f}"
