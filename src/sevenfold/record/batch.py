"""Records that count only together, held back until all of them have been read."""

from __future__ import annotations

from collections.abc import Sequence

from sevenfold.record.decisions import Carry, Commit, Epoch, Signed
from sevenfold.record.entries import Boundary, Clearing, Decision, Entry, Said, name_of

Held = tuple[Boundary | Said | Clearing | Decision, int]


class Batch:
    """Records that count only together and are not complete yet, each with its offset.

    They are either one of our compactions, which ends with its commit, or records announced by a commit before them.
    Until the last one is read, they are held back from the view. If the writer died before that, the next record that
    does not belong to them discards them, and the conversation continues as if they had never been written.
    """

    def __init__(self) -> None:
        self.held: list[Held] = []
        self._awaited: tuple[str, ...] = ()
        self._come = 0
        """How many of the awaited records have been read or skipped."""
        self.open = False
        """Whether any records are held back or announced."""

    def begin(self, boundary: Boundary, offset: int) -> None:
        """Start holding a compaction; discards what was held."""
        self._await((), [(boundary, offset)])

    def announce(self, names: Sequence[str]) -> None:
        """Start holding these records, which count together; discards what was held."""
        self._await(tuple(names), [])

    def drop(self) -> None:
        """Discard what is held: the rest of it was never written."""
        self._await((), [])

    def take(self, entry: Entry, offset: int) -> list[Held] | None:
        """Add the next entry; returns the records if they are now complete, None if it does not belong to them."""
        match entry:
            case Decision(record=Commit(together=names)) if names:
                self.announce(names)
            case Said() | Clearing() | Decision() if self._awaited:
                return self._next(entry, offset)
            case Decision(record=Commit(boundary=boundary)):
                held = self.held
                self.drop()
                first = held[0][0]
                return held if isinstance(first, Boundary) and first.uuid == boundary else []
            case Decision(record=Carry() | Epoch() | Signed() as record) if record.boundary is not None:
                self.held.append((entry, offset))
            case Said(parent=parent) if not self._awaited and parent in self._names():
                self.held.append((entry, offset))
            case _:
                # A damaged line may be one of the batch: the records after it still count.
                return None
        return []

    def _await(self, names: tuple[str, ...], held: list[Held]) -> None:
        self.held = held
        self._awaited = names
        self._come = 0
        self.open = bool(names or held)

    def _next(self, entry: Said | Clearing | Decision, offset: int) -> list[Held] | None:
        try:
            self._come = self._awaited.index(name_of(entry), self._come) + 1
        except ValueError:
            self.drop()
            return None
        self.held.append((entry, offset))
        if self._come < len(self._awaited):
            return []
        held = self.held
        self.drop()
        return held

    def _names(self) -> list[str]:
        return [held.uuid for held, _ in self.held if not isinstance(held, Decision)]
