"""A job while it runs, and what its end means."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec import Struct

from sevenfold.errors import InputError, ModelError, TranscriptError, TranscriptLocked, TranscriptOvertaken
from sevenfold.jobs import Handler, Job, JobSpec, JobStopped, StopReason

FIRST_PAUSE = 1.0
"""Seconds until a job that failed is tried again; twice as long after each further failure."""
LONGEST_PAUSE = 300.0
LEASE_PAUSE = 2.0
"""Seconds until a job is tried again whose session is still open elsewhere."""


class Retry(Exception):  # an instruction to the worker that runs the job
    """Raised by a handler that cannot do its work now: the job is tried again after a pause."""

    def __init__(self, reason: str, seconds: float = LEASE_PAUSE, *, counts: bool = False) -> None:
        super().__init__(reason)
        self.seconds = seconds
        self.counts = counts
        """Whether it is one of the attempts that a job has."""


class CurrentJob:
    """A `sevenfold.jobs.RunningJob`."""

    def __init__(self, job: Job, tenant: str = "", project: str = "", end_user: str = "") -> None:
        self.job = job
        self.tenant = tenant
        self.project = project
        self.end_user = end_user
        self._lock = threading.Lock()
        self._stopping: StopReason | None = None
        self._callbacks: list[Callable[[], None]] = []

    @property
    def stopping(self) -> StopReason | None:
        """Why it has to stop; None while it may go on."""
        return self._stopping

    def when_stopped(self, stop: Callable[[], None]) -> None:
        """Call a function as soon as the job has to stop; at once if it has to already."""
        with self._lock:
            self._callbacks.append(stop)
            if self._stopping is None:
                return
        stop()

    def stop(self, reason: StopReason) -> None:
        """Tell the job to stop; the first reason counts, except that ``lost`` means at once, whatever it was."""
        with self._lock:
            if self._stopping is not None and (reason != "lost" or self._stopping == "lost"):
                return
            self._stopping = reason
            callbacks = list(self._callbacks)
        for callback in callbacks:
            callback()


class JobOutcome(Struct, frozen=True):
    """What came of an attempt."""

    status: Literal["succeeded", "failed", "cancelled", "waiting", "lost"]
    """``waiting``: it is to be tried again; ``lost``: another worker has it, nothing is to be changed."""
    result: Any = None
    error: str = ""
    pause: float = 0.0
    """The seconds before it is tried again."""
    counts: bool = False
    """Whether the attempt counts as a failed one."""


def carry_out(current: CurrentJob, handler: Handler | None) -> JobOutcome:
    """Carry out a job once; whatever its handler raises becomes an outcome."""
    job = current.job
    if handler is None:
        return JobOutcome("failed", error=f"no handler is known for jobs of the kind {job.spec.kind!r}")
    try:
        result = plain(handler(current))
    except JobStopped as stopped:
        return _stopped(current, str(stopped))
    except Retry as retry:
        if current.stopping is not None:
            return _stopped(current, str(retry))
        return _again(job, str(retry), retry.seconds, counts=retry.counts)
    except Exception as error:  # noqa: BLE001  # a handler may raise anything; the job's record says what
        if current.stopping is not None:
            return _stopped(current, explained(error))
        if not may_pass(error):
            return JobOutcome("failed", error=explained(error), counts=True)
        if isinstance(error, TranscriptLocked | TranscriptOvertaken):
            # The worker that had the job died and its lease has not expired yet, or it was frozen and is waking up now.
            return _again(job, explained(error), LEASE_PAUSE, counts=False)
        retry_after = error.retry_after if isinstance(error, ModelError) else None
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2**job.attempt)
        return _again(job, explained(error), max(pause, retry_after or 0.0), counts=True)
    return JobOutcome("succeeded", result)


def _again(job: Job, error: str, pause: float, *, counts: bool) -> JobOutcome:
    if counts and job.attempt + 1 >= job.spec.attempts:
        return JobOutcome("failed", error=error, counts=True)
    return JobOutcome("waiting", error=error, pause=pause, counts=counts)


def _stopped(current: CurrentJob, detail: str) -> JobOutcome:
    match current.stopping:
        case "cancelled":
            return JobOutcome("cancelled", error="cancelled")
        case "time_limit":
            limit = current.job.spec.seconds or 0.0
            return JobOutcome("failed", error=f"it took longer than its limit of {limit:,g} s", counts=True)
        case "shutdown":
            return JobOutcome("waiting")
        case "lost":
            return JobOutcome("lost")
        case None:
            return JobOutcome("failed", error=detail or "its handler stopped without a reason", counts=True)


def may_pass(error: Exception) -> bool:
    """Whether the job may succeed later: the provider is busy, the session is open elsewhere, the store is away."""
    if isinstance(error, ModelError):
        return error.retryable
    # The base class alone stands for a store that cannot be reached; what can only be put right is a subclass.
    return isinstance(error, TranscriptLocked | TranscriptOvertaken) or type(error) is TranscriptError


def explained(error: Exception) -> str:
    """An error in one line, for a job's record."""
    text = str(error).strip() or "no further reason"
    return text if isinstance(error, ModelError | TranscriptError) else f"{type(error).__name__}: {text}"


def plain(value: Any) -> Any:
    """A value as JSON would give it back; raises `InputError` for one that JSON cannot hold."""
    try:
        return msgspec.json.decode(msgspec.json.encode(value))
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise InputError(f"JSON cannot hold that: {error}") from error


def checked_spec(spec: JobSpec) -> JobSpec:
    """The job with a payload as JSON gives it back; raises `InputError` for values that no job can have."""
    if not spec.kind:
        raise InputError("a job needs a kind, which says what handler does it")
    if spec.attempts < 1:
        raise InputError(f"a job has to have at least one attempt, not {spec.attempts}")
    if spec.seconds is not None and not spec.seconds > 0:
        raise InputError(f"the time limit of a job has to be above 0 seconds, not {spec.seconds}")
    if spec.branch and not spec.session:
        raise InputError(f"the branch {spec.branch!r} belongs to no session; name the session, too")
    payload = plain(spec.payload)
    if not isinstance(payload, dict):
        raise InputError("the payload of a job has to be a mapping from names to values")
    spec = msgspec.structs.replace(spec, payload=payload)
    plain(spec)
    return spec


def same_work(spec: JobSpec, other: JobSpec) -> bool:
    """Whether two jobs do the same, so that they may have the same key."""
    fields = ("kind", "payload", "session", "branch", "model")
    return all(getattr(spec, name) == getattr(other, name) for name in fields)


def other_work(key: str, kind: str) -> str:
    """The text of the error for a key that belongs to a job that does something else."""
    return (
        f"the key {key!r} belongs to a job ({kind}) that does something else; a key stands for one job, so choose "
        "another one"
    )
