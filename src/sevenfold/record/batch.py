"""Records that count only together, held back until all of them are there."""

from __future__ import annotations

from collections.abc import Sequence

from sevenfold.record.decisions import Carry, Commit, Epoch, Signed
from sevenfold.record.entries import Boundary, Clearing, Decision, Entry, Said, name_of

Held = tuple[Boundary | Said | Clearing | Decision, int]


class Batch:
    """Records that count only together and are not all there yet, each with its offset.

    They are either a compaction of ours, which ends with its commit, or what a commit in front of them names. Until
    the last one is read, they are held back from the view. If the writer died before that, the next record that does
    not belong to them discards them, and the conversation goes on as if they had never been written.
    """

    def __init__(self) -> None:
        self.held: list[Held] = []
        self._awaited: tuple[str, ...] = ()
        self._come = 0
        """How many of these have come."""
        self.open = False
        """Are records held back, or announced?"""

    def begin(self, boundary: Boundary, offset: int) -> None:
        """A compaction begins; what was held is let go."""
        self._await((), [(boundary, offset)])

    def announce(self, names: Sequence[str]) -> None:
        """These records count together; what was held is let go."""
        self._await(tuple(names), [])

    def drop(self) -> None:
        """Let go of what is held: the rest of it will not come any more."""
        self._await((), [])

    def take(self, entry: Entry, offset: int) -> list[Held] | None:
        """None if the entry is none of ours; else what is now complete, which may be nothing yet."""
        match entry:
            case Decision(made=Commit(together=names)) if names:
                self.announce(names)
            case Said() | Clearing() | Decision() if self._awaited:
                return self._next(entry, offset)
            case Decision(made=Commit(boundary=boundary)):
                held = self.held
                self.drop()
                first = held[0][0]
                return held if isinstance(first, Boundary) and first.uuid == boundary else []
            case Decision(made=Carry() | Epoch() | Signed() as made) if made.boundary is not None:
                self.held.append((entry, offset))
            case Said(parent=parent) if not self._awaited and parent in self._names():
                self.held.append((entry, offset))
            case _:
                # A damaged line may be one of them: those behind it still count.
                return None
        return []

    def _await(self, names: tuple[str, ...], held: list[Held]) -> None:
        self.held, self._awaited, self._come, self.open = held, names, 0, bool(names or held)

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
