"""What going on with a session costs while its cache lives, and afterwards, and what else could be done in a pause."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sevenfold.archive.lifetimes import LaneHistory, SentRequest
from sevenfold.archive.profile.figures import Shrinking
from sevenfold.archive.profile.labels import SYSTEM

SHORT = 300
HOUR = 3600
SUMMARY = 4_000
"""Tokens that a summary is taken to have; where there was none yet, all that it would leave of the conversation."""

LITTLE = 0.8
"""A compaction that would leave more than this share of the prompt is no choice."""


def idle_view(lane: LaneHistory, compactions: Sequence[Shrinking]) -> dict[str, Any] | None:
    """When the newest prompt leaves the cache, and what can be done before and after that, each with its price.

    A choice costs something at once, and then the prompt costs something with which the session goes on.
    """
    newest = lane.requests[-1] if lane.requests else None
    if newest is None or newest.report.at is None:
        return None
    price = newest.report.profile.price(newest.report.prompt)
    if price is None:
        return None
    used = newest.report.used
    lifetime = HOUR if used.cache_creation_1h > used.cache_creation_5m else SHORT
    prompt = newest.report.prompt + used.output_tokens
    system = _system(lane, newest)
    left = [event.tokens_after for event in compactions if event.lane == lane.number and event.tokens_after]
    compacted = min(prompt, left[-1] if left else system + SUMMARY)
    read = price.read / 1e6
    write = price.write(lifetime) / 1e6
    summary = SUMMARY * price.output / 1e6

    def choice(name: str, at_once: float, tokens: int, each: float) -> dict[str, Any]:
        return {"name": name, "atOnceUsd": at_once, "tokens": tokens, "promptUsd": tokens * each}

    def compacting(name: str, each: float) -> list[dict[str, Any]]:
        at_once = prompt * each + summary
        return [choice(name, at_once, compacted, write)] if compacted < LITTLE * prompt else []

    fresh = choice("Begin a new session", 0.0, system, write)
    return {
        "at": newest.report.at,
        "lifetime": lifetime,
        "warmUsd": prompt * read,
        "coldUsd": prompt * write,
        "alive": [
            choice("Go on before it expires", 0.0, prompt, read),
            choice("Read it once, so that it lives as long again", prompt * read, prompt, read),
            *compacting("Compact it before it expires", read),
            choice("Go on after it has expired", 0.0, prompt, write),
            fresh,
        ],
        "expired": [
            choice("Go on", 0.0, prompt, write),
            *compacting("Compact it first", write),
            fresh,
        ],
    }


def _system(lane: LaneHistory, sent: SentRequest) -> int:
    """The tokens of the system prompt and the tools of a request."""
    sizes = dict(zip(lane.categories, sent.sizes, strict=False))
    return round(sizes.get(SYSTEM, 0.0))
