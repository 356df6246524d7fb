"""The order of the layers, and when to stop climbing.

The cheapest layer that can help goes first; one that brought the conversation below the threshold ends the pass.
Whether the climb gets anywhere is told by what it frees, not by how often it was tried: a layer that keeps
freeing next to nothing, or whose gain is filled again at once, is left alone until the conversation has changed.
"""

from __future__ import annotations

from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.record.gauge import Check
from sevenfold.record.window import Window

ORDER = ("offload", "clear", "notes", "compact")
"""Cheapest first."""
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

    def refill(self) -> float | None:
        """Tokens by which the conversation grew in a request, between the last two passes."""
        if len(self.passes) < 2:
            return None
        before, last = self.passes[-2:]
        requests = max(1, last.request - before.request)
        return (last.size + last.freed - before.size) / requests

    def rests(self, layer: str, window: Window) -> str:
        """Why a layer should not be tried again now; empty if it may."""
        lately = [one for one in self.passes if one.layer == layer][-WASTED:]
        if len(lately) < WASTED:
            return ""
        if all(one.freed < LITTLE * window.effective for one in lately):
            return f"its last {WASTED} passes freed next to nothing"
        if all(later.request - earlier.request <= 1 for earlier, later in pairwise(lately)):
            return f"what its last {WASTED} passes freed was filled again by the next request"
        return ""


class Parts(Struct, frozen=True, kw_only=True):
    """What the window is filled with."""

    system: int
    tools: int
    pinned: int
    newest: int
    """What was said since the last answer."""
    rest: int


def too_full(check: Check, window: Window, parts: Parts, *, steps: tuple[str, ...]) -> str:
    """What to tell a user whose next request cannot be sent; ``steps`` are what is allowed now."""
    fixed = parts.system + parts.tools + parts.pinned + parts.newest
    shares = (
        f"system {parts.system:,}, tools {parts.tools:,}, pinned {parts.pinned:,}, "
        f"newest messages {parts.newest:,}, everything before {parts.rest:,}"
    )
    said = f"the conversation has {_used(check)}, and sending stops at {_limit(check, window)} ({shares})"
    if check.budget == "tokens" and fixed >= window.blocking:
        return (
            f"{said}; what cannot be let go alone does not fit: shorten the system prompt, the tools, the pins or "
            "the newest message, or take a model with a larger window"
        )
    return f"{said}; next: {', or '.join(steps)}"


def _used(check: Check) -> str:
    match check.budget:
        case "bytes":
            return f"{check.wire:,} bytes"
        case "images":
            return f"{check.images:,} pictures and documents"
        case _:
            return f"{check.used:,} tokens, perhaps {check.band:,} more"


def _limit(check: Check, window: Window) -> str:
    return f"{window.blocking:,} tokens" if check.budget == "tokens" else "what the provider takes"
