"""The summary to be made: what it covers, and the instructions with which a model is asked for it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from sevenfold.conversation import restore
from sevenfold.layers.compact import shorten
from sevenfold.layers.compact.compaction import CompactionRequest
from sevenfold.layers.compact.naming import OfferedWords, listing
from sevenfold.layers.compact.scope import Scope, messages_of
from sevenfold.profiles import Profile
from sevenfold.prompts.compact import Compact
from sevenfold.record import blocks

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation
    from sevenfold.layers.compact.user_record import Pool
    from sevenfold.record.layout import Item

LISTED = 4_000
"""Tokens that the list of the user's words may have even if their budget is smaller."""
MOST_LISTED = 4
"""The most that this list may take, as a multiple of their budget: beyond it, some are offered another time."""
NAMES = 8_000
"""The most tokens a model may write to name what lasts, in a call that asks for nothing else."""
INSTRUCTION = 2_000
"""Tokens of the instruction to summarise, without the list of the user's words."""
PROVIDERS_INSTRUCTION = 16_000
"""The most characters of an instruction for the provider's own compaction."""
CHARACTERS_PER_TOKEN = 5
"""A cautious estimate, by which the list is fitted into that instruction."""


class SummaryTask:
    """The summary to be made: which part of the conversation it covers, and the instructions for it."""

    def __init__(
        self, c: Conversation, scope: Scope, request: CompactionRequest, pool: Pool, hooks: str = ""
    ) -> None:
        self.c = c
        self.scope = scope
        self.request = request
        self._pool = pool
        self.steered = bool(request.instructions or hooks)
        self._user = c.gate.text(request.instructions) if c.gate else request.instructions
        self._hooks = c.gate.text(hooks) if c.gate else hooks
        whole = scope.span == "from" or not scope.kept
        shown = (*scope.front, *scope.hidden)
        self.prefix = tuple(
            c.transcript.view.messages() if whole else messages_of(c.transcript.view, shown)
        )
        """The messages up to the end of the part to summarise, as they were sent."""
        self.upto = None if whole else shown[-1].record.uuid
        """The record that ends those messages; None if they include everything in view."""
        self.offered: set[str] = set()
        """The records of the user's messages that the instructions listed."""
        self._restored = restore.kinds(c.slots)

    @property
    def lean(self) -> tuple[Item, ...]:
        """The part to summarise, without what a summary cannot use or what is restored after it anyway."""
        return tuple(shorten.lean(self.scope.hidden, self._restored))

    def tokens(self, items: Iterable[Item]) -> float:
        """Estimated tokens of these records."""
        return sum(self.c.epoch.gauge.estimator.tokens(item.weight) for item in items)

    def instruction(self, part: str | None = None, items: Sequence[Item] | None = None) -> str:
        """The instruction for the model; ``part`` ("2 of 3") if it is to summarise only one part, ``items``.

        If the user's words exceed their budget, it lists those that the model is to look at for what lasts: of a part
        those said in it, and with the first part those of earlier compactions. What finds no room in the list is left
        to a call of its own.
        """
        records = None
        if items is not None:
            records = {item.record.uuid for item in items}
            if any(item.record.summary for item in items):
                records |= {message.record for message in self._pool.to_offer} - self._pool.since
        room = self._listed_room
        # Lines are cut where the request has little room left, which costs nothing: the model has the conversation.
        listed = self._listing(min(self._free, room), MOST_LISTED * room, records)
        return self._instruction(part, listed)

    def providers_instruction(self) -> str:
        """The instruction for the provider's own compaction, with the list if there is room for all of it."""
        plain = self._instruction(None, OfferedWords())
        room = (PROVIDERS_INSTRUCTION - len(plain) - INSTRUCTION) // CHARACTERS_PER_TOKEN
        listed = self._listing(room, room)
        whole = self._instruction(None, listed if listed.is_complete else OfferedWords())
        if len(whole) <= PROVIDERS_INSTRUCTION:
            return whole
        self.offered.clear()
        return plain[:PROVIDERS_INSTRUCTION]

    def naming(self, model: Profile) -> OfferedWords:
        """What a call of its own, to this model, is to be asked about: what no instruction has listed."""
        free = model.window - min(NAMES, model.max_output) - INSTRUCTION
        # That call does not have the conversation, so that a line which is cut may hide what lasts.
        room = min(free, MOST_LISTED * self._listed_room)
        records = {message.record for message in self._pool.to_offer} - self.offered
        return self._listing(room, room, records)

    def _listing(self, room: int, most_room: int, records: Collection[str] | None = None) -> OfferedWords:
        return listing(self._pool.to_offer, self._pool.budget, self.c.count, room, most_room, records)

    def _instruction(self, part: str | None, listed: OfferedWords) -> str:
        self.offered |= listed.records
        first = self.scope.hidden[0]
        begins = next((text for block in first.record.blocks if (text := blocks.words_of(block))), "")
        return Compact.of(
            self.scope.span,
            begins=begins,
            user=self._user,
            hooks=self._hooks,
            part=part,
            listed=listed.text,
        ).render()

    @property
    def _listed_room(self) -> int:
        """Tokens for the list of the user's words: what those may take, or a little more if that is little."""
        return max(self._pool.budget, LISTED)

    @property
    def _free(self) -> int:
        """Tokens that the conversation leaves free."""
        window = self.c.window
        return max(0, window.context - window.reserve - self.c.size().sent - INSTRUCTION)
