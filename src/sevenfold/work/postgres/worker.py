"""A worker: takes jobs from the queue in PostgreSQL and carries them out in threads of this process.

procrastinate gives each job to one worker, and keeps the workers' signs of life. The job's row has a fencing number: a
worker that was taken for dead cannot record anything about a job that another one has begun since. What the job writes
to its session is fenced by the store in the same way.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import psycopg
from msgspec import Struct
from procrastinate import App, JobContext, PsycopgConnector
from procrastinate.exceptions import ProcrastinateException
from procrastinate.job_context import AbortReason
from procrastinate.worker import Worker

from sevenfold.agent.interrupt import in_own_thread
from sevenfold.errors import InputError, TranscriptError
from sevenfold.jobs import Handler, JobLimits, RunningJob
from sevenfold.stores.postgres.store import PostgresStore, split_url, with_names
from sevenfold.work.postgres import steps
from sevenfold.work.postgres.queue import CARRY_OUT, QUEUE, TICK, FencedJobManager, PutBack, PuttingBack
from sevenfold.work.postgres.tables import migrate
from sevenfold.work.running import CurrentJob, JobOutcome, carry_out

_log = logging.getLogger(__name__)
AWAY_PAUSE = 1.0
"""Seconds until a worker tries again to reach the database."""


class WorkerOptions(Struct, frozen=True):
    """How a worker works."""

    heartbeat: float = 10.0
    """Seconds between two signs of life."""
    presumed_dead: float = 30.0
    """After how many seconds without one a worker counts as dead, and its jobs are taken over."""
    polling: float = 1.0
    """Seconds between two looks at the queue; new jobs are announced, those that become due are not."""
    grace: float = 25.0
    """How many seconds jobs get at a shutdown to reach a point at which they can be handed over."""


class PostgresWorker:
    """Carries out jobs of all tenants until it is stopped."""

    def __init__(
        self,
        url: str,
        handlers: Mapping[str, Handler],
        *,
        limits: JobLimits = JobLimits(),  # noqa: B008  # it is frozen
        options: WorkerOptions = WorkerOptions(),  # noqa: B008  # it is frozen
    ) -> None:
        """``url`` is that of a store; a job names its own tenant, project and end user."""
        self._plain, named = split_url(url)
        if named.get("pooler"):
            raise InputError(
                "a worker listens to the database, which a pooler does not pass on; give it the database's own address"
            )
        migrate(self._plain)
        self._url = url
        self._handlers = dict(handlers)
        self._limits = limits
        self._options = options
        self._store = PostgresStore.at(url)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = threading.Event()
        self._wake: asyncio.Event | None = None
        self._running: set[CurrentJob] = set()
        self.started = threading.Event()
        """Set once it takes jobs."""

    @property
    def busy(self) -> int:
        """How many jobs it is carrying out."""
        return len(self._running)

    def run(self) -> bool:
        """Work until `stop`; False if jobs were still running after their grace, which others take over later."""
        try:
            return asyncio.run(self._work())
        finally:
            self._store.close()

    def stop(self) -> None:
        """Take no more jobs, hand over those that run, and end; safe in a signal handler and from any thread."""
        self._stopping.set()
        loop = self._loop
        wake = self._wake
        if loop is not None and wake is not None:
            with suppress(RuntimeError):  # it ended meanwhile
                loop.call_soon_threadsafe(wake.set)

    async def _work(self) -> bool:
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        if self._stopping.is_set():
            return True
        while True:
            try:
                handed_over = await self._work_connected()
            except (ProcrastinateException, psycopg.Error, OSError) as error:
                _log.warning("the queue cannot be reached, trying again: %s", error)
            else:
                if self._stopping.is_set():
                    return handed_over
                _log.warning("this worker was taken for dead; it goes on as a new one")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), AWAY_PAUSE)
            if self._stopping.is_set():
                return not self._running

    async def _work_connected(self) -> bool:
        """Work as one of procrastinate's workers, until it stops or is taken for dead."""
        assert self._wake is not None
        connector = PsycopgConnector(
            conninfo=self._plain, kwargs={"options": "-c search_path=sevenfold"}, min_size=1, max_size=4
        )
        app = App(connector=connector)
        manager = FencedJobManager(connector)
        app.job_manager = manager
        app.task(name=CARRY_OUT, pass_context=True, retry=PuttingBack())(self._carry_out)
        app.task(name=TICK, retry=PuttingBack())(self._tick)
        async with app.open_async():
            worker = Worker(
                app,
                queues=[QUEUE],
                name=None,
                concurrency=self._limits.at_once,
                install_signal_handlers=False,
                delete_jobs="always",
                fetch_job_polling_interval=self._options.polling,
                abort_job_polling_interval=self._options.polling,
                update_heartbeat_interval=self._options.heartbeat,
                stalled_worker_timeout=self._options.presumed_dead,
            )
            working = asyncio.create_task(worker.run())  # type: ignore[no-untyped-call]  # it has no annotation
            watching = asyncio.create_task(self._watch(worker, manager))
            stopping = asyncio.create_task(self._wake.wait())
            try:
                await asyncio.wait({working, watching, stopping}, return_when=asyncio.FIRST_COMPLETED)
                return await self._wind_up(worker, working)
            finally:
                for task in (watching, stopping):
                    task.cancel()
                await asyncio.gather(watching, stopping, return_exceptions=True)

    async def _wind_up(self, worker: Worker, working: asyncio.Task[None]) -> bool:
        """Let the jobs come to their end, and procrastinate's worker with them; False if they do not."""
        worker.stop()  # type: ignore[no-untyped-call]  # it has no annotation
        for current in list(self._running):
            current.stop("shutdown")
        _, waiting = await asyncio.wait({working}, timeout=self._options.grace)
        if waiting:
            # Interrupting them would leave marks in their sessions; this process ends, and others take over.
            working.cancel()
            return False
        await working
        return True

    async def _watch(self, worker: Worker, manager: FencedJobManager) -> None:
        """Put back the jobs of workers that died; ends when this one is taken for dead itself."""
        self.started.set()
        while True:
            for place in await manager.get_stalled_jobs(
                queue=QUEUE, seconds_since_heartbeat=self._options.presumed_dead
            ):
                await manager.retry_job(place)
            await manager.prune_stalled_workers(self._options.presumed_dead)
            await asyncio.sleep(self._options.heartbeat / 2)
            if worker.worker_id is not None and not await manager.is_alive(worker.worker_id):
                return

    async def _carry_out(self, context: JobContext, tenant: int, job: int) -> None:
        """Carry out one job; a task of procrastinate's, which removes it from the queue after any other exception."""
        try:
            await self._carry_out_begun(context, tenant, job)
        except PutBack:
            raise
        except Exception as error:
            _log.exception("the job %s could not be carried out, and goes back into the queue", job)
            raise PutBack(AWAY_PAUSE) from error

    async def _carry_out_begun(self, context: JobContext, tenant: int, job: int) -> None:
        database = self._store.database
        assert context.job.id is not None
        begin = partial(
            steps.begin, database, self._limits, tenant=tenant, number=job, queued=context.job.id
        )
        try:
            begun = await _to_the_end(asyncio.to_thread(begin))
        except TranscriptError as error:
            raise PutBack(AWAY_PAUSE) from error
        if begun is None:
            return
        if isinstance(begun, steps.Later):
            raise PutBack(begun.seconds)
        current = CurrentJob(begun.job, begun.tenant_name, begun.project, begun.end_user)
        outcome = await self._carried_out(current, context)
        if outcome.status == "lost":
            # If another worker has it, this does nothing.
            raise PutBack(AWAY_PAUSE)
        try:
            status = await _to_the_end(asyncio.to_thread(steps.end, database, begun, outcome))
        except TranscriptError as error:
            # The worker that runs it again finds in the session's log what is done already.
            raise PutBack(AWAY_PAUSE) from error
        if status == "waiting":
            raise PutBack(outcome.pause)

    async def _carried_out(self, current: CurrentJob, context: JobContext) -> JobOutcome:
        """Have a thread carry out a job, and tell it when it has to stop."""
        assert self._loop is not None
        spec = current.job.spec
        work = partial(carry_out, current, self._handlers.get(spec.kind))
        limit = None
        self._running.add(current)
        if self._stopping.is_set():
            current.stop("shutdown")
        try:
            if spec.seconds is not None:
                limit = self._loop.call_later(spec.seconds, current.stop, "time_limit")
            future = asyncio.wrap_future(in_own_thread(work, f"sevenfold-job-{current.job.key}"))
            while True:
                try:
                    return await asyncio.shield(future)
                except asyncio.CancelledError:
                    # procrastinate cancels this task if the job was cancelled, or when its time to shut down is over.
                    cancelled = context.abort_reason() == AbortReason.USER_REQUEST
                    current.stop("cancelled" if cancelled else "shutdown")
        finally:
            if limit is not None:
                limit.cancel()
            self._running.discard(current)

    async def _tick(self, tenant: int, schedule: int, turn: int, due: float) -> None:
        """Submit the job of a schedule; a task of procrastinate's."""
        work = partial(
            steps.tick,
            self._store.database,
            self._url,
            tenant=tenant,
            schedule=schedule,
            turn=turn,
            due=due,
        )
        try:
            await _to_the_end(asyncio.to_thread(work))
        except TranscriptError as error:
            raise PutBack(AWAY_PAUSE) from error


async def _to_the_end(work: Any) -> Any:
    """Await something to its end, even if this task is cancelled meanwhile; the cancelling is then forgotten."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.shield(task)
    return task.result()


def sessions_of(url: str) -> Callable[[RunningJob], str]:
    """Where the sessions of a job are: the store at the URL, with the names of the one that it was submitted to."""

    def store_for(running: RunningJob) -> str:
        return with_names(url, tenant=running.tenant, project=running.project, end_user=running.end_user)

    return store_for


class WorkerThread:
    """A worker in a thread of a process that does something else, too."""

    def __init__(self, worker: PostgresWorker) -> None:
        self.worker = worker
        self._thread = threading.Thread(target=worker.run, name="sevenfold-worker", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the worker and wait for its end."""
        self.worker.stop()
        self._thread.join()
