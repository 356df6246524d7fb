"""Automatic prefix caching as OpenAI-compatible servers have it: no markers, cached tokens in steps."""

from __future__ import annotations

from collections.abc import Sequence

from sevenfold.lab.simulator.pieces import Piece, chained
from sevenfold.profiles import Cache

DEFAULT_LIFETIME = 300.0
_MOST = 500_000


class PrefixCache:
    """Prefixes seen before, each alive for a while after its last use."""

    def __init__(self) -> None:
        self._expires: dict[bytes, float] = {}

    def read(self, root: bytes, pieces: Sequence[Piece], rules: Cache, now: float) -> int:
        """How many tokens of a prompt come from the cache; the prompt is in it from now on."""
        lifetime = float(rules.lifetimes[0]) if rules.lifetimes else DEFAULT_LIFETIME
        if len(self._expires) > _MOST:
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
