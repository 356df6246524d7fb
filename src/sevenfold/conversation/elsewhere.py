"""How a conversation learns of requests that another program makes and sends for it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sevenfold.conversation.epoch_keeping import EpochKeeping
from sevenfold.record.usage import Account, Usage

if TYPE_CHECKING:
    from sevenfold.conversation.background import Runner
    from sevenfold.conversation.transcript import Transcript
    from sevenfold.record.layout import Measured
    from sevenfold.request.frame import Frame


class AskedElsewhere(EpochKeeping):
    """An exchange that may also be led by another program, which prepares and sends the requests itself."""

    transcript: Transcript
    account: Account
    background: Runner | None
    """Runs background work; None while there is no model to ask."""

    @abstractmethod
    def heard(self, usage: Usage) -> None:
        """Take note that the newest answer is on record."""

    @abstractmethod
    def begin_background_work(self) -> None:
        """Let layers start what they do in the background after an answer, if they may spend anything."""

    def sent_elsewhere(self, frame: Frame) -> None:
        """Note that everything in view was sent by another program, behind this frame."""
        with self.lock:
            if frame != self.epoch.frame:
                self.set_epoch(replace(self.epoch.sending(frame), wanted=frame))
            self.account = replace(self.account, tip=self.transcript.view.tip)

    def answered_elsewhere(self, measured: Measured | None, *, begins_work: bool) -> None:
        """Learn from an answer that another program got and that is on record; ``measured`` is the size it reports.

        ``begins_work`` says whether layers may start what they do in the background.
        """
        with self.lock:
            usage = measured.usage if measured else Usage()
            gauge = self.epoch.gauge.observe(measured) if measured else self.epoch.gauge
            self.set_epoch(replace(self.epoch, gauge=gauge))
            self.account = self.account.billed(usage.cost(self.profile) if measured else None)
            self.heard(usage)
            if begins_work:
                self.begin_background_work()

    @contextmanager
    def asking_nobody(self) -> Iterator[None]:
        """While this lasts, layers ask no model: what they do, they do by code, and at once."""
        runner = self.background
        self.background = None
        try:
            yield
        finally:
            self.background = runner
