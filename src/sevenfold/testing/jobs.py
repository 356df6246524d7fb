"""What every implementation of `sevenfold.jobs.Jobs` must do. Subclass `JobsContract` in a test module of your own::

    from sevenfold.testing.jobs import JobsContract

    class TestMyJobs(JobsContract):
        def open_jobs(self, folder, handlers, limits):
            return MyJobs(folder / "jobs.db", handlers, limits)

It needs pytest, which the engine itself does not. What `open_jobs` returns takes jobs and sees to it that they are
carried out, until it is closed; opened again for the same folder, there may be nothing left or all of it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from sevenfold.errors import InputError, RateLimited, Refused, RequestRefused
from sevenfold.jobs import (
    Handler,
    Job,
    JobLimits,
    Jobs,
    JobSchedule,
    JobSpec,
    JobStopped,
    RunningJob,
    StopReason,
)
from sevenfold.work.running import Retry

PATIENCE = 30.0
"""The seconds after which something that should have happened counts as missing."""
FAR = 4_000_000_000.0
"""A time that no test sees, in seconds since 1970."""


class Workshop:
    """Handlers whose work tests can watch and hold up."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.begun: list[str] = []
        """The keys of the jobs in the order in which they were begun, once for each time."""
        self.at_work: set[str] = set()
        self.most_at_once = 0
        self.reasons: dict[str, StopReason | None] = {}
        """Why jobs of the kind ``hold`` were told to stop, by key."""
        self._released: set[str] = set()

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """The kinds of work that there are."""
        return {
            "echo": self.echo,
            "hold": self.hold,
            "busy": self.busy,
            "wrong": self.wrong,
            "odd": self.odd,
        }

    def echo(self, running: RunningJob) -> Any:
        """Return the payload."""
        self._begin(running)
        self._end(running)
        return dict(running.job.spec.payload)

    def hold(self, running: RunningJob) -> Any:
        """Work until the test lets go, or the job has to stop."""
        key = running.job.key
        self._begin(running)
        running.when_stopped(self._wake)
        try:
            with self.changed:
                self.changed.wait_for(
                    lambda: running.stopping is not None or self._released & {key, "*"}, PATIENCE
                )
                if running.stopping is not None:
                    self.reasons[key] = running.stopping
                    raise JobStopped
        finally:
            self._end(running)
        return "released"

    def busy(self, running: RunningJob) -> Any:
        """Fail as often as the payload says, for a reason that may pass."""
        self._begin(running)
        self._end(running)
        if self.begun.count(running.job.key) <= running.job.spec.payload["failures"]:
            raise Retry("the provider is busy", 0.0, counts=True)
        return "done at last"

    def wrong(self, running: RunningJob) -> Any:
        """Fail like a provider."""
        self._begin(running)
        self._end(running)
        raise {"for now": RateLimited, "for good": RequestRefused}[running.job.spec.payload["how"]]("no")

    def odd(self, running: RunningJob) -> Any:
        """Return what JSON cannot hold."""
        return object()

    def release(self, key: str = "*") -> None:
        """Let a held job end, or all of them."""
        with self.changed:
            self._released.add(key)
            self.changed.notify_all()

    def await_begun(self, *keys: str) -> None:
        """Wait until these jobs are at work."""
        with self.changed:
            assert self.changed.wait_for(lambda: self.at_work >= set(keys), PATIENCE), self.begun

    def await_at_work(self, count: int) -> str:
        """Wait until so many jobs are at work; returns the key of one of them."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.at_work) >= count, PATIENCE), self.begun
            return min(self.at_work)

    def _begin(self, running: RunningJob) -> None:
        with self.changed:
            self.begun.append(running.job.key)
            self.at_work.add(running.job.key)
            self.most_at_once = max(self.most_at_once, len(self.at_work))
            self.changed.notify_all()

    def _end(self, running: RunningJob) -> None:
        with self.changed:
            self.at_work.discard(running.job.key)
            self.changed.notify_all()

    def _wake(self) -> None:
        with self.changed:
            self.changed.notify_all()


def ended(jobs: Jobs, key: str) -> Job:
    """The job once it has ended."""
    job = jobs.wait(key, PATIENCE)
    assert job.over, job
    return job


def await_true(condition: Callable[[], object]) -> None:
    """Wait until a condition holds that nothing announces."""
    until = time.monotonic() + PATIENCE
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < until
        pause.wait(0.01)


class JobsContract:
    """The tests of an implementation; a subclass says how to open one."""

    def open_jobs(self, folder: Path, handlers: Mapping[str, Handler], limits: JobLimits) -> Jobs:
        """Open jobs that these handlers carry out, with nothing of other folders."""
        raise NotImplementedError("define open_jobs(self, folder, handlers, limits) in your test class")

    @pytest.fixture
    def workshop(self) -> Workshop:
        return Workshop()

    @pytest.fixture
    def opened(self, tmp_path: Path, workshop: Workshop) -> Iterator[Callable[..., Jobs]]:
        """A function that opens jobs with these limits; all are closed in the end."""
        with ExitStack() as stack:

            def open_limited(**limits: Any) -> Jobs:
                jobs = self.open_jobs(tmp_path, workshop.handlers, JobLimits(**limits))
                stack.callback(jobs.close)
                return jobs

            yield open_limited
            workshop.release()

    @pytest.fixture
    def jobs(self, opened: Callable[..., Jobs]) -> Jobs:
        return opened()

    # -- one job ---------------------------------------------------------------------------------

    def test_a_job_is_carried_out_and_its_result_is_kept(self, jobs: Jobs) -> None:
        spec = JobSpec("echo", key="k", payload={"text": "häuser", "list": [1, 2.5, None]}, model="m")
        before = time.time()
        taken = jobs.submit(spec)
        assert taken.key == "k"
        job = ended(jobs, "k")
        assert (job.status, job.result, job.error) == ("succeeded", spec.payload, "")
        assert (job.spec.kind, job.spec.model) == ("echo", "m")
        # The clock that counts may be another machine's.
        assert before - 60 < job.submitted <= job.began <= job.ended
        assert jobs.find("k") == job

    def test_a_job_without_a_key_gets_one_of_its_own(self, jobs: Jobs, workshop: Workshop) -> None:
        first = jobs.submit(JobSpec("echo"))
        second = jobs.submit(JobSpec("echo"))
        assert first.key
        assert first.key != second.key
        for job in (first, second):
            assert ended(jobs, job.key).status == "succeeded"
        assert sorted(workshop.begun) == sorted([first.key, second.key])

    def test_the_same_key_is_the_same_job_also_after_it_ended(self, jobs: Jobs, workshop: Workshop) -> None:
        spec = JobSpec("echo", key="k", payload={"a": 1})
        jobs.submit(spec)
        job = ended(jobs, "k")
        assert jobs.submit(spec) == job
        assert ended(jobs, "k") == job
        assert workshop.begun == ["k"]

    def test_of_many_who_submit_a_key_at_once_one_gets_it(self, jobs: Jobs, workshop: Workshop) -> None:
        start = threading.Barrier(8)

        def submit() -> None:
            start.wait()
            jobs.submit(JobSpec("echo", key="k"))

        threads = [threading.Thread(target=submit) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ended(jobs, "k")
        assert workshop.begun == ["k"]
        assert len(jobs.jobs()) == 1

    def test_a_key_stands_for_one_piece_of_work(self, jobs: Jobs) -> None:
        jobs.submit(JobSpec("echo", key="k", payload={"a": 1}))
        for spec in (
            JobSpec("echo", key="k", payload={"a": 2}),
            JobSpec("hold", key="k", payload={"a": 1}),
            JobSpec("echo", key="k", payload={"a": 1}, session="s"),
        ):
            with pytest.raises(Refused, match="'k' belongs to a job"):
                jobs.submit(spec)
        assert ended(jobs, "k").result == {"a": 1}

    @pytest.mark.parametrize(
        "key", ["", "a b/c\\d", "ключ", "x'; DROP TABLE job; --", "{}", "%s", "a\0b", "n" * 500]
    )
    def test_any_text_is_a_key_and_a_session(self, jobs: Jobs, key: str) -> None:
        job = jobs.submit(JobSpec("echo", key=key, payload={key: key}, session=key))
        assert ended(jobs, job.key).result == {key: key}
        assert [found.key for found in jobs.jobs(session=key)] == [job.key]

    def test_what_no_job_can_be_is_refused(self, jobs: Jobs) -> None:
        for spec in (
            JobSpec(""),
            JobSpec("echo", attempts=0),
            JobSpec("echo", seconds=0),
            JobSpec("echo", branch="b"),
            JobSpec("echo", payload={"a": object()}),
        ):
            with pytest.raises(InputError):
                jobs.submit(spec)
        assert list(jobs.jobs()) == []

    def test_a_key_that_no_job_has_is_an_error(self, jobs: Jobs) -> None:
        assert jobs.find("nobody") is None
        for ask in (jobs.wait, jobs.cancel):
            with pytest.raises(InputError, match="no job with the key 'nobody'"):
                ask("nobody")

    def test_waiting_ends_when_its_time_is_up(self, jobs: Jobs) -> None:
        jobs.submit(JobSpec("echo", key="k", due=FAR))
        assert jobs.wait("k", 0.01).status == "waiting"

    # -- failures --------------------------------------------------------------------------------

    def test_what_may_pass_is_tried_again(self, jobs: Jobs, workshop: Workshop) -> None:
        jobs.submit(JobSpec("busy", key="k", payload={"failures": 2}, attempts=3))
        job = ended(jobs, "k")
        assert (job.status, job.result, job.attempt) == ("succeeded", "done at last", 2)
        assert workshop.begun == ["k", "k", "k"]

    def test_only_as_often_as_allowed(self, jobs: Jobs, workshop: Workshop) -> None:
        jobs.submit(JobSpec("busy", key="k", payload={"failures": 9}, attempts=3))
        job = ended(jobs, "k")
        assert (job.status, job.error, job.attempt) == ("failed", "the provider is busy", 3)
        assert workshop.begun == ["k", "k", "k"]

    def test_a_providers_error_counts_by_what_it_is(self, jobs: Jobs, workshop: Workshop) -> None:
        jobs.submit(JobSpec("wrong", key="soon", payload={"how": "for now"}, attempts=2))
        jobs.submit(JobSpec("wrong", key="never", payload={"how": "for good"}, attempts=2))
        assert [ended(jobs, key).status for key in ("soon", "never")] == ["failed", "failed"]
        assert sorted(workshop.begun) == ["never", "soon", "soon"]

    def test_work_that_nobody_can_do_fails_with_a_reason(self, jobs: Jobs) -> None:
        jobs.submit(JobSpec("unheard of", key="k"))
        assert "no handler" in ended(jobs, "k").error
        jobs.submit(JobSpec("odd", key="o"))
        assert "JSON" in ended(jobs, "o").error

    def test_an_attempt_ends_with_its_time_limit(self, jobs: Jobs, workshop: Workshop) -> None:
        jobs.submit(JobSpec("hold", key="k", seconds=0.2))
        job = ended(jobs, "k")
        assert job.status == "failed"
        assert "longer than its limit of 0.2 s" in job.error
        assert workshop.reasons == {"k": "time_limit"}

    # -- cancelling ------------------------------------------------------------------------------

    def test_a_job_that_waits_is_cancelled_and_never_begun(self, jobs: Jobs, workshop: Workshop) -> None:
        jobs.submit(JobSpec("hold", key="first", session="s"))
        jobs.submit(JobSpec("echo", key="second", session="s"))
        workshop.await_begun("first")
        assert jobs.cancel("second").status == "cancelled"
        jobs.submit(JobSpec("echo", key="third", session="s"))
        workshop.release()
        assert ended(jobs, "third").status == "succeeded"
        assert workshop.begun == ["first", "third"]

    def test_a_job_that_runs_is_told_to_stop(self, jobs: Jobs, workshop: Workshop) -> None:
        jobs.submit(JobSpec("hold", key="k"))
        workshop.await_begun("k")
        jobs.cancel("k")
        assert ended(jobs, "k").status == "cancelled"
        assert workshop.reasons == {"k": "cancelled"}

    def test_a_job_that_ended_stays_as_it_is(self, jobs: Jobs) -> None:
        jobs.submit(JobSpec("echo", key="k"))
        job = ended(jobs, "k")
        assert jobs.cancel("k") == job
        assert jobs.find("k") == job

    # -- order and limits ------------------------------------------------------------------------

    def test_jobs_of_a_session_are_carried_out_in_order_one_at_a_time(
        self, jobs: Jobs, workshop: Workshop
    ) -> None:
        keys = [f"k{number}" for number in range(5)]
        for key in keys:
            payload = {"failures": 1} if key == "k2" else {}
            jobs.submit(JobSpec("busy" if payload else "echo", key=key, session="s", payload=payload))
        ended(jobs, keys[-1])
        # One that is tried again keeps its turn.
        assert workshop.begun == ["k0", "k1", "k2", "k2", "k3", "k4"]
        assert workshop.most_at_once == 1
        assert [job.key for job in jobs.jobs(session="s")] == keys[::-1]

    def test_other_sessions_and_branches_do_not_wait(self, jobs: Jobs, workshop: Workshop) -> None:
        jobs.submit(JobSpec("hold", key="a", session="s"))
        jobs.submit(JobSpec("hold", key="b", session="t"))
        jobs.submit(JobSpec("hold", key="c", session="s", branch="fork"))
        jobs.submit(JobSpec("hold", key="d"))
        workshop.await_begun("a", "b", "c", "d")

    def test_a_job_is_not_begun_before_its_time(self, jobs: Jobs, workshop: Workshop) -> None:
        jobs.submit(JobSpec("echo", key="later", due=FAR))
        jobs.submit(JobSpec("echo", key="soon", due=time.time() + 0.05))
        jobs.submit(JobSpec("echo", key="now", due=1.0))
        for key in ("soon", "now"):
            ended(jobs, key)
        assert "later" not in workshop.begun

    def test_no_more_jobs_run_at_once_than_allowed(
        self, opened: Callable[..., Jobs], workshop: Workshop
    ) -> None:
        jobs = opened(at_once=2)
        self._check_most(jobs, workshop, [JobSpec("hold", key=f"k{number}") for number in range(5)], 2)

    def test_no_more_jobs_of_a_tenant(self, opened: Callable[..., Jobs], workshop: Workshop) -> None:
        jobs = opened(per_tenant=2)
        jobs.for_tenant("other").submit(JobSpec("hold", key="other"))
        workshop.await_begun("other")
        workshop.release("other")
        ended(jobs.for_tenant("other"), "other")
        self._check_most(jobs, workshop, [JobSpec("hold", key=f"k{number}") for number in range(5)], 2)

    def test_no_more_jobs_of_a_model(self, opened: Callable[..., Jobs], workshop: Workshop) -> None:
        jobs = opened(per_model={"large": 2})
        for number in range(3):
            jobs.submit(JobSpec("hold", key=f"small{number}", model="small"))
        workshop.await_begun("small0", "small1", "small2")
        for number in range(3):
            workshop.release(f"small{number}")
            ended(jobs, f"small{number}")
        workshop.most_at_once = 0
        specs = [JobSpec("hold", key=f"k{number}", model="large") for number in range(5)]
        self._check_most(jobs, workshop, specs, 2)

    @staticmethod
    def _check_most(jobs: Jobs, workshop: Workshop, specs: list[JobSpec], limit: int) -> None:
        for spec in specs:
            jobs.submit(spec)
        for remaining in range(len(specs), 0, -1):
            key = workshop.await_at_work(min(limit, remaining))
            workshop.release(key)
            ended(jobs, key)
        assert workshop.most_at_once == limit

    def test_a_model_has_a_pace(self, opened: Callable[..., Jobs]) -> None:
        jobs = opened(starts_per_minute={"m": 60 / 0.25})
        for number in range(4):
            jobs.submit(JobSpec("echo", key=f"k{number}", model="m"))
        began = sorted(ended(jobs, f"k{number}").began for number in range(4))
        # Measured by the clock that sets the pace, so this does not depend on how busy the machine is.
        assert began[3] - began[0] >= 3 * 0.25 - 0.01

    # -- tenants ---------------------------------------------------------------------------------

    def test_tenants_see_nothing_of_one_another(self, jobs: Jobs, workshop: Workshop) -> None:
        other = jobs.for_tenant("other'; --")
        jobs.submit(JobSpec("echo", key="k", payload={"of": "ours"}, session="s"))
        other.submit(JobSpec("hold", key="k", payload={"of": "theirs"}, session="s"))
        assert ended(jobs, "k").result == {"of": "ours"}
        await_true(lambda: other.jobs()[0].status == "running")
        assert [len(them.jobs()) for them in (jobs, other)] == [1, 1]
        assert jobs.cancel("k").status == "succeeded"
        assert other.submit(JobSpec("echo", key="only theirs")).key == "only theirs"
        assert jobs.find("only theirs") is None
        other.cancel("k")
        assert ended(other, "k").status == "cancelled"
        assert jobs.forget(FAR) == 1
        assert other.find("k") is not None

    # -- schedules -------------------------------------------------------------------------------

    def test_a_schedule_submits_a_job_at_each_of_its_times(self, jobs: Jobs) -> None:
        schedule = JobSchedule("tidy", 0.2, JobSpec("echo", payload={"a": 1}))
        jobs.schedule(schedule)
        assert list(jobs.schedules()) == [schedule]
        await_true(lambda: len(jobs.jobs()) >= 3)
        jobs.unschedule("tidy")
        assert list(jobs.schedules()) == []
        scheduled = jobs.jobs()
        assert len({job.key for job in scheduled}) == len(scheduled)
        for job in scheduled:
            name, _, due = job.key.partition("@")
            assert name == "tidy"
            assert abs(float(due) / 0.2 - round(float(due) / 0.2)) < 0.01

    def test_a_schedule_is_replaced_by_name(self, jobs: Jobs) -> None:
        jobs.schedule(JobSchedule("b", 86_400.0, JobSpec("echo")))
        jobs.schedule(JobSchedule("a", 86_400.0, JobSpec("echo")))
        later = JobSchedule("b", 86_400.0, JobSpec("echo"), offset=10_800.0)
        jobs.schedule(later)
        assert [schedule.name for schedule in jobs.schedules()] == ["a", "b"]
        assert jobs.schedules()[1] == later
        assert list(jobs.for_tenant("other").schedules()) == []
        assert list(jobs.jobs()) == []

    def test_a_schedule_that_cannot_be_kept_is_refused(self, jobs: Jobs) -> None:
        for schedule in (
            JobSchedule("", 1.0, JobSpec("echo")),
            JobSchedule("a", 0.0, JobSpec("echo")),
            JobSchedule("a", float("nan"), JobSpec("echo")),
            JobSchedule("a", 1.0, JobSpec("echo", key="k")),
        ):
            with pytest.raises(InputError):
                jobs.schedule(schedule)

    # -- looking and ending ----------------------------------------------------------------------

    def test_jobs_are_listed_newest_first(self, jobs: Jobs, workshop: Workshop) -> None:
        for number in range(4):
            jobs.submit(JobSpec("echo", key=f"k{number}"))
        jobs.submit(JobSpec("hold", key="held", session="s"))
        for number in range(4):
            ended(jobs, f"k{number}")
        workshop.await_begun("held")
        assert [job.key for job in jobs.jobs(limit=2)] == ["held", "k3"]
        assert [job.key for job in jobs.jobs(status="running")] == ["held"]
        assert len(jobs.jobs(status="succeeded")) == 4

    def test_what_ended_can_be_forgotten_and_its_key_is_new(self, jobs: Jobs, workshop: Workshop) -> None:
        jobs.submit(JobSpec("echo", key="k"))
        jobs.submit(JobSpec("hold", key="held"))
        job = ended(jobs, "k")
        assert jobs.forget(job.ended - 60) == 0
        assert jobs.forget(FAR) == 1
        assert jobs.find("k") is None
        jobs.submit(JobSpec("echo", key="k"))
        ended(jobs, "k")
        assert workshop.begun.count("k") == 2
        workshop.await_begun("held")

    def test_closing_tells_what_runs_about_the_shutdown(self, jobs: Jobs, workshop: Workshop) -> None:
        jobs.submit(JobSpec("hold", key="k"))
        workshop.await_begun("k")
        jobs.close()
        assert workshop.reasons == {"k": "shutdown"}
        assert workshop.at_work == set()
