"""What one turn costs locally: append, fold, count and encode, by the length of the session.

    python bench/turn_cost.py [MESSAGES...]      default: 100 1000 10000 100000

The same records are also written the bare way (encode, append) in the same run, and a request body is
joined from the view's parts and from the same bytes in a plain list: those are the floors. Sessions of all
lengths are built first and then take turns, each turn followed by its floor, so that whatever else the
machine does falls on all of them alike; medians are compared. Very long sessions are measured apart.

The floor is the same work at every length, and it is mostly two `write` calls to a file in memory, where the system
has such a folder. Everything is measured five times and the median counts: whatever else the machine does falls on a
turn and on its floor alike. Times are CPU time on whatever machine this is; ratios are what counts. Peers are measured
by `bench/peers`.
"""

from __future__ import annotations

import gc
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from sevenfold.clock import ManualClock, RandomIds
from sevenfold.conversation.transcript import Transcript
from sevenfold.profiles import find
from sevenfold.record import blocks
from sevenfold.record.gauge import Gauge
from sevenfold.record.log import Answer, Place
from sevenfold.stores.jsonl.log import JsonlLog, Sync

SIZES = (100, 1_000, 10_000, 100_000)
RUNS = 5
"""Measurements, of which the median counts."""
ROUNDS = 150
JOINS = 15
"""Bodies joined at least…"""
MESSAGES_JOINED = 200_000
"""…and the number of messages that sets how many more, of short bodies: little disturbs them much."""
LONG = 50_000
"""Messages from which a session is measured apart, beside the first of the sizes."""
MOST_GROWTH = 1.5
MOST_OVER_FLOOR = 6.0
MOST_OVER_JOIN = 1.2

MODEL = "claude-sonnet-5-5"
WORDS = [
    a + b
    for a in ("lo", "ma", "ke", "tri", "su", "return ", "def ")
    for b in ("n", "ra", "x1", "s()", "e", "d.")
]


Row = dict[str, float]


class Turn(msgspec.Struct, frozen=True):
    """A prompt or a result, and the answer to it."""

    user: bytes
    answer: bytes
    number: int


def turns() -> Iterator[Turn]:
    """An endless session: results of 2 to 8 KB, now and then one of 100 KB."""
    chance = random.Random(7)
    stock = " ".join(chance.choice(WORDS) for _ in range(200_000))
    number = 0
    while True:
        number += 1
        size = 100_000 if number % 50 == 0 else chance.randint(2_000, 8_000)
        start = chance.randrange(len(stock) - size)
        user = {
            "type": "tool_result",
            "tool_use_id": f"toolu_{number - 1}",
            "content": stock[start : start + size],
        }
        call = {
            "type": "tool_use",
            "id": f"toolu_{number}",
            "name": "Read",
            "input": {"path": f"src/{number}.py"},
        }
        first = {"type": "text", "text": "please begin"}
        yield Turn(msgspec.json.encode(user if number > 1 else first), msgspec.json.encode(call), number)


class Ours:
    """The engine: every turn is written, folded, counted and encoded."""

    def __init__(self, path: Path) -> None:
        log = JsonlLog.open(path, sync=Sync.NEVER)
        self.script = Transcript(log, Place("bench"), clock=ManualClock(), ids=RandomIds())
        self.gauge = Gauge.of(find(MODEL))

    def turn(self, turn: Turn) -> None:
        self.script.user([blocks.read(turn.user)])
        self.gauge.size(self.script.view)
        usage = msgspec.Raw(b'{"input_tokens":%d,"output_tokens":50}' % (1000 + 1500 * turn.number))
        answer = Answer(f"msg_{turn.number}", MODEL, (blocks.read(turn.answer),), usage, "tool_use")
        if measured := self.script.model(answer):
            self.gauge = self.gauge.observe(measured)

    def body(self) -> bytes:
        """The messages of a request."""
        return b"".join(self.script.view.pieces())


class Bare:
    """The floor: the same records encoded and appended, nothing else."""

    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.encoder = msgspec.json.Encoder()

    def turn(self, records: list[Any]) -> None:
        for record in records:
            os.write(self.fd, self.encoder.encode(record) + b"\n")


class Session:
    """A session of some length, kept by the engine and the bare way."""

    def __init__(self, folder: Path, messages: int) -> None:
        self.messages = messages
        self._path = folder / f"ours-{messages}.jsonl"
        self._ours, self._bare = Ours(self._path), Bare(folder / f"bare-{messages}.jsonl")
        self._supply = turns()
        self._turns: list[tuple[float, float]] = []
        self._joins: list[tuple[float, float]] = []
        for _ in range(messages // 2):
            self._ours.turn(next(self._supply))

    def turn(self) -> None:
        """One more turn, both ways."""
        turn, size = next(self._supply), self._path.stat().st_size
        spent = cpu(lambda: self._ours.turn(turn))
        with self._path.open("rb") as file:
            file.seek(size)
            records = [msgspec.json.decode(line) for line in file]
        self._turns.append((spent, cpu(lambda: self._bare.turn(records))))

    def join(self) -> None:
        """The body of a request, both ways."""
        parts = self._ours.script.view.pieces()
        self._joins.append((cpu(self._ours.body), cpu(lambda: b"".join(parts))))

    def figures(self, first: float = 0.0) -> Row:
        """Medians, in CPU milliseconds, and how they compare; ``first`` is a turn of the first session."""
        turn, floor = map(statistics.median, zip(*self._turns, strict=True))
        join, plain = map(statistics.median, zip(*self._joins, strict=True))
        return {
            "messages": self.messages,
            "mb": len(self._ours.body()) / 1e6,
            "turn": turn,
            "floor": floor,
            "x_floor": turn / floor,
            "x_first": turn / (first or turn),
            "join": join,
            "x_join": join / plain,
        }

    def close(self) -> None:
        """Let go of the files."""
        self._ours.script.close()
        os.close(self._bare.fd)


def cpu(work: Callable[[], object]) -> float:
    """CPU milliseconds of one call; freeing what it returns is not part of it."""
    start = time.process_time_ns()
    made = work()
    spent = time.process_time_ns() - start
    del made
    return spent / 1e6


def _run(sizes: Sequence[int], rounds: int) -> list[Row]:
    """Sessions of these lengths side by side."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        warm = Session(Path(name), 0)
        for _ in range(2 * rounds):
            warm.turn()
        sessions = [Session(Path(name), size) for size in sizes]
        gc.collect()
        # What one session holds must not be looked through again and again in the turns of another.
        gc.freeze()
        chance = random.Random(7)
        for _ in range(rounds):
            for session in chance.sample(sessions, len(sessions)):
                session.turn()
        for session in sessions:
            for _ in range(max(JOINS, MESSAGES_JOINED // (session.messages + 1_000))):
                session.join()
        first = sessions[0].figures()["turn"]
        rows = [session.figures(first) for session in sessions]
        for session in [warm, *sessions]:
            session.close()
        gc.unfreeze()
    return rows


def _median(sizes: Sequence[int], runs: int, rounds: int) -> list[Row]:
    """The median of every figure over several runs."""
    measured = [_run(sizes, rounds) for _ in range(runs)]
    return [
        {key: statistics.median(row[key] for row in rows) for key in rows[0]}
        for rows in zip(*measured, strict=True)
    ]


def measure_all(sizes: Sequence[int] = SIZES, *, runs: int = RUNS, rounds: int = ROUNDS) -> list[Row]:
    """Costs at each session length: ours and the floors."""
    usual = [size for size in sizes if size < LONG or size == sizes[0]]
    rows = _median(usual, runs, rounds)
    for size in sizes:
        if size not in usual:
            rows.append(_median([sizes[0], size], runs, rounds)[1])
    return rows


def measure(messages: int) -> Row:
    """Costs at one session length: ours and the floors, in CPU milliseconds a turn (median)."""
    return measure_all([messages])[0]


def bars(rows: Sequence[Row]) -> list[tuple[str, float, float, bool]]:
    """What must hold at each length but the first: (name, figure, bar, met)."""
    found: list[tuple[str, float, float, bool]] = []
    for row in rows[1:]:
        label, first = f"{row['messages']:,.0f} messages", f"{rows[0]['messages']:,.0f}"
        growth, floor, join = row["x_first"], row["x_floor"], row["x_join"]
        found += [
            (f"{label}: a turn, x at {first}", growth, MOST_GROWTH, growth <= MOST_GROWTH),
            (
                f"{label}: a turn, x bare encode and append",
                floor,
                MOST_OVER_FLOOR,
                floor <= MOST_OVER_FLOOR,
            ),
            (f"{label}: a body, x bare join", join, MOST_OVER_JOIN, join <= MOST_OVER_JOIN),
        ]
    return found


def show(rows: Sequence[Row]) -> None:
    """Print the table."""
    heads = ("messages", "turn ms", "floor ms", "x floor", "x first", "join ms", "x join", "MB")
    print("".join(f"{head:>10}" for head in heads))
    for row in rows:
        print(
            f"{row['messages']:>10,.0f}{row['turn']:>10.3f}{row['floor']:>10.3f}{row['x_floor']:>10.1f}"
            f"{row['x_first']:>10.2f}{row['join']:>10.3f}{row['x_join']:>10.2f}{row['mb']:>10.1f}"
        )


def main(sizes: Sequence[int] = SIZES) -> int:
    """Measure, print, and say by the exit status whether all bars are met."""
    rows = measure_all(sizes)
    show(rows)
    for name, figure, bar, met in bars(rows):
        print(f"{'pass' if met else 'FAIL'}  {name}: {figure:.2f} (at most {bar})")
    return 0 if all(met for *_, met in bars(rows)) else 1


if __name__ == "__main__":
    raise SystemExit(main([int(argument) for argument in sys.argv[1:]] or SIZES))
