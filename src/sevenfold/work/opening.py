"""`sevenfold.open_jobs`: where jobs are taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from sevenfold.agent.submitted import RUN
from sevenfold.jobs import Handler, JobLimits, RunningJob
from sevenfold.ports import Store
from sevenfold.work.agents import AgentRuns, MakeAgent, Watch
from sevenfold.work.threads import ThreadJobs


def open_jobs(
    store: Store | Path | str | Callable[[str], Store | str | None] | None = None,
    *,
    agents: Mapping[str, MakeAgent] | None = None,
    handlers: Mapping[str, Handler] | None = None,
    limits: JobLimits = JobLimits(),  # noqa: B008  # it is frozen
    watch: Watch | None = None,
) -> ThreadJobs:
    """Jobs that threads of this process carry out.

    ``store`` is where the agents' sessions are, as for `Agent`, or a function that says so for a tenant; ``agents``
    make agents by name; ``handlers`` carry out jobs of further kinds; ``watch`` is called with every event of the runs.
    """

    def store_for(running: RunningJob) -> Store | str | None:
        if isinstance(store, str | Path):
            return str(store)
        return store(running.tenant) if callable(store) else store

    return ThreadJobs({RUN: AgentRuns(store_for, agents, watch), **(handlers or {})}, limits=limits)
