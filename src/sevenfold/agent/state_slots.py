"""Slots for what an agent keeps apart from its conversation: states it puts back, and announcements it repeats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from sevenfold.conversation.restore import BYTES_PER_TOKEN, Moment, Restored
from sevenfold.conversation.transcript import Attachment
from sevenfold.prompts.context import RestoredState
from sevenfold.prompts.text import Text, cut
from sevenfold.record import blocks

MOST_ANNOUNCED = 5_000
"""Tokens that announcements of one kind may take."""
LEAST = 50
"""Tokens below which a piece of something is not worth its frame."""


class State(Struct, frozen=True):
    """One thing a `StateSlot` puts back."""

    title: str
    text: str
    path: str = ""
    """Where the whole of it can be read, if it must be cut."""
    facts: Mapping[str, object] = {}
    """Other fields of its attachment, for other programs."""
    kind: str = ""
    """The kind of its attachment, if it is not that of the slot."""


class StateSlot:
    """What the work goes by and another part of the program keeps: plan, to-dos, skills, agents, permissions."""

    def __init__(
        self,
        name: str,
        states: Callable[[], Iterable[State]],
        *,
        each: int | None = None,
        together: int | None = None,
        needed: bool = False,
        kinds: Sequence[str] = (),
    ) -> None:
        """``kinds`` are the kinds of its attachments, the usual one first; none: its name."""
        self.name = name
        self.needed = needed
        self.kinds = frozenset(kinds or (name,))
        self._states = states
        self._each, self._together = each, together
        self._kind = kinds[0] if kinds else name

    def restore(self, moment: Moment) -> Restored:
        """All states in order, each cut to its budget with a note where the rest is, while there is room."""
        attachments: list[Attachment] = []
        left: list[str] = []
        room = moment.budget(self._together) if self._together is not None else moment.room
        room = room if self.needed else min(room, moment.room)
        used = 0
        for state in self._states():
            most = moment.budget(self._each) if self._each is not None else room
            text = _rendered(state, min(most, room - used) if not self.needed else most, moment)
            tokens = moment.count(text)
            if not self.needed and used + tokens > room:
                left.append(f"{state.title}: no room")
                continue
            used += tokens
            attachments.append(
                Attachment(state.kind or self._kind, (blocks.text(text),), dict(state.facts))
            )
        return Restored(tuple(attachments), used, tuple(left))


class AnnouncedSlot:
    """What the model was told of by name, as far as it is not in view afterwards: servers, skills, kinds of agents.

    ``piece`` is how one of them looks wherever it is announced, ``whole`` an announcement of several; ``facts`` gets
    the names, the pieces and the whole text.
    """

    needed = False

    def __init__(
        self,
        name: str,
        announced: Callable[[], Mapping[str, str]],
        piece: Callable[[str, str], str],
        whole: Callable[[Mapping[str, str]], Text | None],
        facts: Callable[[list[str], list[str], str], dict[str, object]],
        *,
        kind: str,
    ) -> None:
        self.name = name
        self.kinds = frozenset({kind})
        self._announced, self._piece, self._whole, self._facts = announced, piece, whole, facts
        self._kind = kind

    def restore(self, moment: Moment) -> Restored:
        """Only what would be missing, in the order it was announced; what finds no room is named."""
        room = min(moment.room, moment.budget(MOST_ANNOUNCED))
        missing = {
            name: words
            for name, words in self._announced().items()
            if not moment.says(self._piece(name, words))
        }
        left: list[str] = []
        while missing and moment.count(self._text(missing)) > room:
            left.insert(0, f"{missing.popitem()[0]}: no room")
        if not missing:
            return Restored(left=tuple(left))
        text, pieces = self._text(missing), [self._piece(*one) for one in missing.items()]
        attachment = Attachment(self._kind, (blocks.text(text),), self._facts(list(missing), pieces, text))
        return Restored((attachment,), moment.count(text), tuple(left))

    def _text(self, news: Mapping[str, str]) -> str:
        made = self._whole(news)
        return made.render() if made else ""


def _rendered(state: State, most: int, moment: Moment) -> str:
    text = RestoredState(state.title, state.text).render()
    if moment.count(text) <= most or most < LEAST:
        return text
    head = cut(state.text, (most - LEAST) * BYTES_PER_TOKEN)
    return RestoredState(state.title, f"{head}\n[Cut here.]", state.path or None).render()
