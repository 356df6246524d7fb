"""Events the engine reports to listeners, one class for each kind.

A layer that wants to act first reports a proposal (`Proposed`), which a listener may veto. After it has acted, it
reports what it did, why, and what that saved and cost (`Acted`). Requests, answers, failures and cache losses are
reported too. Events are immutable and do not contain the conversation's content, which is in the transcript.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct


class Event(Struct, frozen=True, kw_only=True, tag_field="event"):
    """Base of all events; session, time and source are set when an event is reported."""

    session: str = ""
    at: float = 0.0
    """Seconds since 1970."""
    source: str = "main"
    """The query source, as in requests: main, sdk, compact, session_memory, agent:…"""


class LayerEvent(Event, frozen=True, kw_only=True):
    """Base of events about a layer that wants to act, or has acted."""

    layer: str
    """offload, clear, snip, notes, compact…"""
    mechanism: str
    """The mechanism the layer uses."""
    what: str
    """One sentence to show to the user."""


class Proposed(LayerEvent, frozen=True, kw_only=True):
    """A layer is about to act; return a `Veto` to prevent it."""

    why: str
    """The rule that triggered it."""
    items: int = 0
    """Number of results or records affected."""
    tokens: int = 0
    """Estimated tokens freed."""
    usd: float | None = None
    """Its immediate cost: what must be written to the cache again. Negative: saved at once. None: unknown."""
    targets: tuple[str, ...] = ()
    """The tool calls or records affected."""


class Acted(LayerEvent, frozen=True, kw_only=True):
    """A layer acted."""

    why: str
    items: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    usd: float | None = None
    reference: str = ""
    """The id of the decision in the transcript, for `undo`, `why` and `fetch`."""
    undoable: bool = True


class Vetoed(LayerEvent, frozen=True, kw_only=True):
    """A listener prevented a layer from acting."""

    reason: str


class SteppedAside(Event, frozen=True, kw_only=True):
    """A layer failed or could not help; the next one is tried."""

    layer: str
    reason: str
    error: str = ""
    """The class of the error, if there was one."""


class Checked(Event, frozen=True, kw_only=True):
    """The size was checked before a request."""

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
    """Base of events about a request to a model."""

    request: str
    """The id of the request's record."""
    model: str
    provider: str


class Sending(RequestEvent, frozen=True, kw_only=True):
    """A request is complete and recorded, and is about to be sent."""

    epoch: str
    tokens: int
    body_bytes: int
    max_tokens: int = 0
    lost: int = 0
    """Cached tokens that must be written again."""
    lost_because: str = ""
    """The reason a decision announced for the loss, or else the first part that differs from the last request."""
    lost_usd: float | None = None
    """What the loss will cost; None if nothing is lost or the price is unknown."""
    lost_diff: str = ""
    """A diff of that part."""
    after_compaction: str = ""
    """The compaction after which this is the first request; else empty."""


class Answered(RequestEvent, frozen=True, kw_only=True):
    """A model answered."""

    response: str
    stop_reason: str = ""
    input_tokens: int = 0
    """Prompt tokens neither read from the cache nor written to it."""
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    thinking_tokens: int = 0
    estimated: int = 0
    """The estimated size of the prompt, in tokens."""
    usd: float | None = None
    uncached_usd: float | None = None
    ideal_usd: float | None = None
    seconds: float = 0.0
    cleared_by_provider: int = 0
    """Tokens removed by the provider's own edits."""
    after_compaction: str = ""
    """The compaction after which this is the first answer: its prompt is the true size of the new context."""


class Failed(RequestEvent, frozen=True, kw_only=True):
    """A model did not answer, or was interrupted; tokens and dollars are what the provider had reported by then."""

    error: str
    """The class of the error."""
    reason: str
    again: bool = False
    """Whether a changed request will be sent instead."""
    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    usd: float | None = 0.0
    """None if tokens were reported and their price is unknown."""
    uncached_usd: float | None = 0.0

    @property
    def prompt_tokens(self) -> int:
        """All prompt tokens reported; 0 if none were."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens


class Waiting(Event, frozen=True, kw_only=True):
    """A request failed for now, and is sent again after a pause."""

    attempt: int
    """Which retry comes after the pause, counted from 1."""
    of: int
    """How many retries there are at most."""
    status: int | None
    """The HTTP status; None if there was no answer, or it broke off."""
    until: float
    """When the pause ends, in seconds since 1970."""
    seconds: float
    """How long the pause is."""
    request_id: str = ""
    """The provider's id of the request that failed; empty if it gave none."""
    what: str = ""
    """What went wrong, in a few words."""
    error: str = ""
    """The class of the error."""
    reason: str = ""
    """The whole text of the error."""


class CacheBroke(Event, frozen=True, kw_only=True):
    """Fewer tokens were read from the cache than the last request left there."""

    cause: str
    """The kind of part that changed, a rule of the provider's (image, citations, reasoning), expired, unexplained, or
    the reason that a decision announced."""
    part: str
    tokens: int
    usd: float | None
    elapsed: float
    expected: bool
    diff: str = ""
    provider_says: str = ""
    """What the provider itself reports about it; empty if it was not asked or reports nothing."""


class EpochOpened(Event, frozen=True, kw_only=True):
    """A new epoch: what precedes the messages changed, or reasoning was dropped, so the prefix starts over."""

    reason: str
    epoch: str
    drops_thinking: bool
    usd: float | None = None
    """The estimated cost of writing the prompt to the cache again."""


class Compacting(Event, frozen=True, kw_only=True):
    """A compaction is in progress."""

    stage: str
    """hooks_start, hook_message, compact_start, keep_alive or compact_end"""
    hook: str = ""
    """The hook event, at hooks_start and hook_message."""
    text: str = ""
    """A hook's message to the user, at hook_message."""


class Compacted(Event, frozen=True, kw_only=True):
    """A compaction is done, with its figures."""

    boundary: str
    trigger: str
    engine: str
    left: tuple[str, ...] = ()
    """Engines that were not used, each with the reason."""
    tokens_before: int = 0
    sent_before: int = 0
    """The size before the provider's own edits: if that exceeds its window, the provider can no longer summarise."""
    tokens_after: int = 0
    summarised: int = 0
    summarised_user_messages: int = 0
    """Messages of the user in what was summarised; this and the next fields count it by kind."""
    summarised_user_tokens: int = 0
    summarised_assistant_messages: int = 0
    summarised_assistant_tokens: int = 0
    summarised_calls: int = 0
    summarised_call_tokens: int = 0
    summarised_results: int = 0
    summarised_result_tokens: int = 0
    summarised_attachments: int = 0
    summarised_attachment_tokens: int = 0
    summarised_images: int = 0
    summarised_image_tokens: int = 0
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
    """The share of the summary request's prompt read from the cache; None if no model was asked."""
    retries: tuple[str, ...] = ()
    """What had to be retried, and how."""
    restored: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()
    """What was not restored, or did not fit in the summary."""
    words_tokens: int = 0
    """Tokens of the user's own messages behind the summary."""
    words_left_out: int = 0
    """How many of the user's messages found no room there."""
    lasting_left_out: int = 0
    """How many of those a model named as lasting: then the setting ``user_words`` is too small."""
    again: bool = False
    """Whether the conversation was compacted before."""
    turns_since: int = -1
    """Answers since the previous compaction; -1 for the first."""
    previous_turn: str = ""
    """The boundary of the previous compaction."""
    query_source: str = "main"
    threshold: int = 0
    failures: int = 0
    """Compactions in a row for which no model provided a summary."""
    fires_again: bool = False
    """Whether the new context is already at the threshold again."""


class Dreaming(Event, frozen=True, kw_only=True):
    """Memory is being consolidated in the background."""

    phase: str
    """orient, gather, consolidate or prune"""
    state: str
    """running, completed, failed or killed"""
    stage: str
    """starting; from the first write on, updating"""
    turns: int = 0
    tool_uses: int = 0
    paths: tuple[str, ...] = ()
    """The memory files that were written or removed."""
    reason: str = ""
    """Why it failed."""


class Repaired(Event, frozen=True, kw_only=True):
    """Something in the records is sent differently, because a server would refuse it as it is."""

    what: str
    where: str


class Masked(Event, frozen=True, kw_only=True):
    """Secrets were masked before anything was stored or sent."""

    kinds: tuple[str, ...]
    count: int


class AgentChanged(Event, frozen=True, kw_only=True):
    """A sub-agent was given work, or finished it."""

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
    """Its task, in a few words."""
    usd: float | None = None
    """What the work cost, once it is finished."""
    saved_usd: float = 0.0
    """How much more it would have cost without the cache."""
    turns: int = 0


class Veto(Struct, frozen=True):
    """What a listener returns to refuse a `Proposed`."""

    reason: str


Listener = Callable[[Event], Veto | None]
"""Called with every event, in order, on the thread that reports it; its errors never reach the session."""
