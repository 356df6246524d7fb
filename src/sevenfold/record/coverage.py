"""Where facts are after content has left the context: still in it, within reach, or lost."""

from __future__ import annotations

from collections import Counter
from typing import Generic, Literal, Protocol, TypeVar

from msgspec import Struct

State = Literal["in_context", "reachable", "lost"]


class Count(Struct, frozen=True):
    """Number of facts in each state."""

    in_context: int = 0
    reachable: int = 0
    lost: int = 0


class Kinded(Protocol):
    """A fact of some kind."""

    @property
    def kind(self) -> str:
        """The name of the kind."""


FactT = TypeVar("FactT", bound=Kinded)


class Coverage(Struct, Generic[FactT], frozen=True):
    """Where each fact is after a compaction."""

    states: tuple[tuple[FactT, State], ...] = ()

    @property
    def lost(self) -> tuple[FactT, ...]:
        """The facts that are neither in the context nor found by recall."""
        return tuple(fact for fact, state in self.states if state == "lost")

    @property
    def total(self) -> Count:
        """The counts over all kinds."""
        return Count(**Counter[str](state for _, state in self.states))

    @property
    def by_kind(self) -> dict[str, Count]:
        """The counts for each kind that occurs."""
        counts: dict[str, Counter[str]] = {}
        for fact, state in self.states:
            counts.setdefault(fact.kind, Counter())[state] += 1
        return {kind: Count(**states) for kind, states in counts.items()}
