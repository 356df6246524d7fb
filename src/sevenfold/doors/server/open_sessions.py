"""The sessions that are open in a server: opened when they are needed, and closed when nothing uses them.

A session is opened by the first request that needs its agent, and stays open while it is used and for some minutes
more, since opening it means to read its log from the last compaction on. While it is open here, other servers refuse to
open it. Each session is used by one request at a time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from weakref import WeakValueDictionary

from sevenfold.agent.agent import Agent
from sevenfold.agent.tools.session_tools import RecallTool
from sevenfold.doors.server import definition as definitions
from sevenfold.doors.server import problems
from sevenfold.doors.server.accounts import Accounts, Caller
from sevenfold.doors.server.budget import budgeted
from sevenfold.doors.server.feed import Feed
from sevenfold.doors.server.live import LiveSession, SessionKey
from sevenfold.doors.server.metrics import ServerMetrics
from sevenfold.doors.server.options import ServerOptions
from sevenfold.doors.server.stored_sessions import StoredSessions
from sevenfold.doors.server.threads import ServerThreads
from sevenfold.errors import InputError, SevenfoldError
from sevenfold.ports import Client
from sevenfold.profiles import find
from sevenfold.providers.registry import client_for
from sevenfold.session.factory import OFFLINE_JOBS


class OpenSessions:
    """The sessions that are open here. Its methods are called on the event loop."""

    def __init__(
        self,
        options: ServerOptions,
        accounts: Accounts,
        metrics: ServerMetrics,
        stored: StoredSessions,
        threads: ServerThreads,
    ) -> None:
        self._options = options
        self._accounts = accounts
        self._metrics = metrics
        self._stored = stored
        self._threads = threads
        self._live: dict[SessionKey, LiveSession] = {}
        self._opening = 0
        """How many sessions are being opened; they count as open."""
        self._locks: WeakValueDictionary[SessionKey, asyncio.Lock] = WeakValueDictionary()
        """A lock for each session that is in use; it exists as long as a request holds it or waits for it."""
        self._clients: dict[str, Client] = {}
        """The client for each model, shared by all sessions."""
        metrics.gauge("sessions_open", "Sessions that are open here", lambda: len(self._live))

    def tenants(self) -> set[str]:
        """The tenants that have a session open here."""
        return {key.tenant for key in list(self._live)}

    def live(self, key: SessionKey) -> LiveSession | None:
        """The session, if it is open here."""
        return self._live.get(key)

    @asynccontextmanager
    async def using(self, key: SessionKey, caller: Caller | None) -> AsyncIterator[LiveSession]:
        """Open a session if needed, and use it exclusively; ``caller`` is None for the server itself."""
        async with self._alone(key):
            live = self._live.get(key)
            if live is None:
                if caller is None:
                    caller = await self._threads.run(partial(self._owner, key))
                live = await self._open_within_limit(key, caller)
            if caller is not None:
                live.client.caller = caller
            live.used_at = time.monotonic()
            yield live
            live.used_at = time.monotonic()

    @asynccontextmanager
    async def _alone(self, key: SessionKey) -> AsyncIterator[None]:
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        async with lock:
            yield

    def _owner(self, key: SessionKey) -> Caller:
        tenant = self._accounts.tenant(key.tenant)
        if tenant is None:
            raise InputError(
                f"tenant {key.tenant!r} of this session no longer exists; restore it: sevenfold tenants add "
                f"{key.tenant}"
            )
        return Caller(tenant, key.user)

    async def _open_within_limit(self, key: SessionKey, caller: Caller) -> LiveSession:
        """Open a session, and first close an idle one if the server is full; raises `Problem` if all are in use."""
        limit = self._options.limits.sessions
        # Counted before anything is awaited: requests for other sessions come in meanwhile, and see the same limit.
        self._opening += 1
        try:
            if len(self._live) + self._opening > limit and not await self._make_room():
                raise problems.busy(
                    "server_full",
                    f"this server has reached its limit of {limit:,} open sessions, and all are in use; try again "
                    "later or send the request to another server",
                    status=503,
                )
            live = await self._threads.run(partial(self._open, key, caller, asyncio.get_running_loop()))
            self._live[key] = live
        finally:
            self._opening -= 1
        return live

    def _open(self, key: SessionKey, caller: Caller, loop: asyncio.AbstractEventLoop) -> LiveSession:
        definition = self._stored.definition_of(key)
        client = budgeted(self._client(definition.model), self._accounts, caller)
        tools = [RecallTool(), *definitions.tools_of(definition, self._options.tools)]
        agent = Agent(
            definition.model,
            name=key.name,
            store=self._stored.store_of(key.tenant, key.user),
            folder=self._options.workspace,
            tools=tools,
            client=client,
            system=definition.system or SYSTEM,
            max_tokens=min(definition.max_tokens, find(definition.model).max_output),
            max_turns=definition.max_turns,
            effort=definition.effort or None,
            memory=definition.memory,
            source="sdk",
            listen=[self._metrics.listen],
        )
        try:
            live = LiveSession(key, definition, agent, client, partial(Feed, loop))
            # A request that comes before the run is adopted must see that the session is working.
            if live.recorded().status == "unfinished":
                live.run_due = self._accounts.has_run(key.tenant, key.user, key.name)
        except BaseException:
            agent.close()
            raise
        return live

    def _client(self, model: str) -> Client:
        client = self._clients.get(model)
        if client is None:
            make = self._options.make_client
            client = make(model) if make is not None else client_for(model, None, OFFLINE_JOBS)
            client = self._clients.setdefault(model, client)
        return client

    async def _make_room(self) -> bool:
        """Close the least recently used of the idle sessions that no request uses; False if there is none."""
        idle = [live for live in self._live.values() if not live.working]
        for live in sorted(idle, key=lambda live: live.used_at):
            if await self._close(live.key):
                return True
        return False

    async def close_idle(self, seconds: float) -> None:
        """Close the sessions that have not been used for this long."""
        before = time.monotonic() - seconds
        old = [live.key for live in self._live.values() if not live.working and live.used_at <= before]
        for key in old:
            with suppress(SevenfoldError):
                await self._close(key)

    async def _close(self, key: SessionKey) -> bool:
        """Close a session; False if it is in use or not open."""
        lock = self._locks.get(key)
        if lock is not None and lock.locked():
            return False
        async with self._alone(key):
            live = self._live.get(key)
            if live is None or live.working:
                return False
            # Removed before it is closed: the next request waits for the lock and opens it again.
            del self._live[key]
            await self._threads.run(live.close)
        return True

    async def erase(self, key: SessionKey) -> None:
        """Delete a session permanently; raises `Problem` if it is working."""
        async with self._alone(key):
            live = self._live.get(key)
            # Checked under the lock: a run may begin while the erasure waits for it.
            if live is not None and live.working:
                raise problems.busy(
                    "session_working", "the session is working; interrupt it first", status=409
                )
            if live is not None:
                del self._live[key]
                await self._threads.run(live.close)
            await self._threads.run(partial(self._stored.erase, key))

    async def close_clients(self) -> None:
        """Close the clients; those that the options made belong to the caller."""
        if self._options.make_client is None:
            for client in self._clients.values():
                await self._threads.run(client.close)


SYSTEM = (Path(__file__).with_name("system.md")).read_text(encoding="utf-8").strip()
"""The system prompt of sessions that have none of their own."""
