"""What all jobs must do, whoever carries them out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import psycopg
import pytest

from bench.servers.postgres import OWNER
from sevenfold.jobs import Handler, JobLimits, Jobs
from sevenfold.testing.jobs import JobsContract
from sevenfold.work.postgres.jobs import PostgresJobs
from sevenfold.work.postgres.worker import PostgresWorker, WorkerOptions, WorkerThread
from sevenfold.work.threads import ThreadJobs
from tests.stores.servers import postgres


@pytest.mark.spec("S35.1", "S35.2", "S35.3", "S35.4")
class TestThreads(JobsContract):
    def open_jobs(self, folder: Path, handlers: Mapping[str, Handler], limits: JobLimits) -> Jobs:
        return ThreadJobs(handlers, limits=limits)


def without_jobs() -> None:
    """Remove all jobs, also those that an earlier test left in the queue."""
    tables = "job, job_schedule, job_slot, pace, procrastinate_jobs, procrastinate_workers"
    with psycopg.connect(postgres().url(OWNER), autocommit=True) as connection:
        for table in tables.split(", "):
            connection.execute(f"TRUNCATE sevenfold.{table} CASCADE".encode())


@pytest.mark.spec("S35.1", "S35.2", "S35.3", "S35.4", "S35.7")
class TestPostgres(JobsContract):
    def open_jobs(self, folder: Path, handlers: Mapping[str, Handler], limits: JobLimits) -> Jobs:
        without_jobs()
        url = postgres().url(project=str(folder))
        options = WorkerOptions(presumed_dead=120.0, polling=0.05)
        worker = WorkerThread(PostgresWorker(url, handlers, limits=limits, options=options))
        return PostgresJobs(url, worker)
