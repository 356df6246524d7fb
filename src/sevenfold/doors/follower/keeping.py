"""One conversation of another program, kept within its window: recorded like all others, and our layers work on it.

The program keeps its own list and sends all of it each time. What the layers decided about it is applied to every
request: results moved to disk or cleared are shown as such, and what a summary stands for is left out. No model is
waited for: a summary is made beside the conversation, and used once it is ready; code makes one only if the
conversation would not fit otherwise. In any doubt the program's own bytes are sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from threading import RLock

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.conversation import edits
from sevenfold.conversation.background import Threads
from sevenfold.conversation.conversation import Conversation
from sevenfold.conversation.flow import drive
from sevenfold.conversation.transcript import Transcript
from sevenfold.doors.follower.alignment import Alignment, MessageBlocks, SentBlock, without_compaction
from sevenfold.doors.follower.consent import AtHand, Consent
from sevenfold.doors.follower.deciding import as_decided, without_thinking
from sevenfold.doors.follower.growth import ConversationGrowth
from sevenfold.doors.follower.judging import (
    MOST_DEARER,
    JudgedRequest,
    ProgramsCompaction,
    RequestJudge,
)
from sevenfold.doors.follower.kept_figures import KeptFigures
from sevenfold.doors.follower.leading import led, most_tokens, own_frame, room_made
from sevenfold.doors.follower.own_calls import CallsLikeTheProgram, NewestRequest
from sevenfold.doors.follower.paying import is_funded, may_ask, outlook_of, summary_usd
from sevenfold.doors.follower.program_view import ProgramView
from sevenfold.doors.follower.recording import (
    Preceding,
    RecordedConversation,
    RequestChanges,
    RequestComparison,
)
from sevenfold.errors import ContextFull, InputError, Refused
from sevenfold.events import Acted, Event, Proposed, Veto
from sevenfold.layers.compact.layer import AheadSummary
from sevenfold.ports import Client, Clock, Inherited
from sevenfold.record.authorship import is_users
from sevenfold.record.blocks import Block
from sevenfold.record.decisions import Relayed, Undone
from sevenfold.record.layout import Item
from sevenfold.record.log import Answer
from sevenfold.record.usage import MILLION, Usage
from sevenfold.session import factory
from sevenfold.wire.client_request import Api, ClientRequest

MOST_REFUSALS = 2
"""After how many refusals of what we sent a conversation is only recorded."""


class Bodies(Struct, frozen=True):
    """What to send in place of a program's own body."""

    body: bytes | None = None
    """None for the program's own."""
    untouched: bytes | None = None
    """What to send if the provider refuses ``body``; None for the program's own."""
    waits: bool = False
    """Whether nothing is decided yet: a summary is under way, and without it too much would be sent."""


class KeptConversation(RecordedConversation):
    """A conversation that is recorded, and kept within its window."""

    def __init__(
        self,
        transcript: Transcript,
        name: str,
        parts: factory.SessionParts,
        clock: Clock,
        note: Callable[[str], None],
        consent: Consent,
    ) -> None:
        """``note`` is told of decisions that a person should know of; ``consent`` is asked before layers act."""
        self.consent = consent
        self._note = note
        self._judge = RequestJudge()
        self._done = KeptFigures()
        """What our layers did; costs are counted elsewhere."""
        self._is_given_up = False
        """Whether nothing is changed any more, because what we sent was dearer than the program's own."""
        self._continues = False
        """Whether the newest request continues the one before it, as the program wrote it."""
        self._program_view = ProgramView()
        self._parts = parts
        self._clock = clock
        self._conversation: Conversation | None = None
        self._client: Client | None = None
        """Whom our own calls ask; behind what was sent last, where the API allows that."""
        self._led_through: Client | None = None
        self._inherited = Inherited()
        self._making_room = False
        self._may_wait = False
        """Whether the newest request may wait for a summary that is under way."""
        self._is_waiting = False
        """Whether it has to."""
        self._left_alone_at = ""
        """The newest message of the user when the provider refused what we sent: until another one, nothing is
        changed."""
        self._refusals = 0
        self._was_refused = False
        """Whether the provider has refused what we sent for the newest request."""
        self._growth = ConversationGrowth(is_new=transcript.view.answered_at == "")
        self._goes_on_beyond = False
        """Whether the program has gone on beyond the threshold, and not compacted by itself since."""
        self._sent = b""
        """The newest body that was sent for it."""
        self._own = b""
        """The newest body that the program wrote."""
        self._threads = Threads(self._asked, None, RLock())
        self._api: Api = "messages"
        super().__init__(transcript, name)
        self._view_changed()
        stored = any(item.record.stored for item in transcript.view.items)
        self._acted = bool(self._program_view.ours) or stored
        """Whether anything was ever sent in another way than the program wrote it."""

    # -- recording ---------------------------------------------------------------------------------

    def followed(self) -> list[Item]:
        """The records that the program still sends, hidden ones of ours included, in their order."""
        return self._program_view.sent(self.transcript.view.items)

    def took(self, comparison: RequestComparison, preceding: Preceding) -> RequestChanges:
        """Record what is new in a request; returns what changed since the request before."""
        with self._guard:
            changes = super().took(comparison, preceding)
            self._continues = comparison.alignment.happened == "grew" and not changes.names
            if comparison.alignment.happened in ("compacted", "went_back"):
                self._view_changed()
            return changes

    def compare(self, request: ClientRequest, *, named: bool) -> RequestComparison:
        """How a request relates to what is recorded."""
        with self._guard:
            return super().compare(request, named=named)

    def aligned(self, sent: Sequence[SentBlock], *, named: bool) -> Alignment:
        """How the blocks of a request relate to what is recorded."""
        alignment = super().aligned(sent, named=named)
        if alignment.happened != "compacted" or not self._program_view.ours:
            return alignment
        if any(self.is_new_summary(block, bool(block.recorded)) for block in alignment.leading):
            return alignment
        # It left out its oldest rounds. Our summary stands for them, or will.
        return without_compaction(self.known(), sent)

    def go_back(self, to: str) -> None:
        """Record that the program went back to this record."""
        super().go_back(to)
        self._view_changed()

    def took_before_compaction(self, request: ClientRequest) -> None:
        """Record what only the request for a summary shows."""
        with self._guard:
            super().took_before_compaction(request)

    def relay(self, request: Relayed) -> None:
        """Record a request; before its answer, if there is one."""
        with self._guard:
            super().relay(request)

    def aside(self, answer: Answer, source: str) -> None:
        """Record what an answer cost that is not part of the conversation."""
        with self._guard:
            super().aside(answer, source)

    def begin_epoch(self, preceding: Preceding, changes: RequestChanges) -> None:
        """Record what precedes the messages from now on, and let our layers work behind it."""
        super().begin_epoch(preceding, changes)
        if self._conversation is None or self._conversation.profile.model != preceding.model:
            self._conversation = self._led(preceding)

    def compact(self, alignment: Alignment) -> None:
        """Record a compaction of the program's own; it takes the place of ours where both concern the same records."""
        while alignment.kept and self.transcript.view.item(alignment.kept[0]) is None:
            boundary = self.transcript.view.boundary
            if boundary is None or boundary not in self._program_view.boundaries:
                break
            self.transcript.decide(Undone(decision=boundary))
        self._goes_on_beyond = False
        self._growth.compacted_by("program")
        super().compact(alignment)

    def take_results(self, results: Sequence[Block]) -> None:
        """Record tool results; those that are too large are stored, and shown as a preview."""
        if self._conversation is None:
            super().take_results(results)
        else:
            self._conversation.ladder.admit(self._conversation, list(results))

    def answer(self, answer: Answer) -> None:
        """Record the answer to the newest request, and learn from the size that the provider reports."""
        with self._guard:
            measured = self.record_answer(answer)
            conversation = self._conversation
            if conversation is None:
                return
            if measured is not None:
                self._growth.answered(measured.usage.total)
                self._judged(conversation, measured.usage)
            if self.consent.newly_agreed("compact"):
                conversation.state(AheadSummary).try_again()
            begins_work = not self._is_left_alone() and self._is_time_for_summary(conversation)
            conversation.answered_elsewhere(measured, begins_work=begins_work)

    # -- keeping -----------------------------------------------------------------------------------

    @property
    def _guard(self) -> AbstractContextManager[object]:
        """Held while the records change: a summary is made in another thread."""
        return nullcontext() if self._conversation is None else self._conversation.lock

    def led_through(self, client: Client, api: Api, inherited: Inherited) -> None:
        """Ask this client for summaries from now on: it has the newest request's address and credential.

        What our calls take over from that request is ``inherited``.
        """
        if client is not self._led_through:
            self._client = CallsLikeTheProgram(client, self._newest_request)
        self._led_through = client
        self._api = api
        self._inherited = inherited
        if self._conversation is not None:
            self._conversation.set_background_runner(self._threads)

    def bodies(
        self,
        request: ClientRequest,
        sent: MessageBlocks,
        preceding: Preceding,
        own: bytes,
        *,
        may_wait: bool = False,
    ) -> Bodies:
        """What to send in place of this request, which was taken in, with the program's ``own`` body.

        If it ``may_wait``, a summary that is under way is not forestalled by one that code makes.
        """
        if self._conversation is None:
            # It was recorded before, and nothing in front of the messages has changed since.
            self._conversation = self._led(preceding)
        conversation = self._conversation
        with conversation.lock:
            before = self.transcript.view.boundary
            self._may_wait = may_wait and self._has_summary_under_way(conversation)
            self._is_waiting = False
            self._make_room(conversation)
            if self._is_waiting and not self._is_left_alone():
                return Bodies(waits=True)
            if self.transcript.view.boundary != before:
                self._growth.compacted_by("we")
                self._view_changed()
            conversation.sent_elsewhere(own_frame(preceding, conversation.profile.max_output, self._api))
            untouched = self._untouched(request, sent) if self._acted else None
            if self._is_left_alone():
                self._goes_out(own, own if untouched is None else untouched)
                return Bodies(untouched)
            if self._left_alone_at:
                # What was thought meanwhile is valid behind the program's own messages only.
                self._left_alone_at = ""
                conversation.open_epoch(
                    "the program's own messages were sent",
                    drops_thinking=conversation.profile.thinking.bound,
                )
            body = self._rewritten(request, sent)
            self._goes_out(own, own if body is None else body)
            self._acted = self._acted or body is not None
            return Bodies(body, untouched if body is not None else None)

    @property
    def has_summary_under_way(self) -> bool:
        """Whether a summary is being made beside the conversation."""
        conversation = self._conversation
        if conversation is None:
            return False
        with conversation.lock:
            return self._has_summary_under_way(conversation)

    def _has_summary_under_way(self, conversation: Conversation) -> bool:
        return conversation.state(AheadSummary).is_under_way

    def went_out_untouched(self, own: bytes) -> None:
        """Take note that the program's ``own`` body was sent; nothing is changed until the user says something else.

        What was decided about it came too late, or could not be decided.
        """
        self._goes_out(own, own)
        self._left_alone_at = self._newest_words()

    def shown_to_summarise(self, request: ClientRequest) -> Bodies:
        """What to send in place of the program's own request for a summary, whose last words are not recorded."""
        with self._guard:
            sent = self.messages_of(request).blocks
            untouched = self._untouched(request, sent) if self._acted else None
            if self._is_left_alone():
                return Bodies(untouched)
            body = self._rewritten(request, sent)
            return Bodies(body, untouched if body is not None else None)

    def leave_alone(self) -> None:
        """Change nothing until the user says something else, and nothing ever again from the second time on.

        The provider refused what we sent, and gets the program's own body.
        """
        self._refusals += 1
        self._was_refused = True
        self.went_out_untouched(self._own)

    def ended(self, *, is_refused: bool) -> None:
        """Take note of the end of a request: if the program's own body was refused as well, it was not for our changes.

        Programs try fields that not every provider knows, and send the same again without them.
        """
        if self._was_refused and is_refused:
            self._refusals -= 1
            self._left_alone_at = ""
        self._was_refused = False

    @property
    def led(self) -> Conversation | None:
        """The conversation in which our layers work; None before the first request of this process."""
        return self._conversation

    @property
    def figures(self) -> KeptFigures:
        """What was done since it was opened, and what that saved and cost."""
        own_usd = 0.0 if self._conversation is None else self._conversation.own_usd
        return replace(self._done, saved_usd=self._judge.savings.usd, own_usd=own_usd)

    def undo(self, decision: str) -> str:
        """Undo a decision of our layers, on the user's order; from then on nothing is changed in this conversation."""
        conversation = self._conversation
        if conversation is None:
            raise Refused(
                "the program has sent nothing since the gateway was started; order it again after its next request"
            )
        with conversation.lock:
            if self._may_show_all(conversation, decision):
                self.transcript.decide(Undone(decision=decision))
            else:
                edits.undo(conversation, decision)
            self._view_changed()
            self._is_given_up = True
        return f"{decision} is undone; nothing is changed in this conversation until the gateway is started again"

    def _may_show_all(self, conversation: Conversation, decision: str) -> bool:
        """Whether this is our newest compaction, and what it took out would be accepted by the model.

        The window that we keep may be far smaller than the model's.
        """
        if decision != self.transcript.view.boundary or decision not in self._program_view.boundaries:
            return False
        view = self.transcript.view_after(Undone(decision=decision))
        return conversation.epoch.gauge.size(view).high < most_tokens(conversation)

    def settle(self, seconds: float = 5.0) -> None:
        """Wait at most so long for a summary under way."""
        self._threads.close(seconds)

    def close(self) -> None:
        """Wait a moment for a summary under way, and close the log."""
        self.settle()
        super().close()

    def _newest_request(self) -> NewestRequest:
        """The newest request, as our own calls go by it; they stand behind it in the API that they are written for."""
        return NewestRequest(self._sent if self._api == "messages" else b"", self._inherited)

    def _goes_out(self, own: bytes, sent: bytes) -> None:
        """Take note of what is sent for the newest request."""
        self._own = own
        self._sent = sent
        is_changed = sent is not own
        self._judge.sent(JudgedRequest(len(own), len(sent), self._clock.now(), is_changed, self._continues))

    def _judged(self, conversation: Conversation, usage: Usage) -> None:
        """Learn what the newest request cost; give up if what we send stays dearer than the program's own."""
        threshold = conversation.window.threshold
        alone = ProgramsCompaction(threshold, summary_usd(conversation, threshold) or 0.0)
        savings = self._judge.answered(usage, conversation.profile, self._clock.now(), alone)
        if savings.dearer < MOST_DEARER or self._is_given_up:
            return
        if self._judge.untouched_tokens >= most_tokens(conversation):
            # Dear or not: the program's own request would not be answered.
            return
        self._is_given_up = True
        self._note(
            f"{MOST_DEARER} requests of {self.name} in a row were dearer than the program's own would have been, so "
            "nothing is changed in this conversation any more"
        )

    def _is_time_for_summary(self, conversation: Conversation) -> bool:
        """Whether a summary that is begun now would be used, and be worth what it costs."""
        threshold = conversation.window.threshold
        if self._growth.went_on_beyond(threshold):
            self._goes_on_beyond = True
        if self._goes_on_beyond:
            return may_ask(conversation)
        if not self._growth.is_time_for_summary(threshold):
            return False
        outlook = outlook_of(conversation, self._growth)
        if self._growth.is_last_chance(threshold):
            return outlook.leaves_less and may_ask(conversation)
        saved_usd = self._judge.savings.certain_usd
        bill_usd = conversation.account.usd
        return outlook.pays and is_funded(outlook.outlay_usd, conversation.own_usd, saved_usd, bill_usd)

    def _make_room(self, conversation: Conversation) -> None:
        self._making_room = True
        try:
            with suppress(InputError, ContextFull):
                # Nothing is new, or a call has no result yet; or it does not fit, and the provider will say so.
                drive(room_made(conversation), None, guard=conversation.lock)
        finally:
            self._making_room = False

    def _led(self, preceding: Preceding) -> Conversation:
        """The conversation on which our layers work, on the records of this one."""
        conversation = led(self.transcript, self._parts, preceding, self._api, [self._listen], self._clock)
        self._threads = Threads(self._asked, None, conversation.lock)
        if self._client is not None:
            conversation.set_background_runner(self._threads)
        return conversation

    def _asked(self) -> Client:
        assert self._client is not None
        return self._client

    def _listen(self, event: Event) -> Veto | None:
        """Leave compaction to the summary that is made beside the conversation, as long as everything fits."""
        if isinstance(event, Acted):
            self._done = self._done.after(event)
            self.consent.acted(event)
        conversation = self._conversation
        if conversation is None or not isinstance(event, Proposed):
            return None
        fits = conversation.last_size.high < conversation.window.blocking
        if self._making_room and event.layer == "compact" and fits:
            return Veto("the summary is made beside the conversation")
        if self._making_room and event.layer == "compact" and self._may_wait:
            self._is_waiting = True
            return Veto("a summary is under way")
        if not self.consent.may(event, self._at_hand(conversation)):
            return Veto("nobody has agreed to it")
        return None

    def _at_hand(self, conversation: Conversation) -> AtHand:
        """What a proposal says about the conversation."""
        size = conversation.last_size.tokens
        price = conversation.profile.price(size)
        read_usd = None if price is None else price.read / MILLION
        return AtHand(size, conversation.window.effective, read_usd, summary_usd(conversation) or 0.0)

    def _newest_words(self) -> str:
        items = reversed(self.transcript.view.items)
        return next((item.record.uuid for item in items if is_users(item.record)), "")

    # -- what is sent ------------------------------------------------------------------------------

    def _is_left_alone(self) -> bool:
        if self._is_given_up or self._refusals >= MOST_REFUSALS:
            return True
        return bool(self._left_alone_at) and self._left_alone_at == self._newest_words()

    def _rewritten(self, request: ClientRequest, sent: MessageBlocks) -> bytes | None:
        """The request as our layers decided; None if no decision concerns it."""
        return as_decided(request, sent, self.known(), self.transcript.view, self._program_view)

    def _untouched(self, request: ClientRequest, sent: MessageBlocks) -> bytes | None:
        """The program's own messages, without thinking that is only valid behind what we sent; None for its bytes."""
        conversation = self._conversation
        if conversation is None or not conversation.profile.thinking.bound:
            return None
        return without_thinking(request, sent)

    def _view_changed(self) -> None:
        """Find out anew what the program still sends of what a summary of ours stands for."""
        self._program_view = ProgramView.of(self.transcript.log, self.transcript.view)
