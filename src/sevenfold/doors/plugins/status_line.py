"""Context, cache and cost in one line, from what Claude Code and a gateway in between tell the status line."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from sevenfold.doors.plugins.kept import figures_line
from sevenfold.doors.plugins.tail import (
    LONG_LIFETIME,
    SHORT_LIFETIME,
    NewestAnswer,
    count,
    newest_answer,
    seconds,
)

_LONGEST_CAUSE = 40


def status_line(state: dict[str, Any], now: float) -> str:
    """The line for this state of the program; parts it does not tell are left out."""
    transcript = state.get("transcript_path")
    newest = newest_answer(Path(transcript)) if isinstance(transcript, str) and transcript else None
    figures = [
        _context(state, newest),
        _cache(state, newest, now),
        _cost(state),
        _kept(state),
        _misses(state),
    ]
    return " · ".join(filter(None, figures))


def _context(state: dict[str, Any], newest: NewestAnswer | None) -> str:
    window = _object(state, "context_window")
    used = window.get("used_percentage")
    size = window.get("context_window_size")
    if isinstance(used, int | float) and isinstance(size, int):
        return f"context {used:.0f}% of {_tokens(size)}"
    return f"context {_tokens(newest.context)}" if newest else ""


def _cache(state: dict[str, Any], newest: NewestAnswer | None, now: float) -> str:
    """Whether the cache is warm and until when: as the program says or, if it does not, by the newest answer."""
    cache = _object(state, "prompt_cache")
    warm = cache.get("warm")
    expires = _moment(cache.get("expires_at"))
    if not isinstance(warm, bool) or (warm and expires is None):
        if newest is None:
            return ""
        expires = newest.at + newest.lifetime
        warm = now < expires
    if warm and expires is not None and now < expires:
        return f"cache warm until {datetime.fromtimestamp(expires).strftime('%H:%M')}"
    again = cache.get("recache_tokens_if_cold")
    tokens = again if isinstance(again, int) else newest.context if newest else 0
    return f"cache cold, {_tokens(tokens)} to write" if tokens else "cache cold"


def _cost(state: dict[str, Any]) -> str:
    total = _object(state, "cost").get("total_cost_usd")
    return f"${total:.2f}" if isinstance(total, int | float) else ""


def _kept(state: dict[str, Any]) -> str:
    """What a gateway in between saved, and what its own calls cost, which the program's cost does not show."""
    session = state.get("session_id")
    return figures_line(session) if isinstance(session, str) and session else ""


def _misses(state: dict[str, Any]) -> str:
    """Why the cache was last missed, and what all misses so far cost."""
    cache = _object(state, "prompt_cache")
    cause = _plain(cache.get("last_miss_cause"))
    written_again = count(cache, "miss_recache_tokens")
    if not cause or not written_again:
        return f"last miss: {cause}" if cause else ""
    number = count(cache, "misses")
    misses = f"{number} misses" if number > 1 else "miss"
    dollars = _price_of_misses(state, written_again)
    price = f", ${dollars:.2f}" if dollars is not None else ""
    return f"last miss: {cause} ({misses}: {_tokens(written_again)} written again{price})"


def _plain(cause: object) -> str:
    """A cause as the program names it, or all that it names, in words."""
    if isinstance(cause, dict):
        causes = cause.get("causes")
        cause = ", ".join(filter(None, map(_plain, causes))) if isinstance(causes, list) else ""
    if not isinstance(cause, str):
        return ""
    text = " ".join(cause.replace("_", " ").split())
    return "".join(filter(str.isprintable, text))[:_LONGEST_CAUSE]


def _price_of_misses(state: dict[str, Any], tokens: int) -> float | None:
    """What it cost to write tokens again instead of reading them; None if the model's prices are unknown."""
    model = _object(state, "model").get("id")
    if not isinstance(model, str):
        return None
    # Only sessions with a miss take the time to load the table of prices.
    from sevenfold.profiles import find

    price = find(model).price(tokens)
    if price is None:
        return None
    lifetime = LONG_LIFETIME if _object(state, "prompt_cache").get("ttl") == "1h" else SHORT_LIFETIME
    return tokens * (price.write(lifetime) - price.read) / 1_000_000


def _object(state: dict[str, Any], name: str) -> dict[str, Any]:
    value = state.get(name)
    return value if isinstance(value, dict) else {}


def _moment(value: object) -> float | None:
    """A time in seconds since 1970, given so, in milliseconds, or as text."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value / 1_000 if value > 100_000_000_000 else float(value)
    return seconds(value)


def _tokens(number: int) -> str:
    return f"{number / 1_000_000:.1f}M" if number >= 1_000_000 else f"{number / 1_000:.0f}k"
