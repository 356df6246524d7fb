"""Facts about models, as data.

The window, prices, cache rules, thinking rules and capabilities of every model are in `profiles.toml`; this module
gives them a type and finds the right profile for any spelling of a name. Nothing else in the engine may check a
model's name: it asks the profile. `find` never fails: a name that is not in the table gets the cautious defaults of
its family, `known=False` and a note to show to the user. If a server lists its models, `Profile.listed` lets the
listing override the table.

The table is read at the first look-up, never at import. A misspelt key is rejected, so that no fact is silently
ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal

import msgspec

DEFAULT_WINDOW = 200_000
"""The context window assumed of an unknown model."""

LONG_WINDOW = 1_000_000
"""The context window that the suffix `[1m]` or the 1M beta header asks for."""

LONG_SUFFIX = "[1m]"
"""The suffix of a model's name with which users ask for the long window; it is never sent."""

CLEAR_TOOL_USES = "clear_tool_uses_20250919"
"""The server-side edit that clears old tool results."""

CLEAR_THINKING = "clear_thinking_20251015"
"""The server-side edit that clears old thinking."""

COMPACT = "compact_20260112"
"""The server-side edit that compacts at a threshold."""

LISTED_EFFORTS = ("low", "medium", "high", "xhigh", "max")
"""The efforts that a listing may state."""

MODES = ("adaptive", "enabled", "disabled", "between_tools")
"""Every `thinking.type` there is."""


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """USD per million tokens, for prompts of more than `above` tokens."""

    input: float
    output: float
    write_5m: float
    """Writing to the cache at the shorter lifetime."""
    write_1h: float
    """Writing to the cache at the longer lifetime."""
    read: float
    above: int = 0

    def write(self, lifetime: int) -> float:
        """The price of writing to the cache for `lifetime` seconds."""
        return self.write_1h if lifetime >= 3600 else self.write_5m


class Cache(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the provider caches prompt prefixes."""

    automatic: bool = False
    """Whether prefixes are cached without a request for it."""
    minimum: int = 0
    """The provider silently does not cache prefixes of fewer tokens."""
    markers: int = 0
    """How many markers one request may have."""
    look_back: int | None = None
    """How many positions before a marker are searched for a cached prefix; None: no limit."""
    images: bool = False
    """Whether the messages are written again as soon as there is a first image among them, or none any more."""
    citations: bool = False
    """Whether everything but the tools is written again as soon as a document asks for citations, or none any more."""
    reports_misses: bool = False
    """Whether the provider's own API says, when it is asked, why the cache was missed."""
    runs_collapse: bool = False
    """Whether a run of tool calls, or of tool results, counts as one position."""
    lifetimes: tuple[int, ...] = ()
    """Available lifetimes in seconds, shortest first; empty if unknown."""
    step: int = 1
    """Cached tokens are reported in multiples of this."""


class ThinkingRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rules for reasoning blocks."""

    modes: tuple[str, ...] = ()
    """The `thinking.type` values the model accepts."""
    kept: bool = False
    """Whether thinking of earlier turns stays in the prompt unless cleared."""
    bound: bool = False
    """Whether a block is valid only after exactly what was sent before it (bound thinking)."""
    account_bound: bool = False
    """Whether a block is valid only in the account that produced it."""
    on_mismatch: Literal["ignored", "error", "by_account"] = "ignored"
    """What a broken binding causes if the request does not say; `by_account`: it depends on the account's age."""
    disabled_up_to: str | None = None
    """The highest effort at which `disabled` is accepted; None: any."""

    @property
    def off(self) -> str | None:
        """The mode that thinks least before answering; None if thinking cannot be turned off."""
        return next((mode for mode in ("disabled", "between_tools") if mode in self.modes), None)


class Betas(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The beta header that each feature needs; None if it needs none or does not exist."""

    edits: str | None = None
    threshold_compaction: str | None = None
    on_demand_compaction: str | None = None
    block_binding: str | None = None
    tool_changes: str | None = None
    inline_tools: str | None = None
    window_1m: str | None = None


class Listing(msgspec.Struct, frozen=True):
    """What a server's model listing says about a model; None or empty if it says nothing."""

    window: int | None = None
    answer: int | None = None
    """The maximum number of tokens in an answer."""
    capabilities: Mapping[str, Any] = {}


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything the engine may know about a model."""

    name: str
    """The name in the table; for an unknown model, the name given to `find`."""
    model: str
    """The name to send: as given, without the long-window suffix."""
    provider: str
    """Who serves it, by the name used in telemetry."""
    wire: str
    """The API that its requests are built for: the name of a `sevenfold.providers.provider.Provider`."""
    tokenizer: Literal["claude-a", "claude-b", "openai", "unknown"]
    """The tokenizer generation: the same text is about 30% more tokens in `claude-b` than in `claude-a`."""
    max_output: int
    known: bool = True
    note: str = ""
    """A sentence for the user if defaults replace facts."""
    source: str = ""
    """Where the prices come from, if not from the provider's current pages."""
    window: int = DEFAULT_WINDOW
    window_source: Literal["suffix", "listing", "provider", "table", "family", "default"] = "default"
    """Where the window is from; `provider`: the API it is used through says so; `family`: models with such names
    usually have it; `default`: it is unknown."""
    economic_window: int | None = None
    """The prompt size beyond which the price rises so much that staying below it is worth a compaction."""
    prices: tuple[Price, ...] = ()
    """Price rows in order of `above`; empty if prices are unknown."""
    edits_hold: bool = False
    """Whether what the provider's own edits cleared stays cleared until they can clear enough more. Undocumented."""
    cache: Cache = Cache()
    thinking: ThinkingRules = ThinkingRules()
    betas: Betas = Betas()
    effort: str | None = None
    """The effort used if a request names none."""
    efforts: tuple[str, ...] = ()
    """The efforts it takes, from the least to the most; empty if it takes none, or if that is not known."""
    system_messages: bool = False
    """Whether it accepts system-role messages inside the conversation."""
    tool_changes: bool = False
    """Whether it accepts tool additions and removals inside the conversation."""
    tool_search: str = ""
    """The type of the provider's own search for tools whose definitions are not sent with the prompt; empty if there
    is none, or if that is not known."""
    prefill: bool = False
    """Whether it continues a final assistant message."""
    forced_tools: bool = False
    """Whether it accepts a `tool_choice` that forces a call."""
    edits: tuple[str, ...] = ()
    """Server-side edits other than compaction."""
    threshold_compaction: bool = False
    """Whether the server can compact by itself at a token threshold."""
    on_demand_compaction: bool = False
    """Whether the server compacts on demand, in a separate request."""
    compaction_instructions: bool = False
    """Whether that request may contain instructions for the summary."""
    engines: tuple[Literal["provider", "fork", "plain"], ...] = ("provider", "fork", "plain")
    """The ways to get a summary, in the order in which they are tried."""
    pinned_edits: bool = False
    """Whether results can be deleted from a cached prefix by reference."""
    output_may_overrun: bool = False
    """Whether it accepts a request whose prompt and `max_tokens` together exceed the window."""
    sends_blocks_as_recorded: bool = False
    """Whether its API is sent the recorded blocks themselves and not a translation; then its errors name them."""
    images: int | None = None
    """Maximum images and document pages per request."""
    body_bytes: int | None = None
    """Maximum size of a request body."""

    def price(self, prompt: int) -> Price | None:
        """The price row for a prompt of this many tokens; None if prices are unknown."""
        for row in reversed(self.prices):
            if prompt > row.above or row.above == 0:
                return row
        return None

    def companion(self, name: str | None) -> Profile | None:
        """The profile of another model that the same client can ask; None without a name or if its provider differs.

        A name of no known family is trusted, and so is any name when this model is used through an API not its own.
        """
        if not name:
            return None
        other = find(name)
        if other.provider == self.provider:
            return other
        trusted = other.window_source == "default" or self.wire != find(self.model).wire
        return msgspec.structs.replace(other, wire=self.wire) if trusted else None

    def listed(self, listing: Listing) -> Profile:
        """The profile, with what a live model listing says in place of the table's facts."""
        changes = _capabilities(self, listing.capabilities)
        if listing.window and self.window_source != "suffix":
            changes |= {"window": listing.window, "window_source": "listing"}
            if not self.known:
                changes["note"] = (
                    f"No facts about the model {self.model!r} but what its server says: a window of "
                    f"{listing.window:,} tokens. Its costs are unknown."
                )
        if listing.answer:
            changes["max_output"] = listing.answer
        return msgspec.structs.replace(self, **changes)


def find(name: str) -> Profile:
    """The profile for a model name in any spelling; never fails, see `Profile.known`."""
    return _find(name.strip())


def names() -> tuple[str, ...]:
    """The names of all models in the table."""
    return tuple(_table()["model"])


ALIASES = ("sonnet", "opus", "haiku", "fable")
"""Short names for the newest model of a family."""


def full_name(name: str) -> str:
    """The full model name for an alias; any other name is returned stripped. The table lists the newest model first."""
    word = name.strip().lower()
    if word not in ALIASES:
        return name.strip()
    return next((model for model in names() if word in model.split("-")), name)


def token_rates(tokenizer: str) -> Mapping[str, float]:
    """Tokens per unit of each field of a weight; empty for a tokenizer that is not in the table."""
    found: Mapping[str, float] = _table()["rates"].get(tokenizer, {})
    return found


@lru_cache(maxsize=256)
def _find(asked: str) -> Profile:
    suffixed = asked.lower().endswith(LONG_SUFFIX)
    model = asked[: -len(LONG_SUFFIX)] if suffixed else asked
    spelling = _plain(model)
    name = _spellings().get(spelling)
    if name is not None:
        facts = {**_facts(name), "name": name}
    else:
        family = next(each for each in _table()["family"] if re.fullmatch(each["match"], spelling))
        note = f"No facts about the model {model!r}. {family['note']}"
        facts = {**_facts(family["like"]), "name": model, "known": False, "note": note}
    if suffixed:
        facts |= {"window": LONG_WINDOW, "window_source": "suffix"}
    elif "window" in facts:
        facts["window_source"] = "table" if facts.get("known", True) else "family"
    return msgspec.convert({**facts, "model": model}, Profile)


def _plain(name: str) -> str:
    """The normalised spelling of a model's name, the same for all its spellings."""
    plain = " ".join(name.lower().split())
    for pattern, replacement in _table()["spelling"]["rewrites"]:
        plain = re.sub(pattern, replacement, plain)
    return plain


@cache
def _table() -> dict[str, Any]:
    return msgspec.toml.decode(Path(__file__).with_name("profiles.toml").read_bytes(), type=dict[str, Any])


@cache
def _spellings() -> dict[str, str]:
    return {_plain(name): name for name in names()}


def _facts(name: str) -> dict[str, Any]:
    """The facts of one table entry, merged over those of the entry named by its `like`."""
    own = dict(_table()["base"].get(name) or _table()["model"][name])
    like = own.pop("like", None)
    if like is None:
        return own
    facts = _facts(like)
    for key, value in own.items():
        facts[key] = {**facts.get(key, {}), **value} if isinstance(value, dict) else value
    return facts


def _capabilities(profile: Profile, listing: Mapping[str, Any]) -> dict[str, Any]:
    """The capabilities of a profile, overridden by a listing where that states any."""
    types = _group(_group(listing, "thinking"), "types")
    modes = tuple(mode for mode in MODES if _supports(types, mode, mode in profile.thinking.modes))
    management = _group(listing, "context_management")
    clearing = (CLEAR_TOOL_USES, CLEAR_THINKING)
    compaction = _group(listing, "compaction")
    efforts = profile.efforts
    if isinstance(_group(listing, "effort").get("supported"), bool):
        effort = _group(listing, "effort")
        efforts = tuple(each for each in LISTED_EFFORTS if _supports(effort, each, each in efforts))
    return {
        "efforts": efforts,
        "thinking": msgspec.structs.replace(profile.thinking, modes=modes),
        "edits": tuple(edit for edit in clearing if _supports(management, edit, edit in profile.edits)),
        "threshold_compaction": _supports(management, COMPACT, profile.threshold_compaction),
        "on_demand_compaction": _supports(compaction, "summarize", profile.on_demand_compaction),
    }


def _group(listing: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = listing.get(key)
    return value if isinstance(value, Mapping) else {}


def _supports(group: Mapping[str, Any], name: str, otherwise: bool) -> bool:
    """Whether a listing's group supports an entry, else ``otherwise``; a group may be unsupported as a whole."""
    if group.get("supported") is False:
        return False
    stated = _group(group, name).get("supported")
    return stated if isinstance(stated, bool) else otherwise
