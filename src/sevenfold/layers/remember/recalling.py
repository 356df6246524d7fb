"""Recalls from memory: attaches the entries that fit the user's message, and counts whether the answer used them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from sevenfold.conversation.flow import Flow, in_thread
from sevenfold.errors import SevenfoldError
from sevenfold.layers.remember import policy
from sevenfold.layers.remember.evidence import recalled_texts
from sevenfold.layers.remember.policy import ATTACHMENT
from sevenfold.layers.remember.reports import acted, aside
from sevenfold.layers.remember.span import users_typed
from sevenfold.memory.memory import KnownEntry, Memory
from sevenfold.memory.search import FittingEntry, StatementVectors, fitting, taken_up
from sevenfold.prompts.memory import Recalled
from sevenfold.record import blocks
from sevenfold.record.entries import Said

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation


class MemoryRecall:
    """Recalls entries in one conversation."""

    def __init__(self, c: Conversation, memory: Memory) -> None:
        self._c = c
        self._memory = memory
        self._searched_for: str | None = None
        """The user message for which memory was last searched."""
        self._recalled: list[FittingEntry] = []
        """The entries attached to the user's newest message, until the turn ends."""
        self._vectors: StatementVectors | None = None
        """Compares by meaning; None until it is needed, because loading the weights takes a moment."""
        self._texts: list[str] = []
        """The texts of the entries last compared; some may have no vector yet."""
        self._told_news = False
        """Whether the user was told in this session what something else did to memory."""

    def attach(self) -> Flow[None]:
        """Attach the entries that fit the user's newest message and are not in view yet, if any."""
        items = self._c.transcript.view.items
        if not items or items[-1].record.uuid == self._searched_for:
            return
        prompt = users_typed(items[-1].record)
        if not prompt.strip():
            return
        self._searched_for = items[-1].record.uuid
        yield from self._tell_news()
        try:
            fits = yield from in_thread(partial(self._fitting, prompt))
        except SevenfoldError as error:
            aside(self._c, str(error))
            return
        in_view = "\n".join(recalled_texts(self._c))
        still_exists = self._c.services.still_exists
        fits = [fit for fit in fits if policy.shown([fit], still_exists) not in in_view]
        if not fits:
            return
        files = [fit.known_entry.entry.file for fit in fits]
        text = Recalled(policy.shown(fits, still_exists)).render()
        record = self._c.transcript.attach(ATTACHMENT, {"files": files}, [blocks.text(text)])
        self._recalled = fits
        reasons = ", ".join(map(policy.reason, fits))
        acted(self._c, "recall", f"recalled from memory: {reasons}", record)

    def log_turn(self, answer: Said) -> None:
        """Add the finished turn to the daily log, and count the use of what was recalled for it, in the background."""
        items = reversed(self._c.transcript.view.items)
        typed = (users_typed(item.record).strip() for item in items)
        prompt = next(filter(None, typed), "")
        answered = blocks.text_of(answer.blocks)
        session = self._c.transcript.place.session
        line = policy.log_line(self._c.clock.now(), session, prompt, answered)
        used = [
            (fit.known_entry, taken_up(fit.known_entry.entry, prompt, answered)) for fit in self._recalled
        ]
        self._recalled = []
        self._c.run_background(self._write_log(line, used, f"{session}/{answer.uuid}"), self._logged)

    def likeness(self) -> StatementVectors | None:
        """The comparison by meaning, if installed and switched on; loaded on first use."""
        meaning = self._c.services.meaning
        switched_on = self._c.settings.recall_meaning
        embedder = meaning.embedder(switched_on=switched_on) if meaning is not None else None
        if embedder is None:
            return None
        if self._vectors is None:
            self._vectors = StatementVectors(embedder)
        return self._vectors

    def _tell_news(self) -> Flow[None]:
        """Tell the user, at the first message of a session, what something else did to memory."""
        if self._told_news:
            return
        self._told_news = True
        try:
            for line in (yield from in_thread(self._memory.news)):
                aside(self._c, line)
        except SevenfoldError as error:
            aside(self._c, str(error))

    def _fitting(self, prompt: str) -> list[FittingEntry]:
        """The fitting entries of the project's and the user's memory."""
        user_memory = self._c.services.user_memory
        entries = [*self._memory.entries(), *(user_memory.entries() if user_memory is not None else ())]
        likeness = self.likeness() if entries else None
        if likeness is not None:
            self._texts = [entry.entry.statement for entry in entries]
            likeness.prepare(self._texts)
        return fitting(prompt, entries, self._memory.today(), likeness)

    def _write_log(self, line: str, used: Sequence[tuple[KnownEntry, bool]], answer: str) -> Flow[None]:
        yield from in_thread(partial(self._memory.log_request, line))
        users = self._c.services.user_memory
        for known, helped in used:
            memory = users if users is not None and known.scope == users.path else self._memory
            yield from in_thread(partial(memory.count_use, known.entry.file, helped=helped, answer=answer))
        vectors = self._vectors
        # `prepare` computes a few vectors at a time; entries without one are compared from the next request on.
        while vectors is not None and (yield from in_thread(partial(vectors.prepare, self._texts))):
            pass

    def _logged(self, error: Exception | None) -> None:
        if error is not None:
            aside(self._c, f"the log of the day could not be written: {error}")
