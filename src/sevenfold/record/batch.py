"""A compaction of ours is several records in one write: until its commit is read, it did not happen.

What belongs to it is held back from the view. If the writer died before the commit, the next record that
does not belong to it lets it go, and the conversation goes on as if nobody had tried.
"""

from __future__ import annotations

from sevenfold.record.decisions import Carry, Commit, Epoch, Signed
from sevenfold.record.entries import Boundary, Decision, Entry, Said

Held = tuple[Boundary | Said | Decision, int]


class Batch:
    """The records of a compaction that is not committed yet, each with its offset."""

    def __init__(self) -> None:
        self._held: list[Held] = []

    def begin(self, boundary: Boundary, offset: int) -> None:
        """A compaction begins; an earlier one that was not committed is let go."""
        self._held = [(boundary, offset)]

    def drop(self) -> None:
        """Let go of a compaction that will not be committed any more."""
        self._held = []

    def take(self, entry: Entry, offset: int) -> list[Held] | None:
        """None if the entry is none of ours; else what is now committed, which may be nothing yet."""
        if not self._held:
            return None
        match entry:
            case Decision(made=Commit(boundary=boundary)):
                held, self._held = self._held, []
                first = held[0][0]
                return held if isinstance(first, Boundary) and first.uuid == boundary else []
            case Decision(made=Carry() | Epoch() | Signed() as made) if made.boundary is not None:
                self._held.append((entry, offset))
            case Said(parent=parent) if parent in self._names():
                self._held.append((entry, offset))
            case _:
                return None
        return []

    def _names(self) -> list[str]:
        return [held.uuid for held, _ in self._held if not isinstance(held, Decision)]
