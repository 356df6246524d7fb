"""Query sources: on whose behalf a request is made, and the rules for each.

All differences between the main thread, a fork and a sub-agent are in these two sets: whether its context may be
compacted, and whether its tail is written to the cache, which decides whether its cache is watched separately. Whose
prefix may be cached for an hour is policy, and a setting.
"""

from __future__ import annotations

from msgspec import Struct


class QuerySource(Struct, frozen=True):
    """The rules for one kind of request."""

    name: str
    compacts: bool = False
    """Whether auto-compaction may run before it. Not for a fork: it would wait for itself."""
    writes_tail: bool = True
    """Whether it writes what it adds to the cache, and its cache is watched separately. Not for a fork of one turn,
    which is never read again: if it misses the cache, that is a loss of the conversation whose prefix it shares."""


# All other sources, such as extract_memories and dream, are not compacted and write their tail.
_COMPACTS = frozenset({"main", "sdk", "agent"})
_WRITES_NO_TAIL = frozenset(
    {"compact", "session_memory", "agent_summary", "prompt_suggestion", "collapse", "keep_alive"}
)


def source(name: str) -> QuerySource:
    """The rules for a query source; ``agent:reviewer`` follows those of ``agent`` under its own name."""
    kind = name.partition(":")[0]
    return QuerySource(name, kind in _COMPACTS, kind not in _WRITES_NO_TAIL)
