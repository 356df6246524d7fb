"""A PostgreSQL server that is stopped at once while sessions are written, as by a power cut, and started again.

    python bench/outage.py [--writers N] [--stops N] [--relaxed]

Each writer appends numbered lines to a session of its own and notes which appends returned. It goes on through every
outage. In the end each session must hold its numbers once and in order. With `--relaxed` the server may lose the last
lines it confirmed; then the writer must be told so (`TranscriptLost`), opens the session again and goes on.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from bench.servers.postgres import OWNER, PostgresServer  # noqa: E402  # needs the path above
from sevenfold.errors import TranscriptLost  # noqa: E402
from sevenfold.stores.postgres.store import PostgresStore  # noqa: E402

SECONDS_BETWEEN = 2.0


class Outages(Struct):
    """What came of a run."""

    stops: int = 0
    appended: int = 0
    """Appends that returned."""
    told: int = 0
    """How often a writer was told that confirmed lines were lost."""
    lost: int = 0
    """Confirmed lines that are not there."""
    faults: int = 0
    """Lines that are there twice or out of order, and losses that nobody was told of."""

    def __str__(self) -> str:
        return (
            f"{self.stops} stops, {self.appended:,} appends confirmed, {self.lost:,} of them lost, writers told of a "
            f"loss {self.told} times, {self.faults} faults"
        )


def measure(*, writers: int = 8, stops: int = 5, relaxed: bool = False) -> Outages:
    """Write through outages, and compare."""
    outages = Outages(stops=stops)
    ended = threading.Event()
    with PostgresServer(durable=True) as server:
        store = PostgresStore.at(
            server.url(OWNER, forced="no" if relaxed else "yes", connections=str(writers))
        )

        def write(session: str) -> tuple[list[int], int]:
            """Append until the end; returns the numbers that were confirmed, and how often a loss was reported."""
            confirmed: list[int] = []
            told = number = 0
            log = store.open(session)
            while not ended.is_set():
                try:
                    log.append([b"%d\n" % number])
                except TranscriptLost:
                    told += 1
                    log.close()
                    log = store.open(session)
                    continue
                confirmed.append(number)
                number += 1
            log.append([b"end\n"])
            log.close()
            return confirmed, told

        with ThreadPoolExecutor(writers) as threads:
            names = [f"s{number}" for number in range(writers)]
            working = [threads.submit(write, name) for name in names]
            for _ in range(stops):
                time.sleep(SECONDS_BETWEEN)
                server.stop(at_once=True)
                server.start()
            time.sleep(SECONDS_BETWEEN)
            ended.set()
            for name, work in zip(names, working, strict=True):
                confirmed, told = work.result()
                there = [int(line) for _, line in store.read(name).read() if line != b"end\n"]
                missing = len(set(confirmed) - set(there))
                outages.appended += len(confirmed)
                outages.told += told
                outages.lost += missing
                outages.faults += (there != sorted(set(there))) + (missing > 0 and told == 0)
        store.close()
    return outages


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--stops", type=int, default=5)
    parser.add_argument("--relaxed", action="store_true")
    outages = measure(**vars(parser.parse_args()))
    print(outages)
    return bool(outages.faults)


if __name__ == "__main__":
    sys.exit(main())
