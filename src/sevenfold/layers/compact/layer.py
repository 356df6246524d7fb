"""Layer 4: the conversation is summarised and continues from the summary, which is prepared early where possible.

Ahead of need: from a set fill level on, the summary of a fixed part is prepared in the background while the session
continues; messages that arrive in the meantime are kept verbatim after it. Only one is prepared at a time. If that part
has changed by the time the summary is ready (another compaction, an undo, a rewind, another model), it is discarded.

Collapse is another strategy: finished spans are folded one by one, each into its own summary. It starts later,
changes less at a time, and keeps everything else verbatim. While it is on, auto-compaction is off.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sevenfold.conversation.layer import Offer, TooFull
from sevenfold.conversation.restore import FilesSlot, PinsSlot, Seen
from sevenfold.conversation.results import paths_read
from sevenfold.conversation.room import parts, ways_on
from sevenfold.errors import BodyTooLarge, ContextFull, PromptTooLong, Refused
from sevenfold.layers.compact import scope, user_record
from sevenfold.layers.compact.compaction import CompactionRequest
from sevenfold.layers.compact.compactor import AUTO, Compactor
from sevenfold.layers.compact.scope import Scope
from sevenfold.layers.compact.task import SummaryTask
from sevenfold.record.layout import rounds

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation
    from sevenfold.conversation.flow import Flow
    from sevenfold.conversation.restore import Slot
    from sevenfold.errors import ModelError
    from sevenfold.layers.compact.engines import Attempt
    from sevenfold.record.layout import Item
    from sevenfold.settings import Settings

FRESH = 0.1
"""Share of the threshold by which the conversation must grow after a compaction before the next is prepared early."""
OTHER_FILES = 25
"""How many of the most recently read files may be restored."""
COLLAPSE_STARTS = 0.90
"""Share of the effective window at which folding starts."""
COLLAPSE_BLOCKS = 0.95
"""Share of the effective window at which no request is sent if folding did not help."""
COLLAPSE_SPAN = 0.25
"""Approximate size of one span, as a share of the effective window."""
COLLAPSE_LEAST = 0.02
"""Share of the effective window below which folding a span is not worth it."""
COLLAPSE_MOST = 4
"""The most spans folded before one request."""
AHEAD = CompactionRequest(trigger="auto", span="up_to")
GROWTH = 1.1
"""Factor by which the number of records must grow after a fruitless try before the next one."""
CHANGED = "the conversation has changed since: the summary made in the background is of no use"


class Compact:
    """Summarises the conversation and restores working state after the summary."""

    name = "compact"

    def on(self, settings: Settings) -> bool:
        """Always: each trigger has a switch of its own."""
        return True

    def settle(self, c: Conversation) -> Flow[None]:
        """Use the summary prepared early, if ready."""
        if c.settings.background_compaction and c.background is not None and c.state(AheadSummary).basis:
            # Results that are too big are offloaded first, or the tail that the summary keeps would be too large.
            c.ladder.freeze(c)
            # Whether a compaction may follow in this pass is decided before the summary changes the conversation.
            _ = c.state(Compactor).allowed
            yield from c.state(AheadSummary).swap()

    def offer(self, c: Conversation) -> Offer | None:
        """A full compaction if one is due; with collapse on, folding of finished spans."""
        compactor = c.state(Compactor)
        if compactor.due():
            return Offer(enough=True, urgent=compactor.is_urgent(c.last_size))
        collapses = c.settings.collapse and c.source.compacts
        if collapses and c.last_size.high >= COLLAPSE_STARTS * c.window.effective:
            return Offer(enough=True, plan="collapse", urgent=True)
        return None

    def relieve(self, c: Conversation, offer: Offer) -> Flow[bool]:
        """Compact; always True, as no more expensive layer is left to try."""
        compactor = c.state(Compactor)
        if offer.plan == "collapse":
            yield from _collapse(c)
        else:
            yield from compactor.attempt(compactor.run(AUTO))
            yield from compactor.last_resort()
        return True

    def may_follow(self, c: Conversation) -> bool:
        """Whether auto-compaction may run in this pass."""
        return c.state(Compactor).allowed

    def on_refusal(self, c: Conversation, error: ModelError | TooFull) -> Flow[bool]:
        """After a request that was too long for the provider, summarise the older part and keep the last rounds.

        With ``reactive_only``, a request larger than the window counts as refused: some servers just truncate it.
        """
        ours = isinstance(error, TooFull) and c.settings.reactive_only
        if not ours and not isinstance(error, PromptTooLong | BodyTooLarge):
            return False
        if not c.settings.reactive or not c.source.compacts:
            return False
        return (yield from c.state(Compactor).react())

    def after_answer(self, c: Conversation) -> None:
        """Start preparing a summary ahead of need, unless the notes would serve as one or none will be needed."""
        compactor = c.state(Compactor)
        size = c.last_size
        ahead = c.state(AheadSummary)
        last = compactor.last
        if not c.settings.background_compaction or ahead.basis:
            return
        if size.high < compactor.next_start_size or compactor.chooser.resting:
            return
        if last is not None and size.tokens < last.tokens_after + FRESH * c.window.threshold:
            return
        if not compactor.may_run(size) or c.ladder.has_free_summary(c, compactor.next_start_size):
            return
        if not c.ladder.needs_no_summary(c):
            ahead.begin()

    def slots(self, c: Conversation) -> Sequence[Slot]:
        """Slots for pinned records and, if the conversation can read files, for the files read most recently."""
        pins = PinsSlot(lambda: c.transcript.pinned_items())
        read = c.services.read_file
        notes = c.services.notes
        if read is None:
            return [pins]
        own_paths = {c.services.path, notes.path if notes else ""} - {""}
        return [pins, FilesSlot(lambda: recent_files(c), read, own=own_paths.__contains__)]


def recent_files(c: Conversation) -> list[Seen]:
    """The files our own tools read, newest first; if there are none, those that the caller's tools read."""
    files_read = [Seen(path, read.call) for path, read in reversed(c.reads.items())]
    if not files_read:
        theirs = paths_read(c.transcript.view, c.kinds, c.transcript.place.cwd)
        files_read = [Seen(path, call, assumed=True) for path, call in theirs.items()]
    return files_read[:OTHER_FILES]


def _collapse(c: Conversation) -> Flow[None]:
    """Fold finished spans while the conversation is too full."""
    compactor = c.state(Compactor)
    for _ in range(COLLAPSE_MOST):
        if c.size().high < COLLAPSE_STARTS * c.window.effective:
            return
        sizes = int(COLLAPSE_LEAST * c.window.effective), int(COLLAPSE_SPAN * c.window.effective)
        span = scope.finished(c.transcript.view, *sizes, c.item_tokens)
        if span is None:
            break
        request = CompactionRequest(trigger="collapse", span="range", record=span[0], until=span[1])
        if (yield from compactor.attempt(compactor.run(request))) is None:
            break
    if (size := c.size().high) >= COLLAPSE_BLOCKS * c.window.effective:
        raise ContextFull(
            f"the conversation has about {size:,} tokens and nothing is left that could be folded; collapse "
            f"stops sending at {int(COLLAPSE_BLOCKS * c.window.effective):,}; next: "
            f"{', or '.join(ways_on(c, parts(c)))}"
        )


def _shortfall(attempt: Attempt | None) -> str:
    """Why no summary came of the work in the background; empty if there is one."""
    return "" if attempt is not None and attempt.engine != "extractive" else "no summary came of it"


class AheadSummary:
    """Prepares summaries in the background, one at a time."""

    def __init__(self, c: Conversation) -> None:
        self._c = c
        self._compactor = c.state(Compactor)
        self._aside = self._compactor.chooser.report_failure
        self.basis: tuple[object, ...] = ()
        """What the summary under way was made from: the last boundary, the epoch, and the records it replaces."""
        self._ready: Attempt | None = None
        self._tried: tuple[str | None, int] | None = None
        """The last boundary and the number of records when the previous attempt began."""

    def begin(self) -> None:
        """Start summarising all but the newest round, in which the work is still under way."""
        view = self._c.transcript.view
        items = view.items
        hidden: list[Item] = []
        for finished in rounds(view.items)[:-1]:
            hidden += finished.items
        if not any(item.record.role == "assistant" for item in hidden):
            return
        if self._tried and self._tried[0] == view.boundary and len(items) < self._tried[1] * GROWTH:
            return
        self._tried = view.boundary, len(items)
        divided = Scope(tuple(hidden), tuple(items[len(hidden) :]), "up_to")
        if self._compactor.ask_listeners(AHEAD, divided):
            self.basis = self._compactor.basis(divided)
            self._c.run_background(self._work(divided), self._done, "summary", _shortfall)

    @property
    def is_under_way(self) -> bool:
        """Whether a summary is being made."""
        return bool(self.basis) and self._ready is None

    def try_again(self) -> None:
        """Start again with the next answer, whatever became of the attempt before: the user has agreed to it."""
        self._tried = None

    def swap(self) -> Flow[None]:
        """Compact with the summary if it is ready and still covers the beginning of the conversation."""
        basis = self.basis
        ready = self._ready
        items = self._c.transcript.view.items
        if ready is None:
            return
        self.basis = ()
        self._ready = None
        count = len(basis) - 2
        divided = Scope(tuple(items[:count]), tuple(items[count:]), "up_to")
        try:
            if self._compactor.basis(divided) != basis:
                raise Refused(CHANGED)
            done = yield from self._compactor.compact_with(AHEAD, divided, ready, agreed=True)
            if isinstance(done, str):
                self._aside(done)
        except Refused as error:
            self._aside(str(error))

    def _work(self, divided: Scope) -> Flow[Attempt | None]:
        hooks = yield from self._compactor.ask_hooks(AHEAD)
        if hooks is None:
            return None
        pool = yield from user_record.gather(self._c, divided)
        if self._compactor.is_hopeless(AHEAD, divided, self._compactor.shown_unnamed(pool)):
            return None
        task = SummaryTask(self._c, divided, AHEAD, pool, "\n\n".join(hooks.instructions))
        return (yield from self._compactor.chooser.draft(task))

    def _done(self, outcome: Attempt | Exception | None) -> None:
        if isinstance(outcome, Exception):
            self._aside(f"in the background: {outcome}", outcome)
        elif outcome is not None and outcome.engine == "extractive":
            # Code can write such a summary at any time, with everything that was said until then.
            self._aside("in the background: no model had a summary, so there is nothing to prepare")
        elif outcome is not None:
            self._ready = outcome
            return
        self.basis = ()
