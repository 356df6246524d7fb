"""`sevenfold.Session`: the engine's public API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from time import monotonic
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from msgspec.structs import replace

from sevenfold.conversation import edits, sync, turn
from sevenfold.conversation.background import Threads
from sevenfold.conversation.flow import Flow, HookRunner, drive
from sevenfold.conversation.fork import Fork, fork
from sevenfold.conversation.options import request_fields
from sevenfold.conversation.request import Completion, ToolCall, completed
from sevenfold.errors import Aborted, InputError
from sevenfold.layers.compact.compaction import Compacted, CompactionRequest, Preview
from sevenfold.layers.compact.compactor import Compactor
from sevenfold.layers.dream.layer import Dreamer, DreamTask
from sevenfold.layers.idle import Choice, IdleDecision, idle, next_costs
from sevenfold.layers.on_request import compact
from sevenfold.memory.memory import Memory
from sevenfold.ports import Call, Client, Watcher
from sevenfold.providers.models import ListingClient
from sevenfold.providers.registry import client_for, error_of, provider_for
from sevenfold.record.authorship import MessageOrigin
from sevenfold.record.log import title_of
from sevenfold.session import factory as opened
from sevenfold.session import replies
from sevenfold.session.factory import OpenOptions, Options, RequestFields, SessionParts
from sevenfold.session.options import check_name, checked
from sevenfold.session.results import Explanation, Request, Wishes, explained

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation
    from sevenfold.conversation.intake import Content
    from sevenfold.conversation.status import Health, Reading
    from sevenfold.conversation.tasks import TaskRegistry
    from sevenfold.events import Listener, Proposed
    from sevenfold.recall.search import Hit

__all__ = ["Completion", "Explanation", "Session", "ToolCall", "Wishes"]

R = TypeVar("R")


class SessionBase:
    """The properties and methods that never wait, shared by `Session` and `AsyncSession`."""

    conversation: Conversation
    """The underlying conversation, for programs that build on it."""

    @property
    def title(self) -> str:
        """The session's title in lists of sessions; empty until it has one."""
        return title_of(self.conversation.transcript.view.labels)

    @title.setter
    def title(self, title: str) -> None:
        with self.conversation.lock:
            self.conversation.transcript.label("custom-title", title)

    @property
    def gauge(self) -> Reading:
        """How full the window is, and what the session has cost."""
        return self.conversation.reading

    @property
    def health(self) -> Health:
        """How the session is doing with its window and memory: compactions, failures, cached and corrected shares."""
        health = self.conversation.state(Compactor).health
        return replace(health, corrected_share=self.memory.corrected_share()) if self.memory else health

    def listen(self, listener: Listener) -> None:
        """Call ``listener``, a plain function, with every event from now on; it may veto proposals."""
        self.conversation.events.listen(listener)

    @property
    def tasks(self) -> TaskRegistry:
        """Background tasks: notes, summaries, memory and, in an agent's session, commands and agents."""
        return self.conversation.tasks

    @property
    def memory(self) -> Memory | None:
        """The project's memory, which outlives the session; None if the session was opened without it."""
        return self.conversation.services.memory

    @property
    def dream(self) -> DreamTask | None:
        """The running consolidation of memory, or else the last one of this session; None if there was none."""
        return None if self.memory is None else self.conversation.state(Dreamer).task

    def kill_dream(self) -> bool:
        """Stop the running consolidation and leave memory as it was before; False if none is running."""
        return self.memory is not None and self.conversation.state(Dreamer).kill()


class Session(SessionBase):
    """A conversation with a model that stays within its window and never forgets in silence.

    Made with `Session.open` or `Session.in_memory`. Every option can be left out:

        system      the system prompt: a text, or several of which the first changes least often
        tools       what the model may call: schemas, or what `tool` makes of them
        max_tokens  tokens of one answer
        client      a client of an official SDK, or one of ours; else the environment decides
        wire        the API requests are put for: messages, chat or responses
        settings    what overrides the settings in files and environment, or a source of all of them
        listen      functions, each called with every event; they may veto what is proposed
        lifetime    how long the provider is to cache the conversation: 5m or 1h
        within_quota  a function that says whether the account may still have the hour
        thinking    the request's field of that name
        fields      other fields of every request
        betas       names of beta features the provider is to switch on
        clock       who tells the time
        ids         who names records; random names, unless a run is to be repeatable to the byte
        source      on whose behalf requests are made: main, or sdk for a program's own
        hooks       `Hooks`, or `AsyncHooks` for an `AsyncSession`
        memory      True: remember lasting facts across sessions, and recall them
        layers      what keeps it within the window, cheapest first; `sevenfold.layers.ladder.STANDARD` unless given
    """

    def __init__(
        self,
        conversation: Conversation,
        store: SessionParts,
        client: Any = None,
        hooks: HookRunner | None = None,
        wire: str | None = None,
    ) -> None:
        self.conversation = conversation
        self._store = store
        self._given = client
        self._client: Client | None = None
        self._hooks = hooks
        self._wire = wire
        self._provider = provider_for(self.conversation.profile.model, client, wire)
        self._threads = Threads(self._asker, hooks, self.conversation.lock)
        if client is not None:
            self._asker()
            conversation.set_background_runner(self._threads)

    @classmethod
    def open(cls, name: str, *, model: str, **options: Unpack[OpenOptions]) -> Self:
        """Open a session by its name, new or continued.

        It belongs to the project in ``folder`` (default: the working directory) and is stored in the user's home,
        in ``file``, or in ``store``: a folder of transcripts, a URL, or a `sevenfold.ports.Store`. ``lock_wait`` is how
        many seconds to wait for another writer. With ``branch``, opens the fork of that name, new or continued: it
        starts with the session's bytes and continues separately, in its own log. See `Options` for the rest.
        """
        options = checked(options, OpenOptions)
        check_name(model, "model")
        return cls._of(opened.on_disk(name, options), model, options)

    @classmethod
    def in_memory(cls, name: str = "session", *, model: str, **options: Unpack[Options]) -> Self:
        """Open a session that is not stored, for tests and one-off conversations."""
        options = checked(options, Options)
        check_name(model, "model")
        store = opened.in_memory(name, options.get("settings"))
        return cls._of(store, model, options)

    @classmethod
    def _of(cls, store: SessionParts, model: str, options: Options) -> Self:
        conversation = opened.conversation(store, model, options)
        try:
            client = options.get("client")
            if isinstance(client, ListingClient):
                client = None  # it only lists models
            return cls(conversation, store, client, options.get("hooks"), options.get("wire"))
        except BaseException:
            conversation.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the conversation ------------------------------------------------------------------------

    def user(
        self, content: Content, *, key: str = "", origin: MessageOrigin = "typed", typed: str | None = None
    ) -> str:
        """Add a user message and return its record's id; a message with a known ``key`` is not added again.

        What a message says may be remembered as the user's words, unless ``origin`` says that the user did not type
        it: ``pasted``, ``command``, ``agent`` or ``program``. If they typed a part of it, ``typed`` is that part.
        """
        return self.conversation.user(content, key=key, origin=origin, typed=typed)

    def tool_results(self, results: Mapping[str, Any] | Iterable[Any]) -> list[str]:
        """Add tool results, by call id or in the shape of any API; returns the ids of calls still without a result."""
        return self.conversation.tool_results(results)

    def prepare(self, **fields: Unpack[RequestFields]) -> Request:
        """Return the next request, for your own client; raises `ContextFull` if it cannot be made to fit.

        ``fields`` apply to this request only, see `RequestFields`.
        """
        flow = turn.prepare(self.conversation, self.own_fields(fields))
        pending = self._run(flow)
        return Request(self.conversation, pending, self._provider)

    def observe(self, reply: Any, *, partial: bool = False) -> Completion:
        """Record your client's answer: an SDK's object, a mapping, JSON, a stream, or the list of its events.

        ``partial`` is for an answer that broke off: its complete blocks are kept, and the usage the provider had
        reported is billed even if there are none.
        """
        read = replies.reply_of(reply, partial=partial, request_body=self.conversation.asked)
        if partial and not read.answer.blocks:
            self.conversation.failed(Aborted(partial=read.answer), again=False)
            raise InputError(replies.NOTHING_WHOLE)
        return completed(self.conversation.answered(read))

    def failed(self, error: Exception) -> bool:
        """Report that your client failed; True if another `prepare` may succeed."""
        mapped = error_of(error, self.conversation.profile)
        return mapped is not None and self._run(turn.refused(self.conversation, mapped))

    def complete(self, watch: Watcher | None = None, **fields: Unpack[RequestFields]) -> Completion:
        """Ask the model and record its answer; ``watch`` gets the pieces as they arrive, ``fields`` as in `prepare`."""
        client = self._asker()
        self.conversation.set_background_runner(self._threads)
        flow = turn.turn(self.conversation, self.own_fields(fields))
        return completed(drive(flow, client, watch, self._hooks, self.conversation.lock))

    def fork(self, source: str = "fork") -> Fork:
        """Start a separate conversation that begins with this one's bytes and shares its cache."""
        return fork(self.conversation, source)

    def messages(self, messages: Iterable[Mapping[str, Any]]) -> None:
        """Import a conversation from elsewhere into an empty session."""
        sync.adopt(self.conversation, messages)

    def sync(self, messages: Iterable[Mapping[str, Any]]) -> int:
        """Follow a list of messages kept elsewhere: add new ones, branch where it differs; returns how many are new."""
        return sync.follow(self.conversation, messages)

    # -- looking ---------------------------------------------------------------------------------

    def why(self, number: int = -1) -> Explanation:
        """Explain a past request by its number, counted from 0; negative numbers count from the newest."""
        return explained(self.conversation.past(number))

    def at(self, number: int = -1) -> bytes:
        """The exact bytes of a past request, in the format of this session's API; numbers are as in `why`."""
        c = self.conversation
        return self._provider.put(Call(c.past(number).body, cache_key=c.cache_key)).body

    def fetch(self, reference: str) -> bytes:
        """The full content of an offloaded, cleared or shortened result, by its call, path or decision."""
        return self.conversation.fetch(reference)

    def dry_run(self) -> list[Proposed]:
        """What the layers would do before the next request."""
        return self.conversation.ladder.propose(self.conversation)

    def recall(
        self,
        query: str,
        *,
        kind: str | None = None,
        most: int = 10,
        by: str | None = None,
        weak: bool = False,
    ) -> list[Hit]:
        """Search the whole session, above all what has left the context; nothing, if nothing matches well.

        With ``weak``, the nearest records are returned even then, each marked as `Hit.weak`.
        """
        return self._store.search(query, kind=kind, k=most, by=by, weak=weak)

    def notes(self) -> str | None:
        """The current session notes; None if there are none."""
        return self._store.notes.read()

    # -- deciding --------------------------------------------------------------------------------

    def compact(self, instructions: str = "", **wish: Unpack[Wishes]) -> Compacted | None:
        """Summarise the conversation, or a part of it, and continue from there; None if a hook or listener refused.

        Without a client, the summary is extracted without a model.
        """
        request = CompactionRequest(trigger="manual", instructions=instructions, **wish)
        return self._run(compact(self.conversation, request))

    def compact_preview(self, instructions: str = "", **wish: Unpack[Wishes]) -> Preview:
        """What `compact` would do and cost, without doing it.

        Includes how much of the next request would come from the cache, and how much would be written to it again.
        """
        request = CompactionRequest(trigger="manual", instructions=instructions, **wish)
        return self.conversation.state(Compactor).preview(request)

    def idle(self) -> IdleDecision:
        """Shortly before the cache expires, keep it alive or compact while it is warm, if that is likely to save money.

        Call it on a timer while the conversation is idle; the decision's ``again`` says when. Calls before that do
        nothing, and a listener may veto the proposal.
        """
        return self._run(idle(self.conversation))

    def next_costs(self) -> tuple[Choice, ...]:
        """What the next message will cost, and the alternatives; empty unless a large conversation's cache expired."""
        return next_costs(self.conversation)

    def undo(self, reference: str = "") -> str:
        """Undo the newest decision that can be undone, or the one named; returns its id."""
        return edits.undo(self.conversation, reference)

    def redo(self, reference: str = "") -> str:
        """Redo the decision that was undone last, or the one named; returns its id."""
        return edits.redo(self.conversation, reference)

    def pin(self, record: str) -> None:
        """Keep a record verbatim, whatever the layers do."""
        edits.pin(self.conversation, record)

    def unpin(self, record: str) -> None:
        """Unpin a record."""
        edits.unpin(self.conversation, record)

    def snip(self, first: str, last: str) -> str:
        """Remove whole rounds from the context, from ``first`` to ``last``; returns the decision's id, for `undo`."""
        return edits.snip(self.conversation, first, last)

    def rewind(self, record: str | None) -> None:
        """Continue from an earlier record, or from the start if it is None."""
        edits.rewind(self.conversation, record)

    def settle(self, seconds: float = 5.0) -> None:
        """Wait at most ``seconds`` for background work: notes, a summary being prepared, recall indexing."""
        until = monotonic() + seconds
        self._threads.close(seconds)
        self._store.recall.settle(max(0.0, until - monotonic()))

    def close(self) -> None:
        """Finish pending work and close the session, so that others can open it.

        With memory, what was said is looked at for lasting facts first: for at most ``memory_wait`` seconds (a
        setting), and a keyboard interrupt ends the waiting. The next session of the project looks at what is left.
        """
        # Runs in reverse order, and each even if another fails: a lock left behind would shut out all other writers.
        with ExitStack() as parts:
            parts.callback(self._store.release)
            if self._client is not None and self._given is None:
                parts.callback(self._client.close)
            parts.callback(self.conversation.close)
            parts.callback(self._store.recall.close)
            parts.callback(self._threads.close)
            parts.callback(self.conversation.closing.happen)
            parts.callback(self._threads.finish, self.conversation.endings)

    def hurry(self) -> None:
        """Let a `close` under way no longer wait for the look for lasting facts; safe in a signal handler."""
        for ending in self.conversation.endings:
            ending.hurry()

    def own_fields(self, fields: RequestFields) -> Mapping[str, bytes]:
        """The fields of a single request, checked and encoded."""
        c = self.conversation
        return request_fields(checked(fields, RequestFields), c.epoch.frame, c.profile) if fields else {}

    def _run(self, flow: Flow[R]) -> R:
        """Run a flow that may ask a model, without creating a client for it."""
        return drive(flow, self._client, hooks=self._hooks, guard=self.conversation.lock)

    def _asker(self) -> Client:
        if self._client is None:
            model = self.conversation.profile.model
            self._client = client_for(model, self._wire, opened.OFFLINE_JOBS, self._given)
            if self._given is None:
                opened.listings(self._store).refresh(model, self._client)
        return self._client
