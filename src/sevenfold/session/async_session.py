"""`sevenfold.AsyncSession`: the same session for those who await."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack

from sevenfold.conversation import turn
from sevenfold.conversation.background import TaskRunner
from sevenfold.conversation.flow import drive_async
from sevenfold.conversation.request import completed
from sevenfold.layers.compact.request import CompactionRequest
from sevenfold.layers.idle import Choice, IdleDecision, idle
from sevenfold.layers.notes.layer import compact
from sevenfold.ports import Call
from sevenfold.providers.models import Lister, ListingClient
from sevenfold.providers.registry import async_client_for, async_client_of, error_of, provider_for
from sevenfold.session import replies
from sevenfold.session.factory import OFFLINE_JOBS, Options, RequestFields
from sevenfold.session.options import check_name, checked
from sevenfold.session.results import Request
from sevenfold.session.session import Session, SessionBase

if TYPE_CHECKING:
    from sevenfold.conversation.flow import AsyncHookRunner
    from sevenfold.conversation.fork import Fork
    from sevenfold.conversation.intake import Content
    from sevenfold.conversation.request import Completion
    from sevenfold.events import Proposed
    from sevenfold.layers.compact.request import Compacted, Preview
    from sevenfold.ports import AsyncClient, Store, Watcher
    from sevenfold.recall.search import Hit
    from sevenfold.session.results import Explanation, Wishes

S = TypeVar("S", bound="AsyncSession")


class Opening(Generic[S]):
    """A session on its way: ``await`` gives it, ``async with`` gives it and closes it at the end."""

    def __init__(self, opened: Callable[[], Awaitable[S]]) -> None:
        self._opened = opened
        self._session: S | None = None

    def __await__(self) -> Generator[Any, Any, S]:
        return self._opened().__await__()

    async def __aenter__(self) -> S:
        self._session = await self
        return self._session

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()


class AsyncSession(SessionBase):
    """The same session with the same names, awaited."""

    def __init__(
        self,
        session: Session,
        client: Any = None,
        hooks: AsyncHookRunner | None = None,
        wire: str | None = None,
    ) -> None:
        self._session, self.conversation = session, session.conversation
        self._given = client
        self._wire = wire
        self._provider = provider_for(session.conversation.profile.model, client, wire)
        self._client: AsyncClient | None = None
        self._tasks = TaskRunner(self._asker, hooks)
        self._hooks = hooks
        if client is not None:
            self._asker()
            self.conversation.may_ask(self._tasks)

    @classmethod
    def open(
        cls,
        name: str,
        *,
        model: str,
        folder: Path | str | None = None,
        file: Path | str | None = None,
        store: Store | Path | str | None = None,
        lock_wait: float = 0.0,
        branch: str | None = None,
        **options: Unpack[Options],
    ) -> Opening[Self]:
        """See `Session.open`; to be awaited, or entered with ``async with``."""
        opening = partial(
            Session.open, name, folder=folder, file=file, store=store, lock_wait=lock_wait, branch=branch
        )
        return Opening(partial(cls._opened, opening, model, options))

    @classmethod
    def in_memory(cls, name: str = "session", *, model: str, **options: Unpack[Options]) -> Opening[Self]:
        """See `Session.in_memory`; to be awaited, or entered with ``async with``."""
        return Opening(partial(cls._opened, partial(Session.in_memory, name), model, options))

    @classmethod
    async def _opened(cls, opening: Callable[..., Session], model: str, options: Options) -> Self:
        options = checked(options, Options, awaits=True)
        check_name(model, "model")
        client, hooks = options.pop("client", None), options.pop("hooks", None)
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

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def user(self, content: Content, *, key: str = "") -> str:
        """See `Session.user`."""
        return self._session.user(content, key=key)

    async def tool_results(self, results: Mapping[str, Any] | Iterable[Any]) -> list[str]:
        """See `Session.tool_results`."""
        return self._session.tool_results(results)

    async def prepare(self, **fields: Unpack[RequestFields]) -> Request:
        """See `Session.prepare`."""
        flow = turn.prepare(self.conversation, self._session.own_fields(fields))
        pending = await drive_async(flow, self._client, hooks=self._hooks)
        return Request(self.conversation, pending, self._provider)

    async def observe(self, reply: Any, *, partial: bool = False) -> Completion:
        """See `Session.observe`."""
        return self._session.observe(await replies.settled(reply), partial=partial)

    async def failed(self, error: Exception) -> bool:
        """See `Session.failed`."""
        mapped = error_of(error, self.conversation.profile)
        if mapped is None:
            return False
        flow = turn.refused(self.conversation, mapped)
        return await drive_async(flow, self._client, hooks=self._hooks)

    async def complete(self, watch: Watcher | None = None, **fields: Unpack[RequestFields]) -> Completion:
        """See `Session.complete`."""
        client = self._asker()
        self.conversation.may_ask(self._tasks)
        flow = turn.turn(self.conversation, self._session.own_fields(fields))
        return completed(await drive_async(flow, client, watch, self._hooks))

    async def compact(self, instructions: str = "", **wish: Unpack[Wishes]) -> Compacted | None:
        """See `Session.compact`."""
        request = CompactionRequest(trigger="manual", instructions=instructions, **wish)
        return await drive_async(compact(self.conversation, request), self._client, hooks=self._hooks)

    async def idle(self) -> IdleDecision:
        """See `Session.idle`."""
        return await drive_async(idle(self.conversation), self._client, hooks=self._hooks)

    async def next_costs(self) -> tuple[Choice, ...]:
        """See `Session.next_costs`."""
        return await asyncio.to_thread(self._session.next_costs)

    async def compact_preview(self, instructions: str = "", **wish: Unpack[Wishes]) -> Preview:
        """See `Session.compact_preview`."""
        return await asyncio.to_thread(self._session.compact_preview, instructions, **wish)

    async def recall(
        self, query: str, *, kind: str | None = None, most: int = 10, by: str | None = None
    ) -> list[Hit]:
        """See `Session.recall`."""
        return await asyncio.to_thread(self._session.recall, query, kind=kind, most=most, by=by)

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
        return await asyncio.to_thread(self._session.why, number)

    async def at(self, number: int = -1) -> bytes:
        """See `Session.at`."""
        past = await asyncio.to_thread(self.conversation.past, number)
        return self._provider.put(Call(past.body)).body

    async def fetch(self, reference: str) -> bytes:
        """See `Session.fetch`."""
        return await asyncio.to_thread(self._session.fetch, reference)

    async def dry_run(self) -> list[Proposed]:
        """See `Session.dry_run`."""
        return self._session.dry_run()

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
            parts.push_async_callback(asyncio.to_thread, self._session.close)
            parts.push_async_callback(self._tasks.close)

    def _asker(self) -> AsyncClient:
        if self._client is None:
            model = self.conversation.profile.model
            self._client = async_client_for(model, self._wire, OFFLINE_JOBS, self._given)
        return self._client
