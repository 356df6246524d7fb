"""The figures a profile consists of. Their names and nesting are the JSON contract.

`docs/profile.md` says what each one means; names may be added, never changed. Tokens are whole numbers.
Money is in US dollars and None where no price is known.
"""

from __future__ import annotations

from msgspec import Struct, field


class UsageSums(Struct, frozen=True):
    """What the provider reported, added up over the calls."""

    input_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    output_tokens: int = 0

    @property
    def prompt(self) -> int:
        """All prompt tokens, however they were billed."""
        return self.input_tokens + self.cache_read_input_tokens + self.cache_creation_input_tokens


class CacheBreak(Struct, frozen=True):
    """Prompt tokens that should have been read from the cache and were paid for again."""

    cause: str
    tokens: int
    call: int
    """The call that found the cache cold, counted from 1 over the whole session."""
    idle_seconds: int | None = None
    """Time since the previous request of the same conversation."""
    cost_usd: float | None = None
    """What it cost beyond reading the same tokens."""


class Shrinking(Struct, frozen=True):
    """A compaction or a clearing."""

    call: int
    """How many calls had been made when it happened."""
    trigger: str
    tokens_before: int | None = None
    tokens_after: int | None = None
    """The next prompt, as it was reported; what the record itself claims where no call followed."""
    results: int = 0
    """How many tool results were cleared."""


class LargeItem(Struct, frozen=True):
    """One of the largest things that were in the context."""

    category: str
    tool: str
    what: str
    """The file, the command, or the first words."""
    tokens: int
    calls: int
    """How many prompts carried it."""


class Repeats(Struct, frozen=True):
    """Files that were read again though nothing in them had changed."""

    reads: int = 0
    """Reads whose text was still in the context from an earlier read."""
    tokens: int = 0
    after_loss: int = 0
    """Reads that were needed again because the earlier text had been compacted or cleared away."""


class Growth(Struct, frozen=True):
    """Growth of the prompt from call to call, against what two ways of counting expected."""

    steps: int = 0
    actual_tokens: int = 0
    chars4_tokens: int = 0
    estimate_tokens: int = 0
    chars4_median_error: float | None = None
    estimate_median_error: float | None = None

    @property
    def chars4_share(self) -> float | None:
        """How much of the real growth four characters per token would have counted."""
        return self.chars4_tokens / self.actual_tokens if self.actual_tokens > 0 else None

    @property
    def estimate_share(self) -> float | None:
        """How much of it our estimate counted."""
        return self.estimate_tokens / self.actual_tokens if self.actual_tokens > 0 else None


class Point(Struct, frozen=True, array_like=True):
    """The size of one prompt: seconds since 1970, tokens, and 0 for the main conversation."""

    at: float | None
    tokens: int
    lane: int = 0


class SessionProfile(Struct, frozen=True, kw_only=True):
    """The profile of one transcript file."""

    file: str
    session_id: str
    agent_id: str | None = None
    """The sub-agent, where the file is one's alone."""
    format: str
    models: dict[str, int] = {}
    """Calls by model."""
    started: str | None = None
    ended: str | None = None
    api_calls: int = 0
    side_calls: int = 0
    """Those of `api_calls` that sub-agents made inside this file."""
    usage: UsageSums = UsageSums()
    compactions: int = 0
    clearings: int = 0
    cost_usd: float | None = 0.0
    uncached_cost_usd: float | None = 0.0
    ideal_cost_usd: float | None = 0.0
    unpriced_calls: int = 0
    tokens_by_category: dict[str, int] = {}
    carried_by_category: dict[str, int] = {}
    """Each token as often as a prompt carried it: what the bill is made of."""
    peak_context_tokens: int = 0
    window_tokens: int | None = None
    cache_breaks: list[CacheBreak] = []
    compaction_events: list[Shrinking] = []
    clearing_events: list[Shrinking] = []
    unrecorded_events: list[Shrinking] = []
    """Prompts that shrank though the transcript says nothing of it."""
    largest_items: list[LargeItem] = []
    repeated_reads: Repeats = Repeats()
    growth: Growth = Growth()
    context_over_time: list[Point] = []
    partial_outputs: int = 0
    """Calls whose output was recorded before it was complete, so that their cost is too low."""
    damaged_lines: int = 0
    unknown_lines: dict[str, int] = {}
    """Records of a type nobody here knows, by type."""
    repairs: dict[str, int] = {}
    """What a server would have refused, by kind."""


class BreakSum(Struct, frozen=True):
    """All cache breaks of one cause."""

    cause: str
    tokens: int
    count: int
    cost_usd: float | None = None


class ProfileTotal(Struct, frozen=True, kw_only=True):
    """All sessions together."""

    sessions: int
    api_calls: int
    side_calls: int
    copied_calls: int
    """Calls that are in more than one file, because a session was resumed or forked: each copy counts."""
    usage: UsageSums
    compactions: int
    clearings: int
    cost_usd: float | None
    uncached_cost_usd: float | None
    ideal_cost_usd: float | None
    unpriced_calls: int
    tokens_by_category: dict[str, int]
    carried_by_category: dict[str, int]
    peak_context_tokens: int
    """The largest of any session."""
    cache_breaks: list[BreakSum]
    largest_items: list[LargeItem]
    repeated_reads: Repeats
    growth: Growth
    models: dict[str, int]
    partial_outputs: int
    damaged_lines: int
    unknown_lines: dict[str, int]
    repairs: dict[str, int]


class FailedFile(Struct, frozen=True):
    """A file that could not be profiled."""

    file: str
    error: str


class ProfileReport(Struct, frozen=True):
    """The whole result."""

    sessions: list[SessionProfile]
    total: ProfileTotal
    errors: list[FailedFile] = field(default_factory=list)
