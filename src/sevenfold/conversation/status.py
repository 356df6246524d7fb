"""The gauge's reading for users: how full the window is, and what the session has cost."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import asdict

from sevenfold.conversation.room import HEAVY, Budget, Limits
from sevenfold.record.gauge import Size
from sevenfold.record.usage import Account
from sevenfold.record.window import Window


class Reading(Struct, frozen=True, kw_only=True):
    """How full the window is, and what the session has cost."""

    seen: int
    """Tokens the model sees."""
    sent: int
    """Tokens sent, before the provider's own edits."""
    low: int
    high: int
    """The true size lies between ``low`` and ``high`` in 19 of 20 cases."""
    context: int
    effective: int
    threshold: int
    warning: int
    blocking: int
    limit: int
    """The base of percentages: the threshold while auto-compaction is on, else the effective window."""
    percent_left: int
    above_warning: bool
    above_error: bool
    above_auto_compact: bool
    at_blocking: bool
    wire: int
    wire_limit: int | None
    images: int
    images_limit: int | None
    requests: int
    usd: float | None
    """What the session has cost so far; None if a price is unknown."""

    @classmethod
    def of(cls, size: Size, window: Window, limits: Limits, account: Account) -> Reading:
        """The reading for a size, a window, the byte and image limits, and the account."""
        status = window.status(size.tokens, band=size.band)
        figures = asdict(size) | asdict(window) | asdict(status) | asdict(account)
        return cls(
            seen=size.tokens,
            wire_limit=limits.wire,
            images_limit=limits.images,
            **{name: figures[name] for name in cls.__struct_fields__ if name in figures},
        )

    @property
    def band(self) -> int:
        """How many more tokens there may really be than estimated."""
        return self.high - self.seen

    @property
    def heavy(self) -> tuple[Budget, ...]:
        """The other limits that a request is close to or over: ``bytes``, ``images``."""
        limits = Limits(self.wire_limit, self.images_limit)
        return limits.passed(self.wire, self.images, HEAVY)[::-1]


class Health(Struct, frozen=True, kw_only=True):
    """How a session is doing with its window; refill and cached share cover only the time since it was opened."""

    status: str
    """``compacting`` while a compaction is running, else empty."""
    compactions: int
    turns_since: int
    """Answers since the last compaction; -1 before the first."""
    refill: float | None
    """Average tokens that each answer has added since the last compaction; None before the first one."""
    failures: int
    """Consecutive compactions for which no model produced a summary."""
    breaker_open: bool
    """Whether these failures keep models from being asked for a summary unless the user wants it."""
    cached_share: float | None
    """The share of all prompt tokens read from the cache; None before the first answer."""
    corrected_share: float | None = None
    """The share of the project's remembered entries that proved wrong later; None if there are none."""
