"""Which calls of a transcript a profile counts."""

from __future__ import annotations

from collections.abc import Collection
from hashlib import blake2b

from msgspec import Struct


class Scope(Struct, frozen=True):
    """Which calls are counted."""

    since: float | None = None
    """Only those made at this time or later, in seconds since 1970."""
    elsewhere: Collection[int] = ()
    """The hashes of calls that another file has and that are counted there."""

    def counts(self, call: str, at: float | None) -> bool:
        """Whether a call is counted."""
        return self.is_late(at) and not (self.elsewhere and call_hash(call) in self.elsewhere)

    def is_late(self, at: float | None) -> bool:
        """Whether a time, if it is known, is not before those that are counted."""
        return self.since is None or (at is not None and at >= self.since)


def call_hash(call: str) -> int:
    """A number for the id of a call, the same in every process."""
    return int.from_bytes(blake2b(call.encode(errors="replace"), digest_size=8).digest())
