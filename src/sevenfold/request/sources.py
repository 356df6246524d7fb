"""On whose behalf a request is made, and what follows from that.

Everything that differs between the main thread, a fork and a sub-agent is in this one table: whether
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


_TABLE = {
    source.name: source
    for source in (
        QuerySource("main", compacts=True),
        QuerySource("sdk", compacts=True),
        QuerySource("agent", compacts=True),
        QuerySource("compact", writes_tail=False),
        QuerySource("session_memory", writes_tail=False),
        QuerySource("extract_memories"),
        QuerySource("dream"),
        QuerySource("agent_summary", writes_tail=False),
        QuerySource("prompt_suggestion", writes_tail=False),
        QuerySource("collapse", writes_tail=False),
        QuerySource("keep_alive", writes_tail=False),
    )
}


def source(name: str) -> QuerySource:
    """The rules for a query source; ``agent:reviewer`` follows those of ``agent`` under its own name."""
    kind, _, rest = name.partition(":")
    known = _TABLE.get(kind, QuerySource(kind))
    return QuerySource(name, known.compacts, known.writes_tail) if rest else known
