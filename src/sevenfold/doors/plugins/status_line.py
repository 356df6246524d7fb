"""Context, cache and cost in one line, from what Claude Code tells its status line."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from sevenfold.doors.plugins.tail import NewestAnswer, newest_answer, seconds

_LONGEST_CAUSE = 40


def status_line(told: dict[str, Any], now: float) -> str:
    """The line for this state of the program; parts it does not tell are left out."""
    transcript = told.get("transcript_path")
    newest = newest_answer(Path(transcript)) if isinstance(transcript, str) and transcript else None
    parts = [_context(told, newest), _cache(told, newest, now), _cost(told), _last_miss(told)]
    return " · ".join(filter(None, parts))


def _context(told: dict[str, Any], newest: NewestAnswer | None) -> str:
    window = _object(told, "context_window")
    used = window.get("used_percentage")
    size = window.get("context_window_size")
    if isinstance(used, int | float) and isinstance(size, int):
        return f"context {used:.0f}% of {_tokens(size)}"
    return f"context {_tokens(newest.context)}" if newest else ""


def _cache(told: dict[str, Any], newest: NewestAnswer | None, now: float) -> str:
    """Whether the cache is warm and until when: as the program says or, if it does not, by the newest answer."""
    state = _object(told, "prompt_cache")
    warm = state.get("warm")
    expires = _moment(state.get("expires_at"))
    if not isinstance(warm, bool) or (warm and expires is None):
        if newest is None:
            return ""
        expires = newest.at + newest.lifetime
        warm = now < expires
    if warm and expires is not None and now < expires:
        return f"cache warm until {datetime.fromtimestamp(expires).strftime('%H:%M')}"
    again = state.get("recache_tokens_if_cold")
    tokens = again if isinstance(again, int) else newest.context if newest else 0
    return f"cache cold, {_tokens(tokens)} to write" if tokens else "cache cold"


def _cost(told: dict[str, Any]) -> str:
    total = _object(told, "cost").get("total_cost_usd")
    return f"${total:.2f}" if isinstance(total, int | float) else ""


def _last_miss(told: dict[str, Any]) -> str:
    cause = _object(told, "prompt_cache").get("last_miss_cause")
    if not isinstance(cause, str) or not cause.strip():
        return ""
    plain = " ".join(cause.replace("_", " ").split())
    return f"last miss: {''.join(filter(str.isprintable, plain))[:_LONGEST_CAUSE]}"


def _object(told: dict[str, Any], name: str) -> dict[str, Any]:
    value = told.get(name)
    return value if isinstance(value, dict) else {}


def _moment(value: object) -> float | None:
    """A time in seconds since 1970, given so, in milliseconds, or as text."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value / 1_000 if value > 100_000_000_000 else float(value)
    return seconds(value)


def _tokens(number: int) -> str:
    return f"{number / 1_000_000:.1f}M" if number >= 1_000_000 else f"{number / 1_000:.0f}k"
