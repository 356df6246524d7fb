"""What one turn costs locally: append, fold, count and encode, by the length of the session.

The same records are also written the bare way (encode, append) in the same run, and a request body is
joined from the view's parts and from the same bytes in a plain list: those are the floors. Ratios are what
counts; times are CPU time on whatever machine this is. Peers are measured by `bench/peers`.
"""

from __future__ import annotations

import gc
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from sevenfold.adapters.jsonl import JsonlLog, Sync
from sevenfold.adapters.world import ManualClock, RandomIds
from sevenfold.profiles import find
from sevenfold.record import blocks
from sevenfold.record.gauge import Gauge
from sevenfold.record.log import Answer, Place
from sevenfold.runtime.transcript import Transcript

SIZES = (100, 1_000, 10_000, 100_000)
TURNS = 60
MODEL = "claude-sonnet-5-5"
WORDS = [a + b for a in ("lo", "ma", "ke", "tri", "su", "return ", "def ") for b in ("n", "ra", "x1", "s()", "e", "d.")]


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
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number - 1}", "content": stock[start : start + size]}
        user = result if number > 1 else {"type": "text", "text": "please begin"}
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": "Read", "input": {"path": f"src/{number}.py"}}
        yield Turn(msgspec.json.encode(user), msgspec.json.encode(call), number)


class Ours:
    """The engine: every turn is written, folded, counted and encoded."""

    def __init__(self, folder: Path) -> None:
        log = JsonlLog.open(folder / "ours.jsonl", sync=Sync.NEVER)
        self.script = Transcript(log, Place("bench"), clock=ManualClock(), ids=RandomIds())
        self.gauge = Gauge.of(find(MODEL))

    def turn(self, turn: Turn) -> None:
        self.script.user([blocks.read(turn.user)])
        self.gauge.size(self.script.view)
        usage = msgspec.Raw(b'{"input_tokens":%d,"output_tokens":50}' % (1000 + 1500 * turn.number))
        answer = Answer(f"msg_{turn.number}", MODEL, (blocks.read(turn.answer),), usage, "tool_use")
        if measured := self.script.model(answer):
            self.gauge = self.gauge.observe(measured)


class Bare:
    """The floor: the same records encoded and appended, nothing else."""

    def __init__(self, folder: Path) -> None:
        self.fd = os.open(folder / "bare.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.encoder = msgspec.json.Encoder()

    def prepare(self, lines: list[bytes]) -> list[Any]:
        return [msgspec.json.decode(line) for line in lines]

    def turn(self, records: list[Any]) -> None:
        for record in records:
            os.write(self.fd, self.encoder.encode(record) + b"\n")


def cpu(work: Callable[[], object]) -> float:
    """CPU milliseconds of one call."""
    start = time.process_time_ns()
    work()
    return (time.process_time_ns() - start) / 1e6


def measure(messages: int) -> dict[str, float]:
    """Costs at a session length: ours and the floors, in CPU milliseconds a turn (median)."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ours, bare, supply = Ours(folder), Bare(folder), turns()
        for _ in range(messages // 2):
            ours.turn(next(supply))
        gc.collect()
        gc.freeze()
        spent: list[float] = []
        floor: list[float] = []
        for _ in range(TURNS):
            turn = next(supply)
            size = (folder / "ours.jsonl").stat().st_size
            spent.append(cpu(lambda turn=turn: ours.turn(turn)))  # type: ignore[misc]
            with (folder / "ours.jsonl").open("rb") as file:
                file.seek(size)
                records = bare.prepare(file.readlines())
            floor.append(cpu(lambda records=records: bare.turn(records)))  # type: ignore[misc]
        parts = ours.script.view.encoded()
        joined = [cpu(lambda: b",".join(ours.script.view.encoded())) for _ in range(15)]
        plain = [cpu(lambda: b"".join(parts)) for _ in range(15)]
        ours.script.close()
        os.close(bare.fd)
        gc.unfreeze()
    return {
        "messages": messages,
        "turn": statistics.median(spent),
        "floor": statistics.median(floor),
        "join": statistics.median(joined),
        "plain_join": statistics.median(plain),
        "bytes": sum(map(len, parts)),
    }


def main(sizes: tuple[int, ...] = SIZES) -> list[dict[str, float]]:
    """Print the table; returns its rows."""
    print(f"{'messages':>9} {'turn ms':>9} {'floor ms':>9} {'x floor':>8} {'x at 100':>9} {'join ms':>9} {'x join':>7}")
    rows: list[dict[str, float]] = []
    for size in sizes:
        row = measure(size)
        rows.append(row)
        print(
            f"{size:>9,} {row['turn']:>9.3f} {row['floor']:>9.3f} {row['turn'] / row['floor']:>8.1f} "
            f"{row['turn'] / rows[0]['turn']:>9.2f} {row['join']:>9.3f} {row['join'] / row['plain_join']:>7.2f}",
            flush=True,
        )
    return rows


if __name__ == "__main__":
    result = main(tuple(map(int, sys.argv[1:])) or SIZES)
    if os.environ.get("SEVENFOLD_JSON"):
        print(json.dumps(result))
