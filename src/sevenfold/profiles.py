"""What is true of a model, as data.

Window, prices, cache rules, thinking rules and abilities of every model live in `profiles.toml`; this
module gives them a type and finds the right one for any spelling of a name. Nothing else in the engine
may ask what a model is called: it asks the profile. `find` never fails: a name that is not in the table
gets the careful defaults of its family, `known=False` and a note to show the user. Where a server lists
its models, `Profile.listed` lets its word override the table.

The table is read at the first look-up, never at import; a misspelt key in it is refused, so that it
cannot pass for a fact.
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
"""What users append to a model's name to ask for the long window; it is never sent."""

CLEAR_TOOL_USES = "clear_tool_uses_20250919"
"""The server-side edit that clears old tool results."""

CLEAR_THINKING = "clear_thinking_20251015"
"""The server-side edit that clears old thinking."""

COMPACT = "compact_20260112"
"""The server-side edit that compacts at a threshold."""

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
    """Prefixes are cached without being asked for."""
    minimum: int = 0
    """Prefixes of fewer tokens are silently not cached."""
    markers: int = 0
    """How many markers one request may carry."""
    look_back: int | None = None
    """How many positions before a marker are searched for an earlier entry; None is no limit."""
    runs_collapse: bool = False
    """A run of tool uses, or of tool results, counts as one position."""
    lifetimes: tuple[int, ...] = ()
    """Lifetimes on offer, in seconds, shortest first; empty where unknown."""
    step: int = 1
    """Cached tokens are reported in multiples of this."""


class ThinkingRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rules for reasoning blocks."""

    modes: tuple[str, ...] = ()
    """The `thinking.type` values the model takes; any other is refused."""
    kept: bool = False
    """Thinking of earlier turns stays in the prompt unless cleared."""
    bound: bool = False
    """A block is valid only after exactly what was sent before it (preserved thinking)."""
    account_bound: bool = False
    """A block is valid only in the account that produced it."""
    on_mismatch: Literal["ignored", "error", "by_account"] = "ignored"
    """What a broken binding does when the request does not say: depends on the account's age, at times."""
    disabled_up_to: str | None = None
    """The highest effort at which `disabled` is accepted; None is any."""

    @property
    def off(self) -> str | None:
        """The mode that thinks least before answering, or None where thinking cannot be switched off."""
        return next((mode for mode in ("disabled", "between_tools") if mode in self.modes), None)


class Betas(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The beta header each feature asks for; None where it needs none or does not exist."""

    edits: str | None = None
    threshold_compaction: str | None = None
    on_demand_compaction: str | None = None
    block_binding: str | None = None
    tool_changes: str | None = None
    inline_tools: str | None = None
    window_1m: str | None = None


class Listing(msgspec.Struct, frozen=True):
    """What a server says about a model; None or empty where it says nothing."""

    window: int | None = None
    answer: int | None = None
    """The most tokens of an answer."""
    capabilities: Mapping[str, Any] = {}


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything the engine may know of a model."""

    name: str
    """The name in the table; for an unknown model, the name that was asked for."""
    model: str
    """The name to send: as asked for, without the long-window suffix."""
    provider: str
    """Who serves it, by the name telemetry has for it."""
    wire: str
    """The API its requests are put for: the name of a `sevenfold.providers.provider.Provider`."""
    tokenizer: Literal["claude-a", "claude-b", "openai", "unknown"]
    """The tokenizer generation: the same text is about 30% more tokens in `claude-b` than in `claude-a`."""
    max_output: int
    known: bool = True
    note: str = ""
    """A sentence for the user where defaults replace facts."""
    source: str = ""
    """Where the prices come from, if not from the provider's current pages."""
    window: int = DEFAULT_WINDOW
    window_source: Literal["suffix", "listing", "table", "family", "default"] = "default"
    """Who says so; `family` means that models with such names usually have it, `default` that it is unknown."""
    economic_window: int | None = None
    """The prompt size beyond which the price steps up so far that staying below is worth a compaction."""
    prices: tuple[Price, ...] = ()
    """Price rows by rising `above`; empty where prices are unknown."""
    edits_hold: bool = False
    """Whether what the provider's own clearing leaves out holds until it can clear enough more. Not documented."""
    cache: Cache = Cache()
    thinking: ThinkingRules = ThinkingRules()
    betas: Betas = Betas()
    effort: str | None = None
    """The effort that holds when a request names none."""
    system_messages: bool = False
    """Takes system-role messages inside the conversation."""
    tool_changes: bool = False
    """Takes tool additions and removals inside the conversation."""
    prefill: bool = False
    """Continues a final assistant message."""
    forced_tools: bool = False
    """Takes a `tool_choice` that forces a call."""
    edits: tuple[str, ...] = ()
    """Server-side edits other than compaction."""
    threshold_compaction: bool = False
    """The server can compact by itself at a token threshold."""
    on_demand_compaction: bool = False
    """The server compacts when asked to, in a request of its own."""
    compaction_instructions: bool = False
    """That request may say what the summary is to hold."""
    engines: tuple[Literal["provider", "fork", "plain"], ...] = ("provider", "fork", "plain")
    """The ways to a summary, in the order in which they are tried."""
    pinned_edits: bool = False
    """Can delete results from a cached prefix by reference."""
    output_may_overrun: bool = False
    """Takes a request whose prompt and `max_tokens` together exceed the window."""
    images: int | None = None
    """Images and document pages per request."""
    body_bytes: int | None = None
    """Size of a request body."""

    def price(self, prompt: int) -> Price | None:
        """The price row for a prompt of that many tokens, or None where prices are unknown."""
        for row in reversed(self.prices):
            if prompt > row.above or row.above == 0:
                return row
        return None

    def companion(self, name: str | None) -> Profile | None:
        """Another model that the same client can ask; None if no name is given or its provider is another.

        A name of no known family, and any name behind an API that is not this model's own, is taken on trust.
        """
        if not name:
            return None
        other = find(name)
        if other.provider == self.provider:
            return other
        trusted = other.window_source == "default" or self.wire != find(self.model).wire
        return msgspec.structs.replace(other, wire=self.wire) if trusted else None

    def listed(self, listing: Listing) -> Profile:
        """The profile, with the word of a live model listing in place of the table's where it has one."""
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
    """The models in the table."""
    return tuple(_table()["model"])


def token_rates(tokenizer: str) -> Mapping[str, float]:
    """Tokens for one of each thing that content is made of; empty for a tokenizer that is not in the table."""
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
    """The one spelling that all spellings of a model's name have in common."""
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
    """The facts of one table, on top of those of the table it is like."""
    own = dict(_table()["base"].get(name) or _table()["model"][name])
    like = own.pop("like", None)
    if like is None:
        return own
    facts = _facts(like)
    for key, value in own.items():
        facts[key] = {**facts.get(key, {}), **value} if isinstance(value, dict) else value
    return facts


def _capabilities(profile: Profile, listing: Mapping[str, Any]) -> dict[str, Any]:
    """The abilities of a profile, by the word of a listing where it has one."""
    types = _group(_group(listing, "thinking"), "types")
    modes = tuple(mode for mode in MODES if _supports(types, mode, mode in profile.thinking.modes))
    management = _group(listing, "context_management")
    clearing = (CLEAR_TOOL_USES, CLEAR_THINKING)
    compaction = _group(listing, "compaction")
    return {
        "thinking": msgspec.structs.replace(profile.thinking, modes=modes),
        "edits": tuple(edit for edit in clearing if _supports(management, edit, edit in profile.edits)),
        "threshold_compaction": _supports(management, COMPACT, profile.threshold_compaction),
        "on_demand_compaction": _supports(compaction, "summarize", profile.on_demand_compaction),
    }


def _group(listing: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = listing.get(key)
    return value if isinstance(value, Mapping) else {}


def _supports(group: Mapping[str, Any], name: str, otherwise: bool) -> bool:
    """What a group of a listing says of one of its entries; a group may be denied as a whole."""
    if group.get("supported") is False:
        return False
    stated = _group(group, name).get("supported")
    return stated if isinstance(stated, bool) else otherwise
