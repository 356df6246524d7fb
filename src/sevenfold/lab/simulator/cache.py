"""The prompt caches of the APIs, and the diagnostics of cache misses.

In the Messages API a prompt is a chain of parts; each entry is the hash of a whole prefix, written only at a marker. To
read, the server searches back from each marker over a limited number of positions and uses the longest prefix it finds;
a run of tool calls, or of tool results, counts as one position. Lifetimes start with the request that wrote or read an
entry. New entries become readable when the answer begins, so `plan` only looks entries up, and `commit` writes them.

OpenAI-compatible servers cache prefixes automatically: no markers, cached tokens in steps.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, takewhile
from typing import Any

from msgspec import Struct

from sevenfold.lab.simulator.prompt import PromptPart, RequestPrompt
from sevenfold.lab.simulator.tokens import WeighedBlock, chained
from sevenfold.profiles import Cache

LIFETIMES = {"5m": 300.0, "1h": 3_600.0}
AUTOMATIC = ""
"""Replaces the lifetime in the key of an entry that was cached automatically."""
_MOST_ENTRIES = 500_000
_REMEMBERED = 1_000


class Salts(Struct, frozen=True):
    """What decides about a cache hit besides the parts, by the level whose entries a change invalidates."""

    root: bytes
    """Model and speed: a different cache altogether."""
    system: bytes
    messages: bytes
    """Settings such as thinking and tool choice: if they change, tools and system stay cached."""


class Billing(Struct, frozen=True):
    """How the tokens of a prompt are charged; the four add up to the whole prompt."""

    fresh: int = 0
    read: int = 0
    write_5m: int = 0
    write_1h: int = 0


class CachePlan(Struct, frozen=True):
    """The result of a lookup: what is charged, and the entries to refresh and to write once the answer begins."""

    billing: Billing
    started: float
    refreshed: tuple[tuple[bytes, str], ...]
    written: tuple[tuple[bytes, str], ...]


class PromptCache:
    """The prompt cache of one organisation."""

    def __init__(self, *, lifetimes_apart: bool = True) -> None:
        self._expires: dict[tuple[bytes, str], float] = {}
        """When each entry expires, by prefix hash and lifetime."""
        self._lifetimes_apart = lifetimes_apart

    def plan(self, parts: Sequence[PromptPart], salts: Salts, rules: Cache, now: float) -> CachePlan:
        """Look up a prompt, its parts in the order tools, system, messages; changes nothing."""
        hashes = chain(parts, salts)
        sizes = list(accumulate(part.tokens for part in parts))
        marks = [index for index, part in enumerate(parts) if part.ttl and sizes[index] >= rules.minimum]
        hits = [hit for index in marks if (hit := self._find(index, parts, hashes, rules, now))]
        billing = _bill(parts, sizes, marks, max((index for index, _ in hits), default=-1))
        refreshed = tuple((hashes[index], ttl) for index, ttl in hits)
        written = tuple((hashes[index], str(parts[index].ttl)) for index in marks)
        return CachePlan(billing, now, refreshed, written)

    def commit(self, plan: CachePlan) -> None:
        """Refresh and write the planned entries; called when the answer begins."""
        self._forget_expired(plan.started)
        for key in (*(key for key in plan.refreshed if key in self._expires), *plan.written):
            self._expires[key] = plan.started + LIFETIMES[key[1]]

    def read(self, root: bytes, blocks: Sequence[WeighedBlock], rules: Cache, now: float) -> int:
        """Return how many tokens of a prompt were cached automatically, and cache all of it."""
        lifetime = float(rules.lifetimes[0]) if rules.lifetimes else LIFETIMES["5m"]
        self._forget_expired(now)
        current = root
        tokens = 0
        still_cached = True
        for block in blocks:
            current = chained(current, block.digest)
            still_cached = still_cached and self._expires.get((current, AUTOMATIC), 0.0) > now
            tokens += block.tokens if still_cached else 0
            self._expires[current, AUTOMATIC] = now + lifetime
        if not rules.automatic or tokens < max(1, rules.minimum):
            return 0
        return tokens - tokens % rules.step

    def evict(self) -> None:
        """Drop all entries, as a server under load may."""
        self._expires.clear()

    def _forget_expired(self, now: float) -> None:
        if len(self._expires) > _MOST_ENTRIES:
            self._expires = {key: expiry for key, expiry in self._expires.items() if expiry > now}

    def _find(
        self, mark: int, parts: Sequence[PromptPart], hashes: Sequence[bytes], rules: Cache, now: float
    ) -> tuple[int, str] | None:
        """The part and lifetime of the nearest entry at or before a marker, within the look-back."""
        lifetimes = (str(parts[mark].ttl),) if self._lifetimes_apart else tuple(LIFETIMES)
        positions = 0
        for index in range(mark, -1, -1):
            in_run = index < mark and rules.runs_collapse and _same_run(parts[index], parts[index + 1])
            positions += 0 if in_run else 1
            if rules.look_back is not None and positions > rules.look_back:
                return None
            for ttl in lifetimes:
                if self._expires.get((hashes[index], ttl), now) > now:
                    return index, ttl
        return None


def chain(parts: Iterable[PromptPart], salts: Salts) -> list[bytes]:
    """The hash of every prefix of a prompt."""
    hashes = []
    current = salts.root
    pending = [(1, salts.system), (2, salts.messages)]
    for part in parts:
        reached = 2 if part.message >= 0 else 1 if part.role == "system" else 0
        while pending and pending[0][0] <= reached:
            current = chained(current, pending.pop(0)[1])
        current = chained(current, part.digest)
        hashes.append(current)
    return hashes


def _same_run(part: PromptPart, next_part: PromptPart) -> bool:
    return part.kind == next_part.kind and part.kind in ("tool_use", "tool_result")


def _bill(parts: Sequence[PromptPart], sizes: Sequence[int], marks: Sequence[int], read_to: int) -> Billing:
    """Charge a read up to the best hit, a 1h write up to the last 1h marker after it, and a 5m write up to the last."""
    last_1h = max(
        (index for index in marks if parts[index].ttl == "1h" and index > read_to), default=read_to
    )
    last_mark = max((index for index in marks if index > last_1h), default=last_1h)
    read, to_long, to_last = (sizes[index] if index >= 0 else 0 for index in (read_to, last_1h, last_mark))
    return Billing((sizes[-1] if sizes else 0) - to_last, read, to_last - to_long, to_long - read)


Level = tuple[WeighedBlock, ...]


class Fingerprint(Struct, frozen=True):
    """The parts and settings of a request, for comparison."""

    model: bytes
    """The model and its speed."""
    settings: bytes
    tools: Level
    system: Level
    messages: Level


class Diagnosis:
    """Compares a request with the one it names as its predecessor, whether or not anything was cached."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Fingerprint] = OrderedDict()

    def explain(
        self, config: Mapping[str, Any] | None, message_id: str, prompt: RequestPrompt, salts: Salts
    ) -> dict[str, Any] | None:
        """Remember a request and return the `diagnostics` of its answer; None if there is nothing to report."""
        parts = prompt.tools, prompt.system, prompt.items
        levels = (tuple(WeighedBlock(part.digest, part.tokens) for part in level) for level in parts)
        current = Fingerprint(salts.root, salts.system + salts.messages, *levels)
        previous_id = (config or {}).get("previous_message_id")
        previous = self._known.get(str(previous_id))
        self._known[message_id] = current
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        reason = (
            {"type": "previous_message_not_found"} if previous is None else _difference(previous, current)
        )
        return None if previous_id is None or reason is None else {"cache_miss_reason": reason}


def _difference(previous: Fingerprint, current: Fingerprint) -> dict[str, Any] | None:
    """The first difference, in the order model, tools, system, settings, messages; settings are not named."""
    after_tools = previous.system + previous.messages
    if previous.model != current.model:
        return _missed("model_changed", previous.tools + after_tools)
    if previous.tools != current.tools:
        return _missed("tools_changed", previous.tools + after_tools)
    if previous.system != current.system:
        return _missed("system_changed", after_tools)
    if previous.settings != current.settings:
        return {"type": "unavailable"}
    equal_pairs = takewhile(
        lambda pair: pair[0] == pair[1], zip(previous.messages, current.messages, strict=False)
    )
    changed = previous.messages[len(list(equal_pairs)) :]
    return _missed("messages_changed", changed) if changed else None


def _missed(kind: str, parts: Level) -> dict[str, Any]:
    return {"type": kind, "cache_missed_input_tokens": sum(part.tokens for part in parts)}
