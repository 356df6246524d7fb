"""What the planner of clearings looks at, what it comes to, and what its clearings have earned."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.profiles import Price
from sevenfold.record.decisions import Option
from sevenfold.record.window import Window
from sevenfold.settings import Settings


class OldResult(Struct, frozen=True):
    """A result that may be cleared."""

    call: str
    tokens: int
    error: bool = False
    kept: bool = False
    """Pinned, put back by the user, or not sent yet: it stays."""
    images: int = 0
    wire: int = 0
    left: int = 25
    """Tokens that remain of it when it is cleared."""


class ProviderCut(Struct, frozen=True):
    """What the provider would clear if it were asked to from now on."""

    tokens: int
    behind: int
    """Tokens behind the last result it clears: they are written again whenever the cut moves."""
    growth: int
    """Tokens that a request adds, about."""
    moves: float
    """How often the cut moves, per request."""


class ClearingMoment(Struct, frozen=True, kw_only=True):
    """Everything the planner looks at."""

    results: Sequence[OldResult]
    size: int
    """The conversation in tokens…"""
    most: int
    """…and the most it may really be."""
    fixed: int
    """System and tools, which no clearing touches."""
    window: Window
    settings: Settings
    price: Price | None
    lifetime: int
    """Seconds the cache keeps the conversation."""
    idle: float | None
    """Seconds since the last answer; None before the first."""
    expected: int
    """Requests that are likely to follow."""
    spent: float
    """US dollars the session has cost so far…"""
    owed: float = 0.0
    """…and how many of them earlier clearings have cost and not yet earned."""
    bound: bool = False
    """There is reasoning in view that is bound to what precedes it."""
    thinking: int = 0
    """Tokens of reasoning of turns before the last that is still sent and may be left out…"""
    reasoning: int = 0
    """…and of all reasoning, which goes where results go and reasoning is bound to them."""
    mid_turn: bool = False
    """The newest message answers calls: reasoning of this turn must stay."""
    provider: bool = False
    """The provider clears by itself in this epoch…"""
    edited: int = 0
    """…and leaves out so many tokens already: of the oldest results, which go first here as well."""
    near: bool = False
    """The provider could be asked to clear in this epoch, and the size at which it would has come."""
    cut: ProviderCut | None = None
    """What it would clear then; None if that is too little."""
    compacts: bool = False
    """A compaction could be made instead."""
    wire: int = 0
    wire_limit: int | None = None
    images: int = 0
    images_limit: int | None = None

    @property
    def cold(self) -> bool:
        """Has the cache expired?"""
        return self.idle is not None and self.idle > self.lifetime + self.settings.gap_margin_seconds

    @property
    def total(self) -> int:
        """Tokens of all results."""
        return sum(result.tokens for result in self.results)


class Plan(Struct, frozen=True):
    """What to do before the request, and what else was considered."""

    rule: str
    chosen: str = "nothing"
    cause: str = ""
    """Which rule it was: room, full, pause, provider or size."""
    targets: tuple[str, ...] = ()
    tokens: int = 0
    usd: float | None = None
    """What the next request costs more because of it; negative: less. None: prices are unknown."""
    drops_thinking: bool = False
    """Reasoning of earlier turns is left out from now on…"""
    drops_all_thinking: bool = False
    """…and that of the last turn too, because it would not be valid behind what changed."""
    options: tuple[Option, ...] = ()


class Stake(Struct, frozen=True):
    """What clearings have cost beyond what they have earned since; what they earned may be staked again."""

    owed: float = 0.0
    freed: int = 0
    """Tokens that are no longer read with each request because of them."""

    def after(self, made: Plan) -> Stake:
        """With one more clearing."""
        return Stake(self.owed + (made.usd or 0.0), self.freed + made.tokens)

    def earned(self, requests: int, price: Price | None) -> Stake:
        """After so many more requests."""
        gain = requests * self.freed * (price.read if price else 0.0) / 1e6
        return replace(self, owed=self.owed - gain)
