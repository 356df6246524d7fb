"""What comes back behind a summary, by slots: each knows what it restores, and how much of it at most.

A slot is asked at every compaction, and works from its own source rather than from the conversation, so what it
holds is as good after the tenth compaction as after the first. When all slots together are too much, the cheapest
loss goes first: slots are listed in the order in which they are given up last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from msgspec import Struct

from sevenfold.errors import SevenfoldError
from sevenfold.prompts.restored import PinnedRecord, RestoredFile
from sevenfold.prompts.text import cut
from sevenfold.record import blocks
from sevenfold.record.layout import Item
from sevenfold.runtime.transcript import Beside

BYTES_PER_TOKEN = 3
"""For cutting a text to a budget before it is weighed."""

Count = Callable[[str], int]


class Moment(Struct, frozen=True):
    """What a slot may look at."""

    kept: Sequence[Item]
    """Messages that stay word for word."""
    count: Count
    """Tokens of a text."""


class Restored(Struct, frozen=True):
    """What a slot gives back, and what it had to leave."""

    beside: tuple[Beside, ...] = ()
    tokens: int = 0
    left: tuple[str, ...] = ()
    """What was not restored, and why."""


class Slot(Protocol):
    """One kind of thing that survives compactions."""

    name: str
    needed: bool
    """Never given up for want of room."""

    def restore(self, moment: Moment) -> Restored:
        """What belongs behind the summary now."""
        ...


class PinsSlot:
    """Records the user pinned, word for word."""

    name = "pins"
    needed = True

    def __init__(self, pinned: Callable[[], Iterable[Item]]) -> None:
        self._pinned = pinned

    def restore(self, moment: Moment) -> Restored:
        """Each pinned record that is not among the kept messages."""
        kept = {item.said.uuid for item in moment.kept}
        texts = []
        for item in self._pinned():
            words = "\n".join(filter(None, (blocks.words_of(block) for block in item.said.blocks)))
            if item.said.uuid not in kept and words:
                speaker = (
                    "model" if item.said.role == "assistant" else "tool" if item.said.answers else "user"
                )
                texts.append((item.said.uuid, PinnedRecord(item.said.uuid, speaker, words).render()))
        beside = tuple(Beside("pinned", (blocks.text(text),), {"record": uuid}) for uuid, text in texts)
        return Restored(beside, sum(moment.count(text) for _, text in texts))


class FilesSlot:
    """The files read most recently, as they are on disk now."""

    name = "files"
    needed = False

    def __init__(
        self,
        recent: Callable[[], Sequence[str]],
        read: Callable[[str], str],
        *,
        most: int = 5,
        each: int = 5_000,
        together: int = 50_000,
    ) -> None:
        self._recent = recent
        self._read = read
        self._most, self._each, self._together = most, each, together

    def restore(self, moment: Moment) -> Restored:
        """The newest first; one that cannot be read, or finds no room, is named."""
        beside: list[Beside] = []
        left: list[str] = []
        used = 0
        for path in self._recent()[: self._most]:
            try:
                words = self._read(path)
            except (OSError, UnicodeError, SevenfoldError) as error:
                left.append(f"{path}: {error}")
                continue
            text = RestoredFile(path, cut(words, self._each * BYTES_PER_TOKEN)).render()
            tokens = moment.count(text)
            if used + tokens > self._together:
                left.append(f"{path}: no room")
                continue
            used += tokens
            beside.append(Beside("file", (blocks.text(text),), {"filename": path}))
        return Restored(tuple(beside), used, tuple(left))


def restore(
    slots: Sequence[Slot], moment: Moment, room: int
) -> tuple[list[tuple[str, Restored]], list[str]]:
    """What all slots give back within the room, and what was left out; a slot that fails is left out too."""
    given: list[tuple[str, Restored]] = []
    left: list[str] = []
    for slot in slots:
        try:
            restored = slot.restore(moment)
        except Exception as error:  # noqa: BLE001 (a slot may come from anybody; the compaction goes on)
            left.append(f"{slot.name}: {error}")
            continue
        left += [f"{slot.name}: {one}" for one in restored.left]
        if restored.tokens > room and not slot.needed:
            left.append(f"{slot.name}: no room for {restored.tokens:,} tokens")
        elif restored.beside:
            given.append((slot.name, restored))
            room -= restored.tokens
    return given, left
