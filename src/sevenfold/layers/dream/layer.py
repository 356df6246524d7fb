"""Layer 6: once a day, after enough sessions, memory is tidied in the background.

A fork is asked which entries say the same or no longer hold; what becomes of them is decided by code
(`sevenfold.memory.consolidation`), in one change that can be undone. One process at a time dreams.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from sevenfold.conversation.flow import Flow, in_thread
from sevenfold.conversation.fork import fork
from sevenfold.errors import ModelError
from sevenfold.events import Acted, SteppedAside
from sevenfold.memory.consolidation import Consolidation, Proposal, dream, read_proposal, words_of
from sevenfold.memory.entry import shortened
from sevenfold.memory.memory import KnownEntry
from sevenfold.prompts.memory import DreamEntries
from sevenfold.record import blocks
from sevenfold.settings import Settings

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation

SOURCE = "dream"
DAY = 24 * 3600.0
BETWEEN_SCANS = 600.0
SESSIONS = 5
"""Other sessions that must have been touched since the last dream."""
LEAST_ENTRIES = 4
"""Fewer need no tidying."""


class Dream:
    """Memory, consolidated."""

    name = "dream"

    def on(self, settings: Settings) -> bool:
        """One switch."""
        return settings.dream

    def after_answer(self, c: Conversation) -> None:
        """After a finished request of the main thread: dream in the background, if it is time."""
        if c.services.memory is not None and c.source.name == "main":
            c.state(Dreamer).check()


class Dreamer:
    """Decides when a conversation dreams, and does it."""

    def __init__(self, c: Conversation) -> None:
        assert c.services.memory is not None
        self._c = c
        self._memory = c.services.memory
        self._lock = self._memory.dream_lock()
        self._scanned = float("-inf")
        self._busy = False

    def check(self) -> None:
        """Begin if all gates are open; the cheapest come first."""
        newest = self._c.transcript.view.items[-1]
        if self._busy or newest.said.role != "assistant" or newest.said.calls:
            return
        now, last = self._c.clock.now(), self._lock.last()
        if last is not None and now - last < DAY:
            return
        if now - self._scanned < BETWEEN_SCANS:
            return
        self._scanned = now
        since = self._c.services.sessions_since
        if since is None or since(last or 0.0) < SESSIONS:
            return
        if not self._c.may_spend() or not self._memory.affords(self._c.settings.memory_daily_budget):
            return
        self._busy = True
        self._c.run_aside(self._dream(), self._done)

    def _dream(self) -> Flow[Consolidation | None]:
        known = yield from in_thread(self._memory.entries)
        if len(known) < LEAST_ENTRIES or not (
            yield from in_thread(partial(self._lock.take, self._c.clock.now()))
        ):
            return None
        try:
            proposal = yield from self._ask(known)
            done = yield from in_thread(partial(dream, self._memory, proposal))
        except BaseException:
            self._lock.fail()
            raise
        self._lock.finish(self._c.clock.now())
        return done

    def _ask(self, known: list[KnownEntry]) -> Flow[Proposal | None]:
        """What a model suggests; rules alone decide if it does not keep to the format."""
        asked = fork(self._c, SOURCE)
        lines = [
            f"- {one.entry.name} ({'the user' if one.stamp.trusted else 'unconfirmed'}): "
            f"{shortened(words_of(one.entry), 300)}"
            for one in known
        ]
        asked.user(DreamEntries("\n".join(lines)).render())
        outcome = yield from asked.turn()
        if outcome.cost:
            yield from in_thread(partial(self._memory.spend, outcome.cost))
        said = "\n".join(blocks.words_of(block) for block in outcome.reply.answer.blocks)
        return read_proposal(said, known)

    def _done(self, came: Consolidation | Exception | None) -> None:
        self._busy = False
        if isinstance(came, Exception):
            reason = str(came) if isinstance(came, ModelError) else f"{type(came).__name__}: {came}"
            self._c.events.tell(
                SteppedAside(source=SOURCE, layer="dream", reason=f"memory was not tidied: {reason}")
            )
        elif came is not None and came.done:
            self._c.events.tell(
                Acted(
                    source=SOURCE,
                    layer="dream",
                    mechanism="dream",
                    what=f"dream: {'; '.join(came.done)}",
                    why="a day and five sessions since the last",
                    items=len(came.edits),
                    reference=self._memory.path,
                    undoable=False,
                )
            )
