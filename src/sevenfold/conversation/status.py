"""The gauge as everyone reads it: how full the window is, and what the session has cost."""

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
    """The truth is expected between these, 19 times out of 20."""
    context: int
    effective: int
    threshold: int
    warning: int
    blocking: int
    limit: int
    """What percentages are of: the threshold while auto-compaction is on, else the effective window."""
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
    """What the session has cost so far; None where a price is unknown."""

    @classmethod
    def of(cls, size: Size, window: Window, limits: Limits, account: Account) -> Reading:
        """``limits`` are the most bytes and pictures a request may have."""
        status = window.status(size.tokens, band=size.band)
        known = asdict(size) | asdict(window) | asdict(status) | asdict(account)
        return cls(
            seen=size.tokens,
            wire_limit=limits.wire,
            images_limit=limits.images,
            **{name: known[name] for name in cls.__struct_fields__ if name in known},
        )

    @property
    def band(self) -> int:
        """How many tokens more it may really be."""
        return self.high - self.seen

    @property
    def heavy(self) -> tuple[Budget, ...]:
        """What else a request has nearly too much of, or too much: ``bytes``, ``images``."""
        limits = Limits(self.wire_limit, self.images_limit)
        return limits.passed(self.wire, self.images, HEAVY)[::-1]


class Health(Struct, frozen=True, kw_only=True):
    """How a session is doing with its window; all but the number of compactions since it was opened."""

    status: str
    """``compacting`` while a compaction is under way, else empty."""
    compactions: int
    turns_since: int
    """Answers since the last compaction; -1 before the first."""
    refill: float | None
    """Tokens an answer adds to the conversation, on average since the last compaction."""
    failures: int
    """Compactions in a row for which no model had a summary."""
    breaker_open: bool
    """Whether models are no longer asked unless the user wants it, because of these failures."""
    cached_share: float | None
    """Of all prompts; None before the first answer."""
    corrected_share: float | None = None
    """Of the entries that were remembered in the project, those that were wrong later; None without any."""
