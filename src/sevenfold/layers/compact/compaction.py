"""The request for a compaction, and its result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from sevenfold.layers.compact.kinds import KindCounts
from sevenfold.layers.compact.scope import Span
from sevenfold.record.coverage import Coverage
from sevenfold.record.decisions import CompactionChain
from sevenfold.record.usage import Usage

EngineName = Literal["notes", "provider", "fork", "plain", "extractive"]
Trigger = Literal["auto", "manual", "reactive", "collapse"]
OUTPUT_CAP = 20_000
"""The most tokens a model may write for a summary in a separate request."""


class CompactionRequest(Struct, frozen=True, kw_only=True):
    """What to compact, why and how."""

    trigger: Trigger = "manual"
    span: Span = "whole"
    record: str = ""
    """The record at which to divide the conversation, or the first record of a range; empty for the whole."""
    until: str = ""
    """The last record of a range."""
    instructions: str = ""
    """The user's instructions for the summary."""
    note: str = ""
    """The user's note, stored with the boundary."""
    engine: EngineName | None = None
    """Use only this engine, and the extractive one if it fails."""
    autonomous: bool = False
    """Whether there is no user to answer questions."""

    @property
    def started_by(self) -> Literal["manual", "auto"]:
        """The trigger as hooks and the boundary name it."""
        return "manual" if self.trigger == "manual" else "auto"


class UnusedEngine(Struct, frozen=True):
    """An engine that was not used, and why."""

    engine: EngineName
    reason: str


class Fact(Struct, frozen=True):
    """Something that must not be lost, and the record that contains it."""

    kind: str
    text: str
    record: str
    accepts: tuple[str, ...] = ()
    """Other texts that count as the same fact."""


class UserWordsKept(Struct, frozen=True, kw_only=True):
    """How much of what the user said a summary message shows."""

    text: str = ""
    """The block as it is sent; for a sub-agent with its task before it."""
    tokens: int = 0
    budget: int = 0
    kept: int = 0
    """Messages that are shown, whole or shortened."""
    shortened: int = 0
    left_out: Mapping[str, int] = {}
    """How many messages of each sort found no room; they are in the record, and recall finds them."""
    lasting_left_out: int = 0
    """How many of those a model named as lasting: then the budget, the setting ``user_words``, is too small."""


class Compacted(Struct, frozen=True, kw_only=True):
    """What a compaction did, or, if it was not made, what it would have done."""

    made: bool = True
    """Whether it was made; if not, nothing has changed."""
    reason: str = ""
    """Why it was not made."""
    ways: tuple[str, ...] = ()
    """What else makes room, if it was not made."""
    boundary: str
    trigger: Trigger
    engine: EngineName
    left: tuple[UnusedEngine, ...]
    tokens_before: int
    """Tokens the model saw."""
    sent_before: int
    """Tokens sent, before the provider's own edits."""
    tokens_after: int
    summarised: int
    """Number of records the summary replaces."""
    kept: int
    summary: str
    """The text as checked and completed, without the message around it and the user's words behind it."""
    score: Coverage[Fact]
    chain: CompactionChain
    invented: tuple[str, ...]
    """Sentences that claim a permission or an order that no record supports; they are marked."""
    cut: tuple[str, ...]
    """Descriptions of what did not fit."""
    restored: tuple[str, ...]
    usage: Usage | None
    """Usage of the call that wrote the summary; None without one."""
    usd: float | None
    calls: int
    retries: tuple[str, ...] = ()
    """What had to be retried, and how."""
    words: UserWordsKept = UserWordsKept()
    fires_again: bool = False
    """Whether the conversation is still full enough for another compaction to be due."""
    by_kind: KindCounts = KindCounts()
    """What was summarised, by kind."""

    @property
    def cached_share(self) -> float | None:
        """Share of the summary request's prompt that was read from the cache; None if no model was asked."""
        if self.usage is None or not self.usage.prompt:
            return None
        return self.usage.cache_read_input_tokens / self.usage.prompt

    @property
    def line(self) -> str:
        """The result as one line to show, ending with the id by which to look up what was before."""
        if not self.made:
            return f"not compacted: {self.reason}"
        return (
            f"compacted ({self.engine}): {self.summarised} records, {self.tokens_before:,} → "
            f"{self.tokens_after:,} tokens [{self.boundary}]"
        )


class Preview(Struct, frozen=True, kw_only=True):
    """What a compaction would do and cost, by estimate."""

    span: Span
    engine: EngineName
    """The engine that would be tried first."""
    summarised: int
    kept: int
    tokens_before: int
    tokens_hidden: int
    """Tokens of the records the summary would replace."""
    tokens_kept: int
    """Tokens of the records that would stay unchanged."""
    tokens_summary: int
    """The most tokens the summary may have."""
    tokens_words: int = 0
    """Tokens of the user's own messages behind it."""
    tokens_after: int
    read: int
    """Tokens of the next request that would still come from the cache."""
    written: int
    """Tokens of the next request that would be written to the cache again."""
    call_usd: float | None
    """Cost of the call for the summary; None if prices are unknown."""
    next_usd: float | None
    """Cost of the next request's prompt; None if prices are unknown."""

    @property
    def usd(self) -> float | None:
        """Total cost of the summary and the next prompt; None if unknown."""
        return None if self.call_usd is None or self.next_usd is None else self.call_usd + self.next_usd
