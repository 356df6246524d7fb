"""The conversations of all programs whose requests pass by, each recorded as a session.

A request is taken in when it was sent, its answer when it has ended. Nothing here changes a byte of either. Which
conversation a request continues is decided by the name that the program gives it or, without one, by the longest
beginning that it shares with a conversation of the same credential and model.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256

from msgspec import Struct

from sevenfold.conversation.gate import Gate
from sevenfold.doors.follower.alignment import Alignment, MessageBlocks
from sevenfold.doors.follower.identity import CallIdentity, identify
from sevenfold.doors.follower.recording import (
    Preceding,
    RecordedConversation,
    RequestChanges,
    RequestComparison,
    transcript_in,
)
from sevenfold.errors import TranscriptLocked
from sevenfold.ports import Clock, Ids, Log, Store
from sevenfold.record.decisions import Relayed
from sevenfold.record.log import Answer
from sevenfold.wire.client_request import Api, ClientRequest, read_request

MOST_OPEN = 64
"""How many conversations are kept open at the same time; the one that was silent for longest is closed first."""
SIDE_SESSION = "side-requests"
"""How the name of the session begins that has the requests of no conversation."""
BETAS = "anthropic-beta"


class ClientCall(Struct, frozen=True):
    """A request to a model, as a program sent it."""

    api: Api
    path: str
    headers: Mapping[str, str]
    """With names in lower case."""
    body: bytes


class CallEnd(Struct, frozen=True):
    """How a request ended."""

    status: int = 0
    """0 if no answer came."""
    answer: Answer | None = None
    """The answer, or the usable part of one that broke off."""
    error: str = ""
    milliseconds: int | None = None
    """From the end of the request to the first byte of the answer."""


class FollowedCall(Struct, frozen=True):
    """A request that was taken in and awaits its answer."""

    conversation: RecordedConversation
    identity: CallIdentity
    request: ClientRequest
    alignment: Alignment | None
    """None if the request is not part of the conversation."""
    changes: RequestChanges
    own: bytes
    """The body as the program wrote it."""
    preceding: Preceding | None = None
    """What comes before the messages; None if the request is not part of the conversation."""
    blocks: MessageBlocks = ()
    """The blocks of each message, if the request is part of the conversation."""
    body: bytes | None = None
    """What to send in place of the program's own body; None to send that."""
    untouched: bytes | None = None
    """What to send if the provider refuses ``body``; None to send the program's own."""
    waits: bool = False
    """Whether it is better to wait for a summary that is under way."""


class ConversationFollower:
    """Records what programs send to models, and what they get."""

    def __init__(
        self,
        store: Store,
        folder: str,
        secret: bytes,
        *,
        clock: Clock,
        ids: Ids,
        gate: Callable[[], Gate | None] = lambda: None,
    ) -> None:
        """``secret`` is the key under which credentials are hashed; ``gate`` gives what masks secrets now."""
        self._store = store
        self._folder = folder
        self._secret = secret
        self._clock = clock
        self._ids = ids
        self._gate = gate
        self._open: OrderedDict[str, RecordedConversation] = OrderedDict()
        """The open conversations by the names of their sessions, the one used last at the end."""
        self._listed: set[str] = set()
        """The sessions that the store had when a conversation was last looked for there, and those opened since."""
        self._under_way: Counter[str] = Counter()
        """How many requests of each conversation have no answer yet."""
        self.sessions: dict[str, int] = {}
        """The sessions that were written to, with how many answers each got."""

    def sent(self, call: ClientCall) -> FollowedCall:
        """Record what is new in a request; raises `MalformedRequest` if it cannot be read."""
        request = read_request(call.body, call.api)
        identity = identify(call.path, call.headers, request, self._secret)
        if identity.purpose != "turn":
            conversation = self._beside(identity, request)
            if identity.purpose == "compaction" and identity.session:
                conversation.took_before_compaction(request)
            return FollowedCall(conversation, identity, request, None, RequestChanges(), call.body)
        conversation, comparison = self._conversation(identity, request)
        self._under_way[conversation.name] += 1
        preceding = preceding_of(call, request)
        changes = conversation.took(comparison, preceding)
        return FollowedCall(
            conversation,
            identity,
            request,
            comparison.alignment,
            changes,
            call.body,
            preceding,
            comparison.listed.blocks,
        )

    def ended(self, call: FollowedCall, end: CallEnd) -> None:
        """Record the answer to a request, or that there was none."""
        conversation = call.conversation
        identity = call.identity
        answer = end.answer
        if call.alignment is not None:
            self._under_way[conversation.name] -= 1
        conversation.relay(
            Relayed(
                api=call.request.api,
                model=call.request.model,
                purpose=identity.purpose,
                status=end.status,
                answer=answer.id if answer else "",
                error=end.error,
                size=len(call.own),
                sha256=sha256(call.own).hexdigest(),
                changes=call.changes.names,
                changed_message=call.changes.message,
                milliseconds=end.milliseconds,
                principal=identity.principal,
                client=identity.client,
            )
        )
        if answer is None:
            return
        self.sessions[conversation.name] = self.sessions.get(conversation.name, 0) + 1
        if call.alignment is not None:
            conversation.answer(answer)
            return
        conversation.aside(answer, identity.purpose)
        if identity.purpose == "compaction":
            conversation.summarised(answer)

    def close(self) -> None:
        """Close all sessions."""
        while self._open:
            self.let_go(self._open.popitem()[1])

    def let_go(self, conversation: RecordedConversation) -> None:
        """Close a conversation that is no longer among the open ones."""
        conversation.close()

    # -- which conversation ------------------------------------------------------------------------

    def _conversation(
        self, identity: CallIdentity, request: ClientRequest
    ) -> tuple[RecordedConversation, RequestComparison]:
        """The conversation that a request continues, or a new one."""
        best: tuple[RecordedConversation, RequestComparison] | None = None
        for conversation in self._candidates(identity, request):
            comparison = conversation.compare(request, named=bool(identity.session))
            if not self._may_continue(conversation, identity, comparison.alignment):
                continue
            if best is None or comparison.alignment.matched > best[1].alignment.matched:
                best = conversation, comparison
        if best is None:
            fresh = self._opened_here(self._unused_name(identity))
            best = fresh, fresh.compare(request, named=True)
        self._open.move_to_end(best[0].name)
        return best

    def _candidates(self, identity: CallIdentity, request: ClientRequest) -> Sequence[RecordedConversation]:
        if not identity.session:
            return [
                conversation
                for conversation in self._open.values()
                if conversation.principal == identity.principal
                and conversation.model == request.model
                and not self._awaits_its_first_answer(conversation)
            ]
        names = [name for name in self._names(identity) if name in self._open or name in self._listed]
        opened = map(self._opened_if_free, names)
        return [conversation for conversation in opened if conversation is not None]

    def _awaits_its_first_answer(self, conversation: RecordedConversation) -> bool:
        """Whether a request that begins alike must be another conversation's: this one has nothing to continue yet."""
        return self._under_way[conversation.name] > 0 and not conversation.has_answers

    def _may_continue(
        self, conversation: RecordedConversation, identity: CallIdentity, alignment: Alignment
    ) -> bool:
        """Whether this request may go on in a conversation.

        Someone else's credential may only if the request has everything that is on record: then it gains nothing by
        it. Programs renew their credentials in the middle of a conversation.
        """
        if alignment.happened == "other":
            return False
        if not conversation.principal or conversation.principal == identity.principal:
            return True
        return alignment.happened == "grew" and alignment.matched >= len(conversation.known())

    def _beside(self, identity: CallIdentity, request: ClientRequest) -> RecordedConversation:
        """The session that a request is billed to that is no part of a conversation."""
        for conversation in self._candidates(identity, request):
            if conversation.principal == identity.principal:
                return conversation
        whose = f"-{identity.principal[:8]}" if identity.principal else ""
        name = f"{SIDE_SESSION}{whose}"
        beside = (opened for opened in self._open if opened.startswith(f"{name}~"))
        return self._opened_here(next(beside, name))

    def _names(self, identity: CallIdentity) -> list[str]:
        """The names of the sessions in which a named conversation may be recorded, as far as there are any."""
        base = _base_name(identity)
        if base not in self._open:
            # A folder may have thousands of sessions: it is read when a conversation begins, not with each request.
            self._listed = {info.name for info in self._store.sessions()}
        others = (name for name in (*self._open, *self._listed) if name.startswith(f"{base}~"))
        return [base, *dict.fromkeys(others)]

    def _unused_name(self, identity: CallIdentity) -> str:
        if not identity.session:
            return self._ids.new()
        base = _base_name(identity)
        is_taken = base in self._open or base in self._listed
        return f"{base}~{self._ids.new()[:8]}" if is_taken else base

    def _opened_here(self, name: str) -> RecordedConversation:
        """The conversation of this name, or one beside it if another process records that."""
        return self._opened_if_free(name) or self._opened(f"{name}~{self._ids.new()[:8]}")

    def _opened_if_free(self, name: str) -> RecordedConversation | None:
        """The conversation of this name; None if another process records it: neither may write into its file."""
        try:
            return self._opened(name)
        except TranscriptLocked:
            return None

    def _opened(self, name: str) -> RecordedConversation:
        conversation = self._open.get(name)
        if conversation is not None:
            return conversation
        while len(self._open) >= MOST_OPEN:
            self.let_go(self._open.popitem(last=False)[1])
        conversation = self._recorded_in(self._store.open(name), name)
        self._open[name] = conversation
        self._listed.add(name)
        return conversation

    def _recorded_in(self, log: Log, name: str) -> RecordedConversation:
        """The conversation that is recorded in an open log."""
        transcript = transcript_in(
            log, name, self._folder, clock=self._clock, ids=self._ids, gate=self._gate()
        )
        return RecordedConversation(transcript, name)


def preceding_of(call: ClientCall, request: ClientRequest) -> Preceding:
    """What precedes the messages of a request, its beta features included."""
    betas = filter(None, map(str.strip, call.headers.get(BETAS, "").split(",")))
    return Preceding.of(request, betas)


def _base_name(identity: CallIdentity) -> str:
    return f"{identity.session}-agent-{identity.agent}" if identity.agent else identity.session
