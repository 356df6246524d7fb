"""What the engine reports to listeners: one type for each kind of thing that happens.

A layer that wants to act says so first (`Proposed`), and a listener may refuse; when it has acted it says what
it did, why, and what that saved and cost (`Acted`). Requests, answers, failures and losses of the cache are reported
the same way. Events are facts, frozen, without the conversation's content: what was said is in the transcript.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct


class Event(Struct, frozen=True, kw_only=True, tag_field="event"):
    """Base of all events; the session stamps them."""

    session: str = ""
    at: float = 0.0
    """Seconds since 1970."""
    source: str = "main"
    """On whose behalf, as the query source of requests: main, sdk, compact, session_memory, agent:…"""


class LayerEvent(Event, frozen=True, kw_only=True):
    """Base of what is said about a layer that wants to act, or did."""

    layer: str
    """offload, clear, snip, notes, compact…"""
    mechanism: str
    """How: the way of acting within the layer."""
    what: str
    """One sentence, to show."""


class Proposed(LayerEvent, frozen=True, kw_only=True):
    """A layer is about to act; return a `Veto` to keep it from that."""

    why: str
    """The rule that led to it."""
    items: int = 0
    """Results or records concerned."""
    tokens: int = 0
    """Freed, by estimate."""
    usd: float | None = None
    """Its price now: what the cache will have to hold again. Negative: saved at once. None: unknown."""
    targets: tuple[str, ...] = ()
    """The tool calls or records concerned."""


class Acted(LayerEvent, frozen=True, kw_only=True):
    """A layer acted."""

    why: str
    items: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    usd: float | None = None
    reference: str = ""
    """The decision in the transcript: `undo`, `why` and `fetch` take it."""
    undoable: bool = True


class Vetoed(LayerEvent, frozen=True, kw_only=True):
    """A listener kept a layer from acting."""

    reason: str


class SteppedAside(Event, frozen=True, kw_only=True):
    """A layer failed or could not help; the next one takes over."""

    layer: str
    reason: str
    error: str = ""
    """The class of the error, if it was one."""


class Checked(Event, frozen=True, kw_only=True):
    """One look at the size, before a request."""

    used: int
    band: int
    sent: int
    threshold: int
    effective: int
    blocking: int
    freed: int
    wire: int
    images: int
    percent_left: int
    verdict: str
    budget: str


class RequestEvent(Event, frozen=True, kw_only=True):
    """Base of what is said about a request to a model."""

    request: str
    """The request's record."""
    model: str
    provider: str


class Sending(RequestEvent, frozen=True, kw_only=True):
    """A request is complete and on record."""

    epoch: str
    tokens: int
    body_bytes: int
    max_tokens: int = 0
    lost: int = 0
    """Cached tokens that will have to be written again."""
    lost_because: str = ""
    """The decision that announced the loss, or the first part that is not as it was last sent."""
    lost_usd: float | None = None
    """What the loss will cost; None where nothing is lost or the price is unknown."""
    lost_diff: str = ""
    """How that part differs."""
    after_compaction: str = ""
    """The compaction this is the first request after."""


class Answered(RequestEvent, frozen=True, kw_only=True):
    """A model answered."""

    response: str
    stop_reason: str = ""
    input_tokens: int = 0
    """Neither read from the cache nor written to it."""
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    thinking_tokens: int = 0
    estimated: int = 0
    """What the prompt was expected to be."""
    usd: float | None = None
    uncached_usd: float | None = None
    ideal_usd: float | None = None
    seconds: float = 0.0
    cleared_by_provider: int = 0
    """Tokens the provider's own edits took out."""
    after_compaction: str = ""
    """The compaction this is the first answer after: its prompt is the real size of the new context."""


class Failed(RequestEvent, frozen=True, kw_only=True):
    """A model did not answer, or was cut off; tokens and dollars are those the provider had reported by then."""

    error: str
    """The class of the error."""
    reason: str
    again: bool = False
    """Whether the request will be made again, changed."""
    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    usd: float | None = 0.0
    """None if something was reported and its price is unknown."""
    uncached_usd: float | None = 0.0

    @property
    def prompt_tokens(self) -> int:
        """All prompt tokens that were reported; 0 if nothing was."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens


class CacheBroke(Event, frozen=True, kw_only=True):
    """Less was read from the cache than the last request left there."""

    cause: str
    """The kind of part that changed; else expired, evicted, or the reason a decision announced."""
    part: str
    tokens: int
    usd: float | None
    elapsed: float
    expected: bool
    diff: str = ""


class EpochOpened(Event, frozen=True, kw_only=True):
    """What precedes the messages changed, or reasoning was left out: the prefix starts over."""

    reason: str
    epoch: str
    drops_thinking: bool
    usd: float | None = None
    """What writing the prompt to the cache again will cost, by estimate."""


class Compacting(Event, frozen=True, kw_only=True):
    """A compaction is under way."""

    stage: str
    """hooks_start, hook_message, compact_start, keep_alive or compact_end"""
    hook: str = ""
    """Which hooks, at hooks_start and hook_message."""
    text: str = ""
    """What a hook wants to tell the user, at hook_message."""


class Compacted(Event, frozen=True, kw_only=True):
    """A compaction is done, in figures."""

    boundary: str
    trigger: str
    engine: str
    left: tuple[str, ...] = ()
    """Engines that were not used, each with the reason."""
    tokens_before: int = 0
    sent_before: int = 0
    """The same before the provider's own edits: if more is sent than it can take, it can summarise no longer."""
    tokens_after: int = 0
    summarised: int = 0
    kept: int = 0
    calls: int = 0
    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    usd: float | None = None
    in_context: int = 0
    reachable: int = 0
    lost: int = 0
    invented: int = 0
    cached_share: float | None = None
    """Of the prompt that asked for the summary; None if no model was asked."""
    retries: tuple[str, ...] = ()
    """What had to be tried again, and how."""
    restored: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()
    """What was not restored, or found no room in the summary."""
    again: bool = False
    """Was the conversation compacted before?"""
    turns_since: int = -1
    """Answers since the compaction before; -1 for the first."""
    previous_turn: str = ""
    """The compaction before."""
    query_source: str = "main"
    threshold: int = 0
    failures: int = 0
    """Compactions in a row for which no model had a summary."""
    fires_again: bool = False
    """Is it at the threshold again at once?"""


class Dreaming(Event, frozen=True, kw_only=True):
    """Memory is being consolidated in the background."""

    phase: str
    """orient, gather, consolidate or prune"""
    state: str
    """running, completed, failed or killed"""
    stage: str
    """starting, or updating from the first write on"""
    turns: int = 0
    tool_uses: int = 0
    paths: tuple[str, ...] = ()
    """The files of memory that were written or removed."""
    reason: str = ""
    """Why it failed."""


class Repaired(Event, frozen=True, kw_only=True):
    """Something in the record is sent otherwise, because no server would take it as it is."""

    what: str
    where: str


class Masked(Event, frozen=True, kw_only=True):
    """Secrets were masked before anything was stored or sent."""

    kinds: tuple[str, ...]
    count: int


class AgentChanged(Event, frozen=True, kw_only=True):
    """A sub-agent got work, or ended it."""

    agent: str
    """Its id."""
    name: str
    type: str
    state: str
    """working, completed, failed or cancelled"""
    fork: bool = False
    background: bool = False
    because: str = ""
    """Why it is a fork, or why not."""
    description: str = ""
    """What it works on, in a few words."""
    usd: float | None = None
    """What the work cost, once it has ended."""
    saved_usd: float = 0.0
    """How much more it would have cost without the cache."""
    turns: int = 0


class Veto(Struct, frozen=True):
    """What a listener returns to refuse a `Proposed`."""

    reason: str


Listener = Callable[[Event], Veto | None]
"""Called with every event, in order, on the thread that acts; its errors never reach the session."""
