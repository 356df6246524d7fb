"""The runs of a server: each is a job that works on one open session.

The server also records in its accounts that a run has started, so if it dies, another server resumes the run from the
session's log.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from sevenfold.doors.server import problems
from sevenfold.doors.server.accounts import Accounts
from sevenfold.doors.server.live import LiveSession, SessionKey, SessionRunEnd
from sevenfold.doors.server.metrics import ServerMetrics
from sevenfold.doors.server.open_sessions import OpenSessions
from sevenfold.doors.server.options import ServerLimits
from sevenfold.doors.server.problems import Problem
from sevenfold.doors.server.threads import ServerThreads
from sevenfold.errors import SevenfoldError, TranscriptLocked
from sevenfold.jobs import JobLimits, JobSpec, RunningJob
from sevenfold.stores.files import safe_name
from sevenfold.work.threads import ThreadJobs

ADOPTING_SECONDS = 30.0
"""Seconds between checks for runs whose server died."""
_ENDED_JOB_SECONDS = 30.0
"""How long a job that has ended can still be found; the session's log has its outcome."""
_PAUSING_SECONDS = 10.0
"""How long a run may take to reach its next request when the server stops."""
_INTERRUPTING_SECONDS = 0.2
"""Seconds between two attempts to interrupt a run."""
SESSION_RUN = "session_run"
_log = logging.getLogger(__name__)


class SessionRun(Struct, frozen=True):
    """A run that is running here or waiting for its turn."""

    job: str
    """The key of its job."""
    done: asyncio.Future[None]


class Runs:
    """The runs that are running here or waiting for their turn. Its methods are called on the event loop."""

    def __init__(
        self,
        limits: ServerLimits,
        accounts: Accounts,
        metrics: ServerMetrics,
        open_sessions: OpenSessions,
        threads: ServerThreads,
    ) -> None:
        self.draining = False
        """Whether no new runs are started because the server is stopping."""
        self._limits = limits
        self._accounts = accounts
        self._metrics = metrics
        self._open = open_sessions
        self._threads = threads
        self._running: dict[SessionKey, SessionRun] = {}
        job_limits = JobLimits(at_once=limits.runs, per_tenant=limits.tenant_runs)
        self.jobs = ThreadJobs({SESSION_RUN: self._carry_out}, limits=job_limits)
        self._loop: asyncio.AbstractEventLoop
        metrics.gauge("runs_working", "Runs under way or waiting", lambda: len(self._running))

    def begin(self) -> None:
        """Begin to serve, on the running loop."""
        self._loop = asyncio.get_running_loop()

    @property
    def any_left(self) -> bool:
        """Whether a run is running or waiting."""
        return bool(self._running)

    def _live(self, key: SessionKey) -> LiveSession:
        """The session of a run; it stays open until the run has ended."""
        live = self._open.live(key)
        assert live is not None
        return live

    def check_room(self, key: SessionKey) -> None:
        """Raise `Problem` if no run can be started now."""
        limits = self._limits
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
        await self._threads.run(partial(self._accounts.begin_run, key.tenant, key.user, key.name))
        spec = JobSpec(
            SESSION_RUN,
            key=secrets.token_hex(16),
            payload={"user": key.user, "session": key.name},
            # Users choose the names of their sessions, so two users may choose the same.
            session=f"{safe_name(key.user)}/{key.name}",
            model=live.definition.model,
            attempts=1,
        )
        run = SessionRun(spec.key, self._loop.create_future())
        live.working = True
        live.run_due = False
        self._running[key] = run
        try:
            self.jobs.for_tenant(key.tenant).submit(spec)
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
        live = self._live(key)
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
                self._accounts.end_run(key.tenant, key.user, key.name)
        except SevenfoldError as error:
            end = live.failed(error)
        finally:
            self._metrics.took("run_seconds", time.monotonic() - began)
            with suppress(RuntimeError):  # the loop is closed: the process is about to end
                self._loop.call_soon_threadsafe(self._ended, live, end)
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
        jobs = self.jobs.for_tenant(live.key.tenant)
        job = await self._threads.run(partial(jobs.cancel, run.job))
        if job.status == "cancelled" and not job.began:
            key = live.key
            await self._threads.run(partial(self._accounts.end_run, key.tenant, key.user, key.name))
            self._ended(live, SessionRunEnd("interrupted"))
        while not run.done.done():
            # Repeated: the first attempt may have come before the run began.
            await self._threads.run(live.interrupt)
            await asyncio.wait([run.done], timeout=_INTERRUPTING_SECONDS)

    async def disown(self, live: LiveSession) -> None:
        """Abandon a run that an earlier server did not finish."""
        key = live.key
        await self._threads.run(partial(self._accounts.end_run, key.tenant, key.user, key.name))
        live.clear_due_run()

    async def adopt(self) -> None:
        """Resume runs whose server died."""
        for tenant, user, session in await self._threads.run(self._accounts.runs):
            key = SessionKey(tenant, user, session)
            if key in self._running or self.draining:
                continue
            if not await self._adopt_run(key):
                await self._threads.run(partial(self._accounts.end_run, tenant, user, session))

    async def _adopt_run(self, key: SessionKey) -> bool:
        """Resume the run of a session if possible; False if it is over, so that its record can be removed."""
        try:
            self.check_room(key)
            async with self._open.using(key, None) as live:
                if live.working:
                    return True
                state = await self._threads.run(live.recorded)
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

    def forget_jobs(self) -> None:
        """Forget jobs that ended a while ago: the logs have their outcomes."""
        for tenant in self._open.tenants():
            self.jobs.for_tenant(tenant).forget(time.time() - _ENDED_JOB_SECONDS)

    async def drain(self) -> int:
        """Wait for the runs to end; returns how many are left.

        Runs that take too long are paused before their next request, and the next server resumes them. A run that does
        not reach its next request in time (a model may answer for minutes) is left as if the server had been killed.
        """
        self.draining = True
        await self._wait_for_runs(self._limits.drain_seconds)
        for key in self._running:
            self._live(key).pause()
        await self._wait_for_runs(_PAUSING_SECONDS)
        return len(self._running)

    async def _wait_for_runs(self, seconds: float) -> None:
        if self._running:
            await asyncio.wait([run.done for run in self._running.values()], timeout=seconds)
