"""Layer 4: the conversation is summarised and goes on from the summary; ahead of need where that is possible.

Ahead: from a set fill level the summary of a fixed part is prepared in the background while the session goes on; what
is said in the meantime is kept behind it, verbatim. One at a time; if the part has changed when the summary is ready
(another compaction, an undo, a rewind, another model), it is thrown away.

Collapse is another strategy: finished spans are folded, one by one, into summaries of their own. It starts later,
changes less at a time, and leaves everything else as it was said. While it is on, auto-compaction is off.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sevenfold.conversation.layer import Offer, TooFull
from sevenfold.conversation.restore import FilesSlot, PinsSlot, Seen
from sevenfold.conversation.results import paths_read
from sevenfold.conversation.room import parts, ways_on
from sevenfold.errors import BodyTooLarge, ContextFull, PromptTooLong, Refused
from sevenfold.layers.compact import scope
from sevenfold.layers.compact.compactor import AUTO, Compactor
from sevenfold.layers.compact.engines import SummaryTask
from sevenfold.layers.compact.request import CompactionRequest
from sevenfold.layers.compact.scope import Scope
from sevenfold.record.layout import rounds

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation
    from sevenfold.conversation.flow import Flow
    from sevenfold.conversation.restore import Slot
    from sevenfold.errors import ModelError
    from sevenfold.layers.compact.engines import Got
    from sevenfold.settings import Settings

FRESH = 0.1
"""Of the threshold, how much must have been said since a compaction before another is prepared ahead of need."""
OTHER_FILES = 25
"""Of the files read, how many of the newest may be restored."""
COLLAPSE_STARTS = 0.90
"""Share of the effective window at which spans are folded."""
COLLAPSE_BLOCKS = 0.95
"""Share of the effective window at which no request is sent if folding did not help."""
COLLAPSE_SPAN = 0.25
"""Share of the effective window one span has, about."""
COLLAPSE_LEAST = 0.02
"""Share of the effective window below which folding a span is not worth it."""
COLLAPSE_MOST = 4
"""Spans folded before one request."""
AHEAD = CompactionRequest(trigger="auto", span="up_to")
GROWTH = 1.1
"""After a try that came to nothing, the conversation must have so many times the records for the next."""
CHANGED = "the conversation has changed since: the summary made in the background is of no use"


class Compact:
    """The conversation is summarised, and working state restored."""

    name = "compact"

    def on(self, settings: Settings) -> bool:
        """Each trigger has a switch of its own."""
        return True

    def settle(self, c: Conversation) -> Flow[None]:
        """Use a summary made ahead that is ready; after offloading, or the kept tail would weigh too much."""
        if c.settings.background_compaction and c.background is not None and c.state(AheadSummary).basis:
            # Whether a compaction may follow is decided on the conversation as it is before the summary is used.
            _ = c.state(Compactor).allowed
            yield from c.state(AheadSummary).swap()

    def offer(self, c: Conversation) -> Offer | None:
        """A full compaction if one is due; with collapse on, the fold of a span."""
        compactor = c.state(Compactor)
        if compactor.due():
            return Offer(enough=True, urgent=compactor.presses(c.last_size))
        collapses = c.settings.collapse and c.source.compacts
        if collapses and c.last_size.high >= COLLAPSE_STARTS * c.window.effective:
            return Offer(enough=True, plan="collapse", urgent=True)
        return None

    def relieve(self, c: Conversation, offer: Offer) -> Flow[bool]:
        """Compact; whatever comes of it, nothing dearer is left."""
        compactor = c.state(Compactor)
        if offer.plan == "collapse":
            yield from _collapse(c)
        else:
            yield from compactor.attempt(compactor.run(AUTO))
            yield from compactor.last_resort()
        return True

    def may_follow(self, c: Conversation) -> bool:
        """If auto-compaction may run in this pass."""
        return c.state(Compactor).allowed

    def on_refusal(self, c: Conversation, error: ModelError | TooFull) -> Flow[bool]:
        """A request was too long for the provider: summarise the older part, keep the last rounds.

        With ``reactive_only`` one that is larger than the window counts as refused: some servers only cut it short.
        """
        ours = isinstance(error, TooFull) and c.settings.reactive_only
        if not ours and not isinstance(error, PromptTooLong | BodyTooLarge):
            return False
        if not c.settings.reactive or not c.source.compacts:
            return False
        return (yield from c.state(Compactor).react())

    def after_answer(self, c: Conversation) -> None:
        """Begin a summary ahead of need, unless the notes would serve."""
        compactor, size = c.state(Compactor), c.last_size
        ahead, last = c.state(AheadSummary), compactor.last
        if not c.settings.background_compaction or ahead.basis:
            return
        if size.high < compactor.next_begins or compactor.chooser.resting:
            return
        if last is not None and size.tokens < last.tokens_after + FRESH * c.window.threshold:
            return
        if compactor.may_run(size) and not c.ladder.spared(c, compactor.next_begins):
            ahead.begin()

    def slots(self, c: Conversation) -> Sequence[Slot]:
        """Pins, and the files read most recently where the conversation can read files."""
        pins = PinsSlot(lambda: c.transcript.pinned_items())
        read, notes = c.services.read_file, c.services.notes
        if read is None:
            return [pins]
        own = {c.services.path, notes.path if notes else ""} - {""}
        return [pins, FilesSlot(lambda: _recent_files(c), read, own=own.__contains__)]


def _recent_files(c: Conversation) -> list[Seen]:
    """Those our own tools have noted; without any, those that a caller's tools have read."""
    known = [Seen(path, read.call) for path, read in reversed(c.reads.items())]
    if not known:
        theirs = paths_read(c.transcript.view, c.kinds, c.transcript.place.cwd)
        known = [Seen(path, call, assumed=True) for path, call in theirs.items()]
    return known[:OTHER_FILES]


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


class AheadSummary:
    """Prepares one summary at a time, in the background."""

    def __init__(self, c: Conversation) -> None:
        self._c = c
        self._compactor = c.state(Compactor)
        self._aside = self._compactor.chooser.step_aside
        self.basis: tuple[object, ...] = ()
        """What the summary under way is made from: compaction and epoch before it, and the records it replaces."""
        self._ready: Got | None = None
        self._tried: tuple[str | None, int] | None = None
        """The compaction before, and how many records there were, when this was last begun."""

    def begin(self) -> None:
        """Start on what is closed of the conversation now; the newest round is left, for the work goes on there."""
        view = self._c.transcript.view
        items, hidden = view.items, [item for group in rounds(view.items)[:-1] for item in group.items]
        if not any(item.said.role == "assistant" for item in hidden):
            return
        if self._tried and self._tried[0] == view.boundary and len(items) < self._tried[1] * GROWTH:
            return
        self._tried = view.boundary, len(items)
        divided = Scope(tuple(hidden), tuple(items[len(hidden) :]), "up_to")
        if self._compactor.may(AHEAD, divided):
            self.basis = self._compactor.basis(divided)
            self._c.run_background(self._work(divided), self._done, "summary")

    def swap(self) -> Flow[None]:
        """Use a summary that is ready, if it still covers the beginning of the conversation."""
        basis, ready, items = self.basis, self._ready, self._c.transcript.view.items
        if ready is None:
            return
        self.basis, self._ready = (), None
        count = len(basis) - 2
        divided = Scope(tuple(items[:count]), tuple(items[count:]), "up_to")
        try:
            if self._compactor.basis(divided) != basis:
                raise Refused(CHANGED)
            yield from self._compactor.served(AHEAD, divided, ready, agreed=True)
        except Refused as error:
            self._aside(str(error))

    def _work(self, divided: Scope) -> Flow[Got | None]:
        hooks = yield from self._compactor.ask_hooks(AHEAD)
        if hooks is None:
            return None
        task = SummaryTask(self._c, divided, AHEAD, "\n\n".join(hooks.instructions))
        return (yield from self._compactor.chooser.draft(task))

    def _done(self, came: Got | Exception | None) -> None:
        if isinstance(came, Exception):
            self._aside(f"in the background: {came}", came)
        elif came is not None and came.engine == "extractive":
            self._aside("in the background: no model had a summary, so there is nothing to prepare")
        elif came is not None:
            self._ready = came
            return
        self.basis = ()
