"""How a conversation keeps its epoch: what is sent before the messages, and the decisions that change it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sevenfold.conversation.epoch import epoch_record, frame_of
from sevenfold.conversation.options import OVER_QUOTA
from sevenfold.conversation.turn import Exchange
from sevenfold.record.decisions import Epoch
from sevenfold.request.frame import Frame, Lifetimes
from sevenfold.request.watch import Sent

if TYPE_CHECKING:
    from sevenfold.conversation.gate import Gate
    from sevenfold.conversation.history import LastRequest
    from sevenfold.conversation.options import Services
    from sevenfold.record.window import Window


class EpochKeeping(Exchange):
    """An exchange with a log of its own, in which its epochs are recorded."""

    gate: Gate | None
    services: Services
    window: Window
    resumed: LastRequest | None
    """The last request of an earlier run, which this run's first request is compared with; None afterwards."""

    def want(self, frame: Frame) -> None:
        """Switch to this frame as soon as that loses nothing."""
        self.epoch = replace(self.epoch, wanted=self._gated(frame))

    def _gated(self, frame: Frame) -> Frame:
        return self.gate.frame(frame) if self.gate else frame

    @contextmanager
    def atomic(self) -> Iterator[None]:
        """Make all decisions in this block take effect together or not at all, in the log and in this object."""
        with self.lock:
            epoch_before = self.epoch
            try:
                with self.transcript.atomic():
                    yield
            except BaseException:
                self.epoch = epoch_before
                raise

    def reframe(self, frame: Frame, reason: str, *, lifetimes: Lifetimes | None = None) -> None:
        """Open a new epoch with another frame."""
        self.epoch = replace(
            self.epoch.sending(frame),
            wanted=frame,
            amended=None,
            lifetimes=lifetimes or self.epoch.lifetimes,
        )
        self.open_epoch(reason, drops_thinking=self.profile.thinking.bound, announced=False)

    def return_to(self, epoch: Epoch) -> None:
        """Return to the frame of an earlier epoch; does nothing if that epoch had another model."""
        earlier_frame = frame_of(epoch)
        current_frame = self.epoch.frame
        if earlier_frame.model == current_frame.model:
            self.epoch = self.epoch.sending(replace(earlier_frame, max_tokens=current_frame.max_tokens))

    def announce(self, reason: str) -> None:
        """Announce a decision that changes content already sent, so that the resulting cache miss is expected."""
        self.epoch = self.epoch.announced(reason)

    def open_epoch(
        self,
        reason: str,
        *,
        drops_thinking: bool = False,
        after: str | None = None,
        before: str | None = None,
        announced: bool = True,
        thinking_stays_valid: bool = False,
    ) -> Epoch:
        """Open an epoch; ``drops_thinking`` spares thinking up to ``after`` and from ``before`` on.

        Pass ``announced=False`` for a change by the caller: the cache watch then names the part that differs.
        ``thinking_stays_valid`` vouches for the thinking that is left.
        """
        if announced:
            self.announce(reason)
        record = epoch_record(self, self.epoch.frame, reason, drops_thinking)
        record = replace(record, drops_thinking_after=after, drops_thinking_before=before)
        epoch = self.transcript.decide(record)
        self._take_lifetimes(epoch)
        self.epoch = replace(
            self.epoch,
            billed=None,
            opened=(*self.epoch.opened, epoch),
            thinking_known_valid=(
                self.epoch.thinking_known_valid or after is not None or thinking_stays_valid
            ),
        )
        return epoch

    def take_opened(self) -> tuple[Epoch, ...]:
        """The epochs opened since this was last called."""
        opened = self.epoch.opened
        if opened:
            self.epoch = replace(self.epoch, opened=())
        return opened

    def cache_was_read(self, sent: Sent, at: float) -> None:
        """Note that a fork has read what this conversation last ``sent`` from the cache, which extends its lifetime."""
        watched = self.epoch.watched
        if watched.sent is sent:
            self.epoch = replace(self.epoch, watched=replace(watched, sent=replace(sent, at=at)))

    def vouch_for_thinking(self) -> None:
        """Note that the thinking in view is valid despite changes to earlier content."""
        self.epoch = replace(self.epoch, thinking_known_valid=True)

    def next_lifetimes(self) -> Lifetimes:
        """The cache lifetimes of an epoch that opens now: short once the account is over its quota."""
        if self.epoch.lifetimes == Lifetimes() or self._within_quota():
            return self.epoch.lifetimes
        return Lifetimes()

    def _take_lifetimes(self, epoch: Epoch) -> None:
        """Use the lifetimes of a recorded epoch; within an epoch they never change."""
        lifetimes = Lifetimes(**epoch.lifetimes)
        if lifetimes != self.epoch.lifetimes:
            self.epoch = replace(self.epoch, lifetimes=lifetimes)
            self.events.aside("cache", f"an hour in the cache: {OVER_QUOTA}, so five minutes from here on")

    def _within_quota(self) -> bool:
        asks = self.services.within_quota
        if asks is None:
            return True
        try:
            return asks()
        except Exception as error:  # noqa: BLE001 (a caller's function must not stop the conversation)
            self.events.aside("cache", f"within_quota failed: {error}", error=error)
            return False

    def compacted(self) -> None:
        """Switch to the epoch that a recorded compaction opened."""
        epoch = self.transcript.view.epoch
        if epoch is None:
            return
        self.announce("compact")
        self._take_lifetimes(epoch)
        self.epoch = replace(
            self.epoch.sending(frame_of(epoch)),
            tail=None,
            opened=(*self.epoch.opened, epoch),
            thinking_known_valid=True,
        )

    def resume_watch(self) -> None:
        """Before the first request of this run, continue watching the cache where an earlier run stopped."""
        last = self.resumed
        if last is not None:
            self.resumed = None
            sent = last.sent(self.transcript.log, self.transcript.view)
            self.epoch = replace(self.epoch, watched=self.epoch.watched.resume(sent, last.usage))
