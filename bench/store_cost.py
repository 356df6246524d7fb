"""What sessions in PostgreSQL cost, beside those in JSONL in the same run.

    python bench/store_cost.py [--sessions N] [--turns N] [--messages N]      default: 1000000 200 10000

Turns of two calls with a tool, resuming a long session, and appending with N sessions of ten lines of 300 bytes in the
tables (loaded with COPY and analysed), beside a second server with none; listing the newest and erasing 1,000 of these;
how large it is.
Both stores take turns, so that other load on the machine affects both. The server is on this machine, on a socket.
JSONL forces to disk where a session wants it to, and PostgreSQL does so with ``forced=no``; both are measured with
every append forced, too. Medians.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import psycopg
from msgspec import Struct

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import sevenfold  # noqa: E402  # needs the path above
from bench.servers.postgres import APP, OWNER, PostgresServer  # noqa: E402
from sevenfold.ports import Store  # noqa: E402
from sevenfold.stores.jsonl.log import Sync  # noqa: E402
from sevenfold.stores.jsonl.store import JsonlStore  # noqa: E402
from sevenfold.stores.postgres.database import migrate  # noqa: E402
from sevenfold.stores.postgres.store import PostgresStore  # noqa: E402

MODEL = "claude-sonnet-5-5"
LINES, LINE_BYTES = 10, 300
ERASED = 1_000
APPENDS = 2_000
ROWS_AT_ONCE = 10_000
RESUMES = 7
LISTINGS = 21
MOST_TURN = MOST_RESUME = 1.6
MOST_APPEND = 1.2
MOST_ERASE_SECONDS = 5.0
MOST_LIST_MS = 10.0
LISTED = 50
SECONDS_BETWEEN = 8
"""Between the last changes of two loaded sessions: a million of them are spread over a quarter."""
READ = sevenfold.tool(
    {"name": "Read", "description": "Read.", "input_schema": {"type": "object"}}, kind="read"
)
PADDING = "words that a session is made of, " * 10


class Costs(Struct):
    """All figures, in milliseconds unless their names say otherwise."""

    turn: dict[str, float]
    resume: dict[str, float]
    append_empty: float = 0.0
    append_full: float = 0.0
    append_worst: float = 0.0
    sessions: int = 0
    load_seconds: float = 0.0
    listing: float = 0.0
    erase_seconds: float = 0.0
    size_ratio: float = 0.0


def timed(work: Callable[[], object]) -> float:
    """How long some work takes."""
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1_000


def turns(stores: dict[str, Store], number: int, folder: Path) -> dict[str, float]:
    """The median of a turn in each store."""
    opened = {
        name: sevenfold.Session.open(
            "turns",
            model=MODEL,
            store=store,
            folder=folder,
            tools=[READ],
            client=sevenfold.OfflineClient(sevenfold.Script(_steps(number))),
            settings={"context_window": 1_000_000, "notes": False},
        )
        for name, store in stores.items()
    }
    times: dict[str, list[float]] = {name: [] for name in stores}
    for turn in range(number):
        for name, session in opened.items():
            times[name].append(timed(partial(_turn, session, turn)))
    for session in opened.values():
        session.close()
    return {name: statistics.median(taken) for name, taken in times.items()}


def _turn(session: sevenfold.Session, number: int) -> None:
    session.user(f"Question {number}. {PADDING}")
    asked = session.complete()
    session.tool_results({call.id: PADDING for call in asked.calls})
    session.complete()


def _steps(number: int) -> Iterator[Any]:
    for turn in range(number):
        yield [{"type": "tool_use", "name": "Read", "id": f"toolu_{turn}", "input": {}}]
        yield f"Answer {turn}. {PADDING}"


def resumes(stores: dict[str, Store], number: int, folder: Path) -> dict[str, float]:
    """The median of opening a session of so many messages in each store."""
    options = {"context_window": 1_000_000_000, "notes": False}
    first, *others = stores.values()
    with sevenfold.Session.open(
        "long", model=MODEL, store=first, folder=folder, settings=options
    ) as session:
        session.messages(
            {"role": ("user", "assistant")[position % 2], "content": f"Message {position}. {PADDING}"}
            for position in range(number)
        )
    for other in others:
        other.import_("long", first.export("long"))
    times: dict[str, list[float]] = {name: [] for name in stores}
    for _ in range(RESUMES):
        for name, store in stores.items():

            def resume(store: Store = store) -> None:
                sevenfold.Session.open(
                    "long", model=MODEL, store=store, folder=folder, settings=options
                ).close()

            times[name].append(timed(resume))
    return {name: statistics.median(taken) for name, taken in times.items()}


def appends_beside(stores: dict[str, Store], session: str) -> dict[str, list[float]]:
    """The times of single appends in each store, sorted; they take turns, so that other load affects all of them."""
    logs = {name: store.open(session) for name, store in stores.items()}
    times: dict[str, list[float]] = {name: [] for name in stores}
    text = b"x" * (LINE_BYTES - 80)
    for number in range(APPENDS):
        line = b'{"type":"user","uuid":"u%d","message":{"role":"user","content":"%b"}}\n' % (number, text)
        for name, log in logs.items():
            times[name].append(timed(partial(log.append, [line])))
    for log in logs.values():
        log.close()
    return {name: sorted(taken) for name, taken in times.items()}


def load(url: str, tenant: int, sessions: int) -> None:
    """Fill the tables with sessions, by COPY."""
    text = "x" * (LINE_BYTES - 60)
    with psycopg.connect(url) as connection:
        connection.execute("SELECT set_config('sevenfold.tenant', %s, true)", (str(tenant),))
        ((first,),) = connection.execute(
            "SELECT nextval(pg_get_serial_sequence('sevenfold.log', 'id'))"
        ).fetchall()
        now = time.time()
        logs = (
            f"{first + n}\t{tenant}\t\tloaded-{n}\t{LINES * LINE_BYTES}"
            f"\t{datetime.fromtimestamp(now - n * SECONDS_BETWEEN, UTC).isoformat()}\n"
            for n in range(sessions)
        )
        _copy(connection, b"log (id, tenant, project, session, size, modified)", logs)
        # In a bytea, COPY wants a backslash twice.
        lines = (
            f"{first + n}\t{line * LINE_BYTES}\t{tenant}\t"
            + f'{{"type":"user","uuid":"{n}-{line}","content":"{text}'[: LINE_BYTES - 3]
            + '"}\\\\012\n'
            for n in range(sessions)
            for line in range(LINES)
        )
        _copy(connection, b"line (log, position, tenant, raw)", lines)
        marks = (
            f"{first + n}\t{hash((n, line))}\t{line * LINE_BYTES}\t{tenant}\n"
            for n in range(sessions)
            for line in range(LINES)
        )
        _copy(connection, b"mark (log, name, position, tenant)", marks)
        connection.execute(
            "SELECT setval(pg_get_serial_sequence('sevenfold.log', 'id'), %s)", (first + sessions,)
        )
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE sevenfold.log, sevenfold.line, sevenfold.mark")


def _copy(connection: psycopg.Connection[Any], table: bytes, rows: Iterator[str]) -> None:
    with connection.cursor().copy(b"COPY sevenfold." + table + b" FROM STDIN") as copy:
        while batch := "".join(islice(rows, ROWS_AT_ONCE)):
            copy.write(batch)


def size_ratio(url: str, sessions: int) -> float:
    """The bytes of the tables with their indexes, over those of the loaded lines."""
    query = (
        "SELECT sum(pg_total_relation_size(oid)) FROM pg_class"
        " WHERE relnamespace = 'sevenfold'::regnamespace AND relkind = 'r'"
    )
    with psycopg.connect(url) as connection:
        ((size,),) = connection.execute(query).fetchall()
    return float(size) / (sessions * LINES * LINE_BYTES)


def measure(*, sessions: int = 1_000_000, turns_: int = 200, messages: int = 10_000) -> Costs:
    """Measure everything in one run."""
    with (
        PostgresServer(durable=True, shared_buffers="256MB") as server,
        tempfile.TemporaryDirectory() as home,
    ):
        migrate(server.url(OWNER))
        server.grant()
        store = PostgresStore.at(server.url(APP, tenant="bench"))
        folder = Path(home)
        relaxed = PostgresStore.at(server.url(APP, tenant="relaxed", forced="no"))
        forced = JsonlStore(folder / "forced", sync=Sync.ALWAYS)
        stores: dict[str, Store] = {
            "jsonl": JsonlStore(folder / "sessions"),
            "postgres": relaxed,
            "jsonl, forced": forced,
            "postgres, forced": store,
        }
        costs = Costs(turn=turns(stores, turns_, folder), resume=resumes(stores, messages, folder))
        relaxed.close()
        costs.sessions = sessions
        costs.load_seconds = timed(lambda: load(server.url(OWNER), store._tenant, sessions)) / 1_000
        costs.size_ratio = size_ratio(server.url(OWNER), sessions)
        with PostgresServer(durable=True, shared_buffers="256MB") as without:
            migrate(without.url(OWNER))
            without.grant()
            empty = PostgresStore.at(without.url(APP, tenant="bench"))
            beside: dict[str, Store] = {"full": store, "empty": empty}
            appends_beside(beside, "warm")
            times = appends_beside(beside, "measured")
            empty.close()
        costs.append_empty = times["empty"][APPENDS // 2]
        costs.append_full, costs.append_worst = times["full"][APPENDS // 2], times["full"][-1]
        costs.listing = statistics.median(
            timed(partial(store.sessions, limit=LISTED)) for _ in range(LISTINGS)
        )
        erased = min(ERASED, sessions)
        costs.erase_seconds = (
            sum(timed(partial(store.erase, f"loaded-{number}")) for number in range(erased)) / 1_000
        )
        store.close()
    return costs


def bars(costs: Costs) -> list[tuple[str, bool, str, str]]:
    """Each bar: what it is about, whether it is met, the figure, the bar."""
    append = costs.append_full / costs.append_empty
    return [
        _beside("a turn of two calls, to JSONL's", costs.turn, "", MOST_TURN),
        _beside("a turn with every append forced, to JSONL's", costs.turn, ", forced", MOST_TURN),
        _beside("resuming, to JSONL's", costs.resume, "", MOST_RESUME),
        (
            f"an append with {costs.sessions:,} sessions in the tables, to one with none",
            append <= MOST_APPEND,
            f"{append:.2f} ({costs.append_full:.2f} and {costs.append_empty:.2f} ms, worst {costs.append_worst:.0f})",
            f"at most {MOST_APPEND}",
        ),
        (
            f"listing the {LISTED} newest of {costs.sessions:,} sessions",
            costs.listing <= MOST_LIST_MS,
            f"{costs.listing:.1f} ms",
            f"at most {MOST_LIST_MS:g} ms",
        ),
        (
            f"erasing {min(ERASED, costs.sessions):,} of them",
            costs.erase_seconds <= MOST_ERASE_SECONDS,
            f"{costs.erase_seconds:.1f} s",
            f"at most {MOST_ERASE_SECONDS:g} s",
        ),
    ]


def _beside(name: str, times: dict[str, float], how: str, most: float) -> tuple[str, bool, str, str]:
    ours, theirs = times[f"postgres{how}"], times[f"jsonl{how}"]
    return (
        name,
        ours / theirs <= most,
        f"{ours / theirs:.2f} ({ours:.1f} and {theirs:.1f} ms)",
        f"at most {most}",
    )


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--messages", type=int, default=10_000)
    given = parser.parse_args()
    costs = measure(sessions=given.sessions, turns_=given.turns, messages=given.messages)
    for name, met, figure, bar in bars(costs):
        print(f"{'pass' if met else 'FAIL'}  {name}: {figure}, {bar}")
    print(
        f"      size of the tables: {costs.size_ratio:.2f} x the lines; loaded in {costs.load_seconds:.0f} s"
    )
    return 0 if all(met for _, met, _, _ in bars(costs)) else 1


if __name__ == "__main__":
    sys.exit(main())
