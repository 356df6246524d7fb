"""What was in the window of one conversation, for how many calls, and its size in tokens.

Servers report the size of a whole prompt, never of its parts. But they report it at every call, so the growth from one
call to the next is known, and so is what was added in between: the growth is divided among those pieces in proportion
to their estimates. Any rest that the recorded pieces cannot explain is booked as *unlogged* (content that a client sent
or removed without recording it), and the rest of the very first prompt as *system and tools*. So at every call the
pieces add up to the reported prompt.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping
from hashlib import blake2b
from statistics import median
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.archive.profile.figures import LARGEST, Growth, LargeItem, Repeats
from sevenfold.archive.profile.labels import SYSTEM, UNLOGGED, CallLabel, ContextPiece
from sevenfold.record import blocks
from sevenfold.record.blocks import Block, ToolResult
from sevenfold.record.weight import NOTHING, Estimator, Weight

LEAST_GROWTH = 100
"""Tokens below which a growth says nothing about the quality of an estimate."""
LEAST_RATIO = 0.5
MOST_RATIO = 2.0
"""The limits of the factor by which a reported growth corrects an estimate."""


class HeldPiece(Struct, gc=False):
    """A piece that is, or was, in the context."""

    piece: ContextPiece
    since: int
    tokens: float = 0.0
    calls: int = 0
    """How many prompts had contained it when it last left."""
    here: bool = True
    counted: bool = True
    """False if it entered with a call that is not counted."""


class WindowWatch(Protocol):
    """Looks on as pieces of one conversation enter and leave its context; ``calls`` is how many prompts came before.

    A piece's tokens are final once `called` was told of the first prompt that contains it.
    """

    def entered(self, key: Hashable, held: HeldPiece, calls: int) -> None:
        """A piece entered the context, or returned to it."""

    def left(self, key: Hashable, held: HeldPiece, calls: int) -> None:
        """A piece left the context."""

    def called(self, calls: int) -> None:
        """A prompt of everything in the context was sent; it was number ``calls``."""


class SessionTally:
    """The sums of a session over all its conversations."""

    def __init__(self) -> None:
        self._tokens: defaultdict[str, float] = defaultdict(float)
        self._carried: defaultdict[str, float] = defaultdict(float)
        self._largest: list[HeldPiece] = []
        self._growths: list[tuple[int, float, float]] = []
        self.wasted: list[HeldPiece] = []
        """File contents that were read again while still in the context."""
        self.read_after_loss = 0

    def book(self, held: HeldPiece) -> None:
        """Count a piece that will not return to the context."""
        # An unrecorded drop in prompt size is a piece with negative tokens: what left was counted when it entered.
        self._tokens[held.piece.category] += max(0.0, held.tokens) if held.counted else 0.0
        self._carried[held.piece.category] += held.tokens * held.calls
        if held.counted or held.calls:
            self._largest.append(held)
        if len(self._largest) > 2 * LARGEST:
            self._largest = self._by_size()

    def step(self, actual: int, fresh: list[HeldPiece]) -> bool:
        """Record a growth and the pieces it came from; returns whether the estimator can learn from it."""
        pictures = any(held.piece.weight.images for held in fresh)
        if actual < LEAST_GROWTH or pictures or not fresh:
            return False
        rule = sum(_chars4(held.piece.weight) for held in fresh)
        self._growths.append((actual, rule, sum(held.tokens for held in fresh)))
        return True

    def copied(self) -> SessionTally:
        """A copy, to which more can be booked."""
        copy = SessionTally()
        copy._tokens.update(self._tokens)
        copy._carried.update(self._carried)
        copy._largest = list(self._largest)
        copy._growths = list(self._growths)
        copy.wasted = list(self.wasted)
        copy.read_after_loss = self.read_after_loss
        return copy

    def by_category(self) -> dict[str, int]:
        """Tokens that entered the context, by category, each piece counted once."""
        return {name: round(tokens) for name, tokens in sorted(self._tokens.items())}

    def carried(self) -> dict[str, int]:
        """Tokens by category, each piece counted once for every prompt that contained it."""
        return {name: round(tokens) for name, tokens in sorted(self._carried.items())}

    def largest(self) -> list[LargeItem]:
        """The largest pieces of the context, largest first."""
        return [
            LargeItem(held.piece.category, held.piece.tool, held.piece.what, round(held.tokens), held.calls)
            for held in self._by_size()
        ]

    def growth(self) -> Growth:
        """The total growth, its estimates and their errors."""
        if not self._growths:
            return Growth()
        actual, rule, estimate = (sum(column) for column in zip(*self._growths, strict=True))
        return Growth(
            steps=len(self._growths),
            actual_tokens=round(actual),
            chars4_tokens=round(rule),
            estimate_tokens=round(estimate),
            chars4_median_error=median(abs(r - a) / a for a, r, _ in self._growths),
            estimate_median_error=median(abs(e - a) / a for a, _, e in self._growths),
        )

    def repeats(self) -> Repeats:
        """The repeated reads of unchanged files."""
        tokens = sum(held.tokens for held in self.wasted)
        return Repeats(len(self.wasted), round(tokens), self.read_after_loss)

    def _by_size(self) -> list[HeldPiece]:
        shown = [held for held in self._largest if held.piece.category not in (SYSTEM, UNLOGGED)]
        return sorted(shown, key=lambda held: -held.tokens)[:LARGEST]


class WindowHistory:
    """What is in the window of one conversation, as it changes from call to call."""

    def __init__(self, tally: SessionTally, watch: WindowWatch | None = None) -> None:
        self._calls = 0
        self._tally = tally
        self._watch = watch
        self._estimator = Estimator.of("unknown")
        self._held: dict[Hashable, HeldPiece] = {}
        self._held_tokens = 0.0
        """The tokens of all held pieces: a running sum, as adding them up at each call would be quadratic."""
        self._parked: dict[Hashable, HeldPiece] = {}
        """Pieces that left and may return."""
        self._fresh: list[HeldPiece] = []
        self._read: dict[tuple[str, bytes], Hashable] = {}
        """The key of the last result with this text of this file."""
        self._linear = False
        """Whether the next prompt will be the last one plus additions."""

    def __contains__(self, key: Hashable) -> bool:
        return key in self._held

    def enter(self, key: Hashable, piece: Callable[[], ContextPiece]) -> None:
        """Add a piece to the context; one that was there before returns with its size."""
        if key in self._held:
            return
        held = self._parked.pop(key, None)
        if held is None:
            held = HeldPiece(piece(), self._calls)
            self._fresh.append(held)
        held.since = self._calls
        held.here = True
        self._hold(key, held)

    def note_read(self, key: Hashable, block: Block, call: CallLabel | None) -> None:
        """Record a file read whose result entered the context under ``key``, and count it if it repeats an earlier one.

        A second read of the same text is waste while the first is still in the context. If the first was compacted or
        cleared, the second was needed: it is a cost of the compaction. Texts are remembered by their hash.
        """
        body = block.body()
        if not call or not call.path or not isinstance(body, ToolResult) or body.is_error:
            return
        text = blake2b(blocks.words_of(block).encode(errors="replace"), digest_size=12).digest()
        earlier = self._read.get((call.path, text))
        self._read[call.path, text] = key
        if earlier in self and earlier != key:
            self._tally.wasted.append(self._held[key])
        elif earlier not in (None, key):
            self._tally.read_after_loss += 1

    def show(self, live: Mapping[Hashable, Callable[[], ContextPiece]]) -> bool:
        """Make the context contain exactly these pieces; returns whether any other piece left."""
        gone = [key for key in self._visible() if key not in live]
        for key in gone:
            self._parked[key] = self._leave(key)
        for key, piece in live.items():
            self.enter(key, piece)
        self._linear = self._linear and not gone
        return bool(gone)

    def restart(self, live: Mapping[Hashable, Callable[[], ContextPiece]]) -> None:
        """Restart with these pieces: a compaction removed all others for good."""
        self._weigh()
        pieces = {key: self._held.pop(key) for key in (SYSTEM, *live) if key in self._held}
        self._book_all()
        self._held = pieces
        # Summed anew, so that rounding errors do not add up over a long session.
        self._held_tokens = sum(held.tokens for held in pieces.values())
        self.show(live)
        self._linear = False

    def called(self, prompt: int, tokenizer: str, *, counted: bool = True) -> None:
        """Record a call with everything in the context; one that is not ``counted`` only helps to size the pieces."""
        same_model = self._estimator.tokenizer == tokenizer
        if not same_model:
            self._estimator = Estimator.of(tokenizer)
        fresh = self._weigh()
        if SYSTEM not in self._held:
            remainder = max(0.0, prompt - self._held_tokens)
            self._hold(SYSTEM, HeldPiece(ContextPiece(SYSTEM, NOTHING), self._calls, remainder))
        self._balance(prompt, fresh, same_model)
        for held in fresh:
            # Its tokens are known now, and a long session has a hundred thousand of these.
            held.piece = replace(held.piece, weight=NOTHING)
        self._linear = counted
        self._calls += counted
        if self._watch is not None:
            self._watch.called(self._calls)
        if not counted:
            for held in self._held.values():
                held.counted = False

    def close(self) -> None:
        """Count all remaining pieces."""
        self._weigh()
        self._book_all()

    def book_into(self, tally: SessionTally) -> None:
        """Book in a copy of the tally what `close` would book, and change nothing here."""
        fresh = {id(held) for held in self._fresh}
        copies: dict[int, HeldPiece] = {}
        for held in [*self._held.values(), *self._parked.values()]:
            copy = copies[id(held)] = replace(held)
            if id(held) in fresh:
                copy.tokens = max(0.0, self._estimator.tokens(held.piece.weight))
            if held.here:
                copy.calls += self._calls - held.since
            tally.book(copy)
        tally.wasted = [copies.get(id(held), held) for held in tally.wasted]

    def _visible(self) -> Iterator[Hashable]:
        """The keys of the pieces that the transcript records, in the order they entered."""
        for key, held in self._held.items():
            if held.piece.category != UNLOGGED and key != SYSTEM:
                yield key

    def _hold(self, key: Hashable, held: HeldPiece) -> None:
        self._held[key] = held
        self._held_tokens += held.tokens
        if self._watch is not None:
            self._watch.entered(key, held, self._calls)

    def _leave(self, key: Hashable) -> HeldPiece:
        held = self._held.pop(key)
        self._held_tokens -= held.tokens
        held.calls += self._calls - held.since
        held.here = False
        if self._watch is not None:
            self._watch.left(key, held, self._calls)
        return held

    def _book_all(self) -> None:
        for key in list(self._held):
            self._tally.book(self._leave(key))
        for held in self._parked.values():
            self._tally.book(held)
        self._parked = {}

    def _weigh(self) -> list[HeldPiece]:
        """Estimate the new pieces; returns those that are still in the context."""
        fresh = self._fresh
        self._fresh = []
        for held in fresh:
            held.tokens = max(0.0, self._estimator.tokens(held.piece.weight))
        here = [held for held in fresh if held.here]
        self._held_tokens += sum(held.tokens for held in here)
        return here

    def _balance(self, prompt: int, fresh: list[HeldPiece], same_model: bool) -> None:
        """Adjust the new pieces and book the rest, so that all pieces add up to the prompt."""
        expected = sum(held.tokens for held in fresh)
        growth = prompt - self._held_tokens + expected
        if same_model and growth > 0 and expected > 0:
            self._learn(round(growth), fresh)
            ratio = min(MOST_RATIO, max(LEAST_RATIO, growth / expected))
            for held in fresh:
                held.tokens *= ratio
            self._held_tokens += expected * ratio - expected
            expected *= ratio
        if abs(remainder := growth - expected) > 0.01:
            unlogged = ContextPiece(UNLOGGED, NOTHING)
            self._hold((UNLOGGED, self._calls), HeldPiece(unlogged, self._calls, remainder))

    def _learn(self, growth: int, fresh: list[HeldPiece]) -> None:
        if self._linear and self._tally.step(growth, fresh):
            added = sum((held.piece.weight for held in fresh), NOTHING)
            self._estimator = self._estimator.learn(added, growth)


def _chars4(weight: Weight) -> float:
    """The common rule of thumb: four characters per token."""
    return (weight.text + weight.json + weight.thinking) / 4
