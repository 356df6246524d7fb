"""How full the context window may get, and how full it is.

The model's profile and a few overrides give the levels at which the engine acts: a warning, the size at which it
compacts by itself, and the size at which nothing more is sent until something is compacted.

    0 < warning = error < auto-compact threshold < blocking < effective window <= context window

The distances between them are fixed numbers of tokens, chosen for windows of 100,000 tokens and more. In a smaller
window they all shrink in proportion, and so should every token budget of the layers, by `Window.scale`. So no window,
however small, has a negative level or two levels in the wrong order.
"""

from __future__ import annotations

from math import floor, inf

import msgspec

from sevenfold.profiles import DEFAULT_WINDOW, LONG_WINDOW, Profile

SUMMARY_RESERVE = 20_000
"""The most tokens reserved for writing a summary."""

COMPACT_BUFFER = 13_000
"""How far below the effective window auto-compaction starts."""

WARNING_BUFFER = 20_000
"""How far below the reference limit the warning and error levels are."""

BLOCKING_BUFFER = 3_000
"""How far below the effective window requests are blocked."""

FULL_SCALE = 100_000
"""The smallest window in which all distances have their full size."""

SMALLEST = 8
"""The smallest window with room for all levels; smaller values are raised to this."""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """How full the window is: the same value for every interface.

    The flags are set as soon as `used + band` reaches a level, so that a size underestimated within its band never
    slips past one; `percent_left` is computed from `used` alone.
    """

    used: int
    band: int
    """How many tokens above `used` the true size may be."""
    limit: int
    percent_left: int
    above_warning: bool
    above_error: bool
    above_auto_compact: bool
    at_blocking: bool


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """The context window of a session and the levels in it, in tokens."""

    context: int
    """Tokens that the model accepts."""
    source: str
    """Where that is from: setting, suffix, listing, table, family, beta or default."""
    capped: int
    """The window that compaction works with: the context window, or a lower cap."""
    reserve: int
    """Tokens reserved for writing a summary."""
    effective: int
    """Tokens that a conversation may use: the capped window minus the reserve."""
    threshold: int
    """The size at which auto-compaction runs."""
    warning: int
    error: int
    blocking: int
    """The size at which no request is sent until something is compacted."""
    auto_compact: bool
    limit: int
    """The reference limit: the threshold, or the effective window if auto-compaction is off."""
    scale: float
    """The factor for every token budget in this window; at most 1."""

    @classmethod
    def of(
        cls,
        profile: Profile,
        *,
        override: object = None,
        cap: object = None,
        max_output: object = None,
        percent: object = None,
        blocking: object = None,
        beta_1m: bool = False,
        auto_compact: bool = True,
    ) -> Window:
        """The window for a model; overrides that are not positive numbers are ignored.

        `override` replaces the context window; `cap` limits what compaction works with; `max_output` limits the
        reserve; `percent`, above 0 and up to 100, can lower the threshold to that share of the effective window;
        `blocking` replaces the blocking level. Without a `cap`, the profile's economic window is the cap, but only
        while auto-compaction is on: otherwise there is no reason to use less than the model accepts.
        """
        context, source = _context(profile, override, beta_1m)
        economic = profile.economic_window if auto_compact else None
        capped = min(context, max(SMALLEST, _tokens(cap) or economic or context))
        reserve = min(_tokens(max_output) or profile.max_output, _scaled(SUMMARY_RESERVE, capped))
        effective = capped - reserve
        blocking_buffer = max(1, _scaled(BLOCKING_BUFFER, capped))
        threshold = effective - max(blocking_buffer + 1, _scaled(COMPACT_BUFFER, capped))
        threshold = _lowered(threshold, effective, percent)
        limit = threshold if auto_compact else effective
        # A percentage may set the limit so low that no room would be left below it for a warning.
        warning = max(limit - _scaled(WARNING_BUFFER, capped), limit // 10, 1)
        return cls(
            context=context,
            source=source,
            capped=capped,
            reserve=reserve,
            effective=effective,
            threshold=threshold,
            warning=warning,
            error=warning,
            blocking=_tokens(blocking) or effective - blocking_buffer,
            auto_compact=auto_compact,
            limit=limit,
            scale=min(capped, FULL_SCALE) / FULL_SCALE,
        )

    def budget(self, tokens: int) -> int:
        """A token budget for a full-size window, scaled to this one."""
        return max(1, tokens * min(self.capped, FULL_SCALE) // FULL_SCALE)

    def status(self, used: int, *, band: int = 0) -> Status:
        """How full the window is with `used` tokens, or up to `band` more; all levels are inclusive."""
        band = max(0, band)
        upper = used + band
        return Status(
            used=used,
            band=band,
            limit=self.limit,
            percent_left=max(0, round((self.limit - used) / self.limit * 100)),
            above_warning=upper >= self.warning,
            above_error=upper >= self.error,
            above_auto_compact=self.auto_compact and upper >= self.threshold,
            at_blocking=upper >= self.blocking,
        )


def _context(profile: Profile, override: object, beta_1m: bool) -> tuple[int, str]:
    """The context window and where its size is from: setting, then beta, then profile, then default."""
    explicit = _tokens(override)
    if explicit is not None:
        return max(SMALLEST, explicit), "setting"
    # A price for prompts beyond the window shows that a longer window is available on request.
    longer = profile.window_source == "table" and any(row.above >= profile.window for row in profile.prices)
    if beta_1m and (longer or profile.window_source == "default"):
        return LONG_WINDOW, "beta"
    if profile.window_source != "default":
        return max(SMALLEST, profile.window), profile.window_source
    return DEFAULT_WINDOW, "default"


def _lowered(threshold: int, effective: int, percent: object) -> int:
    """The threshold, or a percentage of the effective window if that is valid and lower."""
    share = _positive(percent)
    if share is None or share > 100:
        return threshold
    # Rounded first: 33.3% of 180,000 is 59,940, which binary fractions miss by a hair.
    return max(2, min(floor(round(effective * share / 100, 6)), threshold))


def _scaled(tokens: int, window: int) -> int:
    return tokens * min(window, FULL_SCALE) // FULL_SCALE


def _tokens(value: object) -> int | None:
    """The value as a whole number of tokens; None if it is not a number of at least one."""
    number = _positive(value)
    return int(number) if number is not None and number >= 1 else None


def _positive(value: object) -> float | None:
    """The value; None if it is not a finite number above zero."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 < value < inf else None
