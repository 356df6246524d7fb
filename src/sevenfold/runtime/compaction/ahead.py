"""Compacting ahead of need: a summary is prepared in the background while the session goes on.

The part to summarise is fixed when the work begins; what is said meanwhile is kept behind the summary, word for
word. One at a time. If the part is no longer what it was when the summary is ready (another compaction, an undo, a
rewind came between), the summary is thrown away.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from msgspec import Struct

from sevenfold.errors import Refused
from sevenfold.events import SteppedAside
from sevenfold.layers.scope import Scope
from sevenfold.record.layout import Item
from sevenfold.record.rounds import rounds
from sevenfold.runtime.announce import Announcer
from sevenfold.runtime.compaction.engines import Got, Task
from sevenfold.runtime.compaction.flow import Compactor
from sevenfold.runtime.compaction.wish import Compacted, Engine, Left, Wish
from sevenfold.settings import Settings

Drafted = tuple[Got, Engine, tuple[Left, ...]]
Work = Generator[Any, Any, Drafted]
Runner = Callable[[Work, Callable[["Drafted | Exception"], None]], None]
"""Runs a flow somewhere else and calls back with what came of it."""

WISH = Wish(trigger="auto", span="up_to")


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

    @property
    def busy(self) -> bool:
        """Is a summary being made, or waiting to be used?"""
        return self._job is not None

    def begin(self, items: list[Item], settings: Settings) -> None:
        """Start on what is closed of the conversation now."""
        hidden = _closed(items)
        if self.busy or not any(item.said.role == "assistant" for item in hidden):
            return
        stamp = self._compactor.stamp()
        divided = Scope(tuple(hidden), tuple(items[len(hidden) :]), "up_to")
        task: Task = self._compactor.task(divided, WISH, "")
        self._job = Job(tuple(item.said.uuid for item in hidden), stamp.boundary, stamp.epoch)
        self._runner(self._compactor.draft(task, WISH, settings), self._done)

    def swap(self, items: list[Item], settings: Settings) -> Compacted | None:
        """Use a summary that is ready, if it still stands for the beginning of the conversation."""
        if self._job is None or self._ready is None:
            return None
        job, ready = self._job, self._ready
        self._job = self._ready = None
        stamp = self._compactor.stamp()
        front = tuple(item.said.uuid for item in items[: len(job.records)])
        if (stamp.boundary, stamp.epoch, front) != (job.boundary, job.epoch, job.records):
            reason = "the conversation has changed since: the summary made in the background is of no use"
            self._announcer.tell(SteppedAside(layer="compact", reason=reason))
            return None
        got, engine, left = ready
        divided = Scope(tuple(items[: len(front)]), tuple(items[len(front) :]), "up_to")
        try:
            return self._compactor.finish(WISH, divided, stamp, got, engine, left, settings)
        except Refused as error:
            self._announcer.tell(SteppedAside(layer="compact", reason=str(error)))
            return None

    def _done(self, came: Drafted | Exception) -> None:
        if isinstance(came, Exception):
            self._announcer.tell(
                SteppedAside(
                    layer="compact", reason=f"in the background: {came}", error=type(came).__name__
                )
            )
            self._job = None
        else:
            self._ready = came


def _closed(items: list[Item]) -> list[Item]:
    """The records of all rounds that are over; the newest is left, for the work is going on there."""
    groups = rounds(items)
    return [item for group in groups[:-1] for item in group.items]
