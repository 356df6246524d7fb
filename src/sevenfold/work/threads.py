"""Jobs carried out by threads of this process: the default, for programs that run alone.

Jobs are in memory and end with the process. Submitted again after a restart, a run of an agent nevertheless costs
nothing twice: the log of its session knows its key.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Self
from uuid import uuid4

from msgspec.structs import replace

from sevenfold.errors import InputError, Refused
from sevenfold.jobs import Handler, Job, JobLimits, JobSchedule, JobSpec, JobStatus
from sevenfold.work.running import (
    CurrentJob,
    JobOutcome,
    carry_out,
    checked_spec,
    other_work,
    same_work,
)
from sevenfold.work.schedules import checked_schedule, next_time, spec_at

_LONGEST_WAIT = 3600.0
_JobName = tuple[str, str]
"""The tenant of a job, and its key."""


class ThreadJobs:
    """Jobs of one tenant; a `sevenfold.jobs.Jobs`."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        *,
        limits: JobLimits = JobLimits(),  # noqa: B008  # it is frozen
        grace: float = 5.0,
        tenant: str = "",
        crew: Crew | None = None,
    ) -> None:
        """``handlers`` carry out the jobs, by kind; ``crew`` shares the threads of another tenant's jobs.

        ``grace`` is how many seconds `close` waits for jobs to reach a point at which they can go on later.
        """
        self._grace = grace
        self.tenant = tenant
        self._crew = crew or Crew(handlers, limits)

    def for_tenant(self, tenant: str) -> ThreadJobs:
        """The jobs of another tenant, with the same threads."""
        return ThreadJobs({}, grace=self._grace, tenant=tenant, crew=self._crew)

    def submit(self, spec: JobSpec) -> Job:
        """Take a job, or return the one that has its key; see `sevenfold.jobs.Jobs`."""
        return self._crew.submit(self.tenant, checked_spec(spec))

    def find(self, key: str) -> Job | None:
        """The job with this key; None if there is none."""
        return self._crew.table.get((self.tenant, key))

    def wait(self, key: str, seconds: float | None = None) -> Job:
        """Wait until the job has ended, at most ``seconds``."""
        return self._crew.wait((self.tenant, key), seconds)

    def cancel(self, key: str) -> Job:
        """Cancel a job."""
        return self._crew.cancel((self.tenant, key))

    def jobs(
        self, *, session: str | None = None, status: JobStatus | None = None, limit: int = 100
    ) -> Sequence[Job]:
        """The jobs of a session, or of all, newest first."""
        matching: list[Job] = []
        for job in reversed(self._crew.jobs_of(self.tenant)):
            fits = session is None or job.spec.session == session
            if fits and (status is None or job.status == status) and len(matching) < limit:
                matching.append(job)
        return matching

    def schedule(self, schedule: JobSchedule) -> None:
        """Submit a job again and again."""
        self._crew.schedule(self.tenant, checked_schedule(schedule))

    def unschedule(self, name: str) -> None:
        """Submit no more jobs of this schedule."""
        self._crew.unschedule(self.tenant, name)

    def schedules(self) -> Sequence[JobSchedule]:
        """All schedules, by name."""
        return self._crew.schedules_of(self.tenant)

    def forget(self, before: float) -> int:
        """Remove the jobs that ended before a time."""
        return self._crew.forget(self.tenant, before)

    def close(self) -> None:
        """Stop what runs, for all tenants, and wait for it; what waits is not begun any more."""
        self._crew.close(self._grace)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Crew:
    """The jobs of all tenants, and the threads that carry them out."""

    def __init__(self, handlers: Mapping[str, Handler], limits: JobLimits) -> None:
        self.table: dict[_JobName, Job] = {}
        """All jobs, in the order in which they were submitted."""
        self._handlers = dict(handlers)
        self._limits = limits
        self._changed = threading.Condition()
        self._open: dict[_JobName, None] = {}
        """Those that have not ended, in the same order."""
        self._running: dict[_JobName, CurrentJob] = {}
        self._threads: dict[_JobName, threading.Thread] = {}
        self._not_before: dict[_JobName, float] = {}
        """When a job that failed may be tried again."""
        self._next_start: dict[str, float] = {}
        """When the next job of a model may begin, where a pace is set."""
        self._schedules: dict[tuple[str, str], tuple[JobSchedule, float]] = {}
        """Each schedule with its next time."""
        self._closed = False
        self._dispatcher: threading.Thread | None = None

    # -- what callers do -------------------------------------------------------------------------

    def submit(self, tenant: str, spec: JobSpec) -> Job:
        """Take a job."""
        with self._changed:
            job = self._submit(tenant, spec)
            self._wake()
            return job

    def _submit(self, tenant: str, spec: JobSpec) -> Job:
        key = spec.key or str(uuid4())
        existing = self.table.get((tenant, key))
        if existing is not None:
            if not same_work(existing.spec, spec):
                raise Refused(other_work(key, existing.spec.kind))
            return existing
        if self._closed:
            raise Refused("these jobs are closed and take no more")
        job = Job(key, replace(spec, key=key), submitted=time.time())
        self.table[tenant, key] = job
        self._open[tenant, key] = None
        return job

    def wait(self, name: _JobName, seconds: float | None) -> Job:
        """Wait until a job has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._there(name).over or self._closed, seconds)
            return self._there(name)

    def cancel(self, name: _JobName) -> Job:
        """Cancel a job."""
        with self._changed:
            job = self._there(name)
            if job.status == "waiting":
                self._end(name, replace(job, status="cancelled", error="cancelled"))
            current = self._running.get(name)
            job = self.table[name]
            self._wake()
        if current is not None:
            current.stop("cancelled")
        return job

    def jobs_of(self, tenant: str) -> list[Job]:
        """The jobs of a tenant, in the order in which they were submitted."""
        with self._changed:
            return [job for (owner, _), job in self.table.items() if owner == tenant]

    def schedule(self, tenant: str, schedule: JobSchedule) -> None:
        """Take a schedule."""
        with self._changed:
            if self._closed:
                raise Refused("these jobs are closed and take no more")
            self._schedules[tenant, schedule.name] = (schedule, next_time(schedule, time.time()))
            self._wake()

    def unschedule(self, tenant: str, name: str) -> None:
        """Remove a schedule."""
        with self._changed:
            self._schedules.pop((tenant, name), None)

    def schedules_of(self, tenant: str) -> Sequence[JobSchedule]:
        """The schedules of a tenant, by name."""
        with self._changed:
            named = {
                name: schedule
                for (owner, name), (schedule, _) in self._schedules.items()
                if owner == tenant
            }
        return [named[name] for name in sorted(named)]

    def forget(self, tenant: str, before: float) -> int:
        """Remove the jobs of a tenant that ended before a time."""
        with self._changed:
            forgotten = [
                name
                for name, job in self.table.items()
                if name[0] == tenant and job.over and job.ended < before
            ]
            for name in forgotten:
                del self.table[name]
        return len(forgotten)

    def close(self, grace: float) -> None:
        """Stop what runs, and wait for it; after ``grace`` seconds, stop it at once."""
        with self._changed:
            self._closed = True
            running = list(self._running.values())
            threads = list(self._threads.values())
            dispatcher = self._dispatcher
            self._changed.notify_all()
        for current in running:
            current.stop("shutdown")
        with self._changed:
            self._changed.wait_for(lambda: not self._running, grace)
        for current in running:
            current.stop("lost")
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join()
        if dispatcher is not None:
            dispatcher.join()

    # -- what the dispatcher does ----------------------------------------------------------------

    def _wake(self) -> None:
        if self._dispatcher is None:
            # A daemon: a program that ends without `close` is not kept alive by jobs.
            self._dispatcher = threading.Thread(target=self._dispatch, name="sevenfold-jobs", daemon=True)
            self._dispatcher.start()
        self._changed.notify_all()

    def _dispatch(self) -> None:
        with self._changed:
            while not self._closed:
                now = time.time()
                self._submit_scheduled(now)
                for name in list(self._ready(now)):
                    self._begin(name, now)
                late = self._overdue(now)
                if not late:
                    self._changed.wait(max(0.0, self._next_moment(now) - time.time()))
                    continue
                # Not under the lock: what a job calls when it has to stop may ask for its own record.
                self._changed.release()
                try:
                    for current in late:
                        current.stop("time_limit")
                finally:
                    self._changed.acquire()

    def _overdue(self, now: float) -> list[CurrentJob]:
        """The jobs whose time is up and that have not been told."""
        running = self._running.items()
        return [
            current for name, current in running if current.stopping is None and self._deadline(name) <= now
        ]

    def _submit_scheduled(self, now: float) -> None:
        for name, (schedule, due) in list(self._schedules.items()):
            if due <= now:
                self._submit(name[0], spec_at(schedule, due))
                self._schedules[name] = (schedule, next_time(schedule, now))

    def _ready(self, now: float) -> Iterator[_JobName]:
        """The jobs that may begin now, each counted as running for those after it."""
        busy = {self._line(name) for name in self._running}
        tenants = Counter(tenant for tenant, _ in self._running)
        models = Counter(self.table[name].spec.model for name in self._running)
        running = len(self._running)
        for name in self._open:
            job = self.table[name]
            if job.status != "waiting":
                continue
            line = self._line(name)
            if line is not None:
                if line in busy:
                    continue
                # Whether it begins or not: those behind it in its session wait for it.
                busy.add(line)
            most_of_model = self._limits.at_once_of(job.spec.model)
            if (
                running >= self._limits.at_once
                or self._due(name) > now
                or (self._limits.per_tenant is not None and tenants[name[0]] >= self._limits.per_tenant)
                or (most_of_model is not None and models[job.spec.model] >= most_of_model)
                or self._next_start.get(job.spec.model, 0.0) > now
            ):
                continue
            pace = self._limits.pace_of(job.spec.model)
            if pace is not None:
                self._next_start[job.spec.model] = now + pace
            running += 1
            tenants[name[0]] += 1
            models[job.spec.model] += 1
            yield name

    def _line(self, name: _JobName) -> tuple[str, str, str] | None:
        """What the jobs have in common that wait for one another; None if it waits for none."""
        spec = self.table[name].spec
        return (name[0], spec.session, spec.branch) if spec.session else None

    def _due(self, name: _JobName) -> float:
        return max(self.table[name].spec.due, self._not_before.get(name, 0.0))

    def _deadline(self, name: _JobName) -> float:
        job = self.table[name]
        return job.began + job.spec.seconds if job.spec.seconds is not None else float("inf")

    def _next_moment(self, now: float) -> float:
        """The first time after ``now`` at which something is due, even if nothing wakes the dispatcher before."""
        moments = [now + _LONGEST_WAIT, *(due for _, due in self._schedules.values())]
        for name in self._open:
            job = self.table[name]
            if job.status == "waiting":
                moments += [self._due(name), self._next_start.get(job.spec.model, 0.0)]
            elif self._running[name].stopping is None:
                moments.append(self._deadline(name))
        return min(moment for moment in moments if moment > now)

    def _begin(self, name: _JobName, now: float) -> None:
        job = replace(self.table[name], status="running", began=now)
        self.table[name] = job
        current = CurrentJob(job, name[0])
        self._running[name] = current
        thread = threading.Thread(
            target=partial(self._carry_out, name, current), name=f"sevenfold-job-{job.key}", daemon=True
        )
        self._threads[name] = thread
        thread.start()

    def _carry_out(self, name: _JobName, current: CurrentJob) -> None:
        outcome = carry_out(current, self._handlers.get(current.job.spec.kind))
        with self._changed:
            del self._running[name]
            del self._threads[name]
            self._record(name, outcome)
            self._changed.notify_all()

    def _record(self, name: _JobName, outcome: JobOutcome) -> None:
        job = self.table[name]
        job = replace(job, error=outcome.error, attempt=job.attempt + outcome.counts)
        if outcome.status in ("waiting", "lost"):
            self.table[name] = replace(job, status="waiting")
            self._not_before[name] = time.time() + outcome.pause
            return
        self._end(name, replace(job, status=outcome.status, result=outcome.result))

    def _end(self, name: _JobName, job: Job) -> None:
        self.table[name] = replace(job, ended=time.time())
        self._open.pop(name, None)
        self._not_before.pop(name, None)
        self._changed.notify_all()

    def _there(self, name: _JobName) -> Job:
        job = self.table.get(name)
        if job is None:
            raise InputError(f"there is no job with the key {name[1]!r}")
        return job
