"""Jobs in PostgreSQL: tenants, fencing, what the queue knows, workers that die, end and wake up."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from procrastinate import PsycopgConnector
from procrastinate.jobs import Status

import sevenfold
from bench.servers.postgres import OWNER
from sevenfold.cli.main import main
from sevenfold.errors import InputError, TranscriptDenied
from sevenfold.jobs import Job, JobLimits, JobSpec
from sevenfold.session.factory import OFFLINE_JOBS
from sevenfold.stores.postgres.store import PostgresStore
from sevenfold.work.opening import standard_handlers
from sevenfold.work.postgres import steps
from sevenfold.work.postgres.jobs import PostgresJobs
from sevenfold.work.postgres.queue import QUEUE, FencedJobManager
from sevenfold.work.postgres.tables import migrate, statement
from sevenfold.work.postgres.worker import PostgresWorker, WorkerOptions, WorkerThread, sessions_of
from sevenfold.work.running import JobOutcome
from tests.stores.servers import postgres
from tests.work.test_agent_runs import Shop
from tests.work.test_jobs_contract import without_jobs

ROOT = Path(__file__).resolve().parents[2]
QUICK = WorkerOptions(presumed_dead=120.0, polling=0.05)
NO_LIMITS = JobLimits()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    without_jobs()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return postgres().url(project=str(tmp_path), tenant="ours", end_user="ada")


@pytest.fixture
def jobs(url: str) -> Iterator[PostgresJobs]:
    with PostgresJobs(url) as opened:
        yield opened


def owner() -> psycopg.Connection[Any]:
    return psycopg.connect(postgres().url(OWNER), autocommit=True)


def place_of(job: Job) -> tuple[int, int, int]:
    """The number of the tenant, of the job and of its place in the queue."""
    with owner() as connection:
        row = connection.execute(
            "SELECT job.tenant, job.id, place.id FROM sevenfold.job JOIN sevenfold.procrastinate_jobs AS place"
            " ON place.args @> jsonb_build_object('job', job.id) WHERE key = %s",
            (job.key,),
        ).fetchone()
    assert row is not None
    tenant, job_number, place = row
    return tenant, job_number, place


def working(url: str, shop: Shop, **limits: Any) -> WorkerThread:
    handlers = standard_handlers(sessions_of(url), {"counter": shop.make})
    return WorkerThread(PostgresWorker(url, handlers, limits=JobLimits(**limits), options=QUICK))


# -- fencing ---------------------------------------------------------------------------------------


def begun(url: str, job: Job) -> tuple[PostgresStore, steps.Begun]:
    """A worker that has begun a job, or believes that it has."""
    tenant, number, queued = place_of(job)
    store = PostgresStore.at(url)
    begun = steps.begin(store.database, NO_LIMITS, tenant=tenant, number=number, queued=queued)
    assert isinstance(begun, steps.Begun)
    return store, begun


@pytest.mark.spec("S35.8")
def test_a_worker_that_was_taken_for_dead_records_nothing(url: str, jobs: PostgresJobs) -> None:
    job = jobs.submit(JobSpec("run", key="k"))
    frozen, theirs = begun(url, job)
    other, ours = begun(url, job)
    with closing(frozen), closing(other):
        assert ours.fence > theirs.fence
        assert steps.end(frozen.database, theirs, JobOutcome("succeeded", "too late")) is None
        assert steps.end(frozen.database, theirs, JobOutcome("waiting")) is None
        found = jobs.find("k")
        assert found is not None
        assert (found.status, found.attempt) == ("running", 1)
        assert steps.end(other.database, ours, JobOutcome("succeeded", "in time")) == "succeeded"
        assert steps.end(frozen.database, theirs, JobOutcome("failed", error="x")) is None
    found = jobs.find("k")
    assert found is not None
    assert (found.status, found.result) == ("succeeded", "in time")


@pytest.mark.spec("S35.8")
def test_without_its_condition_the_same_statement_would_record_it(
    url: str, jobs: PostgresJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control for the test above."""

    def unfenced(name: str) -> bytes:
        return statement(name).replace(b" AND fence = %(fence)s", b"")

    monkeypatch.setattr(steps, "statement", unfenced)
    job = jobs.submit(JobSpec("run", key="k"))
    frozen, theirs = begun(url, job)
    other, _ = begun(url, job)
    with closing(frozen), closing(other):
        assert steps.end(frozen.database, theirs, JobOutcome("succeeded", "too late")) == "succeeded"


@pytest.mark.spec("S35.8")
def test_a_job_whose_workers_die_again_and_again_fails_in_the_end(url: str, jobs: PostgresJobs) -> None:
    job = jobs.submit(JobSpec("run", key="k", attempts=2))
    for _ in range(2):
        begun(url, job)[0].close()
    tenant, number, queued = place_of(job)
    with closing(PostgresStore.at(url)) as store:
        assert steps.begin(store.database, NO_LIMITS, tenant=tenant, number=number, queued=queued) is None
    found = jobs.find("k")
    assert found is not None
    assert (found.status, found.error) == (
        "failed",
        "its workers died or hung 2 times while they carried it out",
    )
    with owner() as connection:
        assert connection.execute("SELECT count(*) FROM sevenfold.job_slot").fetchone() == (0,)


@pytest.mark.spec("S35.8")
def test_a_job_that_has_lost_its_place_in_the_queue_gets_it_back_with_its_key(
    url: str, jobs: PostgresJobs
) -> None:
    for _ in range(2):
        jobs.submit(JobSpec("run", key="k", session="s"))
    with owner() as connection:
        (places,) = connection.execute("SELECT count(*) FROM sevenfold.procrastinate_jobs").fetchone() or (
            0,
        )
        assert places == 1
        connection.execute("DELETE FROM sevenfold.procrastinate_jobs")
    assert jobs.submit(JobSpec("run", key="k", session="s")).status == "waiting"
    assert place_of(jobs.jobs()[0])


@pytest.mark.spec("S35.8")
def test_a_worker_ends_in_the_queue_only_what_it_was_given_last(url: str, jobs: PostgresJobs) -> None:
    job = jobs.submit(JobSpec("run", key="k"))

    async def scenario() -> list[int]:
        connector = PsycopgConnector(
            conninfo=postgres().url(), kwargs={"options": "-c search_path=sevenfold"}
        )
        manager, places = FencedJobManager(connector), []
        await connector.open_async()
        try:
            worker = await manager.register_worker()
            first = await manager.fetch_job([QUEUE], worker)
            assert first is not None
            await manager.retry_job(first)
            second = await manager.fetch_job([QUEUE], worker)
            assert second is not None
            # The same worker has it again: what comes of the first time concerns nobody any more.
            for place in (first, second):
                await manager.finish_job(place, Status.SUCCEEDED, delete_job=True)
                places.append(len(list(await manager.list_jobs_async())))
        finally:
            await connector.close_async()
        return places

    assert job.status == "waiting"
    assert asyncio.run(scenario()) == [1, 0]


@pytest.mark.spec("S35.8")
def test_the_jobs_of_a_worker_that_is_silent_are_taken_over(url: str, jobs: PostgresJobs) -> None:
    run = sevenfold.Agent.submit("How many?", agent="counter", session="s", key="k", jobs=jobs)

    async def take_and_die() -> None:
        connector = PsycopgConnector(
            conninfo=postgres().url(), kwargs={"options": "-c search_path=sevenfold"}
        )
        manager = FencedJobManager(connector)
        await connector.open_async()
        try:
            assert await manager.fetch_job([QUEUE], await manager.register_worker()) is not None
        finally:
            await connector.close_async()

    asyncio.run(take_and_die())
    dead, _ = begun(url, run.job)
    dead.close()
    with owner() as connection:
        connection.execute(
            "UPDATE sevenfold.procrastinate_workers SET last_heartbeat = now() - interval '1 hour'"
        )
    with closing(working(url, Shop(["Three."]))):
        assert run.result(60).text == "Three."
    assert run.job.attempt == 1


# -- tenants ---------------------------------------------------------------------------------------


@pytest.mark.spec("S35.7")
def test_the_queue_knows_numbers_and_a_digest_and_nothing_else_of_a_job(jobs: PostgresJobs) -> None:
    jobs.submit(JobSpec("run", key="secret key", session="secret session", payload={"secret": "payload"}))
    with owner() as connection:
        rows = connection.execute(
            "SELECT to_jsonb(place) FROM sevenfold.procrastinate_jobs AS place"
        ).fetchall()
    assert "secret" not in json.dumps(rows)
    assert set(rows[0][0]["args"]) == {"tenant", "job"}


@pytest.mark.spec("S35.7")
def test_a_query_without_its_where_sees_only_the_jobs_of_its_tenant(url: str, jobs: PostgresJobs) -> None:
    jobs.submit(JobSpec("run", key="ours"))
    jobs.for_tenant("theirs").submit(JobSpec("run", key="theirs"))
    jobs.for_tenant("theirs").schedule(sevenfold.jobs.JobSchedule("nightly", 86_400, JobSpec("dream")))
    with closing(PostgresStore.at(url)) as store:
        assert store.run(b"SELECT key FROM sevenfold.job") == [("ours",)]
        assert store.run(b"SELECT name FROM sevenfold.job_schedule") == []
        assert store.run(b"UPDATE sevenfold.job SET status = 'failed' RETURNING key") == [("ours",)]
    assert jobs.for_tenant("theirs").find("theirs") == jobs.for_tenant("theirs").jobs()[0]


@pytest.mark.spec("S35.7")
def test_each_run_works_in_the_store_that_it_was_submitted_to(url: str, jobs: PostgresJobs) -> None:
    shop = Shop(["Of ours.", "Of theirs."])
    theirs = jobs.for_tenant("theirs'; --")
    worker = working(url, shop, at_once=1)
    with closing(worker):
        for place in (jobs, theirs):
            sevenfold.Agent.submit("Whose?", agent="counter", session="s", key="k", jobs=place).result(60)
    for place, text in ((jobs, "Of ours."), (theirs, "Of theirs.")):
        job = place.find("k")
        assert job is not None
        assert job.result["text"] == text
    with closing(PostgresStore.at(url)) as store:
        assert [session.name for session in store.sessions()] == ["s"]
        assert b"Of theirs." not in b"".join(store.export("s"))


# -- tables ----------------------------------------------------------------------------------------


@pytest.mark.spec("S35.7")
def test_tables_that_are_newer_than_the_program_are_refused() -> None:
    migrate(postgres().url(OWNER))
    with owner() as connection:
        connection.execute("INSERT INTO sevenfold.job_version (part, name) VALUES ('queue', '99.0')")
    try:
        with pytest.raises(TranscriptDenied, match=r"tables of queue .* the change 99\.0"):
            migrate(postgres().url(OWNER))
    finally:
        with owner() as connection:
            connection.execute("DELETE FROM sevenfold.job_version WHERE name = '99.0'")


@pytest.mark.spec("S35.7")
def test_a_worker_is_not_put_behind_a_pooler() -> None:
    with pytest.raises(InputError, match="give it the database's own address"):
        PostgresWorker(postgres().url(pooler="yes"), {})


# -- upkeep ----------------------------------------------------------------------------------------


@pytest.mark.spec("S35.9")
def test_notes_memory_and_dreams_are_jobs(url: str, jobs: PostgresJobs) -> None:
    shop = Shop([])
    shop.script = sevenfold.Script(["Three."], jobs=OFFLINE_JOBS)
    with closing(working(url, shop)):
        sevenfold.Agent.submit("How many?", agent="counter", session="s", jobs=jobs).result(60)
        payload = {"agent": "counter"}
        for key in ("notes", "notes again"):
            jobs.submit(JobSpec("notes", key=key, session="s", payload=payload))
        jobs.submit(JobSpec("memory", key="memory", session="s", payload=payload))
        jobs.submit(JobSpec("dream", key="dream"))
        jobs.submit(JobSpec("dream", key="odd", payload={"user": "perhaps"}))
        results = {key: jobs.wait(key, 60).result for key in ("notes", "notes again", "dream")}
        assert jobs.wait("memory", 60).status == "succeeded"
        assert "no job of the kind dream" in jobs.wait("odd", 60).error
    assert results == {
        "notes": {"updated": True},
        "notes again": {"updated": False},
        "dream": {"done": [], "proposed": []},
    }
    with closing(PostgresStore.at(url)) as store:
        assert "How many?" in (store.notes("s").read() or "")


# -- whole workers ---------------------------------------------------------------------------------


@pytest.mark.spec("S35.10")
def test_a_worker_that_is_told_to_end_hands_over_and_another_one_goes_on(
    url: str, jobs: PostgresJobs, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(
        "import time\n"
        "from pathlib import Path\n"
        "from tests.work.test_agent_runs import Shop, call\n\n"
        "def look() -> str:\n"
        "    'Look.'\n"
        "    Path('looking').write_text('')\n"
        "    while not Path('go on').exists():\n"
        "        time.sleep(0.01)\n"
        "    return 'fog'\n\n"
        "def counter(**options):\n"
        "    shop = Shop([call('look'), 'never asked for'])\n"
        "    shop.tools = [look]\n"
        "    return shop.make(**options)\n"
    )
    run = sevenfold.Agent.submit("What do you see?", agent="counter", session="s", jobs=jobs)
    command = [sys.executable, "-m", "sevenfold", "work", "--store", url, "--agent", "shop:counter"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as worker:
        try:
            pause = threading.Event()
            while not (tmp_path / "looking").exists():
                assert worker.poll() is None
                pause.wait(0.02)
            worker.send_signal(signal.SIGTERM)
            assert worker.stderr is not None
            assert "stopping: 1 job under way get 25 s" in worker.stderr.readline()
            (tmp_path / "go on").write_text("")
            assert worker.wait(60) == 0
        finally:
            worker.kill()
    assert (run.job.status, run.job.attempt) == ("waiting", 0)
    with closing(working(url, Shop(["Fog."]))):
        assert run.result(60).text == "Fog."


@pytest.mark.spec("S35.10")
def test_the_command_says_what_is_wrong(capsys: pytest.CaptureFixture[str], url: str) -> None:
    for arguments, reason in (
        (["--store", "sessions"], "needs the URL of a store in PostgreSQL"),
        (["--store", url, "--agent", "nowhere.to:find"], "'nowhere.to:find' cannot be imported"),
        (["--store", url, "--agent", "json"], "write module:function"),
        (["--store", url, "--per-model", "m"], "--per-model takes MODEL=N"),
        (["--store", url, "--starts-per-minute", "m=-1"], "--starts-per-minute takes MODEL=N"),
    ):
        assert main(["work", *arguments]) == 2
        assert reason in capsys.readouterr().err
