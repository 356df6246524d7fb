"""Files read again though nothing in them had changed.

A second read of the same text is waste while the first is still in the context. If the first was
compacted or cleared away, the second was needed: it is the price of having forgotten.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from hashlib import blake2b

from sevenfold.lab.profile.context import Context, Held
from sevenfold.lab.profile.figures import Repeats
from sevenfold.lab.profile.pieces import Asked
from sevenfold.record import blocks
from sevenfold.record.blocks import Block, ToolResult


class Reads:
    """The reads of one conversation so far; texts are remembered by their hash."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, bytes], Hashable] = {}
        self._wasted: list[Held] = []
        self._after_loss = 0

    def note(self, key: Hashable, held: Held, block: Block, call: Asked | None, context: Context) -> None:
        """A result entered the context under ``key``."""
        body = block.body()
        if not call or not call.path or not isinstance(body, ToolResult) or body.is_error:
            return
        text = blake2b(blocks.words_of(block).encode(errors="replace"), digest_size=12).digest()
        earlier = self._seen.get((call.path, text))
        self._seen[call.path, text] = key
        if earlier is None or earlier == key:
            return
        if earlier in context:
            self._wasted.append(held)
        else:
            self._after_loss += 1

    def sums(self) -> Repeats:
        """How many, and what the wasted ones weighed."""
        tokens = sum(held.tokens for held in self._wasted)
        return Repeats(len(self._wasted), round(tokens), self._after_loss)


def added(each: Sequence[Repeats]) -> Repeats:
    """The sum of several."""
    return Repeats(
        sum(one.reads for one in each), sum(one.tokens for one in each), sum(one.after_loss for one in each)
    )
