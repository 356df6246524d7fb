"""The local cost of one turn (append, fold, count, encode) at different session lengths.

    python bench/turn_cost.py [MESSAGES...]      default: 100 1000 10000 100000

Two floors are measured in the same run: the same records only encoded and appended, and a request body joined from a
plain list of the same bytes that the view's parts hold. Sessions of all lengths are built first and then run
interleaved, each turn followed by its floor, so that other load on the machine affects all of them equally. Medians
are compared. Very long sessions are measured separately.

The floor of a turn is the same work at every length: mostly two `write` calls, to a file in memory if the system has
`/dev/shm`. Everything is measured five times and the median is reported. Times are CPU time on the current machine, so
compare the ratios, not the absolute values. `bench/peers` measures other engines.
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
"""The number of measurements; the median is reported."""
ROUNDS = 150
JOINS = 15
"""The minimum number of bodies joined per session…"""
MESSAGES_JOINED = 200_000
"""…and the total messages to join, so that short bodies, whose times are noisier, are joined more often."""
LONG = 50_000
"""Sessions with at least this many messages are measured separately, together with the first size only."""
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
    """A user message (a prompt or a tool result) and the model's answer to it."""

    user: bytes
    answer: bytes
    number: int


def turns() -> Iterator[Turn]:
    """Yield the turns of an endless session: tool results of 2 to 8 KB, every 50th of 100 KB."""
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
    """The engine: each turn is appended, folded, counted and encoded."""

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
        """Return the messages of a request, encoded."""
        return b"".join(self.script.view.pieces())


class Bare:
    """The floor: encodes and appends the same records and does nothing else."""

    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.encoder = msgspec.json.Encoder()

    def turn(self, records: list[Any]) -> None:
        for record in records:
            os.write(self.fd, self.encoder.encode(record) + b"\n")


class Session:
    """A session of a given length, stored both by the engine and by the floor."""

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
        """Run and time one more turn, both ways."""
        turn, size = next(self._supply), self._path.stat().st_size
        spent = cpu(lambda: self._ours.turn(turn))
        with self._path.open("rb") as file:
            file.seek(size)
            records = [msgspec.json.decode(line) for line in file]
        self._turns.append((spent, cpu(lambda: self._bare.turn(records))))

    def join(self) -> None:
        """Join and time the body of a request, both ways."""
        parts = self._ours.script.view.pieces()
        self._joins.append((cpu(self._ours.body), cpu(lambda: b"".join(parts))))

    def figures(self, first: float = 0.0) -> Row:
        """Return median CPU milliseconds and their ratios; ``first`` is the turn time of the first session."""
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
        """Close the files."""
        self._ours.script.close()
        os.close(self._bare.fd)


def cpu(work: Callable[[], object]) -> float:
    """Return the CPU milliseconds of one call, not counting the time to free its result."""
    start = time.process_time_ns()
    made = work()
    spent = time.process_time_ns() - start
    del made
    return spent / 1e6


def _run(sizes: Sequence[int], rounds: int) -> list[Row]:
    """Measure sessions of these lengths, interleaved."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        warm = Session(Path(name), 0)
        for _ in range(2 * rounds):
            warm.turn()
        sessions = [Session(Path(name), size) for size in sizes]
        gc.collect()
        # Otherwise the garbage collector would scan the objects of one session during the turns of another.
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
    """Return the median of every figure over several runs."""
    measured = [_run(sizes, rounds) for _ in range(runs)]
    return [
        {key: statistics.median(row[key] for row in rows) for key in rows[0]}
        for rows in zip(*measured, strict=True)
    ]


def measure_all(sizes: Sequence[int] = SIZES, *, runs: int = RUNS, rounds: int = ROUNDS) -> list[Row]:
    """Measure the engine and the floors at each session length."""
    usual = [size for size in sizes if size < LONG or size == sizes[0]]
    rows = _median(usual, runs, rounds)
    for size in sizes:
        if size not in usual:
            rows.append(_median([sizes[0], size], runs, rounds)[1])
    return rows


def measure(messages: int) -> Row:
    """Measure the engine and the floors at one session length, in median CPU milliseconds per turn."""
    return measure_all([messages])[0]


def bars(rows: Sequence[Row]) -> list[tuple[str, float, float, bool]]:
    """Return the acceptance bars for each length but the first: (name, figure, bar, met)."""
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
    """Measure and print; return exit status 0 if all bars are met, else 1."""
    rows = measure_all(sizes)
    show(rows)
    for name, figure, bar, met in bars(rows):
        print(f"{'pass' if met else 'FAIL'}  {name}: {figure:.2f} (at most {bar})")
    return 0 if all(met for *_, met in bars(rows)) else 1


if __name__ == "__main__":
    raise SystemExit(main([int(argument) for argument in sys.argv[1:]] or SIZES))
