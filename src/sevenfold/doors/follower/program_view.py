"""What a program still sends of a conversation whose records our layers have compacted.

The program knows nothing of our compactions: it goes on sending what a summary of ours stands for, and never sends the
summary. Its own compactions are in both views.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from sevenfold.conversation.resume import read
from sevenfold.doors.follower.recording import SAME_BEGINNING, SYSTEM_MESSAGE
from sevenfold.ports import Log
from sevenfold.record.blocks import Block, words_of
from sevenfold.record.entries import KEPT_MESSAGE, Boundary, Link, Said
from sevenfold.record.layout import Item
from sevenfold.record.view import View


class ProgramView(Struct, frozen=True):
    """How what a program sends differs from what is in view."""

    hidden: tuple[Item, ...] = ()
    """Records that a summary of ours stands for, and that the program still sends."""
    ours: frozenset[str] = frozenset()
    """Records in view that the program does not know: our summary and what was restored after it."""
    boundaries: frozenset[str] = frozenset()
    """Compactions of ours."""
    restored: frozenset[str] = frozenset()
    """Records that the program showed first after a compaction of its own: its summary and what it restored."""
    restored_texts: frozenset[str] = frozenset()
    """The texts in those records. A program may restore the same file with each of its summaries, and from the second
    one on it repeats a record, as a message that the program kept does."""
    beginnings: frozenset[str] = frozenset()
    """How the texts begin that the program sent before the first answer of all."""

    @classmethod
    def of(cls, log: Log, view: View) -> ProgramView:
        """The difference between this view and the program's, which reads the log if there was a compaction."""
        if view.boundary is None:
            return cls()
        in_view = {item.record.uuid for item in view.items}
        theirs, boundaries = as_the_program_has_it(log)
        hidden = tuple(item for item in theirs.items if item.record.uuid not in in_view)
        ours = frozenset(in_view - {item.record.uuid for item in theirs.items})
        return cls(hidden, ours, boundaries, *_first_shown(log))

    def sent(self, items: Sequence[Item]) -> list[Item]:
        """The records that the program still sends, in their order; ``items`` are those in view."""
        return [*self.hidden, *(item for item in items if item.record.uuid not in self.ours)]

    def stays(self, block: Block, item: Item) -> bool:
        """Whether a hidden block of what the program sends first stays in front of our summary.

        What it showed with a summary of its own is replaced by ours and by what we restore, unless it had sent it at
        the very beginning too, as it does with instruction files.
        """
        if item.record.uuid not in self.restored and words_of(block) not in self.restored_texts:
            return True
        return not item.record.summary and _beginning(block) in self.beginnings

    def summary(self, items: Sequence[Item]) -> list[Block]:
        """What stands in view for the hidden records: the summary and what was restored after it."""
        shown = (item for item in items if item.record.uuid in self.ours)
        return [block for item in shown for block in item.shown]


def as_the_program_has_it(log: Log) -> tuple[View, frozenset[str]]:
    """The view as if there were no compactions but the program's own; and the compactions of ours."""
    view = View(weighs=False)
    ours: set[str] = set()
    boundaries: set[str] = set()
    for position, entry in read(log):
        match entry:
            case Boundary(own=True, uuid=uuid, logical_parent=parent):
                ours.add(uuid)
                boundaries.add(uuid)
                view.add(Link(uuid, parent), position)
            case Said(uuid=uuid, parent=parent) if parent in ours and _is_ours(entry):
                ours.add(uuid)
                view.add(Link(uuid, parent), position)
            case _:
                view.add(entry, position)
    return view, frozenset(boundaries)


def _first_shown(log: Log) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """What the program showed first after compactions of its own, the texts in it, and how the texts begin that it sent
    first of all."""
    restored: set[str] = set()
    restored_texts: set[str] = set()
    beginnings: set[str] = set()
    is_first = True
    is_behind_compaction = False
    for _, entry in read(log):
        match entry:
            case Boundary(own=False):
                is_behind_compaction = True
            case Said(role="assistant"):
                is_first = False
                is_behind_compaction = False
            case Said(own=False, role="user", uuid=uuid, blocks=blocks):
                if is_first:
                    beginnings.update(map(_beginning, blocks))
                elif is_behind_compaction and entry.attachment != KEPT_MESSAGE:
                    restored.add(uuid)
                    restored_texts.update(map(words_of, blocks))
            case _:
                pass
    return frozenset(restored), frozenset(restored_texts), frozenset(beginnings)


def _beginning(block: Block) -> str:
    return words_of(block)[:SAME_BEGINNING]


def _is_ours(said: Said) -> bool:
    """Whether a record directly behind a compaction of ours belongs to it."""
    return said.summary or bool(said.attachment and said.attachment != SYSTEM_MESSAGE)
