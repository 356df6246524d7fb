"""Is there room for the next request? Its size held against the limits, and what to do if it does not fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.conversation.stock import unsent
from sevenfold.events import Checked
from sevenfold.profiles import Profile
from sevenfold.record.gauge import Budget, Check, Size
from sevenfold.record.weight import NOTHING, Weight, opening
from sevenfold.record.window import Window
from sevenfold.settings import Settings

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation

ASSUMED = ("family", "default")
"""Sources of a window's size that are no more than a guess."""


class Limits(Struct, frozen=True):
    """The most bytes and pictures a request may have; None: no limit is known."""

    wire: int | None
    images: int | None

    @classmethod
    def of(cls, profile: Profile, settings: Settings) -> Limits:
        """What the settings say, or else the model's profile."""
        wire, images = settings.wire_bytes_limit, settings.images_limit
        return cls(
            profile.body_bytes if wire is None else wire, profile.images if images is None else images
        )

    def passed(self, wire: int, images: int) -> bool:
        """Are these more bytes or pictures than a request may have?"""
        return (self.wire is not None and wire > self.wire) or (
            self.images is not None and images > self.images
        )

    def load(self, weight: Weight, tokens: float, window: Window) -> int:
        """What content takes of a window, in tokens: as much as of the budget it takes most of."""
        pictures = weight.images + weight.documents
        share = max(_share(weight.wire, self.wire), _share(pictures, self.images))
        return round(max(tokens, min(share, 1.0) * window.threshold, 0))


def _share(used: int, limit: int | None) -> float:
    return used / max(limit, 1e-9) if limit is not None else 0.0


class Parts(Struct, frozen=True, kw_only=True):
    """What a request is filled with, in what its budget is counted in."""

    system: int
    tools: int
    pinned: int
    newest: int
    """What was said since the last answer."""
    rest: int

    @property
    def fixed(self) -> int:
        """What cannot be let go."""
        return self.system + self.tools + self.pinned + self.newest


def too_full(check: Check, window: Window, parts: Parts, *, limit: int, steps: Sequence[str]) -> str:
    """What to tell a user whose next request cannot be sent; ``steps`` are what is allowed now."""
    shares = (
        f"system {parts.system:,}, tools {parts.tools:,}, pinned {parts.pinned:,}, "
        f"newest messages {parts.newest:,}, everything before {parts.rest:,} {_UNITS[check.budget]}"
    )
    said = f"the conversation has {_used(check)}, and sending stops at {limit:,} ({shares})"
    if check.budget == "tokens" and window.source in ASSUMED:
        said += (
            f". How large the model's window is was not known, and taken to be {window.context:,}: if it is larger, "
            "say so with the setting context_window (SEVENFOLD_CONTEXT_WINDOW)"
        )
    if parts.fixed >= limit and check.budget == "tokens":
        return (
            f"{said}; what cannot be let go alone does not fit: shorten the system prompt, the tools, the pins or "
            "the newest message, or take a model with a larger window"
        )
    if parts.fixed > limit:
        return f"{said}; what cannot be let go alone does not fit: send less at once, or smaller pictures"
    return f"{said}; next: {', or '.join(steps)}"


def steps(parts: Parts, budget: Budget, *, clears: bool, compacts: bool, snips: bool) -> tuple[str, ...]:
    """What a user can do when nothing the engine may do is enough."""
    found = []
    if parts.rest and compacts:
        found.append("compact the conversation (compact(), /compact, or the switch auto_compact)")
    if not clears:
        found.append("let old tool results be cleared (switches layers and size_clearing)")
    if parts.rest and snips:
        found.append("remove rounds that are no longer needed (snip)")
    if parts.pinned:
        found.append("unpin what is pinned")
    larger = ", or with a model that has a larger window" if budget == "tokens" else ""
    return (*found, f"go on in a new session{larger}")


_UNITS: Mapping[Budget, str] = {"tokens": "tokens", "bytes": "bytes", "images": "pictures and documents"}


def _used(check: Check) -> str:
    match check.budget:
        case "bytes":
            return f"{check.wire:,} bytes"
        case "images":
            return f"{check.images:,} pictures and documents"
        case _:
            return f"{check.used:,} tokens, perhaps {check.band:,} more"


def overloaded(c: Conversation, size: Size) -> bool:
    """Are there too many bytes or pictures, and not only in what no request has held yet?"""
    limits = c.limits
    if not limits.passed(size.wire, size.images):
        return False
    newest = sum((item.weight for item in unsent(c)), NOTHING)
    return not limits.passed(newest.wire, newest.images + newest.documents)


def check(c: Conversation, size: Size) -> Check:
    """Hold a size against the limits, and report it."""
    limits = c.limits
    found = c.gauge.check(size, c.window, wire=limits.wire, images=limits.images)
    if found.verdict == "blocked" and _waits_for_refusal(c, found):
        found = replace(found, verdict="warning")
    c.events.tell(
        Checked(
            used=found.used,
            band=found.band,
            sent=size.sent,
            threshold=found.threshold,
            effective=found.effective,
            blocking=c.window.blocking,
            freed=found.freed,
            wire=found.wire,
            images=found.images,
            percent_left=c.window.status(size.tokens, band=size.band).percent_left,
            verdict=found.verdict,
            budget=found.budget,
        )
    )
    return found


def _waits_for_refusal(c: Conversation, check: Check) -> bool:
    """Does the provider decide what is too long, as ``reactive_only`` has it? Not about more than its window holds."""
    reacts = c.settings.reactive_only and c.settings.reactive and c.source.compacts
    return reacts and check.budget == "tokens" and check.used < c.window.context


def explain(c: Conversation, check: Check) -> str:
    """Why the next request cannot be sent, and what to do about it."""
    settings, filled, limits = c.settings, parts(c, check.budget), c.limits
    limit = {"bytes": limits.wire, "images": limits.images}.get(check.budget) or c.window.blocking
    possible = steps(
        filled,
        check.budget,
        clears=settings.size_clearing,
        # One that was made just now, and was not enough, need not be made again.
        compacts=settings.compaction and (c.transcript.view.boundary or "") == c.boundary_then,
        snips=settings.snip,
    )
    return too_full(check, c.window, filled, limit=limit, steps=possible)


def parts(c: Conversation, budget: Budget = "tokens") -> Parts:
    """What a request is filled with, in the unit of a budget."""
    frame, size = c.frame, c.size()
    whole: Mapping[Budget, int] = {"tokens": size.tokens, "bytes": size.wire, "images": size.images}
    kept = c.transcript.pinned()
    items = c.transcript.view.items
    fresh = {item.said.uuid for item in unsent(c)}
    newest = sum((item.weight for item in items if item.said.uuid in fresh), NOTHING)
    pins = sum((item.weight for item in items if item.said.uuid in kept - fresh), NOTHING)
    made = Parts(
        system=_amount(c, opening(*frame.system), budget),
        tools=_amount(c, opening(*frame.tools), budget),
        pinned=_amount(c, pins, budget),
        newest=_amount(c, newest, budget),
        rest=0,
    )
    # Bytes and pictures are counted in messages alone.
    known = made.fixed if budget == "tokens" else made.pinned + made.newest
    return replace(made, rest=max(0, whole[budget] - known))


def _amount(c: Conversation, weight: Weight, budget: Budget) -> int:
    match budget:
        case "bytes":
            return weight.wire
        case "images":
            return weight.images + weight.documents
        case _:
            return c.tokens(weight)
