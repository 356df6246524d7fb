"""The tokens one call used, as the provider reported them, and their cost.

Prompt tokens are counted in four groups (fresh, read from the cache, written to it with the short or the long
lifetime), output tokens in one. Cached tokens fill the window like any others, so `prompt` and `total` include them. A
call may have run several iterations on the server (a tool loop, a compaction, a fallback to another model): each is
billed separately, and a compaction's iteration is not in the reported totals.

There are three costs, in US dollars: `Usage.cost` is what was paid, `Usage.uncached_cost` what the same call would
have cost without a cache, and `ideal_cost` what a run of calls costs if every prompt token is written to the cache
once and read from then on. If a model's prices are unknown, costs are None, never a guess.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from math import fsum
from typing import Annotated, Any, NamedTuple, cast

import msgspec
from msgspec.structs import replace

from sevenfold.profiles import Profile, find

MILLION = 1_000_000

OFFLINE = "offline"
"""The service tier in answers of the offline model."""
BILLED_BEFORE = "billed_before"
"""The service tier in answers that were prepared ahead: their calls are billed where they were made."""


UNMANAGED = msgspec.Raw(b"null")
"""The ``context_management`` of an answer that reports no edits."""
DELETED = b"cache_deleted_input_tokens"
"""The usage field that counts tokens deleted from the cached prefix by reference."""


class Edits(msgspec.Struct, frozen=True, gc=False):
    """What the provider's own edits removed from a prompt; its usage counts only what was left."""

    cleared: int = 0
    """Tokens removed."""
    uses: int = 0
    """Tool calls whose results were cleared."""
    deleted: int = 0
    """Tokens deleted from the cached prefix by reference."""

    @classmethod
    def read(cls, management: msgspec.Raw, usage: msgspec.Raw) -> Edits:
        """The edits that an answer reports in its ``context_management`` and its ``usage``."""
        listed = _decoded(management).get("applied_edits")
        edits = [edit for edit in listed if isinstance(edit, dict)] if isinstance(listed, list) else []
        cleared = sum(counted(edit, "cleared_input_tokens") for edit in edits)
        uses = sum(counted(edit, "cleared_tool_uses") for edit in edits)
        removed = cls(cleared, uses, counted(_decoded(usage), DELETED.decode()))
        return UNEDITED if removed == UNEDITED else removed


UNEDITED = Edits()


class Usage(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """The tokens of one call."""

    input_tokens: int = 0
    """Prompt tokens neither read from the cache nor written to it."""
    cache_read_input_tokens: int = 0
    cache_creation_5m: int = 0
    cache_creation_1h: int = 0
    output_tokens: int = 0
    iterations: tuple[Iteration, ...] = ()
    """The parts in which the call is billed; empty if they say no more than the totals."""
    free: bool = False
    """The offline model answered, so nothing is billed."""
    billed_before: bool = False
    """The call was made ahead and is billed there, so nothing is billed for its answer."""

    @classmethod
    def read(cls, reported: bytes | msgspec.Raw) -> Usage:
        """Read an encoded `usage` object, with the same result as `of` but faster."""
        try:
            plain = _plain.decode(reported)
        except msgspec.ValidationError:
            return cls.of(_decoded(reported))
        split = plain.cache_creation
        short = split.ephemeral_5m_input_tokens
        long = split.ephemeral_1h_input_tokens
        if short + long not in (0, plain.cache_creation_input_tokens):
            # Split and total disagree, as at the end of a stream: `of` knows which counts.
            return cls.of(_decoded(reported))
        return cls(
            input_tokens=plain.input_tokens,
            cache_read_input_tokens=plain.cache_read_input_tokens,
            cache_creation_5m=plain.cache_creation_input_tokens - long,
            cache_creation_1h=long,
            output_tokens=plain.output_tokens,
            free=plain.service_tier == OFFLINE,
            billed_before=plain.service_tier == BILLED_BEFORE,
        )

    @classmethod
    def of(cls, reported: Mapping[str, Any]) -> Usage:
        """Read a decoded `usage` object of the Messages API; what is missing, null or not a count is 0."""
        short, long = _written(reported)
        listed = reported.get("iterations")
        rounds = (
            [entry for entry in listed if isinstance(entry, Mapping)] if isinstance(listed, list) else []
        )
        return cls(
            input_tokens=counted(reported, "input_tokens"),
            cache_read_input_tokens=counted(reported, "cache_read_input_tokens"),
            cache_creation_5m=short,
            cache_creation_1h=long,
            output_tokens=counted(reported, "output_tokens"),
            iterations=tuple(Iteration.of(entry) for entry in rounds) if _tell_more(rounds) else (),
            free=reported.get("service_tier") == OFFLINE,
            billed_before=reported.get("service_tier") == BILLED_BEFORE,
        )

    @property
    def cache_creation_input_tokens(self) -> int:
        """Prompt tokens written to the cache."""
        return self.cache_creation_5m + self.cache_creation_1h

    @property
    def counts(self) -> dict[str, Any]:
        """The tokens under the names used in events."""
        return {
            "input_tokens": self.input_tokens,
            "cache_read_tokens": self.cache_read_input_tokens,
            "cache_write_tokens": self.cache_creation_5m + self.cache_creation_1h,
            "output_tokens": self.output_tokens,
        }

    @property
    def prompt(self) -> int:
        """All prompt tokens, cached or not."""
        written = self.cache_creation_5m + self.cache_creation_1h
        return self.input_tokens + self.cache_read_input_tokens + written

    @property
    def total(self) -> int:
        """Prompt and output tokens."""
        cached = self.cache_read_input_tokens + self.cache_creation_5m + self.cache_creation_1h
        return self.input_tokens + cached + self.output_tokens

    @property
    def first_round(self) -> Usage:
        """The usage for the prompt as it was sent; later rounds of the same call add what the server did."""
        return next((iteration.usage for iteration in self.iterations if iteration.answers), self)

    @property
    def last_round(self) -> Usage:
        """The usage when the call ended: what the window then contained."""
        return next((iteration.usage for iteration in reversed(self.iterations) if iteration.answers), self)

    @property
    def billed(self) -> Usage:
        """Everything the call is billed for: the totals, plus rounds they leave out, such as a compaction's."""
        unlisted = [iteration.usage for iteration in self.iterations if not iteration.answers]
        return sum(unlisted, self) if unlisted else self

    def __add__(self, other: Usage) -> Usage:
        """The tokens of both, without iterations."""
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            cache_read_input_tokens=self.cache_read_input_tokens + other.cache_read_input_tokens,
            cache_creation_5m=self.cache_creation_5m + other.cache_creation_5m,
            cache_creation_1h=self.cache_creation_1h + other.cache_creation_1h,
            output_tokens=self.output_tokens + other.output_tokens,
            free=self.free and other.free,
            billed_before=self.billed_before and other.billed_before,
        )

    def cost(self, profile: Profile) -> float | None:
        """What the call cost: each part at the price of its own model for its own prompt size."""
        return self._priced(profile, Usage._paid)

    def uncached_cost(self, profile: Profile) -> float | None:
        """What the call would have cost with every prompt token at the input price."""
        return self._priced(profile, Usage._uncached)

    def _priced(self, profile: Profile, price: Callable[[Usage, Profile], float | None]) -> float | None:
        """The sum over the parts of the call, in dollars; None if the price of any part is unknown."""
        if not self.iterations:
            alone = price(self, profile)
            return None if alone is None else alone / MILLION
        costs = [
            price(iteration.usage, find(iteration.model) if iteration.model else profile)
            for iteration in self.iterations
        ]
        if not any(iteration.answers for iteration in self.iterations):
            # The totals are the sum of the answering rounds, so they are added only if no such round is listed.
            costs.append(price(self, profile))
        return None if None in costs else fsum(cast(list[float], costs)) / MILLION

    def _paid(self, profile: Profile) -> float | None:
        if self.free or self.billed_before:
            return 0.0
        price = profile.price(self.prompt)
        if price is None:
            return None
        return fsum(
            (
                self.input_tokens * price.input,
                self.cache_read_input_tokens * price.read,
                self.cache_creation_5m * price.write_5m,
                self.cache_creation_1h * price.write_1h,
                self.output_tokens * price.output,
            )
        )

    def _uncached(self, profile: Profile) -> float | None:
        price = profile.price(self.prompt)
        return None if price is None else self.prompt * price.input + self.output_tokens * price.output


MAX_COUNT = 10**12
"""Larger numbers are not counts of tokens: one wrong number must not fill a window for good."""
Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)]


class _Split(msgspec.Struct, frozen=True):
    ephemeral_5m_input_tokens: Count = 0
    ephemeral_1h_input_tokens: Count = 0


class _Plain(msgspec.Struct, frozen=True):
    """A report without iterations or invalid counts: nearly all of them, and much faster to read."""

    input_tokens: Count = 0
    cache_read_input_tokens: Count = 0
    cache_creation_input_tokens: Count = 0
    output_tokens: Count = 0
    cache_creation: _Split = _Split()
    iterations: None = None
    service_tier: str | None = None


_plain = msgspec.json.Decoder(_Plain)


class Iteration(msgspec.Struct, frozen=True):
    """One part of a call, billed separately."""

    kind: str
    usage: Usage
    model: str | None = None
    """The model that ran it, if it may differ from the call's."""

    @classmethod
    def of(cls, reported: Mapping[str, Any]) -> Iteration:
        """Read one entry of `usage.iterations`."""
        kind = str(reported.get("type") or "message")
        model = reported.get("model")
        return cls(kind, Usage.of(reported), model if isinstance(model, str) else None)

    @property
    def answers(self) -> bool:
        """Whether it is a round of the answer, as opposed to, say, a compaction."""
        return self.kind in ("message", "fallback_message")


class BilledCall(NamedTuple):
    """One call of a run, with what its ideal cost depends on."""

    prompt: int
    output: int
    lifetime: int
    """The cache lifetime of new prompt tokens, in seconds."""


def ideal_cost(calls: Iterable[BilledCall], profile: Profile) -> float | None:
    """The cost of a run of calls with a perfect cache: each prompt token written once, then read.

    The calls of a run share one prefix: callers start a new run at each boundary and each change of model.
    """
    written = 0
    terms: list[float] = []
    for call in calls:
        price = profile.price(call.prompt)
        if price is None:
            return None
        read = min(call.prompt, written)
        fresh = call.prompt - read
        terms += [read * price.read, fresh * price.write(call.lifetime), call.output * price.output]
        written = max(written, call.prompt)
    return fsum(terms) / MILLION


class Account(msgspec.Struct, frozen=True):
    """What a session has cost so far."""

    requests: int = 0
    usd: float | None = 0.0
    """None as soon as the price of any call is unknown."""
    tip: str | None = None
    """The newest record in the last request."""

    def billed(self, usd: float | None) -> Account:
        """The account after one more charge."""
        return replace(self, usd=None if self.usd is None or usd is None else self.usd + usd)


class Tally(msgspec.Struct, frozen=True):
    """Prompt tokens so far, and how many of them were read from the cache."""

    read: int = 0
    prompt: int = 0

    def after(self, usage: Usage) -> Tally:
        """The tally after one more answer."""
        return Tally(self.read + usage.cache_read_input_tokens, self.prompt + usage.prompt)

    @property
    def share(self) -> float | None:
        """The share read from the cache; None before the first prompt."""
        return self.read / self.prompt if self.prompt else None


def _decoded(reported: bytes | msgspec.Raw) -> Mapping[str, Any]:
    """A report as a dict; read with the standard library, which also accepts numbers that msgspec rejects."""
    value = json.loads(bytes(reported) or b"{}")
    return value if isinstance(value, dict) else {}


def _tell_more(iterations: list[Mapping[str, Any]]) -> bool:
    """Whether iterations say more than the totals, which a single plain round only repeats."""
    return len(iterations) > 1 or any(
        iteration.get("type") != "message" or iteration.get("model") for iteration in iterations
    )


def _written(reported: Mapping[str, Any]) -> tuple[int, int]:
    """Tokens written with the short and the long lifetime; without a split, all count as short."""
    split = reported.get("cache_creation")
    split = split if isinstance(split, Mapping) else {}
    short = counted(split, "ephemeral_5m_input_tokens")
    long = counted(split, "ephemeral_1h_input_tokens")
    total = counted(reported, "cache_creation_input_tokens") or short + long
    # If the two disagree, the total decides: a stream reports the split once, but updates the total to the end.
    long = min(long, total)
    return total - long, long


def counted(reported: Mapping[str, Any], key: str) -> int:
    """The count in a field; 0 if it is missing or not a valid count."""
    value = reported.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_COUNT else 0
