"""Jobs in PostgreSQL, as those see them who submit them.

A job is a row that only its tenant sees. In the same statement it gets a place in procrastinate's queue, which knows
the number of the job and of its tenant, and a digest of its session. See `worker` for who carries it out.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from sevenfold.errors import InputError, Refused
from sevenfold.jobs import Job, JobSchedule, JobSpec, JobStatus
from sevenfold.stores.postgres.database import texts
from sevenfold.stores.postgres.store import PostgresStore, check_length, split_url, with_names
from sevenfold.work.postgres.tables import migrate, statement
from sevenfold.work.running import checked_spec, other_work, same_work
from sevenfold.work.schedules import checked_schedule, next_time

if TYPE_CHECKING:
    from sevenfold.work.postgres.worker import WorkerThread

_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 0.5
"""The seconds between two checks of a job that a caller waits for."""


class PostgresJobs:
    """The jobs of one tenant's project; a `sevenfold.jobs.Jobs`."""

    def __init__(self, url: str, worker: WorkerThread | None = None) -> None:
        """Take jobs at the URL of a store; ``worker`` also carries them out in this process, and ends with this."""
        migrate(split_url(url)[0])
        self._url = url
        self._store = PostgresStore.at(url)
        self._worker = worker
        self._others: dict[str, PostgresJobs] = {}

    @property
    def tenant(self) -> str:
        """The tenant's name."""
        return self._store.tenant

    def for_tenant(self, tenant: str) -> PostgresJobs:
        """The jobs of another tenant; they are closed with these."""
        if tenant not in self._others:
            self._others[tenant] = PostgresJobs(with_names(self._url, tenant=tenant))
        return self._others[tenant]

    def submit(self, spec: JobSpec) -> Job:
        """Take a job, or return the one that has its key; see `sevenfold.jobs.Jobs`."""
        spec = checked_spec(spec)
        spec = replace(spec, key=spec.key or str(uuid4()))
        for name in (spec.key, spec.session, spec.branch, spec.model):
            check_length(name)
        job = self.find(spec.key)
        if job is None:
            enqueue(self._store, spec)
            job = self._there(spec.key)
        elif not job.over:
            self._requeue(spec)
        if not same_work(job.spec, spec):
            raise Refused(other_work(spec.key, job.spec.kind))
        return job

    def find(self, key: str) -> Job | None:
        """The job with this key; None if there is none."""
        (escaped,) = texts(key)
        rows = self._store.run(statement("job"), key=escaped)
        return job_of(rows[0]) if rows else None

    def wait(self, key: str, seconds: float | None = None) -> Job:
        """Wait until the job has ended, at most ``seconds``."""
        until = None if seconds is None else time.monotonic() + seconds
        pause = _FIRST_PAUSE
        while True:
            job = self._there(key)
            remaining = _LONGEST_PAUSE if until is None else until - time.monotonic()
            if job.over or remaining <= 0:
                return job
            time.sleep(min(pause, remaining))
            pause = min(pause * 1.5, _LONGEST_PAUSE)

    def cancel(self, key: str) -> Job:
        """Cancel a job."""
        job = self._there(key)
        (escaped,) = texts(key)
        self._store.run(statement("cancel"), key=escaped, line=line_of(self._store, job.spec))
        return self._there(key)

    def jobs(
        self, *, session: str | None = None, status: JobStatus | None = None, limit: int = 100
    ) -> Sequence[Job]:
        """The jobs of a session, or of all, newest first."""
        if session is not None:
            (session,) = texts(session)
        rows = self._store.run(statement("jobs"), session=session, status=status, limit=limit)
        return [job_of(row) for row in rows]

    def schedule(self, schedule: JobSchedule) -> None:
        """Submit a job again and again."""
        schedule = checked_schedule(schedule)
        check_length(schedule.name)
        ((now,),) = self._store.run(statement("now"))
        tenant, end_user, name = texts(self._store.tenant, self._store.end_user, schedule.name)
        self._store.run(
            statement("schedule"),
            tenant_name=tenant,
            end_user=end_user,
            name=name,
            schedule=msgspec.json.encode(schedule),
            due=next_time(schedule, now),
        )

    def unschedule(self, name: str) -> None:
        """Submit no more jobs of this schedule."""
        (escaped,) = texts(name)
        self._store.run(statement("unschedule"), name=escaped)

    def schedules(self) -> Sequence[JobSchedule]:
        """All schedules, by name."""
        rows = self._store.run(statement("schedules"))
        return [msgspec.json.decode(schedule, type=JobSchedule) for (schedule,) in rows]

    def forget(self, before: float) -> int:
        """Remove the jobs that ended before a time."""
        ((count,),) = self._store.run(statement("forget"), before=before)
        return int(count)

    def close(self) -> None:
        """Give back the connections, and end the worker of this process, if there is one."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None
        for other in self._others.values():
            other.close()
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _requeue(self, spec: JobSpec) -> None:
        """Put a job into the queue again from which it was removed by hand."""
        (escaped,) = texts(spec.key)
        line = line_of(self._store, spec)
        self._store.run(statement("requeue"), key=escaped, line=line, due=spec.due or None)

    def _there(self, key: str) -> Job:
        job = self.find(key)
        if job is None:
            raise InputError(f"there is no job with the key {key!r}")
        return job


def enqueue(store: PostgresStore, spec: JobSpec) -> None:
    """Add a job with its place in the queue, unless its key is there already."""
    tenant, end_user, key, session = texts(store.tenant, store.end_user, spec.key, spec.session)
    store.run(
        statement("submit"),
        tenant_name=tenant,
        end_user=end_user,
        key=key,
        session=session,
        spec=msgspec.json.encode(spec),
        line=line_of(store, spec),
        due=spec.due or None,
    )


def line_of(store: PostgresStore, spec: JobSpec) -> str | None:
    """What the jobs have in common in the queue that wait for one another; None for a job that waits for none.

    It is a digest, because the queue can be read by every tenant's worker.
    """
    if not spec.session:
        return None
    names = json.dumps([store.tenant, store.project, spec.session, spec.branch])
    return hashlib.sha256(names.encode()).hexdigest()


def job_of(row: Sequence[Any]) -> Job:
    """The job in the first columns of a row of the table."""
    _, spec, status, attempt, result, error, submitted, began, ended = row[:9]
    read = msgspec.json.decode(spec, type=JobSpec)
    return Job(
        key=read.key,
        spec=read,
        status=status,
        attempt=attempt,
        result=None if result is None else msgspec.json.decode(result),
        error=error,
        submitted=submitted,
        began=began,
        ended=ended,
    )
