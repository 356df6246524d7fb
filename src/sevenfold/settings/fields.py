"""All settings: one class, and with each field its sentence, its unit and its rules.

This is the only place where a setting is described. The command that shows settings, the messages about
wrong values, the variables of the environment and the page in the documentation are all made from it.
Token budgets are given for windows of 100,000 tokens and more; in smaller ones they shrink in proportion.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

Stage = Literal["stable", "preview", "planned"]
"""stable: keeps its meaning. preview: works, may still change. planned: has no effect yet."""

MOST = 10**12
"""The largest figure any setting takes: more than enough, and every format can hold it."""

Count = Annotated[int, Meta(ge=0, le=MOST)]
Positive = Annotated[int, Meta(ge=1, le=MOST)]
WindowSize = Annotated[int, Meta(ge=1_000, le=MOST)]
Limits = Mapping[str, Positive | Literal["never"]]
Word = Annotated[str, Meta(min_length=1, max_length=200)]


def about(
    says: str,
    unit: str = "",
    *,
    stage: Stage = "stable",
    latched: bool = False,
    needs: tuple[str, ...] = (),
    yields_to: tuple[str, ...] = (),
) -> Meta:
    """What is to be known about a setting.

    ``latched``: read once, when a session opens, because a change would alter bytes already sent or
    something opened with the session; all others may be flipped while it runs. ``needs``: switches
    without which this one is off. ``yields_to``: switches that, when on, take over from this one.
    """
    rules = {"unit": unit, "stage": stage, "latched": latched, "needs": needs, "yields_to": yields_to}
    return Meta(description=says, extra=rules)


def layer(
    says: str, *needs: str, stage: Stage = "stable", latched: bool = False, yields_to: tuple[str, ...] = ()
) -> Meta:
    """The same for the switch of a layer, or of a part of one."""
    return about(says, stage=stage, latched=latched, needs=("layers", *needs), yields_to=yields_to)


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every setting of the engine. Made by `resolve`, which checks what it is given."""

    # Switches.

    layers: Annotated[
        bool, about("One switch for all layers: off, nothing is offloaded, cleared, noted or compacted.")
    ] = True
    offload: Annotated[bool, layer("A big tool result goes to disk and leaves a preview.")] = True
    gap_clearing: Annotated[
        bool, layer("Old tool results are cleared after a pause in which the cache expired anyway.")
    ] = True
    size_clearing: Annotated[
        bool, layer("Old tool results are cleared when all of them together grow too large.")
    ] = True
    provider_edits: Annotated[
        bool,
        layer(
            "The provider is asked to clear old tool results itself, where it can and that pays.",
            latched=True,
        ),
    ] = True
    pinned_edits: Annotated[
        bool,
        layer(
            "Old tool results are deleted from the cached prefix by reference, where the provider can.",
            stage="preview",
            latched=True,
        ),
    ] = True
    snip: Annotated[bool, layer("Spans of whole rounds may be removed without a summary.")] = True
    compaction: Annotated[
        bool, layer("The conversation may be compacted at all, by hand or automatically.")
    ] = True
    auto_compact: Annotated[
        bool,
        layer(
            "The conversation is compacted by itself when it reaches the threshold.",
            "compaction",
            yields_to=("reactive_only", "collapse"),
        ),
    ] = True
    reactive: Annotated[
        bool,
        layer(
            "A request refused as too long is compacted and repeated once.",
            "compaction",
            "auto_compact",
        ),
    ] = True
    reactive_only: Annotated[
        bool,
        layer("Compaction waits until a request is refused as too long.", "compaction"),
    ] = False
    collapse: Annotated[
        bool,
        layer(
            "Finished spans are folded into summaries of their own instead of compacting the whole.",
            "compaction",
            stage="preview",
        ),
    ] = False
    share_cache: Annotated[
        bool,
        layer(
            "A compaction call repeats the session's prefix to read its cache.",
            "compaction",
        ),
    ] = True
    idle_compaction: Annotated[
        bool,
        layer(
            "Shortly before the cache of a large idle conversation expires it is kept alive or compacted, whichever "
            "is likely to save money; only where a program asks for it with `idle`, as the chat does.",
            "compaction",
            "auto_compact",
        ),
    ] = True
    background_compaction: Annotated[
        bool,
        layer(
            "A summary is prepared in the background before the threshold is reached.",
            "compaction",
            "auto_compact",
            yields_to=("reactive_only", "collapse"),
        ),
    ] = True
    notes: Annotated[
        bool, layer("A notes file about the session is kept up to date in the background.")
    ] = True
    notes_compaction: Annotated[
        bool,
        layer("The notes serve as the summary when one is due.", "compaction", "notes"),
    ] = True
    extraction: Annotated[bool, layer("Lasting facts the user states become memory files.")] = True
    memory_recall: Annotated[
        bool, layer("Entries of memory that fit what the user says are put behind it.")
    ] = True
    dream: Annotated[
        bool, layer("Memory is consolidated in the background, once a day and after five sessions.")
    ] = True
    checkpoints: Annotated[
        bool,
        about(
            "A chat keeps files as they were before the agent changed them, so that /rewind can restore them."
        ),
    ] = True
    recall_meaning: Annotated[
        bool, about("Recall finds what was said in other words too, where the extra for it is installed.")
    ] = True
    recall_ahead: Annotated[
        bool,
        about(
            "What is said is made searchable beside the conversation; off, when it is looked for or compacted."
        ),
    ] = True
    break_watch: Annotated[bool, about("Losses of the prompt cache are noticed and explained.")] = True
    model_listing: Annotated[
        bool,
        about(
            "What a server says of its models counts over our own table; looked at when a session opens."
        ),
    ] = True
    long_lifetime: Annotated[
        bool,
        about("The cached prefix may be kept for an hour instead of five minutes.", latched=True),
    ] = True

    # The cache.

    cache_lifetime: Annotated[
        Literal["5m", "1h"],
        about(
            "How long the provider is to keep the prefix where the caller does not say; an hour costs more to write.",
            latched=True,
        ),
    ] = "5m"
    long_lifetime_sources: Annotated[
        tuple[Word, ...],
        about("On whose behalf an hour may be asked for: query sources, * for any ending.", latched=True),
    ] = ("main", "sdk", "agent", "agent:*")
    long_lifetime_account: Annotated[
        bool,
        about("The account may have an hour; looked at when a session opens, which then keeps to it."),
    ] = True

    # The window.

    context_window: Annotated[
        WindowSize | None,
        about("The model's context window; unset, the model's profile says.", "tokens", latched=True),
    ] = None
    compact_window: Annotated[
        WindowSize | None,
        about("A cap on the window used for compaction only; the smaller counts.", "tokens", latched=True),
    ] = None
    compact_percent: Annotated[
        Annotated[float, Meta(gt=0, le=100)] | None,
        about(
            "Auto-compaction at this share of the effective window; it can only lower the threshold.",
            "percent",
            latched=True,
        ),
    ] = None
    blocking_limit: Annotated[
        Positive | None,
        about(
            "The size from which nothing is sent until something is compacted; unset, just below the window.",
            "tokens",
            latched=True,
        ),
    ] = None
    wire_bytes_limit: Annotated[
        WindowSize | None,
        about("The largest request body; unset, the model's profile says.", "bytes"),
    ] = None
    images_limit: Annotated[
        Count | None, about("The most images in a request; unset, the model's profile says.", "images")
    ] = None

    # Offloading.

    offload_characters: Annotated[
        Positive, about("A tool result longer than this is offloaded.", "characters")
    ] = 50_000
    offload_by_tool: Annotated[
        Limits,
        about('The same for single tools, by name; "never" exempts a tool.', "characters"),
    ] = field(default_factory=dict)
    round_characters: Annotated[
        Positive,
        about("Of parallel results longer than this together, the largest are offloaded.", "characters"),
    ] = 200_000
    preview_bytes: Annotated[
        Positive, about("How much of an offloaded result stays in the context, at most.", "bytes")
    ] = 2_000
    keep_results_days: Annotated[
        Positive | None,
        about(
            "Offloaded results older than this may be collected once no live view needs them; "
            "unset, they live as long as their transcript.",
            "days",
        ),
    ] = None
    keep_results_megabytes: Annotated[
        Positive | None,
        about(
            "Offloaded results beyond this, the oldest first, may be collected once no live view needs "
            "them; unset, there is no limit.",
            "megabytes",
        ),
    ] = None

    # Clearing.

    idle_least_tokens: Annotated[
        Positive,
        about("Conversations smaller than this are left alone while they are idle.", "tokens"),
    ] = 50_000
    idle_resume_share: Annotated[
        Annotated[float, Meta(ge=0, le=1)],
        about(
            "How many of the pauses in which the cache expires end in a resume, until the session has pauses of its "
            "own to go by.",
            "share",
        ),
    ] = 0.5
    gap_margin_seconds: Annotated[
        Count,
        about("How long after the end of the cache's lifetime a pause counts as one.", "seconds"),
    ] = 0
    gap_keep: Annotated[
        Positive, about("How many of the newest results stay after a pause.", "results", latched=True)
    ] = 5
    size_trigger_tokens: Annotated[
        Positive, about("Clearing by size begins when tool results exceed this.", "tokens")
    ] = 40_000
    size_target_tokens: Annotated[
        Count, about("Clearing by size goes down to this; below the trigger.", "tokens")
    ] = 20_000
    size_keep: Annotated[
        Positive, about("How many of the newest results clearing by size leaves.", "results", latched=True)
    ] = 3
    size_least_tokens: Annotated[
        Count, about("Clearing by size that would save less than this is left undone.", "tokens")
    ] = 20_000
    expected_requests: Annotated[
        Positive,
        about(
            "How many more requests are expected at least when a clearing is weighed against its cost.",
            "requests",
        ),
    ] = 10
    edits_trigger_share: Annotated[
        Annotated[float, Meta(gt=0, lt=1)],
        about(
            "The provider clears when the conversation reaches this share of the auto-compact threshold.",
            "share",
            latched=True,
        ),
    ] = 0.8
    edits_target_tokens: Annotated[
        Positive, about("The size the provider's clearing aims at.", "tokens", latched=True)
    ] = 40_000
    edits_least_share: Annotated[
        Annotated[float, Meta(ge=0, le=1)],
        about(
            "The provider clears at least this share of what lies between its trigger and its target.",
            "share",
            latched=True,
        ),
    ] = 0.5
    pinned_trigger: Annotated[
        Positive,
        about(
            "Results are deleted by reference when this many are in the prefix.",
            "results",
            stage="preview",
            latched=True,
        ),
    ] = 12
    pinned_keep: Annotated[
        Positive,
        about(
            "How many of the newest results stay then; fewer than the trigger.",
            "results",
            stage="preview",
            latched=True,
        ),
    ] = 5

    # Compaction.

    keep_recent_tokens: Annotated[
        Count,
        about("The newest messages are kept word for word if they have no more than this.", "tokens"),
    ] = 10_000
    summary_tokens: Annotated[Positive, about("The most a summary may have.", "tokens")] = 16_000
    compact_engines: Annotated[
        tuple[Literal["provider", "fork", "plain"], ...],
        about("The ways to a summary in the order they are tried; none: as the model's profile has it."),
    ] = ()
    summary_model: Annotated[
        Word | None,
        about("The model that summarises when the session's own prefix is not used; unset, the same one."),
    ] = None
    background_share: Annotated[
        Annotated[float, Meta(gt=0, lt=1)],
        about(
            "A summary is prepared in the background from this share of the auto-compact threshold on.",
            "share",
        ),
    ] = 0.8

    # Around it.

    language: Annotated[
        Word | None,
        about("The language an agent answers in; unset, the user's.", latched=True),
    ] = None
    output_style: Annotated[
        Word | None,
        about(
            "How an agent answers: the name of a file in output-styles, of the user or of a trusted project.",
            latched=True,
        ),
    ] = None
    recall_vectors: Annotated[
        Count,
        about(
            "Passages of a session that can be found by meaning, the first ones.", "passages", latched=True
        ),
    ] = 50_000
    agent_depth: Annotated[
        Count, about("How deep agents may start agents; 0: an agent may start none.", "levels")
    ] = 3
    agents_at_once: Annotated[
        Positive, about("How many agents of a session may work at the same time.", "agents")
    ] = 20
    progress_lines: Annotated[
        bool, about("Have a model write what agents in the background do, every 30 s, by calls of its own.")
    ] = False
    prompt_suggestion: Annotated[
        bool, about("Suggest the next prompt after an answer in the chat, by a call of its own.")
    ] = False
    message_socket: Annotated[
        bool,
        about("Let other sessions of the same user on this machine write to an agent that has agents."),
    ] = False
    pins_tokens: Annotated[
        Count, about("How much may be pinned, so that every layer leaves it alone.", "tokens")
    ] = 10_000
    spending_cap_usd: Annotated[
        Annotated[float, Meta(ge=0, le=MOST)] | None,
        about(
            "The most the engine's own calls (summaries, notes) may cost from the opening of a session on.",
            "US dollars",
        ),
    ] = None
    memory_daily_budget: Annotated[
        Annotated[float, Meta(ge=0, le=MOST)] | None,
        about(
            "The most that looking for lasting facts and tidying memory may cost in a day, over all sessions of a "
            "project; what is left over waits for the next day. Unset: no limit.",
            "US dollars",
        ),
    ] = 1.0
    redaction: Annotated[
        Literal["off", "gate"],
        about(
            "Whether secrets are masked before text is stored or sent (gate) or not (off).", latched=True
        ),
    ] = "off"
    shell_secrets: Annotated[
        Annotated[str, Meta(min_length=1, max_length=2_000)] | None,
        about(
            "Variables with secrets that an agent's commands may see, separated by commas, or all; unset, none.",
            latched=True,
        ),
    ] = None
    fsync: Annotated[
        Literal["always", "durable", "never"],
        about(
            "When the transcript is forced to the disk: after each record, where more than a turn would be "
            "lost, or when the system likes.",
            latched=True,
        ),
    ] = "durable"
    telemetry: Annotated[
        Literal["none", "jsonl", "otel"],
        about("Where events go besides the transcript: nowhere, a file, OpenTelemetry.", latched=True),
    ] = "none"

    def offload_limit(self, tool: str) -> int | None:
        """How many characters a result of this tool may have; None: it is never offloaded."""
        limit = self.offload_by_tool.get(tool, self.offload_characters)
        return None if limit == "never" else limit
