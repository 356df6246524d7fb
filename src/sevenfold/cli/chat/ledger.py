"""The books of a session: what answers cost, what the cache gave, and where it was lost.

Those of one run of the app are kept from events, those of all runs are read from the records of the session.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.conversation.resume import read
from sevenfold.events import Answered, CacheBroke, Event
from sevenfold.ports import Log
from sevenfold.profiles import find
from sevenfold.record.decisions import Billed, Request
from sevenfold.record.entries import Decision, Said
from sevenfold.record.usage import Usage
from sevenfold.request import price


class Ledger(Struct, frozen=True):
    """Sums over some answers."""

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

    @classmethod
    def of(cls, log: Log) -> Ledger:
        """The books of all that is on record: answers of the conversation, and what the engine's own calls cost."""
        books, sources, main = cls(), {}, "main"
        for _, entry in read(log):
            match entry:
                case Decision(made=Request(appended=[], source=source)):
                    main = source
                case Decision(made=Request(id=name, source=source)):
                    sources[name] = source
                case Decision(made=Billed(request=name, usage=raw, model=model, source=source)):
                    whom = source or sources.get(name, "fork")
                    books = books.heard(_billed(Usage.read(raw), model, whom))
                case Said(role="assistant", sidechain=False, usage=Usage() as usage, model=model):
                    books = books.heard(_billed(usage, model, main))
                case _:
                    continue
        return books

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


def _billed(usage: Usage, model: str, source: str) -> Answered:
    profile = find(model)
    return Answered(
        source=source,
        request="",
        model=model,
        provider=profile.provider,
        response="",
        input_tokens=usage.input_tokens,
        cache_read_tokens=usage.cache_read_input_tokens,
        cache_write_tokens=usage.cache_creation_input_tokens,
        output_tokens=usage.output_tokens,
        usd=price.cost(usage, profile),
        uncached_usd=price.uncached_cost(usage, profile),
    )


def _sum(one: float | None, other: float | None) -> float | None:
    """A sum of which a part is unknown is unknown."""
    return None if one is None or other is None else one + other
