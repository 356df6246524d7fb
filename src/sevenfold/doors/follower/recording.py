"""One conversation of another program, written as a session that every command reads.

The records have the shape of other programs' transcripts: nothing in them counts as said by the user until tags and
flags have been judged, and a compaction in them is the program's own. What precedes the messages is recorded as an
epoch, each request as a small record of its own with what changed since the one before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain, groupby

from msgspec import Raw, Struct
from msgspec.structs import replace

import sevenfold
from sevenfold.conversation.gate import Gate
from sevenfold.conversation.transcript import Leading, Transcript
from sevenfold.doors.follower.alignment import (
    Alignment,
    BlockFingerprint,
    KnownBlock,
    MessageBlocks,
    SentBlock,
    align,
    fingerprint,
)
from sevenfold.ports import Clock, Ids, Log
from sevenfold.record import calls
from sevenfold.record.authorship import is_summary, users_words
from sevenfold.record.blocks import Block, text_of, words_of
from sevenfold.record.decisions import (
    Billed,
    CompactMetadata,
    Epoch,
    MicrocompactMetadata,
    Relayed,
    Rewound,
)
from sevenfold.record.layout import Item, Measured
from sevenfold.record.log import Answer, Place
from sevenfold.record.usage import Usage
from sevenfold.wire.client_request import ClientRequest, read_message

VOLATILE = b"x-anthropic-billing-header"
"""How a block of Claude Code's system prompt begins that changes and that the provider does not count."""
LEAST_SUMMARY = 40
"""Characters below which an answer to a request for a summary is not looked for in what is sent next."""
SAME_BEGINNING = 80
"""Characters at the beginning by which a message that was cut is known. It is recorded either way, so being wrong about
it loses nothing: it counts as shown again instead of as said anew."""
SYSTEM_MESSAGE = "system_message"
"""The kind under which system messages of a program are attached."""
_IDS_OF_ANSWERS = "-again"


class Preceding(Struct, frozen=True):
    """What a request has in front of its messages."""

    model: str
    system: tuple[bytes, ...]
    tools: tuple[bytes, ...]
    settings: dict[str, Raw]
    betas: tuple[str, ...] = ()

    def changes(self, before: Preceding) -> list[str]:
        """What differs from another request, in the order in which a provider's cache depends on it."""
        compared = (
            ("model", self.model, before.model),
            ("tools", self.tools, before.tools),
            ("system", _counted(self.system), _counted(before.system)),
            ("settings", _thinking(self.settings), _thinking(before.settings)),
        )
        return [name for name, now, then in compared if now != then]

    @classmethod
    def of(cls, request: ClientRequest, betas: Iterable[str] = ()) -> Preceding:
        """What precedes the messages of this request."""
        system = tuple(block.raw for block in request.system())
        return cls(request.model, system, tuple(request.tools()), request.settings(), tuple(betas))


class RequestChanges(Struct, frozen=True):
    """What differs between a request and the one before it in the same conversation."""

    in_front: tuple[str, ...] = ()
    """What precedes the messages: model, tools, system, settings."""
    message: int | None = None
    """The first message that differs."""

    @property
    def names(self) -> list[str]:
        """Everything that differs, by name."""
        return [*self.in_front, *(["messages"] if self.message is not None else [])]


class ReadMessage(Struct, frozen=True):
    """A message that was read: a hash of its content, and its blocks with what identifies them."""

    content: bytes
    parts: tuple[tuple[str, Block, BlockFingerprint | None], ...]


class MessageList(Struct, frozen=True):
    """The messages of a request: the bytes in which they came, what was read, and the blocks of each."""

    raws: Sequence[bytes] = ()
    messages: Sequence[ReadMessage] = ()
    blocks: MessageBlocks = ()


class RequestComparison(Struct, frozen=True):
    """A request, compared with what is recorded."""

    alignment: Alignment
    listed: MessageList


def transcript_in(
    log: Log, name: str, folder: str, *, clock: Clock, ids: Ids, gate: Gate | None = None
) -> Transcript:
    """A transcript whose records are marked as another program's: what users typed in it has to be told by its tags."""
    place = Place(name, folder, f"gateway-{sevenfold.__version__}")
    transcript = Transcript(log, place, clock=clock, ids=ids)
    transcript.gate = gate
    return transcript


class RecordedConversation:
    """A conversation that is being recorded."""

    def __init__(self, transcript: Transcript, name: str) -> None:
        self.name = name
        self.transcript = transcript
        self.principal = ""
        """Whose it is: the keyed hash of the credential that its first request came with."""
        self.preceding: Preceding | None = None
        self._summary = ""
        """The newest answer to a request for a summary, until it has been seen in a request."""
        self._newest = MessageList()
        """The messages of the newest request."""
        self._known: dict[str, tuple[KnownBlock, ...]] = {}
        """The blocks of the records in view."""
        self._recall_principal(transcript.log)

    @property
    def model(self) -> str:
        """The model of the newest request; empty if there was none."""
        return self.preceding.model if self.preceding else ""

    @property
    def has_answers(self) -> bool:
        """Whether the model has said anything in it."""
        return any(item.record.role == "assistant" for item in self.transcript.view.items)

    # -- comparing ---------------------------------------------------------------------------------

    def compare(self, request: ClientRequest, *, named: bool) -> RequestComparison:
        """How a request relates to what is recorded; messages that came like this before are not read again."""
        listed = self.messages_of(request)
        return RequestComparison(self.aligned(in_order(listed.blocks), named=named), listed)

    def aligned(self, sent: Sequence[SentBlock], *, named: bool) -> Alignment:
        """How the blocks of a request relate to what is recorded."""
        return align(self.known(), sent, named=named, is_summary=self.is_new_summary)

    def messages_of(self, request: ClientRequest) -> MessageList:
        """The messages of a request; each is read once for as long as it comes in the same bytes.

        A program sends its whole list each time, and nearly all of it as the time before. Comparing bytes in place is
        forty times as fast as a hash of each message.
        """
        before = self._newest
        raws = request.raw_messages()
        same = _same_beginning(before.raws, raws)
        messages = [*before.messages[:same]]
        blocks = [*before.blocks[:same]]
        elsewhere = dict(zip(before.raws[same:], before.messages[same:], strict=True))
        for number in range(same, len(raws)):
            message = elsewhere.get(raws[number]) or self._read_message(raws[number], request)
            messages.append(message)
            blocks.append(
                tuple([SentBlock(compared, number, role, block) for role, block, compared in message.parts])
            )
        return MessageList(raws, messages, blocks)

    def _read_message(self, raw: bytes, request: ClientRequest) -> ReadMessage:
        message = read_message(raw, request.api)
        content = blake2b(message.role.encode(), digest_size=16)
        for block in message.blocks:
            content.update(block.raw)
        shown: Sequence[Block] = message.blocks
        gate = self.transcript.gate
        if gate is not None and message.role != "assistant":
            # What is on record is masked, so what is compared with it must be.
            shown = gate.blocks(shown)
        parts = tuple((message.role, block, fingerprint(block)) for block in shown)
        return ReadMessage(content.digest(), parts)

    def known(self) -> list[KnownBlock]:
        """The blocks of the records in view, in the order in which they are sent."""
        seen: dict[str, tuple[KnownBlock, ...]] = {}
        known: list[KnownBlock] = []
        for item in self.followed():
            uuid = item.record.uuid
            parts = self._known.get(uuid)
            if parts is None:
                parts = tuple(_known_blocks(item))
            seen[uuid] = parts
            known += parts
        self._known = seen
        return known

    def followed(self) -> list[Item]:
        """The records that the program still sends, in their order."""
        return self.transcript.view.items

    def is_summary(self, sent: SentBlock) -> bool:
        """Whether a block is a summary of what was said before it."""
        if sent.role == "assistant" or sent.block.kind != "text":
            return False
        text = words_of(sent.block)
        return is_summary(text) or (len(self._summary) >= LEAST_SUMMARY and self._summary in text)

    def is_new_summary(self, sent: SentBlock, recorded: bool) -> bool:
        """Whether a block is a summary with which the conversation goes on from now on.

        With one that is on record it went on before, unless the program has just asked for another: a model may give
        the same again.
        """
        return (not recorded or bool(self._summary)) and self.is_summary(sent)

    # -- recording ---------------------------------------------------------------------------------

    def took(self, comparison: RequestComparison, preceding: Preceding) -> RequestChanges:
        """Record what is new in a request; returns what changed since the request before."""
        transcript = self.transcript
        alignment = comparison.alignment
        changes = self._changes(comparison, preceding)
        with transcript.atomic():
            if self.preceding is None or changes.in_front:
                self.begin_epoch(preceding, changes)
            if alignment.happened == "went_back":
                self.go_back(alignment.back_to)
                # Going back behind a compaction of ours brings into view what the program dropped meanwhile.
                alignment = self.aligned(in_order(comparison.listed.blocks), named=True)
            if alignment.happened == "compacted":
                self.compact(alignment)
            if alignment.cleared:
                self._clear(alignment.cleared)
            for role, message in _messages(alignment.new):
                self._say(role, message)
        self.preceding = preceding
        self._newest = comparison.listed
        return changes

    def took_before_compaction(self, request: ClientRequest) -> None:
        """Record what only the request for a summary shows: the results of the calls right before it.

        The instruction to summarise, which stands in the last message, is not part of the conversation.
        """
        if self.preceding is None:
            return
        comparison = self.compare(request, named=True)
        if comparison.alignment.happened != "grew":
            return
        last = len(comparison.listed.messages) - 1
        new = [
            sent
            for sent in comparison.alignment.new
            if sent.message != last or sent.block.kind == "tool_result"
        ]
        with self.transcript.atomic():
            for role, message in _messages(new):
                self._say(role, message)

    def go_back(self, to: str) -> None:
        """Record that the program went back to this record."""
        self.transcript.decide(Rewound(to=to))

    def begin_epoch(self, preceding: Preceding, changes: RequestChanges) -> None:
        """Record what precedes the messages from now on."""
        self.transcript.decide(_epoch(preceding, changes))

    def take_results(self, results: Sequence[Block]) -> None:
        """Record tool results."""
        self.transcript.user(results)

    def relay(self, request: Relayed) -> None:
        """Record a request; before its answer, if there is one."""
        self.principal = self.principal or request.principal
        self.transcript.decide(request)

    def answer(self, answer: Answer) -> None:
        """Record the answer to the newest request."""
        self.record_answer(answer)

    def record_answer(self, answer: Answer) -> Measured | None:
        """Record an answer; returns the size that it reports, if it reports one."""
        if not answer.blocks:
            return None
        known = (item.record.message_id for item in self.transcript.view.items)
        if answer.id and answer.id in known:
            # A server that counts its answers began anew: what has the same id would count as the same answer.
            answer = replace(answer, id=f"{answer.id}{_IDS_OF_ANSWERS}-{self.transcript.new_id()[:8]}")
        return self.transcript.model(self.transcript.distinct(answer))

    def aside(self, answer: Answer, source: str) -> None:
        """Record what an answer cost that is not part of the conversation."""
        billed = Billed(request=answer.id, model=answer.model, usage=answer.usage, source=source)
        self.transcript.decide(billed)

    def summarised(self, answer: Answer) -> None:
        """Note the answer to a request for a summary: it may stand for the conversation in the next request."""
        self._summary = text_of(answer.blocks).strip()

    def close(self) -> None:
        """Close the log."""
        self.transcript.close()

    def _changes(self, comparison: RequestComparison, preceding: Preceding) -> RequestChanges:
        """What of a request differs from the one before it, so that the provider's cache ends there."""
        if self.preceding is None:
            return RequestChanges()
        in_front = tuple(preceding.changes(self.preceding))
        pairs = zip(self._newest.messages, comparison.listed.messages, strict=False)
        differing = (number for number, (before, now) in enumerate(pairs) if before.content != now.content)
        return RequestChanges(in_front, next(differing, None))

    def compact(self, alignment: Alignment) -> None:
        """Record that the program compacted its conversation."""
        leading: list[Leading] = []
        for role, message in _messages(alignment.leading):
            for (is_summary_, repeats), run in groupby(
                self._with_records(message), key=self._kind_of_leading
            ):
                shown = tuple(part.block for part in run)
                shown_as = "system" if role == "system" else "user"
                is_kept = repeats and shown_as == "user" and not is_summary_
                leading.append(Leading(shown, is_summary_, shown_as, is_kept))
        usage = self._newest_usage()
        about = CompactMetadata(trigger="auto", pre_tokens=usage.prompt if usage else None)
        self.transcript.compacted_elsewhere(about, leading, alignment.kept)
        self._summary = ""

    def _with_records(self, message: Sequence[SentBlock]) -> list[SentBlock]:
        """A message of the user that the program kept only the ends of, with the record that has all of it.

        Codex sends the two ends as texts of their own, with what it cut out in between.
        """
        first = message[0]
        beginning = words_of(first.block)[:SAME_BEGINNING] if first.block.kind == "text" else ""
        if first.role != "user" or first.recorded or len(beginning) < SAME_BEGINNING:
            return list(message)
        for item in self.transcript.view.items:
            if item.record.role == "user" and users_words(item.record).startswith(beginning):
                return [replace(sent, recorded=item.record.uuid) for sent in message]
        return list(message)

    def _kind_of_leading(self, sent: SentBlock) -> tuple[bool, bool]:
        """Whether a block in front of what was kept is a summary, and whether it repeats what was said before."""
        return self.is_summary(sent), bool(sent.recorded)

    def _newest_usage(self) -> Usage | None:
        newest_first = reversed(self.transcript.view.items)
        return next((item.record.usage for item in newest_first if item.record.usage is not None), None)

    def _clear(self, cleared: Sequence[str]) -> None:
        view = self.transcript.view
        shown = [call for call in cleared if not _is_cleared(view.items, call)]
        if shown:
            self.transcript.clear(MicrocompactMetadata(trigger="auto", compacted_tool_ids=shown))

    def _say(self, role: str, message: Sequence[SentBlock]) -> None:
        transcript = self.transcript
        shown = [part.block for part in message]
        if role == "assistant":
            # It was said before the recording began, or elsewhere.
            answer = Answer(f"elsewhere-{transcript.new_id()}", self.model, tuple(shown))
            transcript.model(transcript.distinct(answer))
        elif role == "system":
            transcript.attach(SYSTEM_MESSAGE, {}, shown, role="system")
        else:
            waiting = transcript.view.pending_calls
            results = [block for block in shown if block.kind == "tool_result"]
            fitting, others = calls.matched(results, waiting)
            rest = [block for block in shown if block.kind != "tool_result"]
            if results:
                self.take_results([*fitting.values(), *others])
            if rest:
                transcript.user(rest)

    def _recall_principal(self, log: Log) -> None:
        """Find out whose a conversation is that was recorded before."""
        requests = (request for _, request in log.decisions(Relayed))
        self.principal = next((request.principal for request in requests if request.principal), "")
        epoch = self.transcript.view.epoch
        if epoch is not None:
            system = tuple(map(bytes, epoch.system))
            tools = tuple(map(bytes, epoch.tools))
            self.preceding = Preceding(epoch.model, system, tools, epoch.settings, tuple(epoch.betas))


def in_order(blocks: MessageBlocks) -> list[SentBlock]:
    """The blocks of all messages, one after the other."""
    return list(chain.from_iterable(blocks))


def _same_beginning(before: Sequence[bytes], now: Sequence[bytes]) -> int:
    """How many messages two lists have in common from the first on."""
    pairs = enumerate(zip(before, now, strict=False))
    return next((number for number, (then, raw) in pairs if then != raw), min(len(before), len(now)))


def _counted(system: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """The blocks of a system prompt that the provider counts."""
    return tuple(block for block in system if VOLATILE not in block[:80])


def _thinking(settings: dict[str, Raw]) -> tuple[bytes, ...]:
    """The settings that the provider's cache depends on."""
    return tuple(bytes(settings.get(name, b"")) for name in ("thinking", "tool_choice", "reasoning"))


def _epoch(preceding: Preceding, changes: RequestChanges) -> Epoch:
    return Epoch(
        reason=" and ".join(changes.in_front) or "gateway",
        model=preceding.model,
        system=list(map(Raw, preceding.system)),
        tools=list(map(Raw, preceding.tools)),
        settings=preceding.settings,
        betas=list(preceding.betas),
    )


def _known_blocks(item: Item) -> Iterator[KnownBlock]:
    said = item.record
    for block in said.blocks:
        compared: BlockFingerprint | None = fingerprint(block)
        if compared is not None:
            result_of = block.id if block.kind == "tool_result" else ""
            yield KnownBlock(compared, said.role, said.uuid, result_of)


def _messages(sent: Sequence[SentBlock]) -> Iterator[tuple[str, list[SentBlock]]]:
    """The blocks by message; neighbouring messages of the model, and items of one answer, are one."""
    for (role, _), run in groupby(
        sent, key=lambda part: (part.role, part.role == "assistant" or part.message)
    ):
        yield role, list(run)


def _is_cleared(items: Iterable[Item], call: str) -> bool:
    """Whether a result is shown shortened already."""
    for item in items:
        if call in item.record.answers:
            return not any(block in item.record.blocks for block in item.shown if block.id == call)
    return True
