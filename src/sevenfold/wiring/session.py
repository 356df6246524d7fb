"""`sevenfold.Session`: the engine as a program uses it, once for those who wait and once for those who await."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack

import msgspec
from msgspec import Struct

from sevenfold.events import Listener, Proposed
from sevenfold.layers.scope import Span
from sevenfold.memory.recall import Hit
from sevenfold.ports import AsyncClient, Client, Watcher
from sevenfold.record import blocks
from sevenfold.record.blocks import ToolUse
from sevenfold.record.decisions import Why
from sevenfold.runtime.background import Tasks, Threads
from sevenfold.runtime.compaction.health import Health
from sevenfold.runtime.compaction.wish import Compacted, Preview, Wish
from sevenfold.runtime.compaction.wish import Engine as EngineName
from sevenfold.runtime.drive import drive, drive_async
from sevenfold.runtime.engine import Engine
from sevenfold.runtime.exchange import Outcome
from sevenfold.runtime.fork import Fork
from sevenfold.runtime.hooks.run import AsyncHooks, Hooks
from sevenfold.runtime.intake import Content
from sevenfold.runtime.session import Reading
from sevenfold.runtime.session import Session as Core
from sevenfold.wiring import opened, replies
from sevenfold.wiring.clients import async_client_for, async_client_of, client_for, client_of
from sevenfold.wiring.opened import Options, Store
from sevenfold.wiring.request import Request


class ToolCall(Struct, frozen=True):
    """A call the model makes."""

    id: str
    name: str
    input: dict[str, Any]


class Completion(Struct, frozen=True):
    """An answer, and what it cost."""

    text: str
    calls: tuple[ToolCall, ...]
    stop_reason: str
    usd: float | None
    outcome: Outcome
    """Everything else that is known about it."""


class Explanation(Struct, frozen=True):
    """Why a request was what it was, and how far what was expected of it came true."""

    number: int
    source: str
    why: Why | None
    expected_tokens: int | None
    actual_tokens: int | None
    expected_usd: float | None
    """What its prompt was to cost…"""
    actual_usd: float | None
    """…and what it did cost."""
    usd: float | None
    """What it cost with its answer."""


class Wishes(TypedDict, total=False):
    """What can be said about a compaction besides instructions."""

    span: Span
    """``whole``; ``from`` or ``up_to`` a record; or a ``range`` from ``record`` to ``until``."""
    record: str
    until: str
    note: str
    """Kept with the boundary."""
    engine: EngineName
    """Only this way to a summary, and extraction if it fails."""
    autonomous: bool


class Session:
    """A conversation with a model that stays within its window and never forgets in silence."""

    def __init__(
        self, engine: Engine, store: Store, client: Any = None, hooks: Hooks | None = None
    ) -> None:
        self.engine = engine
        """The engine itself, for those who build on it…"""
        self.core = engine.session
        """…and its ground: the record and the layers that ask nobody."""
        self._store = store
        self._given = client
        self._client: Client | None = None
        self._hooks = hooks
        self._threads = Threads(self._asker, hooks, self.core.lock)
        if client is not None:
            self._asker()
            engine.may_ask(self._threads)

    @classmethod
    def open(
        cls,
        name: str,
        *,
        model: str,
        folder: Path | str | None = None,
        file: Path | str | None = None,
        lock_wait: float = 0.0,
        **options: Unpack[Options],
    ) -> Self:
        """Open a session by its name, new or continued.

        It belongs to the project in ``folder`` (default: where the program runs) and is kept in the user's home,
        or in ``file``. ``lock_wait`` is how many seconds to wait for another writer. See `Options` for the rest.
        """
        store = opened.on_disk(name, folder, file, options.get("settings"), lock_wait)
        return cls(opened.engine(store, model, options), store, options.get("client"), options.get("hooks"))

    @classmethod
    def in_memory(cls, name: str = "session", *, model: str, **options: Unpack[Options]) -> Self:
        """A session that is kept nowhere, for tests and for what nobody wants to continue."""
        store = opened.in_memory(name, options.get("settings"))
        return cls(opened.engine(store, model, options), store, options.get("client"), options.get("hooks"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- the conversation ------------------------------------------------------------------------

    def user(self, content: Content, *, key: str = "") -> str:
        """Take in what the user says; returns the record's id. Said again under the same key, it counts once."""
        return self.core.user(content, key=key)

    def tool_results(self, results: Mapping[str, Any] | Iterable[Any]) -> list[str]:
        """Take in what tools answered, by call or as ``tool_result`` blocks; returns calls that still wait."""
        return self.core.tool_results(results)

    def prepare(self) -> Request:
        """The next request, for your own client; raises `ContextFull` when it cannot be made to fit."""
        return Request(drive(self.engine.preparing(), self._client, hooks=self._hooks))

    def observe(self, reply: Any, *, partial: bool = False) -> Completion:
        """Take in what your client answered: an SDK's message, a stream that ended, a mapping, or bytes.

        ``partial`` is for an answer that broke off: what is whole of it is kept.
        """
        return _completion(self.engine.observe(replies.reply_of(reply, partial=partial)))

    def failed(self, error: Exception) -> bool:
        """Take in that your client failed; True: `prepare` again, and it may succeed."""
        mapped = replies.error_of(error, self.core.profile)
        if mapped is None:
            return False
        again: bool = drive(self.engine.mending(mapped), self._client, hooks=self._hooks)
        return again

    def complete(self, watch: Watcher | None = None) -> Completion:
        """Ask, wait, and take the answer in; ``watch`` sees its pieces as they come."""
        client = self._asker()
        self.engine.may_ask(self._threads)
        return _completion(drive(self.engine.turn(), client, watch, self._hooks))

    def fork(self, source: str = "fork") -> Fork:
        """A conversation of its own that begins with this one's bytes, and shares its cache."""
        return self.core.fork(source)

    def messages(self, messages: Iterable[Mapping[str, Any]]) -> None:
        """Bring in a conversation from elsewhere, once, into an empty session."""
        self.core.adopt(messages)

    def sync(self, messages: Iterable[Mapping[str, Any]]) -> int:
        """Follow a list of messages kept elsewhere: what is new is taken in, and where it differs a branch
        begins. Returns how many messages are new."""
        return self.core.sync(messages)

    # -- looking ---------------------------------------------------------------------------------

    @property
    def gauge(self) -> Reading:
        """How full the window is, and what the session has cost."""
        return self.core.gauge

    @property
    def health(self) -> Health:
        """How the session is doing with its window: compactions, failures, share of the cache."""
        return self.engine.health

    def why(self, number: int = -1) -> Explanation:
        """Why a request was what it was; counted from 0, or from the newest with negative numbers."""
        past = self.core.past(number)
        why, usage = past.record.why, past.usage
        return Explanation(
            past.record.number,
            past.record.source,
            why,
            why.used if why else None,
            usage.prompt if usage else None,
            why.usd if why else None,
            past.prompt_usd,
            past.usd,
        )

    def at(self, number: int = -1) -> bytes:
        """The exact bytes of a request that was sent."""
        return self.core.past(number).body

    def fetch(self, reference: str) -> bytes:
        """The whole of a result that was offloaded or cleared, by its call, its path or its decision."""
        return self.core.fetch(reference)

    def dry_run(self) -> list[Proposed]:
        """What the layers would do before the next request."""
        return self.core.dry_run()

    def listen(self, listener: Listener) -> None:
        """Call ``listener`` with every event from now on; it may veto what is proposed."""
        self.core.listen(listener)

    def recall(self, query: str, *, kind: str | None = None, most: int = 10) -> list[Hit]:
        """Search everything that was said, above all what has left the context."""
        self._store.recall.catch_up()
        return self._store.recall.index.search(query, kind=kind, k=most)

    def notes(self) -> str | None:
        """The session notes as they are; None if there are none."""
        return self._store.notes.read()

    # -- deciding --------------------------------------------------------------------------------

    def compact(self, instructions: str = "", **wish: Unpack[Wishes]) -> Compacted | None:
        """Summarise the conversation, or a part of it, and go on from there; None if a hook or listener refused.

        Without a client the summary is extracted by code alone.
        """
        asked = Wish(trigger="manual", instructions=instructions, **wish)
        done: Compacted | None = drive(self.engine.compacting(asked), self._client, hooks=self._hooks)
        return done

    def compact_preview(self, instructions: str = "", **wish: Unpack[Wishes]) -> Preview:
        """What `compact` would do and cost, without doing it: how much of the next request would still come from
        the cache, and how much of it would have to be written again."""
        return self.engine.preview(Wish(trigger="manual", instructions=instructions, **wish))

    def undo(self, reference: str = "") -> str:
        """Take back what a layer did last, or the decision named; returns its name."""
        return self.engine.undo(reference)

    def redo(self, reference: str = "") -> str:
        """Make a decision again that was taken back; returns its name."""
        return self.engine.redo(reference)

    def pin(self, record: str) -> None:
        """Keep a record word for word, whatever the layers do."""
        self.core.pin(record)

    def unpin(self, record: str) -> None:
        """Let a pinned record go again."""
        self.core.unpin(record)

    def snip(self, first: str, last: str) -> str:
        """Take whole rounds out of sight; returns the decision's name, to undo it by."""
        return self.core.snip(first, last)

    def rewind(self, record: str | None) -> None:
        """Go on from an earlier record, or from the start."""
        self.core.rewind(record)

    def close(self) -> None:
        """Write everything out and let others open the session."""
        self._threads.close()
        self._store.recall.close()
        self.core.close()
        if self._client is not None and self._given is None:
            self._client.close()

    def _asker(self) -> Client:
        if self._client is None:
            model = self.core.profile.model
            self._client = client_for(model) if self._given is None else client_of(self._given)
        return self._client


class AsyncSession:
    """The same session with the same names, awaited."""

    def __init__(self, session: Session, client: Any = None, hooks: AsyncHooks | None = None) -> None:
        self._session = session
        self._given = client
        self._client: AsyncClient | None = None
        self._tasks = Tasks(self._asker, hooks)
        self._hooks = hooks
        if client is not None:
            self._asker()
            self.engine.may_ask(self._tasks)

    @classmethod
    async def open(
        cls,
        name: str,
        *,
        model: str,
        folder: Path | str | None = None,
        file: Path | str | None = None,
        lock_wait: float = 0.0,
        **options: Unpack[Options],
    ) -> Self:
        """See `Session.open`."""
        client, hooks = options.pop("client", None), options.pop("hooks", None)
        opening = partial(Session.open, name, model=model, folder=folder, file=file, lock_wait=lock_wait)
        session = await asyncio.to_thread(partial(opening, **options))
        return cls(session, client, hooks)

    @classmethod
    async def in_memory(cls, name: str = "session", *, model: str, **options: Unpack[Options]) -> Self:
        """See `Session.in_memory`."""
        client, hooks = options.pop("client", None), options.pop("hooks", None)
        return cls(Session.in_memory(name, model=model, **options), client, hooks)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def engine(self) -> Engine:
        """The engine itself, for those who build on it…"""
        return self._session.engine

    @property
    def core(self) -> Core:
        """…and its ground: the record and the layers that ask nobody."""
        return self._session.core

    @property
    def gauge(self) -> Reading:
        """See `Session.gauge`."""
        return self._session.gauge

    @property
    def health(self) -> Health:
        """See `Session.health`."""
        return self._session.health

    async def user(self, content: Content, *, key: str = "") -> str:
        """See `Session.user`."""
        return self._session.user(content, key=key)

    async def tool_results(self, results: Mapping[str, Any] | Iterable[Any]) -> list[str]:
        """See `Session.tool_results`."""
        return self._session.tool_results(results)

    async def prepare(self) -> Request:
        """See `Session.prepare`."""
        flow = self.engine.preparing()
        return Request(await drive_async(flow, self._client, hooks=self._hooks))

    async def observe(self, reply: Any, *, partial: bool = False) -> Completion:
        """See `Session.observe`."""
        if callable(final := getattr(reply, "get_final_message", None)):
            message = final()
            reply = await message if inspect.isawaitable(message) else message
        return self._session.observe(reply, partial=partial)

    async def failed(self, error: Exception) -> bool:
        """See `Session.failed`."""
        mapped = replies.error_of(error, self.core.profile)
        if mapped is None:
            return False
        again: bool = await drive_async(self.engine.mending(mapped), self._client, hooks=self._hooks)
        return again

    async def complete(self, watch: Watcher | None = None) -> Completion:
        """See `Session.complete`."""
        client = self._asker()
        self.engine.may_ask(self._tasks)
        return _completion(await drive_async(self.engine.turn(), client, watch, self._hooks))

    async def compact(self, instructions: str = "", **wish: Unpack[Wishes]) -> Compacted | None:
        """See `Session.compact`."""
        asked = Wish(trigger="manual", instructions=instructions, **wish)
        flow = self.engine.compacting(asked)
        done: Compacted | None = await drive_async(flow, self._client, hooks=self._hooks)
        return done

    async def compact_preview(self, instructions: str = "", **wish: Unpack[Wishes]) -> Preview:
        """See `Session.compact_preview`."""
        return self._session.compact_preview(instructions, **wish)

    async def recall(self, query: str, *, kind: str | None = None, most: int = 10) -> list[Hit]:
        """See `Session.recall`."""
        return self._session.recall(query, kind=kind, most=most)

    async def notes(self) -> str | None:
        """See `Session.notes`."""
        return self._session.notes()

    async def fork(self, source: str = "fork") -> Fork:
        """See `Session.fork`."""
        return self._session.fork(source)

    async def messages(self, messages: Iterable[Mapping[str, Any]]) -> None:
        """See `Session.messages`."""
        self._session.messages(messages)

    async def sync(self, messages: Iterable[Mapping[str, Any]]) -> int:
        """See `Session.sync`."""
        return self._session.sync(messages)

    async def why(self, number: int = -1) -> Explanation:
        """See `Session.why`."""
        return self._session.why(number)

    async def at(self, number: int = -1) -> bytes:
        """See `Session.at`."""
        return self._session.at(number)

    async def fetch(self, reference: str) -> bytes:
        """See `Session.fetch`."""
        return self._session.fetch(reference)

    async def dry_run(self) -> list[Proposed]:
        """See `Session.dry_run`."""
        return self._session.dry_run()

    def listen(self, listener: Listener) -> None:
        """See `Session.listen`; the listener itself is called, not awaited."""
        self._session.listen(listener)

    async def undo(self, reference: str = "") -> str:
        """See `Session.undo`."""
        return self._session.undo(reference)

    async def redo(self, reference: str = "") -> str:
        """See `Session.redo`."""
        return self._session.redo(reference)

    async def pin(self, record: str) -> None:
        """See `Session.pin`."""
        self._session.pin(record)

    async def unpin(self, record: str) -> None:
        """See `Session.unpin`."""
        self._session.unpin(record)

    async def snip(self, first: str, last: str) -> str:
        """See `Session.snip`."""
        return self._session.snip(first, last)

    async def rewind(self, record: str | None) -> None:
        """See `Session.rewind`."""
        self._session.rewind(record)

    async def close(self) -> None:
        """See `Session.close`."""
        await self._tasks.close()
        self._session.close()
        if self._client is not None and self._given is None:
            await self._client.close()

    def _asker(self) -> AsyncClient:
        if self._client is None:
            model = self.core.profile.model
            self._client = async_client_for(model) if self._given is None else async_client_of(self._given)
        return self._client


def _completion(outcome: Outcome) -> Completion:
    answer = outcome.reply.answer
    calls = tuple(
        ToolCall(body.id, body.name, msgspec.json.decode(body.input, type=dict[str, Any]))
        for block in answer.blocks
        if isinstance(body := block.body(), ToolUse)
    )
    text = "\n".join(
        filter(None, (blocks.words_of(block) for block in answer.blocks if block.kind == "text"))
    )
    return Completion(text, calls, answer.stop_reason or "", outcome.cost, outcome)
