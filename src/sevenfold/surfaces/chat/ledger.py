"""The books of one run of the app: what answers cost, what the cache gave, and where it was lost."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.events import Acted, Answered, CacheBroke, Event


class Ledger(Struct, frozen=True):
    """Sums since the app was started."""

    answers: int = 0
    plain: int = 0
    """Prompt tokens neither read from the cache nor written to it."""
    read: int = 0
    written: int = 0
    output: int = 0
    usd: float | None = 0.0
    uncached_usd: float | None = 0.0
    ideal_usd: float | None = 0.0
    by_source: dict[str, float | None] = {}
    """Dollars by who asked: the conversation, a compaction, notes…"""
    breaks: Sequence[CacheBroke] = ()
    acts: Sequence[Acted] = ()

    @property
    def prompt(self) -> int:
        """All prompt tokens."""
        return self.plain + self.read + self.written

    @property
    def cached(self) -> float | None:
        """The share of them that came from the cache; None where nothing is ever cached."""
        return self.read / self.prompt if self.read or self.written else None

    def heard(self, event: Event) -> Ledger:
        """The books after one more event."""
        match event:
            case Answered():
                return self._answered(event)
            case CacheBroke():
                return replace(self, breaks=(*self.breaks, event))
            case Acted():
                return replace(self, acts=(*self.acts, event))
            case _:
                return self

    def _answered(self, event: Answered) -> Ledger:
        before = self.by_source.get(event.source, 0.0)
        return replace(
            self,
            answers=self.answers + 1,
            plain=self.plain + event.input_tokens,
            read=self.read + event.cache_read_tokens,
            written=self.written + event.cache_write_tokens,
            output=self.output + event.output_tokens,
            usd=_sum(self.usd, event.usd),
            uncached_usd=_sum(self.uncached_usd, event.uncached_usd),
            ideal_usd=_sum(self.ideal_usd, event.ideal_usd),
            by_source={**self.by_source, event.source: _sum(before, event.usd)},
        )


def _sum(one: float | None, other: float | None) -> float | None:
    """A sum of which a part is unknown is unknown."""
    return None if one is None or other is None else one + other
