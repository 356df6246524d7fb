"""`sevenfold work`: a worker that carries out the jobs of a store in PostgreSQL."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sevenfold.cli.text import complain, not_installed, number, plural, write
from sevenfold.errors import InputError
from sevenfold.jobs import JobLimits
from sevenfold.work.agents import MakeAgent, imported_maker
from sevenfold.work.opening import standard_handlers

if TYPE_CHECKING:
    from sevenfold.work.postgres.worker import PostgresWorker

HARD_END = 10.0
"""Seconds after the grace until the process ends without waiting for jobs that do not stop."""
NOT_HANDED_OVER = 1
"""The exit code if jobs were still running at the end; others take them over when this worker counts as dead."""


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = command.add_argument
    count = number(int, 1, "a whole number above 0")
    seconds = number(float, 0.1, "a number of seconds")
    add("--store", required=True, metavar="URL")
    add("--agent", action="append", default=[], metavar="[NAME=]MODULE:FUNCTION")
    add("--at-once", type=count, default=8, metavar="N")
    add("--per-tenant", type=count, metavar="N")
    add("--per-model", action="append", default=[], metavar="MODEL=N")
    add("--starts-per-minute", action="append", default=[], metavar="MODEL=N")
    add("--presumed-dead", type=seconds, default=30.0, metavar="SECONDS")
    add("--grace", type=seconds, default=25.0, metavar="SECONDS")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    try:
        from sevenfold.work.postgres.worker import PostgresWorker, WorkerOptions, sessions_of
    except ModuleNotFoundError as error:
        raise not_installed("worker", "jobs", error) from error
    if not options.store.lower().startswith(("postgresql://", "postgres://")):
        raise InputError(
            "a worker needs the URL of a store in PostgreSQL, as in --store postgresql://user@host/database"
        )
    # As `python -m` does: agents are usually in the folder that the worker is started in.
    sys.path.insert(0, str(Path.cwd()))
    agents = _agents(options.agent)
    limits = JobLimits(
        at_once=options.at_once,
        per_tenant=options.per_tenant,
        per_model={
            model: int(limit) for model, limit in _by_model(options.per_model, "--per-model").items()
        },
        starts_per_minute=_by_model(options.starts_per_minute, "--starts-per-minute"),
    )
    how = WorkerOptions(
        heartbeat=options.presumed_dead / 3,
        presumed_dead=options.presumed_dead,
        polling=min(1.0, options.presumed_dead / 3),
        grace=options.grace,
    )
    handlers = standard_handlers(sessions_of(options.store), agents)
    worker = PostgresWorker(options.store, handlers, limits=limits, options=how)
    return _serve(worker, options.grace)


def _serve(worker: PostgresWorker, grace: float) -> int:
    def stop(signum: int, frame: object) -> None:
        jobs = plural(worker.busy, "job")
        complain(f"stopping: {jobs} under way get {grace:g} s to reach a point at which others can go on")
        worker.stop()
        end = threading.Timer(grace + HARD_END, os._exit, (NOT_HANDED_OVER,))
        end.daemon = True
        end.start()

    previous_handlers = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        write("working; Ctrl-C hands over what runs and ends\n")
        sys.stdout.flush()
        return 0 if worker.run() else NOT_HANDED_OVER
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)


def _agents(options: list[str]) -> Mapping[str, MakeAgent]:
    agents: dict[str, MakeAgent] = {}
    for text in options:
        name, equals, function_path = text.rpartition("=")
        # Without a name of its own, an agent is known by the function's name.
        agents[name if equals else function_path.rpartition(":")[2]] = imported_maker(function_path)
    return agents


def _by_model(options: list[str], option: str) -> Mapping[str, float]:
    limits: dict[str, float] = {}
    for text in options:
        model, _, limit = text.rpartition("=")
        try:
            limits[model] = float(limit)
        except ValueError:
            limits[model] = 0.0
        if not model or limits[model] <= 0:
            raise InputError(
                f"{option} takes MODEL=N with a number above 0, or *=N for every model, not {text!r}"
            )
    return limits
