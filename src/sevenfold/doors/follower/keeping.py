"""One conversation of another program, kept within its window: recorded like all others, and our layers work on it.

The program keeps its own list and sends all of it each time. What the layers decided about it is applied to every
request: results moved to disk or cleared are shown as such, and what a summary stands for is left out. No model is
waited for: a summary is made beside the conversation, and used once it is ready; code makes one only if the
conversation would not fit otherwise. In any doubt the program's own bytes are sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from threading import RLock
from types import MappingProxyType

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from sevenfold.conversation import turn
from sevenfold.conversation.background import Threads
from sevenfold.conversation.conversation import Conversation
from sevenfold.conversation.epoch import frame_of
from sevenfold.conversation.flow import Flow, drive
from sevenfold.conversation.resume import read
from sevenfold.conversation.transcript import Transcript
from sevenfold.doors.follower.alignment import Alignment, SentBlock, grown, positions_of
from sevenfold.doors.follower.recording import (
    Preceding,
    RecordedConversation,
    RequestChanges,
    RequestComparison,
)
from sevenfold.doors.follower.rewriting import BlockChange, NotSent, ShownAs, rewritten
from sevenfold.errors import ContextFull, InputError
from sevenfold.events import Event, Proposed, Veto
from sevenfold.layers.compact.compaction import OUTPUT_CAP
from sevenfold.ports import Client, Log
from sevenfold.profiles import find
from sevenfold.record.authorship import is_users, typed
from sevenfold.record.blocks import THINKING, Block, encode_json
from sevenfold.record.calls import original_id
from sevenfold.record.decisions import Relayed, Undone
from sevenfold.record.entries import Boundary, Link, Said
from sevenfold.record.layout import Item
from sevenfold.record.log import Answer
from sevenfold.record.view import View
from sevenfold.request.frame import Frame
from sevenfold.session import factory
from sevenfold.wire.client_request import Api, ClientRequest, tool_name
from sevenfold.wire.openai import from_function

COMPACT_PERCENT = 80.0
"""Share of the window at which we compact at the latest, so that the program's own compaction is not needed."""
KINDS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("Read", "read", "read_file", "NotebookRead", "view"), "read"),
        **dict.fromkeys(("Bash", "bash", "shell", "exec_command", "local_shell", "execute"), "shell"),
        **dict.fromkeys(("Grep", "Glob", "LS", "grep", "glob", "ls", "search", "list_dir"), "search"),
        **dict.fromkeys(("WebFetch", "WebSearch", "web_fetch", "web_search"), "web"),
        **dict.fromkeys(("Edit", "MultiEdit", "NotebookEdit", "edit_file", "apply_patch"), "edit"),
        **dict.fromkeys(("Write", "write_file"), "write"),
    }
)
"""What the tools of well-known programs do; results of any other tool are never cleared."""
MOST_REFUSALS = 2
"""After how many refusals of what we sent a conversation is only recorded."""
_OUTPUT_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_OF_ONE_REQUEST = frozenset({*_OUTPUT_LIMITS, "stream_options", "diagnostics", "previous_response_id"})
"""Settings of a program's request that our own calls do not repeat."""
SYSTEM_MESSAGE = "system_message"


class Bodies(Struct, frozen=True):
    """What to send in place of a program's own body."""

    body: bytes | None = None
    """None for the program's own."""
    untouched: bytes | None = None
    """What to send if the provider refuses ``body``; None for the program's own."""


class KeptConversation(RecordedConversation):
    """A conversation that is recorded, and kept within its window."""

    def __init__(self, transcript: Transcript, name: str, parts: factory.SessionParts) -> None:
        self._hidden: tuple[Item, ...] = ()
        """Records that a summary of ours stands for, and that the program still sends."""
        self._boundaries: frozenset[str] = frozenset()
        """Compactions of ours."""
        self._ours: frozenset[str] = frozenset()
        """Records in view that the program does not know: our summary and what was restored after it."""
        self._parts = parts
        self._conversation: Conversation | None = None
        self._client: Client | None = None
        self._making_room = False
        self._left_alone_at = ""
        """The newest message of the user when the provider refused what we sent: until another one, nothing is
        changed."""
        self._refusals = 0
        self._threads = Threads(self._asked, None, RLock())
        self._api: Api = "messages"
        super().__init__(transcript, name)
        self._find_hidden()
        stored = any(item.said.stored for item in transcript.view.items)
        self._acted = bool(self._ours) or stored
        """Whether anything was ever sent in another way than the program wrote it."""

    # -- recording ---------------------------------------------------------------------------------

    def followed(self) -> list[Item]:
        """The records that the program still sends, hidden ones of ours included, in their order."""
        return [
            *self._hidden,
            *(item for item in self.transcript.view.items if item.said.uuid not in self._ours),
        ]

    def took(self, comparison: RequestComparison, preceding: Preceding) -> RequestChanges:
        """Record what is new in a request; returns what changed since the request before."""
        with self._guard:
            changes = super().took(comparison, preceding)
            if comparison.alignment.happened in ("compacted", "went_back"):
                self._find_hidden()
            return changes

    def compare(self, request: ClientRequest, *, named: bool) -> RequestComparison:
        """How a request relates to what is recorded."""
        with self._guard:
            comparison = super().compare(request, named=named)
            alignment = comparison.alignment
            if alignment.happened != "compacted" or not self._ours:
                return comparison
            if any(self.is_summary(block) for block in alignment.leading):
                return comparison
            # It left out its oldest rounds. Our summary stands for them, or will.
            sent = [block for message in self._compared(request) for block in message]
            return replace(comparison, alignment=grown(self.known(), sent))

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
            if boundary is None or boundary not in self._boundaries:
                break
            self.transcript.decide(Undone(decision=boundary))
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
            if self._conversation is not None:
                self._conversation.answered_elsewhere(measured, begins_work=not self._is_left_alone())

    # -- keeping -----------------------------------------------------------------------------------

    @property
    def _guard(self) -> AbstractContextManager[object]:
        """Held while the records change: a summary is made in another thread."""
        return nullcontext() if self._conversation is None else self._conversation.lock

    def led_through(self, client: Client, api: Api) -> None:
        """Ask this client for summaries from now on: it has the newest request's address and credential."""
        self._client = client
        self._api = api
        if self._conversation is not None:
            self._conversation.set_background_runner(self._threads)

    def bodies(self, request: ClientRequest, preceding: Preceding) -> Bodies:
        """What to send in place of this request, which was taken in."""
        if self._conversation is None:
            # It was recorded before, and nothing in front of the messages has changed since.
            self._conversation = self._led(preceding)
        conversation = self._conversation
        with conversation.lock:
            before = self.transcript.view.boundary
            self._make_room(conversation)
            if self.transcript.view.boundary != before:
                self._find_hidden()
            conversation.sent_elsewhere(_own_frame(preceding, conversation.profile.max_output, self._api))
            sent = self._compared(request)
            untouched = self._untouched(request, sent) if self._acted else None
            if self._is_left_alone():
                return Bodies(untouched)
            if self._left_alone_at:
                # What was thought meanwhile is valid behind the program's own messages only.
                self._left_alone_at = ""
                conversation.open_epoch(
                    "the program's own messages were sent",
                    drops_thinking=conversation.profile.thinking.bound,
                )
            body = self._rewritten(request, sent)
            self._acted = self._acted or body is not None
            return Bodies(body, untouched if body is not None else None)

    def shown_to_summarise(self, request: ClientRequest) -> bytes | None:
        """What to send in place of the program's own request for a summary, whose last words are not recorded."""
        with self._guard:
            return None if self._is_left_alone() else self._rewritten(request, self._compared(request))

    def leave_alone(self) -> None:
        """Change nothing until the user says something else, and nothing ever again from the second time on.

        The provider refused what we sent.
        """
        self._refusals += 1
        self._left_alone_at = self._newest_words()

    @property
    def own_usd(self) -> float:
        """What our own calls for it have cost since it was opened, as far as their prices are known."""
        return 0.0 if self._conversation is None else self._conversation.own_usd

    def settle(self, seconds: float = 5.0) -> None:
        """Wait at most so long for a summary under way."""
        self._threads.close(seconds)

    def close(self) -> None:
        """Wait a moment for a summary under way, and close the log."""
        self.settle()
        super().close()

    def _make_room(self, conversation: Conversation) -> None:
        self._making_room = True
        try:
            with suppress(InputError, ContextFull):
                # Nothing is new, or a call has no result yet; or it does not fit, and the provider will say so.
                drive(_room_made(conversation), None, guard=conversation.lock)
        finally:
            self._making_room = False

    def _led(self, preceding: Preceding) -> Conversation:
        """The conversation on which our layers work, on the records of this one."""
        settings = self._parts.settings.current()
        percent = min(settings.compact_percent or COMPACT_PERCENT, COMPACT_PERCENT)
        # A program's conversation gets no calls of ours that it could do without.
        kept = replace(
            settings,
            notes=False,
            idle_compaction=False,
            compact_percent=percent,
            # The provider's own compaction needs beta features, which are the program's to choose.
            compact_engines=("fork", "plain"),
        )
        epoch = self.transcript.view.epoch
        assert epoch is not None
        names = (tool_name(raw) for raw in preceding.tools)
        conversation = factory.conversation(
            replace(self._parts, settings=kept),
            preceding.model,
            {"source": "sdk", "listen": [self._listen]},
            find(preceding.model),
            frame_of(epoch),
            transcript=self.transcript,
            kinds={name: KINDS[name] for name in names if name in KINDS},
        )
        conversation.set_epoch(
            conversation.epoch.sending(_own_frame(preceding, conversation.profile.max_output, self._api))
        )
        self._threads = Threads(self._asked, None, conversation.lock)
        if self._client is not None:
            conversation.set_background_runner(self._threads)
        return conversation

    def _asked(self) -> Client:
        assert self._client is not None
        return self._client

    def _listen(self, event: Event) -> Veto | None:
        """Leave compaction to the summary that is made beside the conversation, as long as everything fits."""
        conversation = self._conversation
        if not self._making_room or conversation is None or not isinstance(event, Proposed):
            return None
        if event.layer == "compact" and conversation.last_size.high < conversation.window.blocking:
            return Veto("the summary is made beside the conversation")
        return None

    def _newest_words(self) -> str:
        items = reversed(self.transcript.view.items)
        return next((item.said.uuid for item in items if is_users(item.said)), "")

    # -- what is sent ------------------------------------------------------------------------------

    def _is_left_alone(self) -> bool:
        if self._refusals >= MOST_REFUSALS:
            return True
        return bool(self._left_alone_at) and self._left_alone_at == self._newest_words()

    def _compared(self, request: ClientRequest) -> list[list[SentBlock]]:
        """The blocks of each message of a request."""
        messages = (self.message_read(raw, request) for raw in request.raw_messages())
        return [
            [SentBlock(compared, number, role, block) for role, block, compared in message.parts]
            for number, message in enumerate(messages)
        ]

    def _rewritten(self, request: ClientRequest, sent: Sequence[Sequence[SentBlock]]) -> bytes | None:
        """The request as our layers decided; None if no decision concerns it."""
        known = self.known()
        blocks = [block for message in sent for block in message]
        records = [
            None if position is None else known[position].record for position in positions_of(known, blocks)
        ]
        hidden = {item.said.uuid: item for item in self._hidden}
        changes = _changes(blocks, records, self.transcript.view, hidden)
        if not changes:
            return None
        counts = list(map(len, sent))
        return rewritten(
            request, counts, changes, self._summary_shown(), _place_of_summary(counts, changes)
        )

    def _untouched(self, request: ClientRequest, sent: Sequence[Sequence[SentBlock]]) -> bytes | None:
        """The program's own messages, without thinking that is only valid behind what we sent; None for its bytes."""
        conversation = self._conversation
        if conversation is None or not conversation.profile.thinking.bound:
            return None
        thinking: dict[tuple[int, int], BlockChange] = {
            (number, part): NotSent()
            for number, message in enumerate(sent)
            for part, block in enumerate(message)
            if block.block.kind in THINKING
        }
        return rewritten(request, list(map(len, sent)), thinking, (), len(sent)) if thinking else None

    def _summary_shown(self) -> list[Block]:
        items = (item for item in self.transcript.view.items if item.said.uuid in self._ours)
        return [block for item in items for block in item.shown]

    def _find_hidden(self) -> None:
        """Find out what the program still sends of what a summary of ours stands for."""
        view = self.transcript.view
        in_view = {item.said.uuid for item in view.items}
        if view.boundary is None:
            self._hidden = ()
            self._ours = frozenset()
            return
        view_of_theirs, self._boundaries = as_the_program_has_it(self.transcript.log)
        theirs = view_of_theirs.items
        self._hidden = tuple(item for item in theirs if item.said.uuid not in in_view)
        self._ours = frozenset(in_view - {item.said.uuid for item in theirs})


def as_the_program_has_it(log: Log) -> tuple[View, frozenset[str]]:
    """The view as if there were no compactions but the program's own; and the compactions of ours."""
    view = View(weighs=False)
    ours: set[str] = set()
    boundaries: set[str] = set()
    for position, entry in read(log):
        match entry:
            case Boundary(own=True, uuid=uuid, logical_parent=parent):
                ours.add(uuid)
                boundaries.add(uuid)
                view.add(Link(uuid, parent), position)
            case Said(uuid=uuid, parent=parent) if parent in ours and _is_ours(entry):
                ours.add(uuid)
                view.add(Link(uuid, parent), position)
            case _:
                view.add(entry, position)
    return view, frozenset(boundaries)


def _is_ours(said: Said) -> bool:
    """Whether a record directly behind a compaction of ours belongs to it."""
    return said.summary or bool(said.attachment and said.attachment != SYSTEM_MESSAGE)


def _room_made(conversation: Conversation) -> Flow[None]:
    """Use a summary that is ready, and let the layers act; none of them asks a model."""
    conversation.begin_pass()
    for layer in conversation.ladder.settles:
        if layer.on(conversation.settings):
            yield from layer.settle(conversation)
    with conversation.asking_nobody():
        yield from turn.make_room(conversation)


def _changes(
    sent: Sequence[SentBlock], records: Sequence[str | None], view: View, hidden: Mapping[str, Item]
) -> dict[tuple[int, int], BlockChange]:
    """What happens to each block of a request, by its message and its place in it."""
    changes: dict[tuple[int, int], BlockChange] = {}
    first_answer = next((block.message for block in sent if block.role == "assistant"), len(sent))
    part = 0
    message = -1
    for block, record in zip(sent, _with_thinking(sent, records), strict=True):
        part = part + 1 if block.message == message else 0
        message = block.message
        if record is None:
            continue
        if record in hidden:
            if message >= first_answer or not _is_programs(block, hidden[record]):
                changes[message, part] = NotSent()
            continue
        item = view.item(record)
        if item is not None and (change := _change(block.block, item)) is not None:
            changes[message, part] = change
    return changes


def _place_of_summary(counts: Sequence[int], changes: Mapping[tuple[int, int], BlockChange]) -> int:
    """The message in front of which a summary stands: where the first of what it stands for stood."""
    left_out = sorted(place for place, change in changes.items() if isinstance(change, NotSent))
    if not left_out:
        return len(counts)
    first = left_out[0][0]
    is_gone = sum(number == first for number, _ in left_out) == counts[first]
    return first if is_gone else first + 1


def _with_thinking(sent: Sequence[SentBlock], records: Sequence[str | None]) -> list[str | None]:
    """The record of each block; thinking, which is not compared, belongs to what follows it in the same answer."""
    known: list[str | None] = list(records)
    for position in reversed(range(len(sent) - 1)):
        is_thinking = sent[position].block.kind in THINKING
        in_same_answer = sent[position + 1].role == sent[position].role
        if known[position] is None and is_thinking and in_same_answer:
            known[position] = known[position + 1]
    return known


def _change(block: Block, item: Item) -> BlockChange | None:
    """What happens to a block whose record is in view; None if it is sent as it is."""
    if block.kind in THINKING:
        recorded = any(part.kind in THINKING for part in item.said.blocks)
        is_shown = any(part.kind in THINKING for part in item.shown)
        return NotSent() if recorded and not is_shown else None
    if item.hidden_by:
        return NotSent()
    if block.kind != "tool_result":
        return None
    # A call whose id another one had was recorded under a longer one.
    same_call = (part for part in item.shown if original_id(part.id) == original_id(block.id))
    shown = next(same_call, None)
    if shown is None:
        return None
    is_decided = shown not in item.said.blocks or shown.id in item.said.stored
    return ShownAs(shown) if is_decided else None


def _is_programs(block: SentBlock, item: Item) -> bool:
    """Whether a block is the program's own text, such as reminders, instruction files and the environment."""
    return block.role == "system" or (block.block.kind == "text" and not typed(item.said, block.block))


def _own_frame(preceding: Preceding, most: int, api: Api) -> Frame:
    """What precedes the messages in our own calls: the program's system prompt, tools and settings."""
    if api != "messages":
        # Our calls are written in the shape of the Messages API and converted to the others.
        tools = (encode_json(from_function(msgspec.json.decode(raw))) for raw in preceding.tools)
        return Frame(preceding.model, most, preceding.system, tuple(tools))
    # A program's limit may be too low for a summary; it is not part of what is cached.
    limits = (preceding.settings[name] for name in _OUTPUT_LIMITS if name in preceding.settings)
    asked = max([OUTPUT_CAP, *(int(raw) for raw in map(bytes, limits) if raw.isdigit())])
    settings = tuple(
        (name, bytes(raw))
        for name, raw in sorted(preceding.settings.items())
        if name not in _OF_ONE_REQUEST
    )
    return Frame(
        preceding.model, min(asked, most), preceding.system, preceding.tools, settings, preceding.betas
    )
