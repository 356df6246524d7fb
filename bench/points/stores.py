"""Sessions in PostgreSQL: under fire, behind a pooler, and what they cost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from bench import fire, job_fire, outage, store_cost
from bench.peers.environments import Unavailable
from bench.points import Outcome, Point, is_quick
from bench.servers.s3 import BUCKET, S3Server

ROOT = Path(__file__).resolve().parents[2]


def under_fire(_: Path | None) -> list[Outcome]:
    """Workers are killed and frozen; then the tables are compared with a bill that others kept."""
    verdict = fire.run(sessions=60, kills=6, freezes=6) if is_quick() else fire.run()
    enough = verdict.acknowledged == verdict.questions and not verdict.faults
    return [
        Outcome("nothing lost, doubled or out of order", enough, str(verdict), "0 faults"),
        Outcome(
            "repeated paid calls",
            verdict.repeated <= verdict.in_hand,
            f"{verdict.repeated:,}",
            f"at most the {verdict.in_hand:,} in hand",
        ),
    ]


def with_broker(_: Path | None) -> list[Outcome]:
    """The same with a broker between the workers and the provider, first left alone and then killed, too."""
    if is_quick():
        held = fire.run(sessions=40, kills=6, freezes=6, broker=True)
        struck = fire.run(sessions=40, kills=3, freezes=3, broker_kills=3)
    else:
        held = fire.run(sessions=500, kills=30, freezes=30, broker=True)
        struck = fire.run(sessions=300, kills=10, freezes=10, broker_kills=10)
    return [
        Outcome(
            "nothing lost, doubled or out of order with a broker",
            not held.faults and not struck.faults,
            f"{held}; {struck}",
            "0 faults",
        ),
        Outcome("repeated paid calls with a broker", held.repeated == 0, f"{held.repeated:,}", "0"),
        Outcome(
            "repeated paid calls when the broker is killed, too",
            struck.repeated <= struck.in_broker,
            f"{struck.repeated:,}",
            f"at most the {struck.in_broker:,} in hand",
        ),
    ]


def without_fence(_: Path | None) -> list[Outcome]:
    """The control: writers that trust their leases double answers, so the run above can fail."""
    verdict = fire.run(sessions=40, kills=0, freezes=8, unfenced=True)
    return [
        Outcome("without the fencing number it fails", bool(verdict.faults), str(verdict), "some faults")
    ]


def jobs_under_fire(_: Path | None) -> list[Outcome]:
    """Workers that carry out jobs are killed, ended and frozen; then everything is compared with a bill."""
    jobs = {"sessions": 15, "questions": 2} if is_quick() else {}
    strikes = {"kills": 2, "ends": 2, "freezes": 1} if is_quick() else {}
    verdict = job_fire.run(**jobs, **strikes)  # type: ignore[arg-type]  # they are all numbers
    enough = verdict.done == verdict.jobs and not verdict.faults
    return [
        Outcome("no job lost, doubled or out of order", enough, str(verdict), "0 faults"),
        Outcome(
            "repeated paid calls",
            verdict.repeated <= verdict.in_hand,
            f"{verdict.repeated:,}",
            f"at most {verdict.in_hand:,}: {job_fire.AT_ONCE} for each kill and freeze, none for an end",
        ),
        Outcome(
            "workers that are told to end hand over everything",
            verdict.ended_badly == 0,
            f"{verdict.ended_badly} of {verdict.ends} did not",
            "all do",
        ),
    ]


def jobs_without_what_holds(_: Path | None) -> list[Outcome]:
    """The controls: without keys, and without fencing numbers, the run above fails."""
    unkeyed = job_fire.run(sessions=12, questions=2, kills=4, ends=0, freezes=0, without="key")
    unfenced = job_fire.run(sessions=12, questions=2, kills=0, ends=0, freezes=4, without="fence")
    return [
        Outcome("without keys it fails", bool(unkeyed.faults), str(unkeyed), "some faults"),
        Outcome("without fencing numbers it fails", bool(unfenced.faults), str(unfenced), "some faults"),
    ]


def server_stopped(_: Path | None) -> list[Outcome]:
    """The server is stopped at once under load, with every append forced and without."""
    forced, relaxed = outage.measure(), outage.measure(relaxed=True)
    return [
        Outcome(
            "forced appends survive", forced.lost + forced.faults + forced.told == 0, str(forced), "0 lost"
        ),
        Outcome(
            "losses of appends that were not forced are told", relaxed.faults == 0, str(relaxed), "0 faults"
        ),
    ]


def through_pooler(_: Path | None) -> list[Outcome]:
    """The tests of the store, with PgBouncer in transaction mode before the server."""
    name = "the tests of the store pass through PgBouncer"
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])
    program = shutil.which("pgbouncer", path=path)
    if program is None:
        return [Outcome(name, None, "no pgbouncer here; Debian and Ubuntu have a package of that name")]
    tests = subprocess.run(
        [sys.executable, "-m", "pytest", "tests/stores", "-k", "ostgres", "-q", "-p", "no:cacheprovider"],
        cwd=ROOT,
        env={**os.environ, "PGBOUNCER": program},
        capture_output=True,
        text=True,
        check=False,
    )
    summary = next(
        (line for line in reversed(tests.stdout.splitlines()) if " in " in line), tests.stderr[-200:]
    )
    return [Outcome(name, tests.returncode == 0, summary, "all")]


def results_in_s3(_: Path | None) -> list[Outcome]:
    """The tests of results as objects, with a bucket of an S3 server of another make."""
    name = "results go to a bucket, come back and are erased"
    try:
        server = S3Server()
    except Unavailable as error:
        return [Outcome(name, None, f"no S3 server here: {error}")]
    with server:
        variables = {**os.environ, **server.environment, "RESULTS_URL": f"s3://{BUCKET}/results"}
        tests = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "tests/stores/test_objects.py",
                "-q",
                "-p",
                "no:cacheprovider",
            ],
            cwd=ROOT,
            env=variables,
            capture_output=True,
            text=True,
            check=False,
        )
    summary = next(
        (line for line in reversed(tests.stdout.splitlines()) if " in " in line), tests.stderr[-200:]
    )
    return [Outcome(name, tests.returncode == 0, summary, "all")]


def cost(_: Path | None) -> list[Outcome]:
    """Turns, resuming, appending with many sessions in the tables, erasing."""
    costs = store_cost.measure(sessions=20_000) if is_quick() else store_cost.measure()
    return [Outcome(name, met, figure, bar) for name, met, figure, bar in store_cost.bars(costs)]


POINTS: list[Point] = [
    ("PostgreSQL: workers killed and frozen", under_fire),
    ("PostgreSQL: workers killed and frozen, with a broker", with_broker),
    ("PostgreSQL: the same without a fence", without_fence),
    ("Jobs: workers killed, ended and frozen", jobs_under_fire),
    ("Jobs: the same without keys and fences", jobs_without_what_holds),
    ("PostgreSQL: server stopped at once", server_stopped),
    ("PostgreSQL: behind a pooler", through_pooler),
    ("PostgreSQL: results in S3", results_in_s3),
    ("PostgreSQL: cost", cost),
]
