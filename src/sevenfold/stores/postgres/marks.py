"""Which marks a line bears, as an index keeps them: 64-bit digests of a mark and a name.

Names come from models and other tools and may hold anything, also what a database does not take as text. Two names with
the same digest cost one more line to look at: every query checks the lines that it gets.
"""

from __future__ import annotations

from hashlib import blake2b

from sevenfold.stores.marks import ON_NEARLY_EVERY_LINE, Mark, marks_of


def digest(mark: Mark, name: str = "") -> int:
    """The digest of a mark, as a signed 64-bit number."""
    text = f"{mark}:{name}".encode(errors="surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big", signed=True)


def digests_of(line: bytes) -> set[int]:
    """The digests of all marks that a line bears, but for those that nearly every line bears: these are searched."""
    return {digest(mark, name) for mark, name in marks_of(line) if mark not in ON_NEARLY_EVERY_LINE}
