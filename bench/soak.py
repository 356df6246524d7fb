"""Run an agent for a thousand turns with a provider that sometimes fails, and check its requests, memory and log.

    python bench/soak.py [--turns N] [--seed N]

The agent has its standard tools, a project in a scratch folder and a window of 60,000 tokens. The provider is simulated
in a separate process; it refuses about one request in twenty and cuts off some answers in the middle. The run must
finish without a request that breaks a rule, memory must not grow with the turns, the session opened once more must
send, byte for byte, the same next request, and past requests must be reproducible from the transcript. Pauses before
retries are skipped.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from multiprocessing.connection import Connection
from pathlib import Path

import anthropic
from msgspec import Struct

import sevenfold
from sevenfold.conversation.flow import Signal
from sevenfold.events import Acted, Answered, Event, Failed
from sevenfold.lab.demo.harbour import Part, harbour, write
from sevenfold.lab.demo.script import PYTHON, Assistant, Move, Plan, play, todo
from sevenfold.lab.simulator.faults import Fault, Faults
from sevenfold.lab.simulator.provider import RateLimits, Setup, Simulator
from sevenfold.lab.simulator.server import serve

TURNS = 1_000
MODEL = "claude-opus-4-6"
WINDOW = 60_000
PARTS = 12
EVERY = 25
"""The number of turns between two memory samples."""
SETTLED = 0.4
"""The share of the run after which memory should stop growing: caches are full and every layer has acted."""
MOST_GROWTH = 10.0
"""The highest growth from then on, in KB per turn."""
LOOKED_AT = 12
"""The number of past requests that are rebuilt from the transcript."""
FAULTS = (
    (0.02, Fault("overloaded")),
    (0.02, Fault("server_error")),
    (0.01, Fault("rate_limited", retry_after=1.0)),
    (0.015, Fault("cut_stream", after=4)),
    (0.005, Fault("cut_stream", after=6, clean=True)),
    (0.005, Fault("error_event", after=3)),
    (0.005, Fault("malformed_event", after=3)),
)
HONEST = {200, 429, 500, 529}
"""The expected statuses; any other would mean that a request broke a rule."""


class Soaked(Struct, frozen=True):
    """The result of a run."""

    turns: int
    end: str
    statuses: dict[int, int]
    failures: int
    layers: dict[str, int]
    memory: tuple[tuple[int, float], ...]
    """Memory samples: the turn, and the resident MB."""
    same_after: bool
    """Whether the reopened session makes the same request."""
    remade: int
    """The number of past requests rebuilt from the transcript with the same bytes that the provider had received."""
    seconds: float

    @property
    def growth(self) -> float:
        """The growth in KB per turn once memory has settled: the slope of the best-fitting line."""
        late = [point for point in self.memory if point[0] >= SETTLED * self.turns]
        return 1_024 * slope(late)


# The work


def work(parts: Sequence[Part], turns: int) -> Plan:
    """Read, change and test one part after another, for this many turns."""
    done = 0
    for number in range(turns):
        done += yield from counted(one_round(parts[number % len(parts)], number))
        if done >= turns:
            break
    return "That is all."


def counted(plan: Plan) -> Generator[Move, Sequence[str], int]:
    """Run a plan and return the number of moves it made."""
    moves = 0
    sent: Sequence[str] | None = None
    while True:
        try:
            move = next(plan) if sent is None else plan.send(sent)
        except StopIteration:
            return moves
        moves += 1
        sent = yield move


def one_round(part: Part, number: int) -> Plan:
    """Visit one part: read it, add a comment to its limit, sometimes run the tests, and update the to-do list."""
    name, limit = part["plural"], f"MOST_{part['UNIT']}"
    mark = f"{limit} = {part['most']}"
    thought = (
        f"Visit {number} to {name}: I look at all of it before I change its limit, and test it afterwards."
    )
    both = ("Read", {"path": part["module"]}), ("Read", {"path": part["test"]})
    yield from play(Move(f"Visit {number}: {name}.", both, thought))
    search = {"pattern": limit, "path": ".", "show": "lines", "context": 1}
    yield from play(Move("Who uses the limit?", (("Grep", search),)))
    old = f"{mark}\n" if number < PARTS else f"{mark}  # visit {number - PARTS}\n"
    change = {"path": part["module"], "old": old, "new": f"{mark}  # visit {number}\n"}
    yield from play(Move("A note beside it.", (("Edit", change),)))
    if number % 4 == 0:
        yield from play(Move("The tests.", (("Shell", {"command": f"{PYTHON} check.py {name}"}),)))
    if number % 9 == 0:
        yield from play(Move("The week at the gate.", (("Shell", {"command": "cat logs/east-gate.log"}),)))
    todos = todo({f"visit {number + 1}": "pending", f"visit {number}": "completed"})
    yield from play(Move("So far.", (("Todo", todos),)))
    return ""


# The provider


def provide(pipe: Connection, turns: int, seed: int) -> None:
    """Serve until asked to stop, then send the statuses and the hashes of all requests."""
    assistant = Assistant(iter([work(harbour(PARTS, 0), turns)]))
    setup = Setup(limits=RateLimits(input_tokens=10**12, requests=10**9), chunk=200, log_bytes=8_000_000)
    simulator = Simulator(assistant, setup, faults=Faults(chances=FAULTS, seed=seed))
    statuses: Counter[int] = Counter()
    got: list[bytes] = []
    with serve(simulator) as url:
        pipe.send(url)
        seen = 0
        while not pipe.poll(0.2):
            seen = take(simulator, seen, statuses, got)
        take(simulator, seen, statuses, got)
    pipe.send((dict(statuses), got))


def take(simulator: Simulator, seen: int, statuses: Counter[int], got: list[bytes]) -> int:
    """Record the requests received since the last call; return the number of the newest."""
    for received in simulator.requests:
        if received.number > seen and received.status:
            statuses[received.status] += 1
            got.append(sha256(received.raw).digest())
            seen = received.number
    return seen


@contextmanager
def provider(turns: int, seed: int) -> Iterator[tuple[str, Connection]]:
    """Run a provider in a separate process, so that its memory is not counted as the agent's."""
    ours, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=provide, args=(theirs, turns, seed), daemon=True)
    process.start()
    try:
        yield ours.recv(), ours
    finally:
        process.terminate()
        process.join()
        ours.close()


# The agent


class Swift(Signal):
    """A signal whose pauses end at once."""

    def wait(self, seconds: float) -> bool:
        """Do not wait."""
        return super().wait(0)


class Watching:
    """Counts the engine's events and samples the memory regularly."""

    def __init__(self) -> None:
        self.turns = self.failures = 0
        self.layers: Counter[str] = Counter()
        self.memory: list[tuple[int, float]] = []

    def hear(self, event: Event) -> None:
        """Count an event."""
        match event:
            case Answered(source="main"):
                self.turns += 1
                if self.turns % EVERY == 0:
                    gc.collect()
                    self.memory.append((self.turns, resident()))
            case Failed():
                self.failures += 1
            case Acted(layer=layer):
                self.layers[layer] += 1
            case _:
                pass


def opened(sdk: anthropic.Anthropic, folder: Path, watching: Watching) -> sevenfold.Agent:
    """Return the agent, new or resumed."""
    agent = sevenfold.Agent(
        MODEL,
        name="soak",
        folder=folder,
        mode="autonomous",
        client=sdk,
        settings={"context_window": WINDOW},
        listen=[watching.hear],
        thinking={"type": "adaptive"},
    )
    agent.assembly.loop.signals = Swift
    return agent


def next_request(sdk: anthropic.Anthropic, folder: Path, *, says: str = "") -> tuple[bytes, list[bytes]]:
    """Return the next request, and the hashes of some past requests, rebuilt from the transcript."""
    agent = opened(sdk, folder, Watching())
    try:
        if says:
            agent.session.user(says)
        last = agent.session.gauge.requests - 1
        places = sorted({last * place // (LOOKED_AT - 1) for place in range(LOOKED_AT)}) if says else []
        past = [sha256(streamed(agent.session.at(place))).digest() for place in places]
        return agent.session.prepare().body, past
    finally:
        agent.close()


def streamed(body: bytes) -> bytes:
    """Return a body as a streaming client sends it."""
    return body[:-1] + b',"stream":true}'


def measure(turns: int = TURNS, seed: int = 1) -> Soaked:
    """Let an agent work for this many turns, then reopen its session."""
    began, watching = time.monotonic(), Watching()
    with _folder() as folder, provider(turns, seed) as (url, pipe):
        write(harbour(PARTS, 0), folder)
        with anthropic.Anthropic(base_url=url, api_key="simulated-key", max_retries=0) as sdk:
            agent = opened(sdk, folder, watching)
            try:
                finished = agent.run(
                    "Visit every part again and again, and note each visit beside its limit."
                )
            finally:
                agent.close()
            first, past = next_request(sdk, folder, says="What is next?")
            second, _ = next_request(sdk, folder)
        pipe.send("stop")
        statuses, got = pipe.recv()
    return Soaked(
        watching.turns,
        finished.end,
        statuses,
        watching.failures,
        dict(watching.layers),
        tuple(watching.memory),
        same_after=first == second,
        remade=sum(digest in set(got) for digest in past),
        seconds=time.monotonic() - began,
    )


@contextmanager
def _folder() -> Iterator[Path]:
    """Yield a project folder in a scratch folder that also holds a separate home."""
    made = Path(tempfile.mkdtemp(prefix="sevenfold-soak-")).resolve()
    before = os.environ.get("SEVENFOLD_HOME")
    os.environ["SEVENFOLD_HOME"] = str(made / "home")
    (made / "project").mkdir()
    try:
        yield made / "project"
    finally:
        os.environ.pop("SEVENFOLD_HOME")
        if before is not None:
            os.environ["SEVENFOLD_HOME"] = before
        shutil.rmtree(made, ignore_errors=True)


# Memory


def resident() -> float:
    """Return the resident memory of this process in MB; NaN if the system does not report it."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return float("nan")
    return pages * os.sysconf("SC_PAGE_SIZE") / 1_048_576


def slope(points: Sequence[tuple[int, float]]) -> float:
    """Return the slope of the line that fits the points best."""
    if len(points) < 2:
        return 0.0
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread


# The verdict


def bars(soaked: Soaked, turns: int) -> list[tuple[str, str, bool]]:
    """Return the acceptance bars: (name, figure, met)."""
    broken = {status: times for status, times in soaked.statuses.items() if status not in HONEST}
    return [
        (
            "the run comes to its end",
            f"{soaked.end} after {soaked.turns} turns",
            soaked.end == "done" and soaked.turns > turns,
        ),
        ("no request breaks a rule", f"{broken or 'none'} of {sum(soaked.statuses.values())}", not broken),
        ("failures met", f"{soaked.failures}", soaked.failures > 0),
        (
            "memory, KB a turn",
            f"{soaked.growth:.1f}, at most {MOST_GROWTH:g}",
            not soaked.growth > MOST_GROWTH,
        ),
        ("opened again, the next request is the same", str(soaked.same_after), soaked.same_after),
        (
            "past requests made again, byte for byte",
            f"{soaked.remade} of {LOOKED_AT}",
            soaked.remade == LOOKED_AT,
        ),
    ]


def main(arguments: Sequence[str]) -> int:
    """Run and print; return exit status 0 if all bars are met, else 1."""
    parser = argparse.ArgumentParser(description="A long run with a provider that fails now and then.")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    soaked = measure(options.turns, options.seed)
    print(
        f"{soaked.turns} turns in {soaked.seconds:.0f} s; layers: {soaked.layers}; answers: {soaked.statuses}"
    )
    print(
        "memory, MB by turn: "
        + "  ".join(
            f"{turn}: {size:.0f}" for turn, size in soaked.memory[:: max(1, len(soaked.memory) // 10)]
        )
    )
    judged = bars(soaked, options.turns)
    for name, figure, met in judged:
        print(f"{'pass' if met else 'FAIL'}  {name}: {figure}")
    return 0 if all(met for *_, met in judged) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
