"""Which part of a session has not been looked at for lasting facts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain, takewhile
from threading import Lock
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sevenfold.conversation.flow import Flow, in_thread
from sevenfold.conversation.history import whole
from sevenfold.layers.remember import policy
from sevenfold.layers.remember.span import SearchSpan, portion_of, records_after, remarks_in, span_of
from sevenfold.memory.memory import Memory
from sevenfold.memory.unseen import UnseenSessions
from sevenfold.record.blocks import Block, read_field
from sevenfold.record.decisions import Remembered

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation


class UnreadWords:
    """The user's words in one session that no look has covered.

    That is noted in two places. The session's log says how far a look came, and memory's folder says which sessions
    have unread words, so that another session finds them if this one's process dies.
    """

    def __init__(self, c: Conversation, memory: Memory, now: float) -> None:
        self.sessions = UnseenSessions(memory.folder, c.clock)
        """The sessions of this memory that have unread words."""
        self._c = c
        self._memory = memory
        self._session = c.transcript.place.session
        self._is_noted = False
        """Whether memory's folder says that this session has unread words."""
        self._covered: set[str] = set()
        """Records up to which the conversation was looked at, in addition to the decisions in view."""
        self._caught_up: str | None = None
        """The newest boundary before which everything was looked at."""
        self._looked_at = now
        """When the conversation was last looked at."""
        self._note_lock = Lock()
        """Held while memory's folder notes that this session has unread words, or was closed."""
        self._is_left = False
        """Whether the session is closed."""

    def span(self) -> SearchSpan:
        """The part of the view that has not been looked at yet."""
        view = self._c.transcript.view
        covered_records = self._covered | {
            decision.covered for decision in view.decisions() if isinstance(decision, Remembered)
        }
        since = list(takewhile(lambda item: item.record.uuid not in covered_records, reversed(view.items)))
        all_blocks = chain.from_iterable(item.record.blocks for item in since)
        calls = [block for block in all_blocks if block.kind == "tool_use"]
        span = span_of([item.record for item in reversed(since)], self._c.remarks)
        boundary = view.boundary
        # Nothing in view was looked at, and a compaction hid something before it: that may be unread, too.
        may_hide_more = (
            len(since) == len(view.items) and boundary is not None and boundary != self._caught_up
        )
        covered = view.items[-1].record.uuid if view.items else ""  # after a rewind to the beginning
        return replace(span, covered=covered, wrote=self._agent_wrote(calls), hidden=may_hide_more)

    def portion(self) -> SearchSpan:
        """The first portion of all that has not been looked at; reads the whole log if a compaction hid some of it."""
        span = self.span()
        if not span.hidden:
            return portion_of(span)
        log = self._c.transcript.log
        items = whole(log).items
        covered_records = self._covered | {decision.covered for _, decision in log.decisions(Remembered)}
        covered_records.add(self.sessions.covered(self._session))
        portion = portion_of(span_of(records_after(items, covered_records), remarks_in(log)))
        if portion.covered == (items[-1].record.uuid if items else ""):
            self._caught_up = self._c.transcript.view.boundary
            return portion
        return replace(portion, hidden=True)

    def cover(self, record: str) -> None:
        """Record in the log that everything up to a record was looked at."""
        self._c.transcript.decide(Remembered(covered=record))
        self._covered.add(record)
        self._looked_at = self._c.clock.now()

    # -- in memory's folder ----------------------------------------------------------------------

    def note_if_any(self) -> Flow[None] | None:
        """The flow that notes that there are unread words; None if there are none, or it was noted already."""
        if self._is_noted or not policy.worth_asking(self.span().messages):
            return None
        self._is_noted = True
        return self._note()

    def note_failed(self) -> None:
        """Note it again with the next request."""
        self._is_noted = False

    def note_done(self, span: SearchSpan) -> Flow[None]:
        """Note that a look has covered a span."""
        yield from in_thread(partial(self.sessions.done, self._session, span.covered))
        self._is_noted = False

    def note_left(self, *, unread: bool) -> None:
        """Note, as the session is closed, whether it leaves unread words to the next one of the project."""
        with self._note_lock:
            self._is_left = True
            if unread:
                # A look that ended after these words were said may have noted that there are none.
                self.sessions.begin(self._session, "")
            else:
                self.sessions.leave(self._session)

    def _note(self) -> Flow[None]:
        yield from in_thread(self._note_open)

    def _note_open(self) -> None:
        with self._note_lock:
            # This runs in the background and may come after the session is closed. To say then that this process has
            # it open would keep others from looking at it for as long as the process lives.
            if not self._is_left:
                self.sessions.begin(self._session, self._c.services.process)

    def _agent_wrote(self, calls: Sequence[Block]) -> bool:
        """Whether the agent itself wrote to memory in one of these calls."""
        path = self._memory.path.encode()
        kinds = self._c.kinds
        named = [call for call in calls if (path and path in call.raw) or b'"/memories' in call.raw]
        if any(kinds.get(read_field(call.raw, "name")) in ("edit", "write") for call in named):
            return True
        # A command that names the folder may only read it, so check whether anything changed there.
        newest = next(self._memory.changes(), None) if named else None
        return newest is not None and newest.by in ("agent", "outside") and newest.at >= self._looked_at
