"""`sevenfold.open_jobs`: where jobs are taken."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from sevenfold.agent.submitted import RUN
from sevenfold.errors import InputError
from sevenfold.jobs import Handler, JobLimits, Jobs, RunningJob
from sevenfold.ports import Store
from sevenfold.work.agents import AgentRuns, MakeAgent, StoreFor, Watch
from sevenfold.work.threads import ThreadJobs
from sevenfold.work.upkeep import DREAM, MEMORY, NOTES, SessionUpkeep

_POSTGRES = re.compile(r"postgres(ql)?://", re.I)


def open_jobs(
    store: Store | Path | str | Callable[[str], Store | str | None] | None = None,
    *,
    agents: Mapping[str, MakeAgent] | None = None,
    handlers: Mapping[str, Handler] | None = None,
    limits: JobLimits = JobLimits(),  # noqa: B008  # it is frozen
    watch: Watch | None = None,
) -> Jobs:
    """Open jobs: in threads of this process, or in PostgreSQL if ``store`` is a URL of it.

    ``store`` is where the agents' sessions are, as for `Agent`, or a function that says so for a tenant; ``agents``
    make agents by name; ``handlers`` carry out jobs of further kinds; ``watch`` is called with every event of the runs.

    Jobs in PostgreSQL are carried out by ``sevenfold work``, on any machine. With agents or handlers, this process
    works, too; ``watch`` sees only what runs here.
    """
    if isinstance(store, str) and _POSTGRES.match(store):
        return _in_postgres(store, agents, handlers, limits, watch)

    def store_for(running: RunningJob) -> Store | str | None:
        if isinstance(store, str | Path):
            return str(store)
        return store(running.tenant) if callable(store) else store

    return ThreadJobs({**standard_handlers(store_for, agents, watch), **(handlers or {})}, limits=limits)


def standard_handlers(
    store: StoreFor, agents: Mapping[str, MakeAgent] | None = None, watch: Watch | None = None
) -> dict[str, Handler]:
    """The handlers for all kinds of jobs that Sevenfold itself knows."""
    upkeep = SessionUpkeep(store, agents)
    return {
        RUN: AgentRuns(store, agents, watch),
        NOTES: upkeep.notes,
        MEMORY: upkeep.memory,
        DREAM: upkeep.dream,
    }


def _in_postgres(
    url: str,
    agents: Mapping[str, MakeAgent] | None,
    handlers: Mapping[str, Handler] | None,
    limits: JobLimits,
    watch: Watch | None,
) -> Jobs:
    try:
        from sevenfold.work.postgres.jobs import PostgresJobs
        from sevenfold.work.postgres.worker import PostgresWorker, WorkerThread, sessions_of
    except ImportError as error:
        raise InputError(
            "jobs in PostgreSQL need procrastinate and psycopg: pip install 'sevenfold[jobs]'"
        ) from error
    if agents is None and handlers is None:
        return PostgresJobs(url)
    all_handlers = {**standard_handlers(sessions_of(url), agents, watch), **(handlers or {})}
    worker = WorkerThread(PostgresWorker(url, all_handlers, limits=limits))
    return PostgresJobs(url, worker)
