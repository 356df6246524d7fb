"""What is asked of a compaction, and what came of it."""

from __future__ import annotations

from collections import Counter
from typing import Generic, Literal, Protocol, TypeVar

from msgspec import Struct

from sevenfold.layers.compact.scope import Span
from sevenfold.record.decisions import CompactionChain
from sevenfold.record.usage import Usage

EngineName = Literal["notes", "provider", "fork", "plain", "extractive"]
Trigger = Literal["auto", "manual", "reactive", "collapse"]
OUTPUT_CAP = 20_000
"""The most tokens a model may write for a summary in a request of its own."""


class CompactionRequest(Struct, frozen=True, kw_only=True):
    """What to compact, why and how."""

    trigger: Trigger = "manual"
    span: Span = "whole"
    record: str = ""
    """Around which record, if not everything; the first record of a range."""
    until: str = ""
    """The last record of a range."""
    instructions: str = ""
    """What the user wants the summary to look after."""
    note: str = ""
    """What the user wants to remember about it."""
    engine: EngineName | None = None
    """Only this one, and the extractive one if it fails."""
    autonomous: bool = False
    """No user is there to answer questions."""

    @property
    def started_by(self) -> Literal["manual", "auto"]:
        """How hooks and the boundary name the trigger."""
        return "manual" if self.trigger == "manual" else "auto"


class Left(Struct, frozen=True):
    """An engine that was not used, and why."""

    engine: EngineName
    reason: str


State = Literal["in_context", "reachable", "lost"]


class Fact(Struct, frozen=True):
    """Something that must not be lost, and the record it is in."""

    kind: str
    text: str
    record: str
    accepts: tuple[str, ...] = ()
    """Other texts that say the same."""


class Count(Struct, frozen=True):
    """How many facts are where."""

    in_context: int = 0
    reachable: int = 0
    lost: int = 0


class Kinded(Protocol):
    """A fact of some kind."""

    @property
    def kind(self) -> str:
        """Which."""


FactT = TypeVar("FactT", bound=Kinded)


class Coverage(Struct, Generic[FactT], frozen=True):
    """Where each fact is after a compaction."""

    states: tuple[tuple[FactT, State], ...] = ()

    @property
    def lost(self) -> tuple[FactT, ...]:
        """Those that are neither seen nor found."""
        return tuple(fact for fact, state in self.states if state == "lost")

    @property
    def total(self) -> Count:
        """Over all kinds."""
        return Count(**Counter[str](state for _, state in self.states))

    @property
    def by_kind(self) -> dict[str, Count]:
        """For each kind of which there are facts."""
        found: dict[str, Counter[str]] = {}
        for fact, state in self.states:
            found.setdefault(fact.kind, Counter())[state] += 1
        return {kind: Count(**states) for kind, states in found.items()}


class Compacted(Struct, frozen=True, kw_only=True):
    """What a compaction did."""

    boundary: str
    trigger: Trigger
    engine: EngineName
    left: tuple[Left, ...]
    tokens_before: int
    """What the model saw."""
    sent_before: int
    """What was sent, before the provider's own edits."""
    tokens_after: int
    summarised: int
    """Records the summary replaces."""
    kept: int
    summary: str
    """As the next model reads it."""
    score: Coverage[Fact]
    chain: CompactionChain
    invented: tuple[str, ...]
    """Sentences that claim a permission or an order that is not in the record; they are marked."""
    cut: tuple[str, ...]
    """What found no room in the summary, in words."""
    restored: tuple[str, ...]
    usage: Usage | None
    """Of the call that wrote it."""
    usd: float | None
    calls: int
    retries: tuple[str, ...] = ()
    """What had to be tried again, and how."""
    fires_again: bool = False
    """Is the conversation at the threshold again at once?"""

    @property
    def cached_share(self) -> float | None:
        """Of the prompt that asked for the summary; None if no model was asked."""
        if self.usage is None or not self.usage.prompt:
            return None
        return self.usage.cache_read_input_tokens / self.usage.prompt

    @property
    def line(self) -> str:
        """One line to show; the boundary's id opens what was before."""
        return (
            f"compacted ({self.engine}): {self.summarised} records, {self.tokens_before:,} → "
            f"{self.tokens_after:,} tokens [{self.boundary}]"
        )


class Preview(Struct, frozen=True, kw_only=True):
    """What a compaction would do, and what that would cost, by estimate."""

    span: Span
    engine: EngineName
    """The one that would be asked first."""
    summarised: int
    kept: int
    tokens_before: int
    tokens_hidden: int
    """Of what the summary would replace."""
    tokens_kept: int
    """Of what would stay as it is."""
    tokens_summary: int
    """At most."""
    tokens_after: int
    read: int
    """Tokens of the next request that would still come from the cache."""
    written: int
    """Tokens of the next request that would be written to the cache again."""
    call_usd: float | None
    """Of the call for the summary."""
    next_usd: float | None
    """Of the prompt of the next request; None if prices are unknown."""

    @property
    def usd(self) -> float | None:
        """Both together."""
        return None if self.call_usd is None or self.next_usd is None else self.call_usd + self.next_usd
