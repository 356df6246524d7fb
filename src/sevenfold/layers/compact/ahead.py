"""Compacting ahead of need: a summary is prepared in the background while the session goes on.

The part to summarise is fixed when the work begins; what is said meanwhile is kept behind the summary, word for
word. One at a time. If the part is no longer what it was when the summary is ready (another compaction, an undo, a
rewind, another model came between), the summary is thrown away.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from sevenfold.conversation import flow as effects
from sevenfold.conversation.announcer import Announcer
from sevenfold.conversation.background import Runner
from sevenfold.errors import Refused
from sevenfold.events import SteppedAside
from sevenfold.layers.compact.chooser import Drafted
from sevenfold.layers.compact.engines import SOURCE
from sevenfold.layers.compact.flow import Compactor, Flow
from sevenfold.layers.compact.request import Wish
from sevenfold.layers.compact.scope import Scope
from sevenfold.record.layout import Item, rounds
from sevenfold.settings import Settings

WISH = Wish(trigger="auto", span="up_to")
GROWTH = 1.1
"""After a try that came to nothing, the conversation must have so many times the records for the next."""
CHANGED = "the conversation has changed since: the summary made in the background is of no use"


class Job(Struct, frozen=True):
    """A summary that is being made."""

    records: tuple[str, ...]
    """What it stands for."""
    boundary: str | None
    epoch: str


class Ahead:
    """Prepares one summary at a time."""

    def __init__(self, compactor: Compactor, announcer: Announcer, runner: Runner) -> None:
        self._compactor = compactor
        self._announcer = announcer
        self._runner = runner
        self._job: Job | None = None
        self._ready: Drafted | None = None
        self._tried: tuple[str | None, int] | None = None
        """The compaction before, and how many records there were, when this was last begun."""

    @property
    def busy(self) -> bool:
        """Is a summary being made, or waiting to be used?"""
        return self._job is not None

    @property
    def making(self) -> bool:
        """Is a summary being made?"""
        return self._job is not None and self._ready is None

    def begin(self, items: Sequence[Item], settings: Settings) -> None:
        """Start on what is closed of the conversation now."""
        hidden = _closed(items)
        if self.busy or not any(item.said.role == "assistant" for item in hidden):
            return
        boundary = self._compactor.stamp().boundary
        if self._tried is not None and self._tried[0] == boundary and len(items) < self._tried[1] * GROWTH:
            return
        self._tried = boundary, len(items)
        divided = Scope(tuple(hidden), tuple(items[len(hidden) :]), "up_to")
        if not self._compactor.may(WISH, divided, settings):
            return
        stamp = self._compactor.stamp()
        self._job = Job(tuple(item.said.uuid for item in hidden), stamp.boundary, stamp.epoch)
        self._runner(self._work(divided, settings), self._done)

    def swapping(self, items: Sequence[Item], settings: Settings) -> Flow:
        """Use a summary that is ready, if it still stands for the beginning of the conversation."""
        if self._job is None:
            return None
        job, ready = self._job, self._ready
        stamp = self._compactor.stamp()
        front = tuple(item.said.uuid for item in items[: len(job.records)])
        if (stamp.boundary, stamp.epoch, front) != (job.boundary, job.epoch, job.records):
            if ready is not None:
                self._job = self._ready = None
                self._aside(CHANGED)
            return None
        if ready is None:
            return None
        self._job = self._ready = None
        divided = Scope(tuple(items[: len(front)]), tuple(items[len(front) :]), "up_to")
        try:
            return (yield from self._compactor.prepared(WISH, divided, ready, settings))
        except Refused as error:
            self._aside(str(error))
            return None

    def _work(self, divided: Scope, settings: Settings) -> effects.Flow[Drafted | None]:
        hooks = yield from self._compactor.asking(WISH)
        if hooks is None:
            return None
        task = self._compactor.task(divided, WISH, "\n\n".join(hooks.instructions))
        return (yield from self._compactor.chooser.draft(task, WISH, settings))

    def _done(self, came: Drafted | Exception | None) -> None:
        if isinstance(came, Exception):
            self._aside(f"in the background: {came}", type(came).__name__)
        elif came is not None and came[1] == "extractive":
            self._aside("in the background: no model had a summary, so there is nothing to prepare")
        elif came is not None:
            self._ready = came
            return
        self._job = None

    def _aside(self, reason: str, error: str = "") -> None:
        self._announcer.tell(SteppedAside(source=SOURCE, layer="compact", reason=reason, error=error))


def _closed(items: Sequence[Item]) -> list[Item]:
    """The records of all rounds that are over; the newest is left, for the work is going on there."""
    groups = rounds(items)
    return [item for group in groups[:-1] for item in group.items]
