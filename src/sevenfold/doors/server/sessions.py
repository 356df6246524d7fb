"""All sessions of a server: where they are kept, which are open here, and when they are closed.

A session is opened by the first request that needs its agent, and stays open while it is used and for some minutes
more: opening reads it from its last compaction on. While it is open here, other servers refuse to open it. Each session
is used by one request at a time.

A run is a job. That it was begun is on record too, so that a run whose server died is gone on with by the next one: the
log says how far it came.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit
from weakref import WeakValueDictionary

import msgspec
from anyio import CapacityLimiter, to_thread
from msgspec import Struct

from sevenfold.agent.agent import Agent
from sevenfold.agent.tools.session_tools import RecallTool
from sevenfold.conversation.controls import control_fields
from sevenfold.conversation.resume import resume
from sevenfold.doors.server import definition as definitions
from sevenfold.doors.server import problems
from sevenfold.doors.server.accounts import Accounts, Caller
from sevenfold.doors.server.budget import budgeted, most_nano, unpriced
from sevenfold.doors.server.definition import USUAL_ANSWER, SessionDefinition
from sevenfold.doors.server.feed import Feed
from sevenfold.doors.server.live import LiveSession, SessionKey, SessionRunEnd, Standing, standing
from sevenfold.doors.server.metrics import ServerMetrics
from sevenfold.doors.server.problems import Problem
from sevenfold.errors import InputError, SevenfoldError, TranscriptLocked, TranscriptMissing
from sevenfold.jobs import JobLimits, JobSpec, RunningJob
from sevenfold.ports import Client, Log, SessionInfo, Store
from sevenfold.profiles import find
from sevenfold.providers.registry import client_for
from sevenfold.session.factory import OFFLINE_JOBS
from sevenfold.stores.files import private_folder, safe_name
from sevenfold.stores.home import Project
from sevenfold.stores.jsonl.store import JsonlStore
from sevenfold.stores.registry import open_store
from sevenfold.work.threads import ThreadJobs

DEFINITION = "server-session.json"
"""The file of a session that says what it is made of."""
ADOPTING_SECONDS = 30.0
"""Between two looks for runs that nobody does any more."""
_CLOSING_SECONDS = 5.0
_PAUSING_SECONDS = 10.0
"""How long a run may take to come to its next request when the server stops."""
_INTERRUPTING_SECONDS = 0.2
SESSION_RUN = "session_run"
_MOST_STORES = 10_000
_log = logging.getLogger(__name__)
T = TypeVar("T")


class ServerLimits(Struct, frozen=True):
    """How much a server takes on."""

    runs: int = 64
    """Runs at the same time."""
    tenant_runs: int = 32
    """Runs of one tenant at the same time."""
    waiting: int = 128
    """Runs that wait for another one to end."""
    sessions: int = 1_000
    """Open sessions, those that are idle included."""
    streams: int = 1_000
    """Streams at the same time."""
    requests: int = 500
    """Other requests at the same time."""
    body_bytes: int = 8 << 20
    """Bytes of a request's body."""
    idle_seconds: float = 600.0
    """How long a session stays open that nobody uses."""
    drain_seconds: float = 30.0
    """How long runs under way may take when the server stops."""


class ServerOptions(Struct, frozen=True):
    """What a server is made of."""

    store: Path | str
    """A folder, or the URL of a database."""
    models: tuple[str, ...]
    """The models that sessions may use, the usual one first; none: any."""
    workspace: Path
    """An empty folder that agents believe to be in."""
    tools: Mapping[str, Any] = {}
    """The tools that the server carries out, by name."""
    make_client: Callable[[str], Client] | None = None
    """Makes the client for a model; by default the environment decides."""
    limits: ServerLimits = ServerLimits()


class SessionRun(Struct, frozen=True):
    """A run that is under way here, or waits for another one to end."""

    job: str
    """The key of its job."""
    done: asyncio.Future[None]


class Sessions:
    """The sessions of a server; its methods are called on the event loop."""

    def __init__(self, options: ServerOptions, accounts: Accounts, metrics: ServerMetrics) -> None:
        self.options = options
        self.accounts = accounts
        self.draining = False
        """Whether nothing new is begun, because the server stops."""
        self._metrics = metrics
        self._live: dict[SessionKey, LiveSession] = {}
        self._locks: WeakValueDictionary[SessionKey, asyncio.Lock] = WeakValueDictionary()
        self._stores: dict[tuple[str, str], Store] = {}
        self._opening = threading.Lock()
        self._clients: dict[str, Client] = {}
        self._running: dict[SessionKey, SessionRun] = {}
        self.threads = CapacityLimiter(max(8, options.limits.requests))
        limits = JobLimits(at_once=options.limits.runs, per_tenant=options.limits.tenant_runs)
        self._jobs = ThreadJobs({SESSION_RUN: self._carry_out}, limits=limits)
        self.loop: asyncio.AbstractEventLoop
        metrics.gauge("sessions_open", "Sessions that are open here", lambda: len(self._live))
        metrics.gauge("runs_working", "Runs under way or waiting", lambda: len(self._running))

    def begin(self) -> None:
        """Begin to serve, on the running loop."""
        self.loop = asyncio.get_running_loop()

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Do something that blocks."""
        return await to_thread.run_sync(work, limiter=self.threads)

    # -- stores ----------------------------------------------------------------------------------

    def store_of(self, tenant: str, user: str) -> Store:
        """The store with the sessions and the memory of one user of a tenant; may block."""
        with self._opening:
            store = self._stores.pop((tenant, user), None) or _opened_store(
                self.options.store, tenant, user
            )
            self._stores[tenant, user] = store
            if len(self._stores) > _MOST_STORES:
                # Sessions that are open go on with it: its connections are shared with the others.
                self._stores.pop(next(iter(self._stores))).close()
        return store

    def definition_of(self, key: SessionKey) -> SessionDefinition:
        """What a session is made of; raises `Problem` if there is none. May block."""
        raw = self.store_of(key.tenant, key.user).agent_files(key.name).read(DEFINITION)
        if raw is None:
            raise problems.no_session(key.name)
        try:
            return msgspec.json.decode(raw, type=SessionDefinition)
        except msgspec.MsgspecError as error:
            raise Problem(
                409, "session_too_new", f"this session was made by another version of the server: {error}"
            ) from error

    def create(self, key: SessionKey, definition: SessionDefinition, caller: Caller) -> bool:
        """Make a session; False if it is there already. Raises `Problem` if it is another one. May block."""
        self._check(definition, caller)
        folder = self.store_of(key.tenant, key.user).agent_files(key.name)
        with folder.lock(wait=5.0):
            raw = folder.read(DEFINITION)
            wanted = msgspec.json.encode(definition)
            if raw is None:
                folder.write(DEFINITION, wanted)
                return True
        if self.definition_of(key) == definition:
            return False
        raise Problem(
            409,
            "session_exists",
            f"there is a session {key.name!r} that is made of something else; choose another id",
        )

    def _check(self, definition: SessionDefinition, caller: Caller) -> None:
        models = self.options.models
        if models and definition.model not in models:
            raise InputError(f"this server has no model {definition.model!r}; it has: {', '.join(models)}")
        definitions.tools_of(definition, self.options.tools)
        profile = find(definition.model)
        if definition.max_tokens > profile.max_output and definition.max_tokens != USUAL_ANSWER:
            raise InputError(
                f"{definition.model} writes {profile.max_output:,} tokens at most, so max_tokens cannot be "
                f"{definition.max_tokens:,}"
            )
        answer = min(definition.max_tokens, profile.max_output)
        control_fields(profile, definition.effort or None, None, answer)
        limited = caller.tenant.budget is not None or caller.tenant.user_budget is not None
        asked = msgspec.json.encode({"model": definition.model, "max_tokens": definition.max_tokens})
        if limited and most_nano(asked) is None:
            raise InputError(unpriced(definition.model))

    def log_of(self, key: SessionKey) -> Log | None:
        """The log of a session, to be read; None if nothing has been said. May block."""
        try:
            return self.store_of(key.tenant, key.user).read(key.name)
        except TranscriptMissing:
            return None

    def recorded_standing(self, key: SessionKey) -> Standing:
        """What a session is doing that is not open here, by its log. May block."""
        definition = self.definition_of(key)
        log = self.log_of(key)
        if log is None:
            return Standing("idle")
        state = standing(resume(log), definition.client_tools)
        if state.status == "unfinished" and self.accounts.has_run(key.tenant, key.user, key.name):
            # On another server, or on one that died, and then the next one goes on with it.
            return Standing("working")
        return state

    def listed(self, caller: Caller, since: float, limit: int) -> list[SessionInfo]:
        """The sessions of a user, newest first. May block."""
        return list(self.store_of(caller.tenant.name, caller.user).sessions(since=since, limit=limit))

    # -- open sessions ---------------------------------------------------------------------------

    def live(self, key: SessionKey) -> LiveSession | None:
        """The session, if it is open here."""
        return self._live.get(key)

    @asynccontextmanager
    async def using(self, key: SessionKey, caller: Caller | None) -> AsyncIterator[LiveSession]:
        """Open a session if it is not, and use it alone; ``caller`` is who has asked, None for the server itself."""
        async with self._alone(key):
            live = self._live.get(key)
            if live is None:
                if caller is None:
                    caller = await self.in_thread(partial(self._owner, key))
                if len(self._live) >= self.options.limits.sessions and not await self._close_oldest():
                    raise problems.busy(
                        "server_full",
                        "too many sessions are open on this server; try again later",
                        status=503,
                    )
                live = await self.in_thread(partial(self._open, key, caller))
                self._live[key] = live
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
        tenant = self.accounts.tenant(key.tenant)
        if tenant is None:
            raise InputError("the tenant of this session is not there any more")
        return Caller(tenant, key.user)

    def _open(self, key: SessionKey, caller: Caller) -> LiveSession:
        definition = self.definition_of(key)
        client = budgeted(self._client(definition.model), self.accounts, caller)
        tools = [RecallTool(), *definitions.tools_of(definition, self.options.tools)]
        agent = Agent(
            definition.model,
            name=key.name,
            store=self.store_of(key.tenant, key.user),
            folder=self.options.workspace,
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
            live = LiveSession(key, definition, agent, client, partial(Feed, self.loop))
            # Whoever opens it before the run is adopted is to see that it works.
            if live.recorded().status == "unfinished":
                live.owed = self.accounts.has_run(key.tenant, key.user, key.name)
        except BaseException:
            agent.close()
            raise
        return live

    def _client(self, model: str) -> Client:
        client = self._clients.get(model)
        if client is None:
            make = self.options.make_client
            client = make(model) if make is not None else client_for(model, None, OFFLINE_JOBS)
            client = self._clients.setdefault(model, client)
        return client

    async def _close_oldest(self) -> bool:
        idle = [live for live in self._live.values() if not live.working]
        oldest = min(idle, key=lambda live: live.used_at, default=None)
        return oldest is not None and await self._close(oldest.key)

    async def close_idle(self, seconds: float) -> None:
        """Close the sessions that nobody has used for some seconds."""
        before = time.monotonic() - seconds
        old = [live.key for live in self._live.values() if not live.working and live.used_at <= before]
        for key in old:
            with suppress(SevenfoldError):
                await self._close(key)

    async def _close(self, key: SessionKey) -> bool:
        """Close a session, unless it is used; False if it is."""
        lock = self._locks.get(key)
        if lock is not None and lock.locked():
            return False
        async with self._alone(key):
            live = self._live.get(key)
            if live is None or live.working:
                return False
            # Out of the way first: whoever wants it next waits for the lock, and opens it anew.
            del self._live[key]
            await self.in_thread(live.close)
        return True

    async def erase(self, key: SessionKey) -> None:
        """Remove a session for good."""
        live = self._live.get(key)
        if live is not None and live.working:
            raise problems.busy("session_working", "the session is working; interrupt it first", status=409)
        async with self._alone(key):
            live = self._live.pop(key, None)
            if live is not None:
                await self.in_thread(live.close)

            def erase() -> None:
                self.definition_of(key)
                self.store_of(key.tenant, key.user).erase(key.name)

            await self.in_thread(erase)

    # -- runs ------------------------------------------------------------------------------------

    def check_room(self, key: SessionKey) -> None:
        """Raise `Problem` if no run can be begun now."""
        limits = self.options.limits
        if self.draining:
            raise problems.busy(
                "server_stopping",
                "this server is about to stop; send the request to another one",
                status=503,
            )
        if len(self._running) >= limits.runs + limits.waiting:
            raise problems.busy(
                "server_busy", "this server has as many runs as it takes; try again later", seconds=5
            )
        tenants = Counter(running.tenant for running in self._running)
        most = limits.tenant_runs + limits.waiting // 2
        if tenants[key.tenant] >= most:
            raise problems.busy(
                "tenant_busy",
                f"this tenant has {most} runs under way or waiting, which is the limit; wait for one to end",
                seconds=5,
            )

    async def start(self, live: LiveSession) -> SessionRun:
        """Begin a run; the caller uses the session."""
        key = live.key
        await self.in_thread(partial(self.accounts.begin_run, key.tenant, key.user, key.name))
        spec = JobSpec(
            SESSION_RUN,
            key=secrets.token_hex(16),
            payload={"user": key.user, "session": key.name},
            # What one user calls a session is nothing to the sessions of another one.
            session=f"{safe_name(key.user)}/{key.name}",
            model=live.definition.model,
            attempts=1,
        )
        run = SessionRun(spec.key, self.loop.create_future())
        live.working = True
        live.owed = False
        self._running[key] = run
        self._jobs.for_tenant(key.tenant).submit(spec)
        return run

    def _carry_out(self, job: RunningJob) -> Any:
        """Carry out a run, in a thread of its own."""
        given = job.job.spec.payload
        key = SessionKey(job.tenant, str(given["user"]), str(given["session"]))
        live = self._live[key]
        end = SessionRunEnd("failed")
        began = time.monotonic()

        def stop() -> None:
            # Whoever cancels a run wants it to stop; a server that stops only hands it over.
            if job.stopping == "cancelled":
                live.interrupt()
            else:
                live.pause()

        try:
            job.when_stopped(stop)
            end = live.work()
            if not end.paused:
                self.accounts.end_run(key.tenant, key.user, key.name)
        except SevenfoldError as error:
            end = live.failed(error)
        finally:
            self._metrics.took("run_seconds", time.monotonic() - began)
            with suppress(RuntimeError):  # the loop is closed: the process is about to end
                self.loop.call_soon_threadsafe(self._ended, live, end)
        return msgspec.to_builtins(end)

    def _ended(self, live: LiveSession, end: SessionRunEnd) -> None:
        """Take note that a run has ended, and tell of it."""
        # The next server goes on with one that was paused, so for streams it has not ended.
        live.owed = end.paused
        live.working = False
        live.used_at = time.monotonic()
        run = self._running.pop(live.key)
        if end.error is not None and end.error["type"] == "budget_spent":
            self._metrics.count("budget_refusals")
        self._metrics.count("runs", end=end.end)
        if not end.paused:
            live.tell_end(end)
        run.done.set_result(None)

    def run_of(self, key: SessionKey) -> SessionRun | None:
        """The run of a session that is under way here."""
        return self._running.get(key)

    async def interrupt(self, live: LiveSession, run: SessionRun) -> None:
        """Stop a run, and wait until it has ended."""
        jobs = self._jobs.for_tenant(live.key.tenant)
        job = await self.in_thread(partial(jobs.cancel, run.job))
        if job.status == "cancelled" and not job.began:
            key = live.key
            await self.in_thread(partial(self.accounts.end_run, key.tenant, key.user, key.name))
            self._ended(live, SessionRunEnd("interrupted"))
        while not run.done.done():
            # Again: the run may not have begun when it was told to stop.
            await self.in_thread(live.interrupt)
            await asyncio.wait([run.done], timeout=_INTERRUPTING_SECONDS)

    async def disown(self, live: LiveSession) -> None:
        """Do not go on with a run that an earlier server left."""
        key = live.key
        await self.in_thread(partial(self.accounts.end_run, key.tenant, key.user, key.name))
        live.settled()

    async def adopt(self) -> None:
        """Go on with runs whose server died."""
        for named in await self.in_thread(self.accounts.runs):
            key = SessionKey(*named)
            if key in self._running or self.draining:
                continue
            try:
                self.check_room(key)
                async with self.using(key, None) as live:
                    if live.working:
                        continue
                    state = await self.in_thread(live.recorded)
                    if state.status == "unfinished":
                        await self.start(live)
                        continue
            except TranscriptLocked:
                continue  # its server lives
            except Problem as problem:
                if problem.status != 404:
                    continue
            except SevenfoldError:
                _log.warning("a run of an earlier server cannot be gone on with", exc_info=True)
                continue
            await self.in_thread(partial(self.accounts.end_run, *named))

    def _forget_jobs(self) -> None:
        """Forget the jobs that ended: the logs know what came of them."""
        for tenant in {key.tenant for key in list(self._live)}:
            self._jobs.for_tenant(tenant).forget(time.time() - ADOPTING_SECONDS)

    # -- stopping --------------------------------------------------------------------------------

    async def drain(self) -> int:
        """Let the runs under way end; returns how many are left.

        Runs that take too long are paused before their next request, and the next server goes on with them. What does
        not even come to that (an answer that takes minutes) is left as if the server had been killed.
        """
        self.draining = True
        await self._all_done(self.options.limits.drain_seconds)
        for key in self._running:
            self._live[key].pause()
        await self._all_done(_PAUSING_SECONDS)
        return len(self._running)

    async def close(self) -> None:
        """Close everything that is open, but for runs that could not be paused."""
        await self.close_idle(0.0)
        if not self._running:
            await self.in_thread(self._jobs.close)
            for client in self._clients.values():
                if self.options.make_client is None:
                    await self.in_thread(client.close)
            for store in self._stores.values():
                await self.in_thread(store.close)

    async def _all_done(self, seconds: float) -> None:
        if self._running:
            await asyncio.wait([run.done for run in self._running.values()], timeout=seconds)

    async def keep_house(self, stopping: asyncio.Event) -> None:
        """Close idle sessions and adopt runs, until the server stops."""
        next_look = 0.0
        while not stopping.is_set():
            if time.monotonic() >= next_look:
                next_look = time.monotonic() + ADOPTING_SECONDS
                with suppress(SevenfoldError):
                    await self.in_thread(self.accounts.settle_lost)
                    await self.in_thread(self._forget_jobs)
                    await self.adopt()
            await self.close_idle(self.options.limits.idle_seconds)
            with suppress(TimeoutError):
                async with asyncio.timeout(_CLOSING_SECONDS):
                    await stopping.wait()


SYSTEM = (Path(__file__).with_name("system.md")).read_text(encoding="utf-8").strip()
"""The system prompt of sessions that have none of their own."""


def _opened_store(base: Path | str, tenant: str, user: str) -> Store:
    """The store of one user of a tenant: nothing of another one's can be seen in it."""
    text = str(base)
    if "://" not in text:
        folder = Project(Path(base) / "sessions").of_tenant(tenant).folder / "users" / safe_name(user)
        private_folder(folder)
        return JsonlStore(folder, tenant="", project=Project(folder))
    parts = urlsplit(text)
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    given |= {"tenant": tenant, "project": f"user:{user}", "end_user": user}
    store = open_store(urlunsplit(parts._replace(query=urlencode(given))))
    if store.tenant != tenant:
        raise InputError(f"the store {parts.scheme}:// keeps no tenants apart, so a server cannot use it")
    return store
