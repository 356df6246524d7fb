"""A day of a million sessions, simulated: what one database, its workers and the provider would have to carry.

    python bench/million.py [--sessions N] [--sample N] [--seed N] [--measure]      default: 1000000 20000

What is drawn at random, and how often, is an assumption; each has a name in `Habits`, and the page docs/million.md says
where it comes from. Sessions of the sample live through one day, minute by minute; its counts are multiplied. What a
statement or a resume costs is measured: with `--measure` on this machine, with a PostgreSQL server of its own, and
otherwise as it was on a busy two-core machine. Notes, memory and tools are not simulated.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

if TYPE_CHECKING:
    from sevenfold import Session

MINUTES = 24 * 60
APPENDS_PER_CALL = 3
"""A call appends what is asked (a message or results), the record of the request, and the answer."""
WARM_MINUTES = (0, 1, 10, 60)


class Habits(Struct, frozen=True):
    """How sessions are used; all means."""

    active: float = 0.5
    """The share of all sessions that are used on a day."""
    visits: float = 2.0
    """How often such a session is used on that day."""
    turns: float = 6.0
    """Messages of the user in a visit."""
    calls: float = 5.0
    """Calls to the model that answer one message."""
    call_seconds: float = 12.0
    pause_minutes: float = 2.5
    """The median between an answer and the next message of a visit; a fifth of the pauses is longer than 8 minutes."""
    pause_spread: float = 1.4
    call_bytes: float = 9_000.0
    """What one call adds to the log."""
    life_calls: float = 175.0
    """Calls of a session in all its days, of which it keeps every line."""
    busy_share: float = 0.7
    """The share of visits that begins in the ten busiest hours."""


class Costs(Struct, frozen=True):
    """What was measured."""

    appends_per_second: float = 2_356.0
    """Forced appends that one server takes from eight writers at once."""
    resume_cpu_ms: float = 20.6
    """Processor time of a worker for opening a session with 1,000 messages in its context."""
    turn_cpu_ms: float = 5.0
    """Processor time of a worker for a turn of two calls, without its tools."""
    row_overhead: float = 1.13
    """Bytes in the tables for each byte of lines of the usual size."""


class Day(Struct):
    """What happened in each minute, in the sample."""

    calls: Counter[int]
    resumes: dict[int, Counter[int]]
    """By how many minutes a worker keeps a session open after an answer."""
    open: dict[int, defaultdict[int, float]]
    """Sessions that are open, by the same."""
    bytes: float = 0.0


class Need(Struct, frozen=True):
    """What all sessions together need."""

    calls_per_second: float
    """In the busiest minute."""
    appends_per_second: float
    terabytes: float
    """In the tables, indexes included."""
    gigabytes_a_day: float
    resumes_per_second: dict[int, float]
    open_sessions: dict[int, float]
    worker_cores: dict[int, float]

    def servers(self, costs: Costs) -> float:
        """How many servers the appends of the busiest minute fill."""
        return self.appends_per_second / costs.appends_per_second


def simulate(sample: int, habits: Habits, seed: int = 1) -> Day:
    """Let the sessions of a sample live through a day."""
    chance = random.Random(seed)
    day = Day(
        Counter(),
        {warm: Counter() for warm in WARM_MINUTES},
        {warm: defaultdict(float) for warm in WARM_MINUTES},
    )
    for _ in range(sample):
        if chance.random() < habits.active:
            for _ in range(_at_least_one(chance, habits.visits)):
                _visit(day, chance, habits)
    return day


def _visit(day: Day, chance: random.Random, habits: Habits) -> None:
    minute = _start(chance, habits)
    idle: float | None = None
    for _ in range(_at_least_one(chance, habits.turns)):
        for warm in WARM_MINUTES:
            if idle is None or idle > warm:
                day.resumes[warm][int(minute) % MINUTES] += 1
        for _ in range(_at_least_one(chance, habits.calls)):
            day.calls[int(minute) % MINUTES] += 1
            day.bytes += chance.expovariate(1 / habits.call_bytes)
            seconds = chance.expovariate(1 / habits.call_seconds)
            _stay_open(day, minute, seconds / 60)
            minute += seconds / 60
        idle = chance.lognormvariate(math.log(habits.pause_minutes), habits.pause_spread)
        for warm in WARM_MINUTES:
            _stay_open(day, minute, min(idle, warm), only=warm)
        minute += idle


def _stay_open(day: Day, minute: float, minutes: float, only: int | None = None) -> None:
    """Count how long a session is open, in session-minutes."""
    for warm in WARM_MINUTES if only is None else (only,):
        left = minutes
        at = minute
        while left > 0:
            share = min(left, 1 - at % 1)
            day.open[warm][int(at) % MINUTES] += share
            at += share
            left -= share


def _start(chance: random.Random, habits: Habits) -> float:
    """When a visit begins, in minutes of the day."""
    busy = 10 * 60
    if chance.random() < habits.busy_share:
        return chance.uniform(8 * 60, 8 * 60 + busy)
    return (8 * 60 + busy + chance.uniform(0, MINUTES - busy)) % MINUTES


def _at_least_one(chance: random.Random, mean: float) -> int:
    """A count of 1, 2, 3… with this mean, each one more as probable as the one before."""
    return 1 + int(math.log(1 - chance.random()) / math.log(1 - 1 / mean)) if mean > 1 else 1


def need(day: Day, sessions: int, sample: int, habits: Habits, costs: Costs) -> Need:
    """What so many sessions need, given the day of a sample."""
    scale = sessions / sample
    calls = _peak(day.calls) * scale / 60
    day_bytes = day.bytes * scale
    kept = sessions * habits.life_calls * habits.call_bytes
    resumes = {warm: _peak(counts) * scale / 60 for warm, counts in day.resumes.items()}
    turns = _peak(day.calls) * scale / 60 / habits.calls
    return Need(
        calls,
        calls * APPENDS_PER_CALL,
        kept * costs.row_overhead / 1e12,
        day_bytes / 1e9,
        resumes,
        {warm: _peak(counts) * scale for warm, counts in day.open.items()},
        {
            warm: (each * costs.resume_cpu_ms + turns * costs.turn_cpu_ms * habits.calls / 2) / 1_000
            for warm, each in resumes.items()
        },
    )


def _peak(counts: Mapping[int, float]) -> float:
    """The busiest of 96 quarters of an hour, for each minute: single minutes of a sample say little."""
    quarters = [
        sum(counts.get(minute, 0) for minute in range(start, start + 15)) for start in range(0, MINUTES, 15)
    ]
    return max(quarters) / 15


# -- measuring -------------------------------------------------------------------------------------


def measure(seconds: float = 5.0, writers: int = 8, messages: int = 1_000) -> Costs:
    """Measure appends and a resume on this machine."""
    import sevenfold
    from bench.servers.postgres import APP, OWNER, PostgresServer
    from sevenfold.stores.postgres.database import migrate
    from sevenfold.stores.postgres.store import PostgresStore

    with PostgresServer(durable=True) as server, tempfile.TemporaryDirectory() as home:
        migrate(server.url(OWNER))
        server.grant()
        store = PostgresStore.at(server.url(APP, tenant="bench", connections=str(writers)))
        appended = [0] * writers
        until = time.monotonic() + seconds

        def write(number: int) -> None:
            log = store.open(f"s{number}")
            while time.monotonic() < until:
                log.append([b'{"type":"user","message":{"role":"user","content":"%b"}}\n' % (b"x" * 3_000)])
                appended[number] += 1
            log.close()

        threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        opened = partial(
            sevenfold.Session.open,
            "long",
            model="claude-sonnet-5-5",
            store=store,
            folder=Path(home),
            settings={"context_window": 1_000_000, "notes": False},
        )
        resumes = _resumes(opened, messages)
        store.close()
    defaults = Costs()
    return Costs(sum(appended) / seconds, resumes, defaults.turn_cpu_ms, defaults.row_overhead)


def _resumes(opened: Callable[[], Session], messages: int) -> float:
    """The processor time of opening a session, in milliseconds."""
    with opened() as session:
        session.messages(
            {"role": ("user", "assistant")[number % 2], "content": f"Message {number}. " + "words " * 300}
            for number in range(messages)
        )
    times = []
    for _ in range(5):
        began = time.process_time()
        opened().close()
        times.append((time.process_time() - began) * 1_000)
    return statistics.median(times)


# -- the report ------------------------------------------------------------------------------------


def report(needed: Need, costs: Costs, sessions: int) -> str:
    """All figures, as text."""
    lines = [
        f"{sessions:,} sessions; the busiest quarter of an hour:",
        f"  calls to models        {needed.calls_per_second:10,.0f} a second",
        f"  appends                {needed.appends_per_second:10,.0f} a second, "
        f"{needed.servers(costs):.1f} x what one server took here ({costs.appends_per_second:,.0f})",
        f"  added                  {needed.gigabytes_a_day:10,.0f} GB a day",
        f"  in the tables          {needed.terabytes:10,.2f} TB",
        "  a worker keeps a session open after an answer for",
    ]
    lines += [
        f"    {warm:3} minutes: {needed.resumes_per_second[warm]:6,.0f} resumes a second, "
        f"{needed.open_sessions[warm]:8,.0f} sessions open, {needed.worker_cores[warm]:5,.1f} cores of workers"
        for warm in WARM_MINUTES
    ]
    return "\n".join(lines)


def main() -> int:
    """Simulate and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=1_000_000)
    parser.add_argument("--sample", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--measure", action="store_true")
    options = parser.parse_args()
    habits = Habits()
    costs = measure() if options.measure else Costs()
    day = simulate(options.sample, habits, options.seed)
    print(report(need(day, options.sessions, options.sample, habits, costs), costs, options.sessions))
    if options.measure:
        print(f"  measured: resuming {costs.resume_cpu_ms:.1f} ms of processor time")
    return 0


if __name__ == "__main__":
    sys.exit(main())
