"""Restores content after a summary, slot by slot: each slot knows what it restores, and how much at most.

A slot is asked at every compaction. It works from its own source rather than from the conversation, so its content is
as good after the tenth compaction as after the first. If the slots do not all fit, the least important are left out:
slots are listed from the most important to the least.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.conversation.results import shown_whole
from sevenfold.conversation.transcript import Attachment
from sevenfold.errors import SevenfoldError
from sevenfold.prompts.context import HookContext, PinnedRecord, RestoredFile
from sevenfold.prompts.text import cut
from sevenfold.record import blocks
from sevenfold.record.layout import Item

BYTES_PER_TOKEN = 3
"""For cutting a text to a budget before its tokens are estimated."""
MOST_FILES = 5
"""The maximum number of files restored."""
MARGIN = 50
"""Tokens kept free, because slot sizes are estimates and the ids around their texts differ."""

Count = Callable[[str], int]
Scaled = Callable[[int], int]
"""Scales a budget meant for a full-size window to this one."""


class Moment(Struct, frozen=True):
    """The state of a compaction that a slot may use."""

    kept: Sequence[Item]
    """Messages that stay verbatim."""
    count: Count
    """Estimates the tokens of a text."""
    room: int = 1_000_000
    """Tokens left for this slot and all later ones."""
    budget: Scaled = int
    front: Callable[[], str] = str
    """Returns the text of the system prompt."""
    keeps_front: bool = False
    """Whether the system prompt stays as it was sent, together with the messages after it."""

    def says(self, text: str) -> bool:
        """Whether this text will be in view anyway."""
        if text in self.front():
            return True
        kept_blocks = chain.from_iterable(item.shown for item in self.kept)
        return any(text in blocks.words_of(block) for block in kept_blocks)

    def shows(self, call: str) -> bool:
        """Whether the kept messages show the result of this call in full, exactly as the tool returned it."""
        return shown_whole(call, self.kept)


class Restored(Struct, frozen=True):
    """What a slot restores, and what it had to leave out."""

    attachments: tuple[Attachment, ...] = ()
    tokens: int = 0
    left: tuple[str, ...] = ()
    """What was not restored, and why."""


class Slot(Protocol):
    """One kind of content that is restored after every compaction."""

    name: str
    needed: bool
    """Whether it is restored even if there is no room."""
    kinds: frozenset[str]
    """The kinds of attachments it writes; since they are restored anyway, they need not be summarised."""

    def restore(self, moment: Moment) -> Restored:
        """Return what belongs after the summary now."""


class PinsSlot:
    """Records the user pinned, verbatim."""

    name = "pins"
    needed = True
    kinds = frozenset({"pinned"})

    def __init__(self, pinned: Callable[[], Iterable[Item]]) -> None:
        self._pinned = pinned

    def restore(self, moment: Moment) -> Restored:
        """Each pinned record that is not among the kept messages."""
        visible = {item.record.uuid for item in moment.kept}
        attachments: list[Attachment] = []
        tokens = 0
        for item in self._pinned():
            uuid = item.record.uuid
            if uuid not in visible and (text := pinned_text(item)):
                attachments.append(Attachment("pinned", (blocks.text(text),), {"record": uuid}))
                tokens += moment.count(text)
        return Restored(tuple(attachments), tokens)


def pinned_text(item: Item) -> str:
    """The text of a pinned record, verbatim and labelled with its speaker; empty if it has no text."""
    text = "\n".join(filter(None, (blocks.words_of(block) for block in item.record.blocks)))
    speaker = "model" if item.record.role == "assistant" else "tool" if item.record.answers else "user"
    return PinnedRecord(item.record.uuid, speaker, text).render() if text else ""


class Seen(Struct, frozen=True):
    """A file the model has read, and the call that showed it."""

    path: str
    call: str = ""
    assumed: bool = False
    """Whether a caller's tool is only assumed to have read it here; it may not be a file on this machine."""


class FilesSlot:
    """The most recently read files, with their current content on disk.

    Skips files that the kept messages still show, the session's own files (its transcript, its notes…) according to
    ``own``, and files that may no longer be read.
    """

    name = "files"
    needed = False
    kinds = frozenset({"file"})

    def __init__(
        self,
        recent: Callable[[], Sequence[Seen]],
        read: Callable[[str], str],
        *,
        may_read: Callable[[str], bool] = lambda path: True,
        own: Callable[[str], bool] = lambda path: False,
        each: int = 5_000,
        together: int = 50_000,
    ) -> None:
        self._recent = recent
        self._read = read
        self._own = own
        self._each = each
        self._together = together
        self.may_read = may_read
        """Whether a path may be read; replaced by a stricter rule where there are permissions."""

    def restore(self, moment: Moment) -> Restored:
        """Restore files, newest first; those that cannot be read or do not fit are listed with the reason."""
        attachments: list[Attachment] = []
        left_out: list[str] = []
        used = 0
        room = min(moment.room, moment.budget(self._together))
        wanted = [file for file in self._recent() if not (self._own(file.path) or moment.shows(file.call))]
        for file in wanted[:MOST_FILES]:
            text, reason = self._text(file.path, moment)
            if reason and file.assumed:
                continue
            if reason:
                left_out.append(f"{file.path}: {reason}")
            elif used + (tokens := moment.count(text)) > room:
                left_out.append(f"{file.path}: no room")
            else:
                used += tokens
                facts: dict[str, object] = {
                    "filename": file.path,
                    "displayPath": file.path,
                    "content": text,
                }
                attachments.append(Attachment("file", (blocks.text(text),), facts))
        return Restored(tuple(attachments), used, tuple(left_out))

    def _text(self, path: str, moment: Moment) -> tuple[str, str]:
        """The text to restore for a file, or the reason why it cannot be restored."""
        if not self.may_read(path):
            return "", "it may no longer be read"
        try:
            text = self._read(path)
        except (OSError, UnicodeError, SevenfoldError) as error:
            return "", str(error)
        return RestoredFile(path, cut(text, moment.budget(self._each) * BYTES_PER_TOKEN)).render(), ""


def kinds(slots: Iterable[Slot]) -> frozenset[str]:
    """The kinds of attachments that slots restore."""
    return frozenset[str]().union(*(slot.kinds for slot in slots))


def from_hooks(context: Sequence[str]) -> Attachment:
    """An attachment with the context that SessionStart hooks provide after a compaction."""
    text = HookContext("\n\n".join(context)).render()
    event = {"hookEvent": "SessionStart", "hookName": "SessionStart:compact", "toolUseID": ""}
    return Attachment("hook_additional_context", (blocks.text(text),), {"content": list(context), **event})


def restore(
    slots: Sequence[Slot], moment: Moment, room: int
) -> tuple[list[tuple[str, Restored]], list[str]]:
    """Restore all slots that fit; returns them, and a list of what was left out, failed slots included."""
    restored_slots: list[tuple[str, Restored]] = []
    left_out: list[str] = []
    room -= MARGIN
    for slot in slots:
        here = replace(moment, room=max(0, room))
        try:
            restored = slot.restore(here)
        except Exception as error:  # noqa: BLE001 (a slot may be a third party's; the compaction continues)
            left_out.append(f"{slot.name}: {error}")
            continue
        left_out += [f"{slot.name}: {name}" for name in restored.left]
        if not restored.attachments:
            continue
        if restored.tokens > room and not slot.needed:
            left_out.append(f"{slot.name}: no room for {restored.tokens:,} tokens")
            continue
        restored_slots.append((slot.name, restored))
        room -= restored.tokens
    return restored_slots, left_out
