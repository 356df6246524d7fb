"""procrastinate, as our workers use it.

Its statements that end a job, or put it back, ask only whether somebody has it. A worker that was frozen, and whose job
another one has by now, would end it for both; so here they ask whether it is still the worker's own.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from procrastinate import RetryDecision
from procrastinate.jobs import Job as Place
from procrastinate.jobs import Status
from procrastinate.manager import JobManager
from procrastinate.retry import BaseRetryStrategy

QUEUE = "sevenfold"
CARRY_OUT = "sevenfold.job"
TICK = "sevenfold.tick"
# The number of attempts tells one time that a worker got a job from the next. The row is locked before the function is
# called: a function in the list of a SELECT ... FOR UPDATE is called before the lock is there.
_FINISH = """
WITH own AS MATERIALIZED (
    SELECT id FROM procrastinate_jobs
    WHERE id = %(job_id)s AND status = 'doing' AND worker_id = %(worker_id)s AND attempts = %(attempts)s FOR UPDATE)
SELECT procrastinate_finish_job_v1(id, %(status)s, %(delete_job)s) FROM own
"""
_PUT_BACK = """
WITH own AS MATERIALIZED (
    SELECT id FROM procrastinate_jobs
    WHERE id = %(job_id)s AND status = 'doing' AND worker_id IS NOT DISTINCT FROM %(worker_id)s
        AND attempts = %(attempts)s FOR UPDATE)
SELECT procrastinate_retry_job_v2(id, %(retry_at)s, NULL, NULL, NULL) FROM own
"""
_ALIVE = "SELECT count(*) AS alive FROM procrastinate_workers WHERE id = %(worker_id)s"


class PutBack(Exception):
    """The job goes back into the queue."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"to be tried again in {seconds:g} s")
        self.seconds = seconds


class PuttingBack(BaseRetryStrategy):
    """Puts a job back when a `PutBack` says so, and after no other exception."""

    def get_retry_decision(self, *, exception: BaseException, job: Place) -> RetryDecision | None:
        """When the job is to be tried again; None: never."""
        if not isinstance(exception, PutBack):
            return None
        return RetryDecision(retry_at=datetime.now(UTC) + timedelta(seconds=exception.seconds))


class FencedJobManager(JobManager):
    """Lets a worker end and put back only what is its own."""

    async def finish_job(self, job: Place, status: Status, delete_job: bool) -> None:
        """Remove a job from the queue."""
        await self.connector.execute_query_async(
            _FINISH,
            job_id=job.id,
            worker_id=job.worker_id,
            attempts=job.attempts,
            status=status.value,
            delete_job=delete_job,
        )

    async def retry_job(
        self,
        job: Place,
        retry_at: datetime | None = None,
        priority: int | None = None,
        queue: str | None = None,
        lock: str | None = None,
    ) -> None:
        """Put a job back into the queue."""
        await self.connector.execute_query_async(
            _PUT_BACK,
            job_id=job.id,
            worker_id=job.worker_id,
            attempts=job.attempts,
            retry_at=retry_at or datetime.now(UTC),
        )

    async def is_alive(self, worker: int) -> bool:
        """Whether this worker still counts as alive for the others."""
        row: dict[str, Any] = await self.connector.execute_query_one_async(_ALIVE, worker_id=worker)
        return bool(row["alive"])
