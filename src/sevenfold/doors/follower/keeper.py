"""Follows the conversations of programs and keeps them within their windows: one core for every door that acts.

A door calls `KeepingFollower.prepare` with a request and sends what it returns, then `ended` with the answer. Whatever
goes wrong in between, the program's own bytes are sent.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.conversation.gate import Gate
from sevenfold.doors.follower.consent import Consent
from sevenfold.doors.follower.follower import (
    CallEnd,
    ClientCall,
    ConversationFollower,
    FollowedCall,
)
from sevenfold.doors.follower.identity import CREDENTIALS
from sevenfold.doors.follower.keeping import KeptConversation
from sevenfold.doors.follower.kept_figures import KeptFigures
from sevenfold.doors.follower.own_calls import inherited_from
from sevenfold.doors.follower.recording import RecordedConversation, transcript_in
from sevenfold.ports import Client, Clock, Ids, Log, Store
from sevenfold.providers.anthropic import AnthropicClient
from sevenfold.providers.http_client import HttpClient
from sevenfold.providers.openai.client import OpenAIClient
from sevenfold.session import factory
from sevenfold.settings import Source

PASSED_ON = frozenset(
    {*CREDENTIALS, "anthropic-version", "user-agent", "openai-organization", "openai-project"}
)
"""Headers of a program's request that our own calls for its conversation repeat."""

REFUSED = (400, 413, 422)
"""Statuses with which a provider refuses a body; the program's own may be accepted."""


MOST_CLIENTS = 32
"""How many addresses with a credential have a client for our own calls at the same time."""


def client_like(call: ClientCall, address: str) -> Client:
    """A client for our own calls, with the address and the credential of a program's request."""
    http = HttpClient(address, _passed_on(call))
    if call.api == "messages":
        return AnthropicClient(http)
    return OpenAIClient(http, api=call.api)


def _passed_on(call: ClientCall) -> Mapping[str, str]:
    return {name: value for name, value in call.headers.items() if name in PASSED_ON}


class KeepingOptions(Struct, frozen=True):
    """How conversations are kept."""

    settings: Source
    client: Callable[[ClientCall, str], Client] = client_like
    """Makes the client for our own calls from a program's request and its address."""
    gate: Callable[[], Gate | None] = lambda: None
    """Gives what masks secrets now."""
    failed: Callable[[Exception], None] = lambda error: None
    """Told whatever made the follower send a program's own bytes."""
    note: Callable[[str], None] = lambda sentence: None
    """Told of decisions that a person should know of."""
    tell_figures: Callable[[str, KeptFigures], None] = lambda session, figures: None
    """Told, after an answer, what was done in all conversations of a program's session, if that has changed."""
    only_proposes: bool = False
    """Whether nothing happens that nobody has agreed to."""


class KeepingFollower(ConversationFollower):
    """Records what programs send to models, and keeps their conversations within the window."""

    def __init__(
        self,
        store: Store,
        folder: str,
        secret: bytes,
        options: KeepingOptions,
        *,
        clock: Clock,
        ids: Ids,
    ) -> None:
        super().__init__(store, folder, secret, clock=clock, ids=ids, gate=options.gate)
        self._options = options
        self._closed = KeptFigures()
        """The figures of conversations that are closed."""
        self._told: dict[str, dict[str, KeptFigures]] = {}
        """The figures told last: by session, and in it by conversation."""
        self._clients: OrderedDict[tuple[object, ...], Client] = OrderedDict()
        """By API, address and headers; the one that was used last comes last."""

    @property
    def figures(self) -> KeptFigures:
        """What was done, saved and spent so far, in all conversations."""
        total = self._closed
        for conversation in self.kept:
            total += conversation.figures
        return total

    @property
    def kept(self) -> Sequence[KeptConversation]:
        """The conversations that are open."""
        return [each for each in tuple(self._open.values()) if isinstance(each, KeptConversation)]

    def figures_of(self, call: FollowedCall) -> KeptFigures:
        """What was done, saved and spent so far in the conversation of a request."""
        conversation = call.conversation
        return conversation.figures if isinstance(conversation, KeptConversation) else KeptFigures()

    def let_go(self, conversation: RecordedConversation) -> None:
        """Close a conversation that is no longer among the open ones."""
        super().let_go(conversation)
        if isinstance(conversation, KeptConversation):
            self._closed += conversation.figures

    def prepare(self, call: ClientCall, address: str, *, may_wait: bool = False) -> FollowedCall:
        """Take in a request to the server at ``address``; its ``body`` is what to send, if it is not the program's own.

        If it ``may_wait`` and ``waits`` for a summary, call `decide` once there is one or it takes too long. Raises
        `MalformedRequest` if the request cannot be read.
        """
        followed = self.sent(call)
        conversation = followed.conversation
        if not isinstance(conversation, KeptConversation):
            return followed
        try:
            if followed.alignment is None:
                return self._aside(followed, conversation)
            inherited = inherited_from(call.headers, followed.request)
            conversation.led_through(self._client_for(call, address), call.api, inherited)
        except Exception as error:  # noqa: BLE001 (whatever it is, the program goes on with its own bytes)
            self._options.failed(error)
            conversation.went_out_untouched(call.body)
            return followed
        return self.decide(call, followed, may_wait=may_wait)

    def decide(self, call: ClientCall, followed: FollowedCall, *, may_wait: bool = False) -> FollowedCall:
        """Decide what is sent for a request that was taken in."""
        conversation = followed.conversation
        assert isinstance(conversation, KeptConversation)
        assert followed.preceding is not None
        try:
            bodies = conversation.bodies(
                followed.request, followed.blocks, followed.preceding, call.body, may_wait=may_wait
            )
        except Exception as error:  # noqa: BLE001 (whatever it is, the program goes on with its own bytes)
            self._options.failed(error)
            conversation.went_out_untouched(call.body)
            return replace(followed, waits=False)
        return replace(followed, body=bodies.body, untouched=bodies.untouched, waits=bodies.waits)

    def close(self) -> None:
        """Close all sessions, and the connections of our own calls."""
        super().close()
        while self._clients:
            self._clients.popitem()[1].close()

    def _client_for(self, call: ClientCall, address: str) -> Client:
        key = (call.api, address, *sorted(_passed_on(call).items()))
        if key not in self._clients:
            self._clients[key] = self._options.client(call, address)
        self._clients.move_to_end(key)
        while len(self._clients) > MOST_CLIENTS:
            self._clients.popitem(last=False)[1].close()
        return self._clients[key]

    def _aside(self, followed: FollowedCall, conversation: KeptConversation) -> FollowedCall:
        """A program's own request for a summary is shown what we show; anything else aside stays as it is."""
        if followed.identity.purpose != "compaction":
            return followed
        bodies = conversation.shown_to_summarise(followed.request)
        return replace(followed, body=bodies.body, untouched=bodies.untouched)

    def has_summary_under_way(self, call: FollowedCall) -> bool:
        """Whether a summary is being made for the conversation of a request."""
        conversation = call.conversation
        return isinstance(conversation, KeptConversation) and conversation.has_summary_under_way

    def refused(self, call: FollowedCall) -> None:
        """Take note that the provider refused what was sent in place of a program's own body."""
        if isinstance(call.conversation, KeptConversation):
            call.conversation.leave_alone()

    def ended(self, call: FollowedCall, end: CallEnd) -> None:
        """Record the answer to a request, or that there was none."""
        if isinstance(call.conversation, KeptConversation) and call.alignment is not None:
            call.conversation.ended(is_refused=end.status in REFUSED)
        super().ended(call, end)
        if call.identity.session:
            self._tell_figures(call.identity.session, call.conversation)

    def _tell_figures(self, session: str, conversation: RecordedConversation) -> None:
        """Tell what was done in a session, its sub-agents included, if that has changed."""
        if not isinstance(conversation, KeptConversation):
            return
        of_session = self._told.setdefault(session, {})
        if of_session.get(conversation.name, KeptFigures()) == conversation.figures:
            return
        of_session[conversation.name] = conversation.figures
        self._options.tell_figures(session, sum(of_session.values(), KeptFigures()))

    def came_too_late(self, call: FollowedCall, own: bytes) -> None:
        """Take note that a request went out as the program wrote it, before ``prepare`` had an answer.

        Its answer is not told to `ended` with this call.
        """
        if isinstance(call.conversation, KeptConversation):
            call.conversation.went_out_untouched(own)
        if call.alignment is not None:
            self._under_way[call.conversation.name] -= 1

    def settle(self, seconds: float = 5.0) -> None:
        """Wait at most so long, for each conversation, for summaries that are being made."""
        for conversation in self.kept:
            conversation.settle(seconds)

    def _recorded_in(self, log: Log, name: str) -> RecordedConversation:
        transcript = transcript_in(
            log, name, self._folder, clock=self._clock, ids=self._ids, gate=self._gate()
        )
        parts = factory.parts_in(self._store, log, name, self._options.settings, self._folder)
        agrees = not self._options.only_proposes
        consent = Consent(self._ids.new, self._clock.now, agrees_to_all=agrees)
        return KeptConversation(transcript, name, parts, self._clock, self._options.note, consent)
