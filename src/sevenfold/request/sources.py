"""On whose behalf a request is made, and what follows from that.

Everything that differs between the main thread, a fork and a sub-agent is in these two sets: whether
its context may be compacted, and whether its tail is written to the cache, which decides under whose key the cache
is watched. Whose prefix may be kept for an hour is policy, and a setting.
"""

from __future__ import annotations

from msgspec import Struct


class QuerySource(Struct, frozen=True):
    """The rules for one kind of request."""

    name: str
    compacts: bool = False
    """May auto-compaction run before it? A fork's may not: it would wait for itself."""
    writes_tail: bool = True
    """Does it write what it adds, and is its cache watched by itself? A fork of one turn does not, for it is
    never read again: what it loses is a loss of the conversation whose prefix it repeats."""


# All others, such as extract_memories and dream, are not compacted and write their tail.
_COMPACTS = frozenset({"main", "sdk", "agent"})
_WRITES_NO_TAIL = frozenset(
    {"compact", "session_memory", "agent_summary", "prompt_suggestion", "collapse", "keep_alive"}
)


def source(name: str) -> QuerySource:
    """The rules for a query source; ``agent:reviewer`` follows those of ``agent`` under its own name."""
    kind = name.partition(":")[0]
    return QuerySource(name, kind in _COMPACTS, kind not in _WRITES_NO_TAIL)
