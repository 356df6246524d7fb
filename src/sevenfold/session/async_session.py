"""`sevenfold.AsyncSession`: the async version of `sevenfold.Session`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import AsyncExitStack
from functools import partial, wraps
from time import monotonic
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, Unpack

from sevenfold.conversation import turn
from sevenfold.conversation.background import TaskRunner
from sevenfold.conversation.flow import AsyncHookRunner, Flow, drive_async
from sevenfold.conversation.request import Completion, completed
from sevenfold.conversation.status import Reading
from sevenfold.conversation.step_thread import StepThread
from sevenfold.layers.compact.compaction import Compacted, CompactionRequest
from sevenfold.layers.idle import IdleDecision, idle
from sevenfold.layers.on_request import compact
from sevenfold.ports import AsyncClient, Call, Watcher
from sevenfold.providers.models import Lister, ListingClient
from sevenfold.providers.registry import async_client_for, async_client_of, error_of, provider_for
from sevenfold.session import replies
from sevenfold.session.factory import OFFLINE_JOBS, OpenOptions, Options, RequestFields
from sevenfold.session.options import check_name, checked
from sevenfold.session.results import Request, Wishes
from sevenfold.session.session import Session, SessionBase

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="AsyncSession")


def _awaited(
    method: Callable[Concatenate[Session, P], R], *, aside: bool = False
) -> Callable[Concatenate[AsyncSession, P], Coroutine[Any, Any, R]]:
    """Make a method of `Session` awaitable; with ``aside``, the session's own thread is not held up by it."""

    @wraps(method)
    async def awaited(self: AsyncSession, /, *args: P.args, **options: P.kwargs) -> R:
        work = partial(method, self._session, *args, **options)
        return await asyncio.to_thread(work) if aside else await self.steps.run(work)

    return awaited


class Opening(Generic[S]):
    """A session being opened: ``await`` returns it, ``async with`` also closes it at the end."""

    def __init__(self, opened: Callable[[], Awaitable[S]]) -> None:
        self._opened = opened
        self._session: S | None = None

    def __await__(self) -> Generator[Any, Any, S]:
        return self._opened().__await__()

    async def __aenter__(self) -> S:
        self._session = await self
        return self._session

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()


class AsyncSession(SessionBase):
    """The async version of `Session`, with the same methods."""

    def __init__(
        self,
        session: Session,
        client: Any = None,
        hooks: AsyncHookRunner | None = None,
        wire: str | None = None,
    ) -> None:
        self._session = session
        self.conversation = session.conversation
        self._given = client
        self._wire = wire
        self._provider = provider_for(session.conversation.profile.model, client, wire)
        self._client: AsyncClient | None = None
        self.steps = StepThread()
        """The thread in which everything runs that may read or write the store."""
        self._tasks = TaskRunner(self._asker, hooks, self.conversation.lock, self.steps)
        self._last_reading: Reading | None = None
        self._hooks = hooks
        if client is not None:
            self._asker()
            self.conversation.set_background_runner(self._tasks)

    @classmethod
    def open(cls, name: str, *, model: str, **options: Unpack[OpenOptions]) -> Opening[Self]:
        """See `Session.open`; await the result, or enter it with ``async with``."""
        return Opening(partial(cls._opened, partial(Session.open, name), model, options))

    @classmethod
    def in_memory(cls, name: str = "session", *, model: str, **options: Unpack[Options]) -> Opening[Self]:
        """See `Session.in_memory`; await the result, or enter it with ``async with``."""
        return Opening(partial(cls._opened, partial(Session.in_memory, name), model, options))

    @classmethod
    async def _opened(cls, opening: Callable[..., Session], model: str, options: Options) -> Self:
        options = checked(options, OpenOptions, awaits=True)
        check_name(model, "model")
        client = options.pop("client", None)
        hooks = options.pop("hooks", None)
        options["wire"] = wire = provider_for(model, client, options.get("wire")).name
        if client is not None and isinstance(asked := async_client_of(client, wire), Lister):
            options["client"] = ListingClient(asked)
        session = await asyncio.to_thread(partial(opening, model=model, **options))
        try:
            return cls(session, client, hooks, wire)
        except BaseException:
            session.close()
            raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    user = _awaited(Session.user)
    tool_results = _awaited(Session.tool_results)
    notes = _awaited(Session.notes)
    fork = _awaited(Session.fork)
    messages = _awaited(Session.messages)
    sync = _awaited(Session.sync)
    dry_run = _awaited(Session.dry_run)
    undo = _awaited(Session.undo)
    redo = _awaited(Session.redo)
    pin = _awaited(Session.pin)
    unpin = _awaited(Session.unpin)
    snip = _awaited(Session.snip)
    rewind = _awaited(Session.rewind)
    next_costs = _awaited(Session.next_costs, aside=True)
    compact_preview = _awaited(Session.compact_preview, aside=True)
    recall = _awaited(Session.recall, aside=True)
    why = _awaited(Session.why, aside=True)
    fetch = _awaited(Session.fetch, aside=True)

    async def prepare(self, **fields: Unpack[RequestFields]) -> Request:
        """See `Session.prepare`."""
        pending = await self._run(turn.prepare(self.conversation, self._session.own_fields(fields)))
        request = Request(self.conversation, pending, self._provider)
        # It would otherwise be recorded where the caller first looks at it, on the event loop.
        await self.steps.run(request.record)
        return request

    async def observe(self, reply: Any, *, partial: bool = False) -> Completion:
        """See `Session.observe`."""
        settled = await replies.settled(reply)
        return await self.steps.run(lambda: self._session.observe(settled, partial=partial))

    async def failed(self, error: Exception) -> bool:
        """See `Session.failed`."""
        mapped = error_of(error, self.conversation.profile)
        return mapped is not None and await self._run(turn.refused(self.conversation, mapped))

    async def complete(self, watch: Watcher | None = None, **fields: Unpack[RequestFields]) -> Completion:
        """See `Session.complete`."""
        client = self._asker()
        self.conversation.set_background_runner(self._tasks)
        flow = turn.turn(self.conversation, self._session.own_fields(fields))
        return completed(await self._run(flow, client, watch))

    async def compact(self, instructions: str = "", **wish: Unpack[Wishes]) -> Compacted | None:
        """See `Session.compact`."""
        request = CompactionRequest(trigger="manual", instructions=instructions, **wish)
        return await self._run(compact(self.conversation, request))

    async def idle(self) -> IdleDecision:
        """See `Session.idle`."""
        return await self._run(idle(self.conversation))

    async def at(self, number: int = -1) -> bytes:
        """See `Session.at`."""
        past = await asyncio.to_thread(self.conversation.past, number)
        return self._provider.put(Call(past.body, cache_key=self.conversation.cache_key)).body

    async def settle(self, seconds: float = 5.0) -> None:
        """See `Session.settle`."""
        until = monotonic() + seconds
        await self._tasks.settle(seconds)
        await asyncio.to_thread(self._session.settle, max(0.0, until - monotonic()))

    async def close(self) -> None:
        """See `Session.close`."""
        async with AsyncExitStack() as parts:
            if self._client is not None and self._given is None:
                parts.push_async_callback(self._client.close)
            parts.callback(self.steps.close)
            parts.push_async_callback(asyncio.to_thread, self._session.close)
            parts.push_async_callback(self._tasks.close)
            parts.callback(self.conversation.closing.happen)
            parts.push_async_callback(self._tasks.finish, self.conversation.endings)

    @property
    def gauge(self) -> Reading:
        """How full the window is, and what the session has cost; while a step is running, as it was before."""
        lock = self.conversation.lock
        if lock.acquire(blocking=self._last_reading is None):
            try:
                self._last_reading = self.conversation.reading
            finally:
                lock.release()
        assert self._last_reading is not None
        return self._last_reading

    async def _run(
        self, flow: Flow[R], client: AsyncClient | None = None, watch: Watcher | None = None
    ) -> R:
        client = client or self._client
        return await drive_async(
            flow, client, watch, self._hooks, guard=self.conversation.lock, thread=self.steps
        )

    def _asker(self) -> AsyncClient:
        if self._client is None:
            model = self.conversation.profile.model
            self._client = async_client_for(model, self._wire, OFFLINE_JOBS, self._given)
        return self._client
