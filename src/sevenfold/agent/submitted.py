"""Runs of agents as jobs, from the side of who asks for them."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping
from typing import Any, TypedDict

import msgspec

from sevenfold.agent.agent_events import Finished
from sevenfold.errors import InputError, JobFailed
from sevenfold.jobs import USUAL_ATTEMPTS, Job, Jobs, JobSpec
from sevenfold.record.authorship import UserPrompt

RUN = "run"
"""The kind of jobs that run an agent."""
_GLANCE = 1.0
"""How often an asynchronous caller who waits can be cancelled, in seconds."""


class SubmitOptions(TypedDict, total=False):
    """The options of a run that is submitted."""

    key: str
    """The same key means the same run, also after it ended; by default, a new one is drawn."""
    branch: str
    """The name of a fork of the session to work in, new or existing; runs of a fork do not wait for the session's."""
    model: str
    """The model that the agent asks, for the limits of that model."""
    attempts: int
    """How often it may fail for a reason that may pass, such as an overloaded provider."""
    seconds: float | None
    """The most seconds that an attempt may take."""
    due: float
    """The time before which it is not begun, in seconds since 1970."""
    options: Mapping[str, Any]
    """Keyword arguments for the function that makes the agent; what JSON can hold."""


class SubmittedRun:
    """A run that was submitted: ``await`` it, or call `result`."""

    def __init__(self, jobs: Jobs, key: str) -> None:
        self._jobs = jobs
        self.key = key
        """The key under which any program can find it again."""

    @property
    def job(self) -> Job:
        """The job as it is now."""
        job = self._jobs.find(self.key)
        if job is None:
            raise InputError(f"there is no job with the key {self.key!r}")
        return job

    def result(self, seconds: float | None = None) -> Finished:
        """Wait until the run has ended, and return how.

        Raises `sevenfold.errors.JobFailed` if it failed or was cancelled, and TimeoutError after ``seconds``.
        """
        return finished(self._jobs.wait(self.key, seconds))

    def cancel(self) -> Job:
        """Stop the run; what is done so far stays in the session."""
        return self._jobs.cancel(self.key)

    def __await__(self) -> Generator[Any, None, Finished]:
        return self._ended().__await__()

    async def _ended(self) -> Finished:
        while True:
            # In pieces: a thread that waits cannot be cancelled, and would keep the program from ending.
            job = await asyncio.to_thread(self._jobs.wait, self.key, _GLANCE)
            if job.over:
                return finished(job)


def submit(
    prompt: str | UserPrompt, agent: str, session: str, jobs: Jobs, options: SubmitOptions
) -> SubmittedRun:
    """Submit a run."""
    prompt = UserPrompt.of(prompt)
    for name, value in (("prompt", prompt.text), ("agent", agent), ("session", session)):
        if not isinstance(value, str) or not value:
            raise InputError(f"{name} must be a non-empty string, got {value!r}")
    payload: dict[str, Any] = {"agent": agent, "prompt": msgspec.to_builtins(prompt)}
    if made_with := options.get("options"):
        payload["options"] = made_with
    spec = JobSpec(
        RUN,
        key=options.get("key", ""),
        payload=payload,
        session=session,
        branch=options.get("branch", ""),
        model=options.get("model", ""),
        attempts=options.get("attempts", USUAL_ATTEMPTS),
        seconds=options.get("seconds"),
        due=options.get("due", 0.0),
    )
    return SubmittedRun(jobs, jobs.submit(spec).key)


def finished(job: Job) -> Finished:
    """How the run of a job ended; raises `JobFailed` if it did not succeed, and TimeoutError if it has not ended."""
    if not job.over:
        raise TimeoutError(f"the job {job.key} has not ended yet; it is {job.status}")
    if job.status != "succeeded":
        raise JobFailed(
            f"the job {job.key} {'failed' if job.status == 'failed' else 'was cancelled'}: {job.error}"
        )
    return msgspec.convert(job.result, Finished)
