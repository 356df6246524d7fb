"""The prompt cache of the Messages API: entries at markers, found again by looking back.

A prompt is a chain of parts; each entry is the hash of a whole prefix, written only where a marker stands.
To read, the server goes back from each marker over at most so many positions and takes the longest prefix
it has; a run of tool calls, or of tool results, is one position. Lifetimes count from the start of the
request that wrote or read an entry. New entries become readable when the answer begins, so `plan` only
looks, and `commit` writes.


---

Automatic prefix caching as OpenAI-compatible servers have it: no markers, cached tokens in steps.

---

Cache diagnostics: where a request's structure first differs from the one it names as its predecessor.

The comparison is of what was sent, whether or not anything was cached. Only the latest requests are
remembered, as fingerprints.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from sevenfold.lab.simulator.conversation import PromptPart, RequestPrompt, total
from sevenfold.lab.simulator.tokens import BlockDigest, chained
from sevenfold.profiles import Cache

LIFETIMES = {"5m": 300.0, "1h": 3_600.0}
_MOST_ENTRIES = 100_000


class Salts(Struct, frozen=True):
    """What besides the parts decides about a hit, by the level it spoils."""

    root: bytes
    """Model and speed: another cache altogether."""
    system: bytes
    messages: bytes
    """Settings such as thinking and tool choice: tools and system survive their change."""


class Billing(Struct, frozen=True):
    """How a prompt's tokens were charged; the four add up to the whole prompt."""

    fresh: int
    read: int
    write_5m: int
    write_1h: int

    @property
    def written(self) -> int:
        """All tokens written to the cache."""
        return self.write_5m + self.write_1h


class CacheEntry(Struct):
    """A prefix the server remembers."""

    ttl: str
    expires: float


class CachePlan(Struct, frozen=True):
    """The outcome of looking: what is charged, what to refresh and what to write once the answer begins."""

    billing: Billing
    started: float
    refreshed: tuple[tuple[bytes, str], ...]
    written: tuple[tuple[bytes, str], ...]


class PromptCache:
    """All entries of one organisation."""

    def __init__(self, *, lifetimes_apart: bool = True) -> None:
        self._entries: dict[tuple[bytes, str], CacheEntry] = {}
        self._lifetimes_apart = lifetimes_apart

    def plan(self, items: Sequence[PromptPart], salts: Salts, rules: Cache, now: float) -> CachePlan:
        """Look up a prompt whose parts are in the order tools, system, messages."""
        hashes = chain(items, salts)
        sizes = _running_sizes(items)
        marks = [place for place, item in enumerate(items) if item.ttl and sizes[place] >= rules.minimum]
        hits = {place: self._find(place, items, hashes, rules, now) for place in marks}
        found = [hit for hit in hits.values() if hit is not None]
        read_to = max((place for place, _ in found), default=-1)
        billing = _bill(items, sizes, marks, read_to)
        refreshed = tuple((hashes[place], ttl) for place, ttl in found)
        written = tuple((hashes[place], str(items[place].ttl)) for place in marks)
        return CachePlan(billing, now, refreshed, written)

    def commit(self, plan: CachePlan) -> None:
        """Let what was planned happen: the answer has begun."""
        if len(self._entries) > _MOST_ENTRIES:
            self._entries = {
                key: entry for key, entry in self._entries.items() if entry.expires > plan.started
            }
        for key in plan.refreshed:
            if entry := self._entries.get(key):
                entry.expires = plan.started + LIFETIMES[entry.ttl]
        for key in plan.written:
            self._entries[key] = CacheEntry(key[1], plan.started + LIFETIMES[key[1]])

    def evict(self) -> None:
        """Forget everything, as a server under pressure may."""
        self._entries.clear()

    def _find(
        self, mark: int, items: Sequence[PromptPart], hashes: Sequence[bytes], rules: Cache, now: float
    ) -> tuple[int, str] | None:
        """The nearest entry at or before a marker, within the look-back."""
        lifetimes = (str(items[mark].ttl),) if self._lifetimes_apart else tuple(LIFETIMES)
        positions = 0
        for place in range(mark, -1, -1):
            in_run = place < mark and rules.runs_collapse and _same_run(items[place], items[place + 1])
            positions += 0 if in_run else 1
            if rules.look_back is not None and positions > rules.look_back:
                return None
            for ttl in lifetimes:
                entry = self._entries.get((hashes[place], ttl))
                if entry is not None and entry.expires > now:
                    return place, ttl
        return None


def chain(items: Sequence[PromptPart], salts: Salts) -> list[bytes]:
    """The hash of every prefix."""
    hashes = []
    current, level = salts.root, 0
    levels: Mapping[int, bytes] = {1: salts.system, 2: salts.messages}
    for item in items:
        reached = 2 if item.message >= 0 else 1 if item.role == "system" else 0
        while level < reached:
            level += 1
            current = chained(current, levels[level])
        current = chained(current, item.piece.digest)
        hashes.append(current)
    return hashes


def _same_run(one: PromptPart, other: PromptPart) -> bool:
    return one.kind == other.kind and one.kind in ("tool_use", "tool_result")


def _running_sizes(items: Sequence[PromptPart]) -> list[int]:
    sizes, size = [], 0
    for item in items:
        size += item.tokens
        sizes.append(size)
    return sizes


def _bill(items: Sequence[PromptPart], sizes: Sequence[int], marks: Sequence[int], read_to: int) -> Billing:
    """Read up to the best hit; write for an hour up to the last such marker after it, then for minutes."""
    read = sizes[read_to] if read_to >= 0 else 0
    long = max((place for place in marks if items[place].ttl == "1h" and place > read_to), default=read_to)
    last = max((place for place in marks if place > long), default=long)
    long_size = sizes[long] if long >= 0 else 0
    last_size = sizes[last] if last >= 0 else 0
    whole = sizes[-1] if sizes else 0
    return Billing(whole - last_size, read, last_size - long_size, long_size - read)


DEFAULT_LIFETIME = 300.0
_MOST_PREFIXES = 500_000


class PrefixCache:
    """Prefixes seen before, each alive for a while after its last use."""

    def __init__(self) -> None:
        self._expires: dict[bytes, float] = {}

    def read(self, root: bytes, pieces: Sequence[BlockDigest], rules: Cache, now: float) -> int:
        """How many tokens of a prompt come from the cache; the prompt is in it from now on."""
        lifetime = float(rules.lifetimes[0]) if rules.lifetimes else DEFAULT_LIFETIME
        if len(self._expires) > _MOST_PREFIXES:
            self._expires = {key: expires for key, expires in self._expires.items() if expires > now}
        current, tokens, known = root, 0, True
        for piece in pieces:
            current = chained(current, piece.digest)
            known = known and self._expires.get(current, 0.0) > now
            tokens += piece.tokens if known else 0
            self._expires[current] = now + lifetime
        if not rules.automatic or tokens < max(1, rules.minimum):
            return 0
        return tokens - tokens % rules.step

    def evict(self) -> None:
        """Forget everything."""
        self._expires.clear()


_REMEMBERED = 1_000


class Fingerprint(Struct, frozen=True):
    """What a request was made of."""

    model: str
    system: tuple[bytes, ...]
    tools: tuple[bytes, ...]
    settings: bytes
    messages: tuple[bytes, ...]
    sizes: tuple[int, int, int]
    """Tokens of tools, system and messages."""
    prefix_sizes: tuple[int, ...]
    """Tokens of the messages up to each block."""


def fingerprint(talk: RequestPrompt, model: str, settings: bytes) -> Fingerprint:
    """The fingerprint of a request; ``model`` includes the speed, ``settings`` what else shapes it."""
    running, sizes = 0, []
    for item in talk.items:
        running += item.tokens
        sizes.append(running)
    return Fingerprint(
        model,
        tuple(item.piece.digest for item in talk.system),
        tuple(item.piece.digest for item in talk.tools),
        settings,
        tuple(item.piece.digest for item in talk.items),
        (total(talk.tools), total(talk.system), running),
        tuple(sizes),
    )


class Diagnosis:
    """Remembers fingerprints by message id and compares them."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Fingerprint] = OrderedDict()

    def remember(self, message_id: str, print_: Fingerprint) -> None:
        """Keep the fingerprint of an answered request."""
        self._known[message_id] = print_
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)

    def explain(self, config: Mapping[str, Any] | None, now: Fingerprint) -> dict[str, Any] | None:
        """The `diagnostics` of an answer; None when there is nothing to report."""
        previous_id = (config or {}).get("previous_message_id")
        if previous_id is None:
            return None
        before = self._known.get(str(previous_id))
        reason = {"type": "previous_message_not_found"} if before is None else _difference(before, now)
        return None if reason is None else {"cache_miss_reason": reason}


def _difference(before: Fingerprint, now: Fingerprint) -> dict[str, Any] | None:
    """The first difference in the order model, tools, system, messages; settings are only hinted at."""
    tools, system, messages = before.sizes
    if before.model != now.model:
        return _missed("model_changed", tools + system + messages)
    if before.tools != now.tools:
        return _missed("tools_changed", tools + system + messages)
    if before.system != now.system:
        return _missed("system_changed", system + messages)
    if before.settings != now.settings:
        return {"type": "unavailable"}
    for place, was in enumerate(before.messages):
        if place >= len(now.messages) or now.messages[place] != was:
            kept = before.prefix_sizes[place - 1] if place else 0
            return _missed("messages_changed", messages - kept)
    return None


def _missed(kind: str, tokens: int) -> dict[str, Any]:
    return {"type": kind, "cache_missed_input_tokens": tokens}
