"""The order of the layers, and when to stop climbing.

The cheapest layer that can help goes first; one that brought the conversation below the threshold ends the pass.
Whether the climb gets anywhere is told by what it frees, not by how often it was tried: a layer that keeps
freeing next to nothing, or whose gain is filled again at once, is left alone until the conversation has changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.record.gauge import Check
from sevenfold.record.window import Window

REMEMBERED = 8
WASTED = 3
"""So many passes in a row without progress, and the layer rests."""
LITTLE = 0.02
"""A pass that frees a smaller share of the window got nowhere."""


class Pass(Struct, frozen=True):
    """One time a layer acted."""

    layer: str
    request: int
    """How many requests had gone out before."""
    freed: int
    size: int
    """Of the conversation, afterwards."""


class Progress(Struct, frozen=True):
    """What the layers achieved lately."""

    passes: tuple[Pass, ...] = ()

    def after(self, one: Pass) -> Progress:
        """With one more pass."""
        return replace(self, passes=(*self.passes, one)[-REMEMBERED:])

    def rests(self, layer: str, window: Window, size: int) -> str:
        """Why a layer should not be tried now, with a conversation of that size; empty if it may."""
        lately = [one for one in self.passes if one.layer == layer][-WASTED:]
        if len(lately) < WASTED:
            return ""
        little = LITTLE * window.effective
        if all(one.freed < little for one in lately) and size - lately[-1].size < little:
            return f"its last {WASTED} passes freed next to nothing"
        full_again = size >= lately[-1].size + lately[-1].freed
        if full_again and all(_refilled(earlier, later) for earlier, later in pairwise(lately)):
            return f"what its last {WASTED} passes freed was filled again by the next request"
        return ""


def _refilled(earlier: Pass, later: Pass) -> bool:
    """Was the conversation as large as before one request after a pass?"""
    return later.request - earlier.request <= 1 and later.size + later.freed >= earlier.size + earlier.freed


class Parts(Struct, frozen=True, kw_only=True):
    """What the window is filled with."""

    system: int
    tools: int
    pinned: int
    newest: int
    """What was said since the last answer."""
    rest: int


def too_full(check: Check, window: Window, parts: Parts, *, limit: int, steps: Sequence[str]) -> str:
    """What to tell a user whose next request cannot be sent; ``steps`` are what is allowed now."""
    fixed = parts.system + parts.tools + parts.pinned + parts.newest
    shares = (
        f"system {parts.system:,}, tools {parts.tools:,}, pinned {parts.pinned:,}, "
        f"newest messages {parts.newest:,}, everything before {parts.rest:,} tokens"
    )
    said = f"the conversation has {_used(check)}, and sending stops at {limit:,} ({shares})"
    if check.budget == "tokens" and fixed >= window.blocking:
        return (
            f"{said}; what cannot be let go alone does not fit: shorten the system prompt, the tools, the pins or "
            "the newest message, or take a model with a larger window"
        )
    return f"{said}; next: {', or '.join(steps)}"


def steps(parts: Parts, *, clears: bool, snips: bool) -> tuple[str, ...]:
    """What a user can do when nothing the engine may do is enough."""
    found = []
    if not clears:
        found.append("let old tool results be cleared (switches layers and size_clearing)")
    if parts.rest and snips:
        found.append("remove rounds that are no longer needed (snip)")
    if parts.pinned:
        found.append("unpin what is pinned")
    return (*found, "go on in a new session, or with a model that has a larger window")


def _used(check: Check) -> str:
    match check.budget:
        case "bytes":
            return f"{check.wire:,} bytes"
        case "images":
            return f"{check.images:,} pictures and documents"
        case _:
            return f"{check.used:,} tokens, perhaps {check.band:,} more"
