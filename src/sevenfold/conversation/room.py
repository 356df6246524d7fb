"""Whether there is room for the next request: its size compared with the limits, and what to do if it does not fit.

This module also keeps the list of results that could be cleared to make room.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.events import Checked
from sevenfold.profiles import Profile
from sevenfold.record import authorship, blocks
from sevenfold.record.blocks import PLACEHOLDER_CLEARED, Block, ToolResult, ToolUse
from sevenfold.record.gauge import Size
from sevenfold.record.layout import Item
from sevenfold.record.view import View
from sevenfold.record.weight import NOTHING, Weight, measure, opening
from sevenfold.record.window import Window
from sevenfold.settings import Settings

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation

REPRODUCIBLE = frozenset({"read", "shell", "search", "web", "edit", "write"})
"""Kinds of tools whose results can be obtained again; results of other tools are never cleared."""
_CLEARED = PLACEHOLDER_CLEARED.encode()
ASSUMED = ("family", "default")
"""Sources of a window's size that are only guesses."""


HEAVY = 0.8
"""The share of the byte or image limit above which a warning is given."""

Verdict = Literal["fits", "warning", "compact", "blocked"]
Budget = Literal["tokens", "bytes", "images"]


class Check(Struct, frozen=True):
    """The result of comparing a size with the limits: a verdict, and the budget that led to it."""

    size: Size
    verdict: Verdict
    budget: Budget


class Limits(Struct, frozen=True):
    """The maximum bytes and images of a request; None where no limit is known."""

    wire: int | None
    images: int | None

    @classmethod
    def of(cls, profile: Profile, settings: Settings) -> Limits:
        """The limits from the settings, or else from the model's profile."""
        wire = settings.wire_bytes_limit
        images = settings.images_limit
        return cls(
            profile.body_bytes if wire is None else wire, profile.images if images is None else images
        )

    def passed(self, wire: int, images: int, share: float = 1.0) -> tuple[Budget, ...]:
        """Which of the limits ``images`` and ``bytes``, multiplied by ``share``, are exceeded."""
        budgets: tuple[Budget, ...] = ()
        if self.images is not None and images > share * self.images:
            budgets = ("images",)
        if self.wire is not None and wire > share * self.wire:
            budgets = (*budgets, "bytes")
        return budgets

    def check(self, size: Size, window: Window) -> Check:
        """The verdict on a size, given a window and these limits."""
        status = window.status(size.tokens, band=size.band)
        # Before the first usage report, an estimate may be so rough that only the server can tell whether it fits; but
        # what may be larger than a known window is not sent blind. A window that was only assumed proves nothing.
        may_fit = size.tokens < window.blocking if window.source in ASSUMED else size.high <= window.context
        guess = not size.anchored and size.band > size.tokens and may_fit
        if over := self.passed(size.wire, size.images):
            return Check(size, "blocked", over[0])
        if status.at_blocking and not guess:
            return Check(size, "blocked", "tokens")
        if status.above_auto_compact:
            return Check(size, "compact", "tokens")
        if nearly := self.passed(size.wire, size.images, HEAVY):
            return Check(size, "warning", nearly[0])
        return Check(size, "warning" if status.above_warning else "fits", "tokens")

    def load(self, weight: Weight, tokens: float, window: Window) -> int:
        """How much of a window content takes up, in tokens, judged by the budget it uses the largest share of."""
        share = max(_share(weight.wire, self.wire), _share(weight.images, self.images))
        return round(max(tokens, min(share, 1.0) * window.threshold, 0))


def _share(used: int, limit: int | None) -> float:
    return used / max(limit, 1e-9) if limit is not None else 0.0


class Parts(Struct, frozen=True, kw_only=True):
    """The composition of a request, in the unit of a budget."""

    system: int
    tools: int
    pinned: int
    newest: int
    """Content that has not been sent yet."""
    rest: int

    @property
    def fixed(self) -> int:
        """The total that cannot be removed."""
        return self.system + self.tools + self.pinned + self.newest


def too_full(check: Check, window: Window, parts: Parts, *, limit: int, steps: Sequence[str]) -> str:
    """The message for a user whose next request cannot be sent; ``steps`` are the remedies available now."""
    shares = (
        f"system {parts.system:,}, tools {parts.tools:,}, pinned {parts.pinned:,}, "
        f"newest messages {parts.newest:,}, everything before {parts.rest:,} {_UNITS[check.budget]}"
    )
    sentence = f"the conversation has {_used(check)}, and sending stops at {limit:,} ({shares})"
    if check.budget == "tokens" and window.source in ASSUMED:
        sentence += (
            f". The window size of this model is unknown; assuming {window.context:,}: if it is larger, set "
            "context_window (SEVENFOLD_CONTEXT_WINDOW)"
        )
    if parts.fixed >= limit and check.budget == "tokens":
        return (
            f"{sentence}; the parts that cannot be removed already exceed the limit: shorten the system prompt, the "
            "tools, the pins or the newest message, or take a model with a larger window"
        )
    if parts.fixed > limit:
        return (
            f"{sentence}; the parts that cannot be removed already exceed the limit: send less at once, or smaller "
            "pictures"
        )
    return f"{sentence}; next: {', or '.join(steps)}"


def steps(parts: Parts, budget: Budget, *, clears: bool, compacts: bool, snips: bool) -> tuple[str, ...]:
    """The remedies left to the user when the engine cannot make enough room."""
    actions = []
    if parts.rest and compacts:
        actions.append("compact the conversation (compact(), /compact, or the switch auto_compact)")
    if not clears:
        actions.append("let old tool results be cleared (switches layers and size_clearing)")
    if parts.rest and snips:
        actions.append("remove rounds that are no longer needed (snip)")
    if parts.pinned:
        actions.append("unpin what is pinned")
    if not actions:
        actions.append("rewind to before the newest round and send less in it")
    larger = ", or with a model that has a larger window" if budget == "tokens" else ""
    return (*actions, f"go on in a new session{larger}")


_UNITS: Mapping[Budget, str] = {"tokens": "tokens", "bytes": "bytes", "images": "pictures and documents"}


def _used(check: Check) -> str:
    size = check.size
    unit = _UNITS[check.budget]
    if check.budget == "tokens":
        return f"{size.tokens:,} {unit}, perhaps {size.band:,} more"
    return f"{size.wire if check.budget == 'bytes' else size.images:,} {unit}"


def overloaded(c: Conversation, size: Size) -> bool:
    """Whether there are too many bytes or images, and not only because of content that is still unsent."""
    limits = c.limits
    if not limits.passed(size.wire, size.images):
        return False
    newest = sum((item.weight for item in unsent(c)), NOTHING)
    return not limits.passed(newest.wire, newest.images)


def check(c: Conversation, size: Size) -> Check:
    """Compare a size with the limits, and report the verdict as an event."""
    outcome = c.limits.check(size, c.window)
    window = c.window
    settings = c.settings
    reacts = settings.reactive_only and settings.reactive and c.source.compacts
    blocked = outcome.verdict == "blocked" and outcome.budget == "tokens"
    if reacts and blocked and size.tokens < window.context:
        # The provider decides what is too long, except for requests larger than its window.
        outcome = replace(outcome, verdict="warning")
    c.events.tell(
        Checked(
            used=size.tokens,
            band=size.band,
            sent=size.sent,
            threshold=window.threshold,
            effective=window.effective,
            blocking=window.blocking,
            freed=size.freed,
            wire=size.wire,
            images=size.images,
            percent_left=window.status(size.tokens, band=size.band).percent_left,
            verdict=outcome.verdict,
            budget=outcome.budget,
        )
    )
    return outcome


def explain(c: Conversation, check: Check) -> str:
    """Why the next request cannot be sent, and what to do about it."""
    filled = parts(c, check.budget)
    limits = c.limits
    limit = {"bytes": limits.wire, "images": limits.images}.get(check.budget) or c.window.blocking
    size = check.size
    used = {"bytes": size.wire, "images": size.images}.get(check.budget, size.high)
    remedies = ways_on(c, filled, check.budget, excess=used - limit)
    return too_full(check, c.window, filled, limit=limit, steps=remedies)


def ways_on(
    c: Conversation, filled: Parts, budget: Budget = "tokens", *, excess: int = 0
) -> tuple[str, ...]:
    """The remedies a user has now for a conversation of this composition, which is too large by ``excess``."""
    view = c.transcript.view
    settings = c.settings
    shown = (item for item in view.items if item.shown and not item.hidden_by)
    answers = [item for item in shown if item.record.role == "assistant"]
    rounds = sum(view.begins_round(item.record.uuid) for item in answers)
    # An answer stays with the results of its calls, and the newest round cannot be removed. If a compaction was made
    # just now and was not enough, another one would not help.
    older = rounds - (1 if answers and answers[-1].record.calls else 0)
    compacted = (view.boundary or "") != c.boundary_at_last_answer
    # Both remove what precedes the newest messages. If all of that is less than what is too much, neither helps.
    enough = filled.rest > excess
    return steps(
        filled,
        budget,
        clears=settings.size_clearing,
        compacts=settings.compaction and older > 0 and not compacted and enough,
        snips=settings.snip and rounds > 1 and enough,
    )


def parts(c: Conversation, budget: Budget = "tokens") -> Parts:
    """The composition of the next request, in the unit of a budget."""
    frame = c.epoch.frame
    size = c.size()
    whole: Mapping[Budget, int] = {"tokens": size.tokens, "bytes": size.wire, "images": size.images}
    pinned_records = c.transcript.pinned()
    items = c.transcript.view.items
    fresh = {item.record.uuid for item in unsent(c)}
    news = sum((item.weight for item in items if item.record.uuid in fresh), NOTHING)
    pins = sum((item.weight for item in items if item.record.uuid in pinned_records - fresh), NOTHING)
    weights = (opening(*frame.system), opening(*frame.tools), pins, news)
    system, tools, pinned, newest = (_amount(c, weight, budget) for weight in weights)
    # Bytes and images are counted in messages only.
    counted = pinned + newest + (system + tools if budget == "tokens" else 0)
    remaining = max(0, whole[budget] - counted)
    return Parts(system=system, tools=tools, pinned=pinned, newest=newest, rest=remaining)


def _amount(c: Conversation, weight: Weight, budget: Budget) -> int:
    return {"tokens": c.tokens(weight), "bytes": weight.wire, "images": weight.images}[budget]


# -- results that can be cleared --------------------------------------------------------------------
# Checking every result before every request would cost more the longer a session gets. This list is only extended
# with new records, and rebuilt when the view itself is laid out again.


class Held(Struct, frozen=True):
    """A result in view that may be cleared."""

    call: str
    tool: str
    record: str
    place: int
    """The index in the view of the record that contains it."""
    weight: Weight
    error: bool


class ClearableResults:
    """The results of reproducible tools in view, in order; ``kinds`` maps tool names to kinds."""

    def __init__(self, kinds: Mapping[str, str]) -> None:
        self._kinds = kinds
        self._view: View | None = None
        self._version = (0, 0)
        self._shown_by_layers: set[str] = set()
        self._forget()

    def follow(self, view: View) -> None:
        """Add the new records of the view."""
        if view is not self._view or view.version != self._version:
            self._view = view
            self._version = view.version
            self._forget()
            self._shown_by_layers = view.shown_by_layers()
        for item in view.items_from(self._seen):
            self._take(item, self._seen)
            self._seen += 1

    def tool_of(self, call: str) -> str:
        """The tool that a call in view uses; empty if the call is not in view."""
        return self._tools.get(call, "")

    def _forget(self) -> None:
        self._seen = 0
        self._tools: dict[str, str] = {}
        self.results: list[Held] = []
        self.weight = NOTHING
        """The total weight of the results."""
        self.answered = -1
        """The index of the model's newest answer; the model has not seen any results after it."""

    def _take(self, item: Item, index: int) -> None:
        if item.record.role == "assistant":
            if not item.record.synthetic:
                self.answered = index
            for block in item.record.blocks:
                if block.kind == "tool_use" and isinstance(body := block.body(), ToolUse):
                    self._tools[body.id] = body.name
        if not item.record.answers:
            return
        as_recorded = {block.id: block for block in item.record.blocks}
        for block in item.shown:
            tool = self._tools.get(block.id, "")
            if block.kind != "tool_result" or self._kinds.get(tool) not in REPRODUCIBLE:
                continue
            # What the user answered or said when refusing the call cannot be had again by calling the tool.
            if not authorship.reply(block, tool):
                self._hold(block, as_recorded.get(block.id), item, index)

    def _hold(self, block: Block, as_recorded: Block | None, item: Item, index: int) -> None:
        cleared = len(block.raw) < 300 and _CLEARED in block.raw
        if cleared or as_recorded is None:
            return
        if not blocks.is_unchanged(block, as_recorded) and block.id not in self._shown_by_layers:
            # A preview that replaced a result is final.
            return
        body = block.body()
        error = isinstance(body, ToolResult) and bool(body.is_error)
        weight = item.weight if len(item.shown) == 1 else measure(block)
        self.weight += weight
        self.results.append(Held(block.id, self._tools[block.id], item.record.uuid, index, weight, error))


def unsent(c: Conversation) -> list[Item]:
    """Records in view that have not been sent yet."""
    view = c.transcript.view
    c.clearable.follow(view)
    newest = view.items_from(c.clearable.answered + 1)
    tip = view.skip_clearings(c.account.tip)
    sent = next((index for index, item in enumerate(newest) if item.record.uuid == tip), -1)
    return newest[sent + 1 :]


def unsent_results(c: Conversation) -> list[Block]:
    """Tool results that have not been sent yet."""
    answers = [item for item in unsent(c) if item.record.answers]
    shown = chain.from_iterable(item.shown for item in answers)
    return [block for block in shown if block.kind == "tool_result"]
