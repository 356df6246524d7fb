"""What a worker does to a job's row: begin it if the limits allow, and record what came of it."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct

from sevenfold.jobs import Job, JobLimits, JobSchedule
from sevenfold.stores.postgres.database import Database, original, texts
from sevenfold.stores.postgres.store import PostgresStore, with_names
from sevenfold.work.postgres.jobs import enqueue, job_of
from sevenfold.work.postgres.tables import statement
from sevenfold.work.running import JobOutcome
from sevenfold.work.schedules import next_time, spec_at

BUSY_PAUSE = 0.5
"""Seconds until a job is looked at again for which a limit has no room."""


class Begun(Struct, frozen=True):
    """A job that this worker has begun."""

    number: int
    """Its number in the table."""
    tenant: int
    """The number of its tenant."""
    fence: int
    job: Job
    tenant_name: str
    project: str
    end_user: str


class Later(Struct, frozen=True):
    """A job that cannot begin yet."""

    seconds: float


def begin(
    database: Database, limits: JobLimits, *, tenant: int, number: int, queued: int
) -> Begun | Later | None:
    """Begin a job that the queue has given to this worker; None if there is nothing left to do."""
    with database.transaction(tenant) as run:
        rows = run(statement("look"), job=number)
        if not rows:
            return None
        row = rows[0]
        job = job_of(row)
        *names, _, cancelling = row[9:]
        if job.over:
            return None
        # The queue gave it to us, so whoever was running it is dead, or counts as dead and is fenced off.
        attempt = job.attempt + (job.status == "running")
        verdict = _verdict(job, attempt, cancelling=cancelling)
        if verdict is not None:
            status, error = verdict
            run(statement("drop"), job=number, status=status, error=error, attempt=attempt)
            return None
        pause = _pause(run, limits, number, job.spec.model)
        if pause is not None:
            return Later(pause)
        (model,) = texts(job.spec.model)
        ((fence, began),) = run(statement("begin"), job=number, queued=queued, attempt=attempt, model=model)
    job = msgspec.structs.replace(job, status="running", attempt=attempt, began=began)
    tenant_name, project, end_user = map(original, names)
    return Begun(number, tenant, fence, job, tenant_name, project, end_user)


def _verdict(
    job: Job, attempt: int, *, cancelling: bool
) -> tuple[Literal["cancelled", "failed"], str] | None:
    """How a job ends that is not begun again; None if it is."""
    if cancelling:
        return "cancelled", "cancelled"
    if attempt >= job.spec.attempts:
        return "failed", f"its workers died or hung {attempt} times while they carried it out"
    return None


def _pause(run: Any, limits: JobLimits, number: int, model: str) -> float | None:
    """The seconds until the limits are asked again; None if the job may begin, which then counts for the pace."""
    most_of_model = limits.at_once_of(model)
    pace = limits.pace_of(model)
    if limits.per_tenant is None and most_of_model is None and pace is None:
        return None
    (named,) = texts(model)
    # One at a time: two workers that count at once would both find room for the last one.
    run(statement("limits"))
    ((of_tenant, of_model),) = run(statement("running"), job=number, model=named)
    if limits.per_tenant is not None and of_tenant >= limits.per_tenant:
        return BUSY_PAUSE
    if most_of_model is not None and of_model >= most_of_model:
        return BUSY_PAUSE
    if pace is None:
        return None
    seconds_left = next((seconds for (seconds,) in run(statement("pace"), model=named)), 0.0)
    if seconds_left > 0:
        return float(seconds_left)
    run(statement("set pace"), model=named, pace=pace)
    return None


def end(database: Database, begun: Begun, outcome: JobOutcome) -> str | None:
    """Record what came of a job; returns its status now, None if another worker has it."""
    if outcome.status == "lost":
        return None
    rows = database.repeated(
        begun.tenant,
        statement("end"),
        job=begun.number,
        fence=begun.fence,
        status=outcome.status,
        result=msgspec.json.encode(outcome.result) if outcome.status == "succeeded" else None,
        error=_storable(outcome.error),
        counts=int(outcome.counts),
    )
    return str(rows[0][0]) if rows else None


def _storable(text: str) -> str:
    """A text without what PostgreSQL cannot hold."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()


def tick(database: Database, url: str, *, tenant: int, schedule: int, turn: int, due: float) -> None:
    """Submit the job of a schedule for one of its times, and put its next time into the queue."""
    rows = database.repeated(tenant, statement("tick"), schedule=schedule, turn=turn)
    if not rows:
        return
    tenant_name, project, end_user, encoded, now = rows[0]
    read = msgspec.json.decode(encoded, type=JobSchedule)
    names = {"tenant": tenant_name, "project": project, "end_user": end_user}
    store = PostgresStore.at(with_names(url, **{name: original(text) for name, text in names.items()}))
    try:
        enqueue(store, spec_at(read, due))
    finally:
        store.close()
    database.repeated(
        tenant, statement("next tick"), schedule=schedule, turn=turn, due=next_time(read, max(now, due))
    )
