"""On whose behalf a request is made, and what follows from that.

Everything that differs between the main thread, a fork and a sub-agent stands in this one table: whether
its context may be compacted, whether its prefix may be kept for an hour, whose cache it shares, and
whether its tail is written to the cache at all.
"""

from __future__ import annotations

from msgspec import Struct


class Source(Struct, frozen=True):
    """The rules for one kind of request."""

    name: str
    compacts: bool = False
    """May auto-compaction run before it? A fork's may not: it would wait for itself."""
    long_lifetime: bool = False
    """May its prefix be cached for the longer time?"""
    watched_as: str = ""
    """Whose prefix it repeats; empty: its own."""
    writes_tail: bool = True
    """Does it write what it adds? A fork of one turn does not: nobody will read it again."""

    @property
    def watch_key(self) -> str:
        """The name under which its cache is watched."""
        return self.watched_as or self.name


_TABLE = {
    source.name: source
    for source in (
        Source("main", compacts=True, long_lifetime=True),
        Source("sdk", compacts=True, long_lifetime=True),
        Source("agent", compacts=True, long_lifetime=True),
        Source("compact", long_lifetime=True, watched_as="main", writes_tail=False),
        Source("session_memory", long_lifetime=True, watched_as="main", writes_tail=False),
        Source("extract_memories", long_lifetime=True),
        Source("dream"),
        Source("agent_summary", writes_tail=False),
        Source("prompt_suggestion", long_lifetime=True, watched_as="main", writes_tail=False),
        Source("collapse", watched_as="main", writes_tail=False),
    )
}


def source(name: str) -> Source:
    """The rules for a query source; ``agent:reviewer`` follows those of ``agent`` under its own name."""
    kind, _, rest = name.partition(":")
    known = _TABLE.get(kind, Source(kind))
    return (
        Source(name, known.compacts, known.long_lifetime, known.watched_as, known.writes_tail)
        if rest
        else known
    )
