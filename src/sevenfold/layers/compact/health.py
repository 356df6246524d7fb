"""How a session is doing with its window, in a few figures."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.record.usage import Usage


class Health(Struct, frozen=True, kw_only=True):
    """What can be said of the compactions of a session since it was opened."""

    status: str
    """``compacting`` while a compaction is under way, else empty."""
    compactions: int
    turns_since: int
    """Answers since the last compaction; -1 before the first."""
    refill: float | None
    """Tokens an answer adds to the conversation, on average since the last compaction."""
    failures: int
    """Compactions in a row for which no model had a summary…"""
    breaker_open: bool
    """…and whether models are therefore no longer asked by themselves."""
    cached_share: float | None
    """Of all prompts; None before the first answer."""


class Tally(Struct, frozen=True):
    """Prompt tokens so far."""

    read: int = 0
    prompt: int = 0

    def after(self, usage: Usage) -> Tally:
        """With one more answer."""
        return replace(
            self, read=self.read + usage.cache_read_input_tokens, prompt=self.prompt + usage.prompt
        )

    @property
    def share(self) -> float | None:
        """How much of it came from the cache."""
        return self.read / self.prompt if self.prompt else None
