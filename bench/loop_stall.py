"""How long does a slow store hold up an event loop?

    python bench/loop_stall.py [--turns N] [--milliseconds N]

Each call to the store sleeps. An `AsyncSession` takes turns with large results on it, while a task of the same loop
wakes every millisecond and notes how much too late it was. Three comparisons run beside it: a loop in which nothing
else happens, because a busy machine is late by itself; the same turns on a store that does not sleep; and a `Session`
used in the loop itself, whose sleeps must show, or the measurement means nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from types import GeneratorType
from typing import Any

from msgspec import Struct

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import sevenfold  # noqa: E402  # needs the path above
from sevenfold.stores.memory import MemoryStore  # noqa: E402

TURNS = 20
STORE_SECONDS = 0.05
BEAT_SECONDS = 0.001
MOST_STALL_SECONDS = 0.005
BUILD = sevenfold.tool({"name": "Build", "input_schema": {"type": "object"}}, kind="shell")
RESULT = "compiled\n" * 20_000
SETTINGS = {"notes": False, "background_compaction": False}
"""Nothing else may ask the model, because its answers are a script."""
PARTS_OF_A_STORE = ("sevenfold.stores", "bench.loop_stall")


class SlowStore:
    """A store, or a part of one, whose every method sleeps before it does its work."""

    def __init__(self, part: Any, seconds: float, calls: list[str]) -> None:
        self._part = part
        self._seconds = seconds
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._part, name)
        if not callable(value):
            return value

        def slow(*arguments: Any, **options: Any) -> Any:
            self._calls.append(name)
            time.sleep(self._seconds)
            return self._slow(value(*arguments, **options))

        return slow

    def __enter__(self) -> Any:
        time.sleep(self._seconds)
        return self._slow(self._part.__enter__())

    def __exit__(self, *error: object) -> Any:
        return self._part.__exit__(*error)

    def _slow(self, result: Any) -> Any:
        if isinstance(result, GeneratorType):
            return self._each(result)
        is_part = type(result).__module__.startswith(PARTS_OF_A_STORE)
        return SlowStore(result, self._seconds, self._calls) if is_part else result

    def _each(self, items: Iterator[Any]) -> Iterator[Any]:
        time.sleep(self._seconds)
        yield from items


class Stalls(Struct, frozen=True):
    """How much too late a task of the loop woke while a session took turns."""

    store_calls: int
    late: list[float]
    """Seconds, for each time it woke."""

    @property
    def worst(self) -> float:
        """The longest stall."""
        return max(self.late)

    @property
    def over_limit(self) -> int:
        """How many stalls were longer than the limit."""
        return sum(seconds > MOST_STALL_SECONDS for seconds in self.late)


async def stalls_during(work: Callable[[], Awaitable[None]]) -> list[float]:
    """Run ``work`` beside a task that wakes every millisecond; how much too late that was, each time."""
    late: list[float] = []

    async def beat() -> None:
        while True:
            due = time.perf_counter() + BEAT_SECONDS
            await asyncio.sleep(BEAT_SECONDS)
            late.append(max(0.0, time.perf_counter() - due))

    beating = asyncio.create_task(beat())
    await asyncio.sleep(10 * BEAT_SECONDS)
    await work()
    beating.cancel()
    return late


def _script(turns: int) -> sevenfold.Script:
    answers: list[Any] = []
    for number in range(turns):
        call = {"type": "tool_use", "name": "Build", "id": f"toolu_{number}", "input": {}}
        answers += [[call], "It builds."]
    return sevenfold.Script(answers)


Step = Callable[[], Any]
"""One call of a session; that of an `AsyncSession` is to be awaited."""


def _steps(session: Any, turns: int) -> Iterator[Step]:
    """The calls with which a session takes turns; both kinds of sessions have the same methods."""
    for number in range(turns):
        yield partial(session.user, "Does it build?")
        yield session.complete
        yield partial(session.tool_results, {f"toolu_{number}": RESULT})
        yield session.complete


def of_async_session(turns: int, store_seconds: float) -> Stalls:
    """The stalls while an `AsyncSession` takes turns on a store that takes ``store_seconds`` for each call."""
    calls: list[str] = []
    store: Any = SlowStore(MemoryStore(), store_seconds, calls)

    async def work() -> None:
        client = sevenfold.AsyncOfflineClient(_script(turns))
        opening = sevenfold.AsyncSession.open(
            "s", model="claude-sonnet-5-5", store=store, tools=[BUILD], client=client, settings=SETTINGS
        )
        async with opening as session:
            for step in _steps(session, turns):
                await step()

    return Stalls(late=asyncio.run(stalls_during(work)), store_calls=len(calls))


def of_session_in_the_loop(turns: int, store_seconds: float) -> Stalls:
    """The stalls while a `Session`, which is not made for that, takes turns in the loop itself."""
    calls: list[str] = []
    store: Any = SlowStore(MemoryStore(), store_seconds, calls)

    async def work() -> None:
        client = sevenfold.OfflineClient(_script(turns))
        opened = sevenfold.Session.open(
            "s", model="claude-sonnet-5-5", store=store, tools=[BUILD], client=client, settings=SETTINGS
        )
        with opened as session:
            for step in _steps(session, turns):
                step()
                await asyncio.sleep(BEAT_SECONDS)  # lets the other task notice how late it is

    return Stalls(late=asyncio.run(stalls_during(work)), store_calls=len(calls))


def of_an_idle_loop(seconds: float) -> Stalls:
    """The stalls of a loop in which nothing else happens."""
    return Stalls(late=asyncio.run(stalls_during(lambda: asyncio.sleep(seconds))), store_calls=0)


def measure(turns: int = TURNS, store_seconds: float = STORE_SECONDS) -> dict[str, Stalls]:
    """All four measurements, by name."""
    # Modules and tables are loaded once in a process, by its first session: that is not the store's doing.
    of_async_session(1, 0.0)
    return {
        "idle loop": of_an_idle_loop(10 * turns * store_seconds),
        "slow store": of_async_session(turns, store_seconds),
        "quick store": of_async_session(turns, 0.0),
        "slow store, in the loop": of_session_in_the_loop(turns, store_seconds),
    }


class Bar(Struct, frozen=True):
    """One judged figure."""

    name: str
    met: bool | None
    """None if the machine was too busy to tell."""
    figure: str
    limit: str


def bars(table: dict[str, Stalls], store_seconds: float = STORE_SECONDS) -> list[Bar]:
    """Judge the measurements; a machine on which an idle loop is late allows no verdict."""
    idle = table["idle loop"].worst
    slow = table["slow store"].worst
    quick = table["quick store"].worst
    in_the_loop = table["slow store, in the loop"].worst
    quiet = idle < MOST_STALL_SECONDS
    return [
        Bar(
            "longest stall of an event loop by a slow store, ms",
            slow < MOST_STALL_SECONDS if quiet else None,
            f"{slow * 1e3:.2f} (quick store {quick * 1e3:.2f}, idle loop {idle * 1e3:.2f})",
            f"below {MOST_STALL_SECONDS * 1e3:g}",
        ),
        Bar(
            "the same store used in the loop itself, ms: stalls are seen",
            in_the_loop >= store_seconds,
            f"{in_the_loop * 1e3:.1f}",
            f"at least {store_seconds * 1e3:g}",
        ),
    ]


def main() -> int:
    """Measure, print, and return 1 if a bar is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--milliseconds", type=float, default=STORE_SECONDS * 1e3)
    options = parser.parse_args()
    store_seconds = options.milliseconds / 1e3
    table = measure(options.turns, store_seconds)
    for name, stalls in table.items():
        print(
            f"{name:26} {stalls.store_calls:5} calls of the store, woke {len(stalls.late):6,} times, "
            f"{stalls.over_limit:4} stalls over {MOST_STALL_SECONDS * 1e3:g} ms, longest {stalls.worst * 1e3:.2f} ms"
        )
    judged = bars(table, store_seconds)
    verdicts = {True: "pass", False: "FAIL", None: "busy"}
    for bar in judged:
        print(f"{verdicts[bar.met]}  {bar.name}: {bar.figure} ({bar.limit})")
    return 0 if all(bar.met for bar in judged) else 1


if __name__ == "__main__":
    sys.exit(main())
