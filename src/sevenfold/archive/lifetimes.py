"""Which piece of content was in which prompts of a conversation, and what every prompt consisted of.

A piece has a lifetime for every time it was in the context. The sizes of the pieces in a prompt add up to the prompt
that the provider reported, so the composition of every request is known without its bytes.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Hashable, Iterator

import msgspec
from msgspec import Struct

from sevenfold.archive.profile.cache import CallReport
from sevenfold.archive.profile.context import HeldPiece
from sevenfold.archive.profile.labels import UNLOGGED
from sevenfold.record.decisions import Relayed


class Lifetime(Struct, gc=False):
    """One stay of a piece in the context."""

    key: Hashable
    held: HeldPiece
    entered: int
    """How many prompts had been sent when it entered: it is in the next one."""
    left: int | None = None
    """How many prompts had been sent when it left; None while it is there."""
    counted: bool = False
    """Whether a prompt with it was sent, so that its size is known."""

    @property
    def record(self) -> str:
        """The record it belongs to; empty for what no record holds."""
        return self.key[0] if isinstance(self.key, tuple) and isinstance(self.key[0], str) else ""

    def prompts(self, newest: int) -> int:
        """How many prompts contained it, of ``newest`` in all."""
        return (newest if self.left is None else self.left) - self.entered


class SentRequest(Struct, gc=False):
    """One request of a conversation whose usage is known."""

    request: int
    """Its number within its conversation, counted from 1."""
    report: CallReport
    sizes: array[float]
    """Its tokens by category, in the order of `LaneHistory.categories`; shorter if later ones were unknown then."""
    usd: float | None = None
    record: int | None = None
    """The number of the request's own record, if the session keeps such records."""
    answer: str = ""
    """The record of the answer."""
    decision: str = ""
    """What was decided before it was sent, if that is on record."""
    relayed: Relayed | None = None
    """What the gateway recorded of it, if the program that sent it was watched."""


class LaneSums(Struct):
    """Sums over the requests of one conversation, kept as they come, because adding them up anew takes long."""

    usd: float = 0.0
    priced: int = 0
    """How many requests have a known price."""
    prompt: int = 0
    read: int = 0
    peak: int = 0
    models: Counter[str] = msgspec.field(default_factory=Counter)
    carried: Counter[str] = msgspec.field(default_factory=Counter)
    """Tokens by category, each counted once for every prompt that contained it."""

    def count(self, report: CallReport, usd: float | None, sign: int = 1) -> None:
        """Add a report, or take it away."""
        self.usd += sign * (usd or 0.0)
        self.priced += sign * (usd is not None)
        self.prompt += sign * report.prompt
        self.read += sign * report.used.cache_read_input_tokens
        self.models[report.model or "unknown"] += sign
        self.peak = max(self.peak, report.prompt)


class LaneHistory:
    """The requests of one conversation and the lifetimes of everything in them; a `WindowWatch`."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.requests: list[SentRequest] = []
        self.prompts = array("q")
        """The size of every request's prompt."""
        self.categories: list[str] = []
        self.lifetimes: list[Lifetime] = []
        self.sums = LaneSums()
        self.revised = 0
        """How often a request that was already there was changed."""
        self._columns: dict[str, int] = {}
        self._sums: array[float] = array("d")
        self._present: dict[Hashable, Lifetime] = {}
        self._fresh: list[Lifetime] = []
        self._gone: set[Hashable] = set()
        self.returned: set[Hashable] = set()
        """The pieces that left and came back: they have several lifetimes."""

    @property
    def present(self) -> Collection[Hashable]:
        """The pieces that are in the context."""
        return self._present.keys()

    def entered(self, key: Hashable, held: HeldPiece, calls: int) -> None:
        """A piece entered the context."""
        lifetime = Lifetime(key, held, calls)
        if key in self._gone:
            self.returned.add(key)
        self.lifetimes.append(lifetime)
        self._present[key] = lifetime
        self._fresh.append(lifetime)

    def left(self, key: Hashable, held: HeldPiece, calls: int) -> None:
        """A piece left the context."""
        lifetime = self._present.pop(key)
        self._gone.add(key)
        lifetime.left = calls
        if lifetime.counted:
            self._sums[self._column(held.piece.category)] -= held.tokens

    def called(self, calls: int) -> None:
        """A prompt of everything in the context was sent."""
        for lifetime in self._fresh:
            if lifetime.left is None:
                lifetime.counted = True
                self._sums[self._column(lifetime.held.piece.category)] += lifetime.held.tokens
        self._fresh = []

    def answered(self, request: int, report: CallReport) -> None:
        """The usage of the prompt just sent is known."""
        usd = report.used.cost(report.profile)
        sizes = self._fitted()
        self.requests.append(SentRequest(request, report, sizes, usd))
        self.prompts.append(report.prompt)
        self.sums.count(report, usd)
        for category, tokens in zip(self.categories, sizes, strict=True):
            self.sums.carried[category] += round(tokens)

    def updated(self, report: CallReport) -> None:
        """The newest request has a newer report."""
        if self.requests:
            newest = self.requests[-1]
            self.sums.count(newest.report, newest.usd, -1)
            newest.report = report
            newest.usd = report.used.cost(report.profile)
            self.prompts[-1] = report.prompt
            self.sums.count(report, newest.usd)
            self.revised += 1

    def composition(self, request_index: int) -> Iterator[tuple[Lifetime, float]]:
        """What the request at this place (from 0) consisted of, each piece with its tokens in that request."""
        held = [lifetime for lifetime in self.lifetimes if self.contains(lifetime, request_index)]
        factor = self._factor(
            [(lifetime.held.piece.category, lifetime.held.tokens) for lifetime in held],
        )
        for lifetime in held:
            if lifetime.held.piece.category != UNLOGGED:
                yield lifetime, lifetime.held.tokens * (factor or 1.0)
            elif factor is None:
                yield lifetime, lifetime.held.tokens

    @staticmethod
    def contains(lifetime: Lifetime, request_index: int) -> bool:
        """Whether the request at this place contained a piece."""
        return (
            lifetime.counted
            and lifetime.entered <= request_index
            and (lifetime.left is None or request_index < lifetime.left)
        )

    @staticmethod
    def _factor(sizes: list[tuple[str, float]]) -> float | None:
        """What all pieces are multiplied with if the reported prompt was smaller than their sum; None if it was not."""
        missing = sum(tokens for category, tokens in sizes if category == UNLOGGED)
        logged = sum(tokens for category, tokens in sizes if category != UNLOGGED)
        if missing >= 0 or logged <= 0:
            return None
        return max(0.0, logged + missing) / logged

    def _fitted(self) -> array[float]:
        """The sums by category; if more left than the record shows, every category is that much smaller."""
        factor = self._factor(list(zip(self.categories, self._sums, strict=True)))
        if factor is None:
            return array("d", self._sums)
        fitted = (
            0.0 if category == UNLOGGED else tokens * factor
            for category, tokens in zip(self.categories, self._sums, strict=True)
        )
        return array("d", fitted)

    def _column(self, category: str) -> int:
        column = self._columns.get(category)
        if column is None:
            column = self._columns[category] = len(self.categories)
            self.categories.append(category)
            self._sums.append(0.0)
        return column
