"""All sessions of a server: where they are stored, which are open here, and when they are closed.

A session is opened by the first request that needs its agent, and stays open while it is used and for some minutes
more, since opening it means to read its log from the last compaction on. While it is open here, other servers refuse to
open it. Each session is used by one request at a time.

Each run is a job. The server also records that a run has started, so if it dies, another server resumes the run from
the session's log.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
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
from sevenfold.doors.server.user_stores import UserStores
from sevenfold.errors import InputError, SevenfoldError, TranscriptLocked, TranscriptMissing
from sevenfold.jobs import JobLimits, JobSpec, RunningJob
from sevenfold.ports import Client, Log, SessionInfo, Store
from sevenfold.profiles import find
from sevenfold.providers.registry import client_for
from sevenfold.session.factory import OFFLINE_JOBS
from sevenfold.stores.files import safe_name
from sevenfold.work.threads import ThreadJobs

DEFINITION = "server-session.json"
"""The file with the definition of a session."""
ADOPTING_SECONDS = 30.0
"""Seconds between checks for runs whose server died."""
_ENDED_JOB_SECONDS = 30.0
"""How long a job that has ended can still be found; the session's log has its outcome."""
_CLOSING_SECONDS = 5.0
"""Seconds between checks for sessions to close."""
_PAUSING_SECONDS = 10.0
"""How long a run may take to reach its next request when the server stops."""
_INTERRUPTING_SECONDS = 0.2
"""Seconds between two attempts to interrupt a run."""
SESSION_RUN = "session_run"
_log = logging.getLogger(__name__)
T = TypeVar("T")


class ServerLimits(Struct, frozen=True):
    """The limits of a server."""

    runs: int = 64
    """Runs at the same time."""
    tenant_runs: int = 32
    """Runs of one tenant at the same time."""
    waiting: int = 128
    """Runs that wait until another one has ended."""
    sessions: int = 1_000
    """Open sessions, including idle ones."""
    streams: int = 1_000
    """Streams at the same time."""
    requests: int = 500
    """Other requests at the same time."""
    body_bytes: int = 8 << 20
    """Bytes of a request's body."""
    idle_seconds: float = 600.0
    """How long an unused session stays open."""
    drain_seconds: float = 30.0
    """How long runs may continue when the server stops."""


class ServerOptions(Struct, frozen=True):
    """What a server is made of."""

    store: Path | str
    """A folder, or the URL of a database."""
    models: tuple[str, ...]
    """The models that sessions may use, the default first; empty allows any."""
    workspace: Path
    """An empty folder: the working folder of all agents."""
    tools: Mapping[str, Any] = {}
    """The tools that run in the server, by name."""
    make_client: Callable[[str], Client] | None = None
    """Makes the client for a model; by default, clients are configured by the environment."""
    limits: ServerLimits = ServerLimits()


class SessionRun(Struct, frozen=True):
    """A run that is running here or waiting for its turn."""

    job: str
    """The key of its job."""
    done: asyncio.Future[None]


class Sessions:
    """The sessions of a server.

    Its methods are called on the event loop, except those marked "may block", which are called in threads.
    """

    def __init__(self, options: ServerOptions, accounts: Accounts, metrics: ServerMetrics) -> None:
        self.options = options
        self.accounts = accounts
        self.draining = False
        """Whether no new runs are started because the server is stopping."""
        self._metrics = metrics
        self._live: dict[SessionKey, LiveSession] = {}
        self._opening = 0
        """How many sessions are being opened; they count as open."""
        self._locks: WeakValueDictionary[SessionKey, asyncio.Lock] = WeakValueDictionary()
        self._stores = UserStores(options.store)
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
        """Run a function that may block in a thread."""
        return await to_thread.run_sync(work, limiter=self.threads)

    # -- stores ----------------------------------------------------------------------------------

    def store_of(self, tenant: str, user: str) -> Store:
        """The store with the sessions and the memory of one user of a tenant; may block."""
        return self._stores.of(tenant, user)

    def definition_of(self, key: SessionKey) -> SessionDefinition:
        """The definition of a session; raises `Problem` if there is none. May block."""
        raw = self.store_of(key.tenant, key.user).agent_files(key.name).read(DEFINITION)
        if raw is None:
            raise problems.no_session(key.name)
        try:
            return msgspec.json.decode(raw, type=SessionDefinition)
        except msgspec.MsgspecError as error:
            raise Problem(
                409,
                "session_too_new",
                f"this session was made by another server version ({error}); upgrade this server or create a new "
                "session",
            ) from error

    def create(self, key: SessionKey, definition: SessionDefinition, caller: Caller) -> bool:
        """Create a session; False if it exists already. Raises `Problem` if its definition differs. May block."""
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
            f"session {key.name!r} exists with a different definition; choose another id",
        )

    def _check(self, definition: SessionDefinition, caller: Caller) -> None:
        models = self.options.models
        if models and definition.model not in models:
            raise InputError(
                f"this server has no model {definition.model!r}; choose one of: {', '.join(models)}"
            )
        # Called for its exceptions alone, as `control_fields` below.
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
        """The log of a session, to be read; None if it has none yet. May block."""
        try:
            return self.store_of(key.tenant, key.user).read(key.name)
        except TranscriptMissing:
            return None

    def recorded_standing(self, key: SessionKey) -> Standing:
        """The status of a session that is not open here, by its log. May block."""
        definition = self.definition_of(key)
        log = self.log_of(key)
        if log is None:
            return Standing("idle")
        state = standing(resume(log), definition.client_tools)
        if state.status == "unfinished" and self.accounts.has_run(key.tenant, key.user, key.name):
            # Another server runs it, or one that died did, and then the next one resumes it.
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
        """Open a session if needed, and use it exclusively; ``caller`` is None for the server itself."""
        async with self._alone(key):
            live = self._live.get(key)
            if live is None:
                if caller is None:
                    caller = await self.in_thread(partial(self._owner, key))
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
        tenant = self.accounts.tenant(key.tenant)
        if tenant is None:
            raise InputError(
                f"tenant {key.tenant!r} of this session no longer exists; restore it: sevenfold tenants add "
                f"{key.tenant}"
            )
        return Caller(tenant, key.user)

    async def _open_within_limit(self, key: SessionKey, caller: Caller) -> LiveSession:
        """Open a session, and first close an idle one if the server is full; raises `Problem` if all are in use."""
        limit = self.options.limits.sessions
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
            live = await self.in_thread(partial(self._open, key, caller))
            self._live[key] = live
        finally:
            self._opening -= 1
        return live

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
            # A request that comes before the run is adopted must see that the session is working.
            if live.recorded().status == "unfinished":
                live.run_due = self.accounts.has_run(key.tenant, key.user, key.name)
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
            await self.in_thread(live.close)
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
                await self.in_thread(live.close)

            def erase() -> None:
                self.definition_of(key)
                self.store_of(key.tenant, key.user).erase(key.name)

            await self.in_thread(erase)

    # -- runs ------------------------------------------------------------------------------------

    def check_room(self, key: SessionKey) -> None:
        """Raise `Problem` if no run can be started now."""
        limits = self.options.limits
        if self.draining:
            raise problems.busy(
                "server_stopping",
                "this server is stopping; send the request to another one",
                status=503,
            )
        max_runs = limits.runs + limits.waiting
        if len(self._running) >= max_runs:
            raise problems.busy(
                "server_busy",
                f"this server has reached its limit of {max_runs} runs; try again later or send the request to another "
                "server",
                seconds=5,
            )
        runs_by_tenant = Counter(running.tenant for running in self._running)
        # One tenant can fill only half of the queue.
        max_tenant_runs = limits.tenant_runs + limits.waiting // 2
        if runs_by_tenant[key.tenant] >= max_tenant_runs:
            raise problems.busy(
                "tenant_busy",
                f"tenant {key.tenant!r} has reached its limit of {max_tenant_runs} runs; wait until one has ended",
                seconds=5,
            )

    async def start(self, live: LiveSession) -> SessionRun:
        """Start a run; call it within `using`."""
        key = live.key
        await self.in_thread(partial(self.accounts.begin_run, key.tenant, key.user, key.name))
        spec = JobSpec(
            SESSION_RUN,
            key=secrets.token_hex(16),
            payload={"user": key.user, "session": key.name},
            # Users choose the names of their sessions, so two users may choose the same.
            session=f"{safe_name(key.user)}/{key.name}",
            model=live.definition.model,
            attempts=1,
        )
        run = SessionRun(spec.key, self.loop.create_future())
        live.working = True
        live.run_due = False
        self._running[key] = run
        try:
            self._jobs.for_tenant(key.tenant).submit(spec)
        except BaseException:
            # The run stays recorded as begun, so it is due: `adopt`, here or on the next server, starts it.
            del self._running[key]
            live.working = False
            live.run_due = True
            raise
        return run

    def _carry_out(self, job: RunningJob) -> Any:
        """Carry out a run, in a thread of its own. Blocks."""
        payload = job.job.spec.payload
        key = SessionKey(job.tenant, str(payload["user"]), str(payload["session"]))
        live = self._live[key]
        end = SessionRunEnd("failed")
        began = time.monotonic()

        def stop() -> None:
            # A user who cancels a run wants it to end; a server that stops only hands it over.
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
        """Update the state after a run has ended, and tell the streams."""
        # The next server resumes a paused run, so for streams it has not ended.
        live.run_due = end.paused
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
        """The run of a session here, running or waiting; None if there is none."""
        return self._running.get(key)

    async def interrupt(self, live: LiveSession, run: SessionRun) -> None:
        """Interrupt a run, and wait until it has ended."""
        jobs = self._jobs.for_tenant(live.key.tenant)
        job = await self.in_thread(partial(jobs.cancel, run.job))
        if job.status == "cancelled" and not job.began:
            key = live.key
            await self.in_thread(partial(self.accounts.end_run, key.tenant, key.user, key.name))
            self._ended(live, SessionRunEnd("interrupted"))
        while not run.done.done():
            # Repeated: the first attempt may have come before the run began.
            await self.in_thread(live.interrupt)
            await asyncio.wait([run.done], timeout=_INTERRUPTING_SECONDS)

    async def disown(self, live: LiveSession) -> None:
        """Abandon a run that an earlier server did not finish."""
        key = live.key
        await self.in_thread(partial(self.accounts.end_run, key.tenant, key.user, key.name))
        live.clear_due_run()

    async def adopt(self) -> None:
        """Resume runs whose server died."""
        for tenant, user, session in await self.in_thread(self.accounts.runs):
            key = SessionKey(tenant, user, session)
            if key in self._running or self.draining:
                continue
            if not await self._adopt_run(key):
                await self.in_thread(partial(self.accounts.end_run, tenant, user, session))

    async def _adopt_run(self, key: SessionKey) -> bool:
        """Resume the run of a session if possible; False if it is over, so that its record can be removed."""
        try:
            self.check_room(key)
            async with self.using(key, None) as live:
                if live.working:
                    return True
                state = await self.in_thread(live.recorded)
                if state.status != "unfinished":
                    return False
                await self.start(live)
        except TranscriptLocked:
            pass  # The server that runs it is alive.
        except Problem as problem:
            # If its session was deleted, there is nothing to resume; other problems, such as a full server, pass.
            return problem.status != 404
        except SevenfoldError:
            _log.warning(
                "cannot resume the run of session %s (tenant %s, user %s); will retry in %.0f s",
                key.name,
                key.tenant,
                key.user,
                ADOPTING_SECONDS,
                exc_info=True,
            )
        return True

    def _forget_jobs(self) -> None:
        """Forget jobs that ended a while ago: the logs have their outcomes."""
        for tenant in {key.tenant for key in list(self._live)}:
            self._jobs.for_tenant(tenant).forget(time.time() - _ENDED_JOB_SECONDS)

    # -- stopping --------------------------------------------------------------------------------

    async def drain(self) -> int:
        """Wait for the runs to end; returns how many are left.

        Runs that take too long are paused before their next request, and the next server resumes them. A run that does
        not reach its next request in time (a model may answer for minutes) is left as if the server had been killed.
        """
        self.draining = True
        await self._wait_for_runs(self.options.limits.drain_seconds)
        for key in self._running:
            self._live[key].pause()
        await self._wait_for_runs(_PAUSING_SECONDS)
        return len(self._running)

    async def close(self) -> None:
        """Close everything except runs that could not be paused."""
        await self.close_idle(0.0)
        if not self._running:
            await self.in_thread(self._jobs.close)
            for client in self._clients.values():
                if self.options.make_client is None:
                    await self.in_thread(client.close)
            await self.in_thread(self._stores.close)

    async def _wait_for_runs(self, seconds: float) -> None:
        if self._running:
            await asyncio.wait([run.done for run in self._running.values()], timeout=seconds)

    async def keep_house(self, stopping: asyncio.Event) -> None:
        """Close idle sessions and adopt runs, until the server stops."""
        next_check = 0.0
        while not stopping.is_set():
            if time.monotonic() >= next_check:
                next_check = time.monotonic() + ADOPTING_SECONDS
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
