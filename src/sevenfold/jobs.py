"""Jobs: work that is handed over, and carried out once, by this process or by whichever worker is free.

A job has a key. Submitting the same key again returns the same job, even after it has ended; so a program that was
killed between submitting and reading the result does both again. Carrying out a job may begin more than once: when a
worker dies, another one takes its jobs over. What a job does must therefore be safe to begin again. The handlers for
agents are, because the log of the session says how far the work is.

`sevenfold.work` has the implementations: threads of this process, and PostgreSQL for several machines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, Self

from msgspec import Struct, field

JobStatus = Literal["waiting", "running", "succeeded", "failed", "cancelled"]
StopReason = Literal["cancelled", "time_limit", "shutdown", "lost"]
"""Why a running job has to stop: somebody cancelled it, its time is up, or who carries it out shuts down and somebody
else will go on with it; ``lost`` means that it did not stop in time and has to stop at once."""

OVER: frozenset[JobStatus] = frozenset({"succeeded", "failed", "cancelled"})
"""The statuses of jobs that have ended."""
USUAL_ATTEMPTS = 5


class JobSpec(Struct, frozen=True, omit_defaults=True):
    """What is to be done."""

    kind: str
    """Which handler does it, such as ``run``."""
    key: str = ""
    """The same key means the same job; empty: a key of its own is drawn."""
    payload: Mapping[str, Any] = field(default_factory=dict)
    """What the handler needs to know; anything that JSON can hold."""
    session: str = ""
    """Jobs of one session are carried out one at a time, in the order in which they were submitted; empty: none."""
    branch: str = ""
    """The branch of the session that it works in; branches do not wait for one another."""
    model: str = ""
    """The model that it asks, for the limits of that model."""
    attempts: int = USUAL_ATTEMPTS
    """How often it may fail for a reason that may pass, such as an overloaded provider, until it has failed."""
    seconds: float | None = None
    """The most seconds that an attempt may take; None: no limit."""
    due: float = 0.0
    """The time before which it is not begun, in seconds since 1970."""


class Job(Struct, frozen=True):
    """A job as it is at a moment."""

    key: str
    spec: JobSpec
    status: JobStatus = "waiting"
    attempt: int = 0
    """How many attempts have failed, or been ended by the death of their worker."""
    result: Any = None
    """What its handler returned, as JSON would give it back; None until it succeeded."""
    error: str = ""
    """Why it failed, or why its last attempt did."""
    submitted: float = 0.0
    """When it was submitted, in seconds since 1970."""
    began: float = 0.0
    """When its last attempt began; 0 if none did."""
    ended: float = 0.0
    """When it ended; 0 until then."""

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.status in OVER


class JobSchedule(Struct, frozen=True, omit_defaults=True):
    """A job that is submitted again and again."""

    name: str
    """The same name replaces the schedule."""
    every: float
    """How many seconds lie between two times."""
    spec: JobSpec
    """What is submitted; its key is made of the name and the time, so each time is one job, whoever submits it."""
    offset: float = 0.0
    """The times are all multiples of ``every`` since 1970, UTC, plus this: 86,400 and 10,800 mean daily at three."""


class Jobs(Protocol):
    """Takes jobs and tells what became of them; bound to one tenant, and to one project where the store is.

    Methods raise `sevenfold.errors.InputError` for a key that no job has.
    """

    def submit(self, spec: JobSpec) -> Job:
        """Take a job, or return the one that has its key already, however far that is.

        Once this returns, the job survives what its implementation survives. Raises `sevenfold.errors.Refused` if the
        key belongs to a job that does something else.
        """

    def find(self, key: str) -> Job | None:
        """The job with this key; None if there is none."""

    def wait(self, key: str, seconds: float | None = None) -> Job:
        """Wait until the job has ended, at most ``seconds``, and return it as it is then."""

    def cancel(self, key: str) -> Job:
        """Cancel a job: one that waits is never begun, one that runs is told to stop, one that ended stays as it is."""

    def jobs(
        self, *, session: str | None = None, status: JobStatus | None = None, limit: int = 100
    ) -> Sequence[Job]:
        """The jobs of a session, or of all, newest first."""

    def schedule(self, schedule: JobSchedule) -> None:
        """Submit a job again and again, from its next time on; times that nobody was there for are skipped."""

    def unschedule(self, name: str) -> None:
        """Submit no more jobs of the schedule with this name, if there is one."""

    def schedules(self) -> Sequence[JobSchedule]:
        """All schedules, by name."""

    def forget(self, before: float) -> int:
        """Remove the jobs that ended before a time, in seconds since 1970; returns how many. Their keys are new."""

    def for_tenant(self, tenant: str) -> Jobs:
        """The jobs of another tenant, with the same workers and limits; neither tenant sees jobs of the other."""

    def close(self) -> None:
        """Take no more jobs. Where jobs run in this process, those that run are told to stop, and waited for."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class RunningJob(Protocol):
    """A job in the hands of its handler."""

    job: Job
    tenant: str
    project: str
    """The project of the store that the job was submitted to; empty where there are none."""
    end_user: str
    """The end user of that store."""

    @property
    def stopping(self) -> StopReason | None:
        """Why it has to stop; None while it may go on."""

    def when_stopped(self, stop: Callable[[], None]) -> None:
        """Call a function, from another thread, as soon as the job has to stop; at once if it has to already.

        It is called again if a job that may end in order (``shutdown``) has to stop at once after all (``lost``).
        """


class JobStopped(Exception):  # nothing went wrong
    """Raised by a handler that stopped because `RunningJob.stopping` says so, before its work was done."""


Handler = Callable[[RunningJob], Any]
"""Carries out the jobs of a kind, and returns a result that JSON can hold.

It runs in a thread of its own. If it raises an error that may pass (see `sevenfold.work.running.may_pass`), the job is
tried again after a pause; any other error ends it. A result that is returned counts, even if the job was to stop.
"""


class JobLimits(Struct, frozen=True):
    """How many jobs may run."""

    at_once: int = 8
    """In one process."""
    per_tenant: int | None = None
    """Of one tenant, wherever they run."""
    per_model: Mapping[str, int] = field(default_factory=dict)
    """Of one model, wherever they run; ``*`` is for each model that is not named."""
    starts_per_minute: Mapping[str, float] = field(default_factory=dict)
    """How many attempts of a model's jobs may begin in a minute, wherever they run; ``*`` as above."""

    def at_once_of(self, model: str) -> int | None:
        """How many jobs of a model may run at once; None: any number."""
        return self.per_model.get(model, self.per_model.get("*")) if model else None

    def pace_of(self, model: str) -> float | None:
        """The seconds between two starts of a model's jobs; None: none."""
        rate = self.starts_per_minute.get(model, self.starts_per_minute.get("*")) if model else None
        return 60.0 / rate if rate else None
