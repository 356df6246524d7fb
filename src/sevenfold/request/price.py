"""What a call costs, in US dollars.

Three figures answer three questions: `cost` is what was paid, `uncached_cost` what the same call would
have cost with no cache at all, and `ideal_cost` what a run of calls costs when every prompt token is
written once and read ever after. A model without known prices gives None, never a guess.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import fsum
from typing import NamedTuple, cast

from sevenfold.profiles import Profile, find
from sevenfold.record.usage import Usage

MILLION = 1_000_000


class Call(NamedTuple):
    """One call of a run, as far as its ideal cost goes."""

    prompt: int
    output: int
    lifetime: int
    """Seconds for which new prompt tokens are cached."""


def cost(usage: Usage, profile: Profile) -> float | None:
    """What a call cost: each part of it at its own model's price row for its own prompt size."""
    if not usage.iterations:
        paid = _paid(usage, profile)
        return None if paid is None else paid / MILLION
    return _sum([_paid(part, model) for part, model in _parts(usage, profile)])


def uncached_cost(usage: Usage, profile: Profile) -> float | None:
    """What the call would have cost with every prompt token at the input price."""
    if not usage.iterations:
        plain = _plain(usage, profile)
        return None if plain is None else plain / MILLION
    return _sum([_plain(part, model) for part, model in _parts(usage, profile)])


def ideal_cost(calls: Iterable[Call], profile: Profile) -> float | None:
    """What a run of calls costs with a perfect cache: each prompt token written once, then read.

    A run is what shares one prefix: callers start another at each boundary and each change of model.
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


def _parts(usage: Usage, profile: Profile) -> list[tuple[Usage, Profile]]:
    """The parts a call is billed in, each with the profile of the model that ran it."""
    if not usage.iterations:
        return [(usage, profile)]
    parts = [(part.usage, find(part.model) if part.model else profile) for part in usage.iterations]
    # The totals are the sum of the answering rounds: they count only where no such round is listed.
    return parts if any(part.answers for part in usage.iterations) else [*parts, (usage, profile)]


def _paid(usage: Usage, profile: Profile) -> float | None:
    if usage.free:
        return 0.0
    price = profile.price(usage.prompt)
    if price is None:
        return None
    return fsum(
        (
            usage.input_tokens * price.input,
            usage.cache_read_input_tokens * price.read,
            usage.cache_creation_5m * price.write_5m,
            usage.cache_creation_1h * price.write_1h,
            usage.output_tokens * price.output,
        )
    )


def _plain(usage: Usage, profile: Profile) -> float | None:
    price = profile.price(usage.prompt)
    return None if price is None else usage.prompt * price.input + usage.output_tokens * price.output


def _sum(micro_dollars: list[float | None]) -> float | None:
    """Dollars from millionths; one unknown term makes the sum unknown."""
    if None in micro_dollars:
        return None
    return fsum(cast(list[float], micro_dollars)) / MILLION
