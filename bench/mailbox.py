"""Kill two processes that exchange messages through a mailbox, and check that each message arrives exactly once.

    python bench/mailbox.py [--messages N] [--seed N]

One process sends numbered messages and records each receipt in its own log; the other appends waiting messages to its
log and then acknowledges them. At random times one of the two is killed with SIGKILL, restarted, and continues from
its log. In the end the recipient's log must contain every number once, in order. Then, without kills, the throughput
is compared with `persist-queue`, a queue in SQLite that also uses acknowledgements and waits for the disk.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from contextlib import closing, suppress
from multiprocessing.process import BaseProcess
from pathlib import Path

from msgspec import Struct

from sevenfold.ports import AgentMessage
from sevenfold.stores.jsonl.log import Sync
from sevenfold.stores.jsonl.store import JsonlStore

MESSAGES = 100_000
LONGEST = 1.2
"""The maximum number of seconds between two kills."""
COMPARED = 1_000


class Soaked(Struct, frozen=True):
    """The result of a soak test."""

    messages: int
    kills: int
    repeated: int
    """Messages delivered again because the recipient was killed before it acknowledged them."""
    seconds: float
    problems: list[str]


def soak(folder: Path, *, messages: int = MESSAGES, seed: int = 1, longest: float = LONGEST) -> Soaked:
    """Run both processes until all messages have arrived, killing one of them at random times."""
    chance, kills, began = random.Random(seed), 0, time.monotonic()
    start = multiprocessing.get_context("fork").Process
    works = {"sender": _send, "recipient": _receive}
    running: dict[str, BaseProcess] = {}
    try:
        while True:
            for name, work in works.items():
                if name not in running or not running[name].is_alive():
                    if name in running and running[name].exitcode == 0:
                        continue
                    running[name] = start(target=work, args=(folder, messages))
                    running[name].start()
            running["recipient"].join(chance.uniform(0.02, longest))
            if running["recipient"].exitcode == 0:
                break
            victim = running[chance.choice(sorted(works))]
            if victim.is_alive() and victim.pid is not None:
                os.kill(victim.pid, signal.SIGKILL)
                victim.join()
                kills += 1
    finally:
        for one in running.values():
            one.kill()
            one.join()
    seconds = time.monotonic() - began
    arrived = _numbers(folder, "recipient")
    repeated = sum(line == b"again\n" for _, line in JsonlStore(folder).read("recipient").read())
    return Soaked(messages, kills, repeated, seconds, _problems(arrived, messages))


def _problems(arrived: list[int], messages: int) -> list[str]:
    found = []
    if lost := set(range(messages)) - set(arrived):
        found.append(f"{len(lost)} lost, the first {min(lost)}")
    if doubled := len(arrived) - len(set(arrived)):
        found.append(f"{doubled} twice")
    if arrived != sorted(arrived):
        found.append("out of order")
    return found


def _send(folder: Path, messages: int) -> None:
    store = JsonlStore(folder)
    with closing(store.mailbox()) as mailbox, closing(store.open("sender", wait=10)) as log:
        # The last message may have been sent without its receipt being recorded: it is sent again.
        for number in range(len(_numbers(folder, "sender")), messages):
            message = AgentMessage(str(number), "sender", "recipient", f"This is message {number}.")
            while mailbox.send(message) == "refused":
                time.sleep(0.002)
            log.append([b"%d\n" % number])
    os._exit(0)


def _receive(folder: Path, messages: int) -> None:
    store = JsonlStore(folder)
    with closing(store.mailbox()) as mailbox, closing(store.open("recipient", wait=10)) as log:
        known = set(_numbers(folder, "recipient"))
        while len(known) < messages:
            found = mailbox.waiting("recipient")
            for one in found:
                number = int(one.id)
                log.append([b"again\n" if number in known else b"%d\n" % number])
                known.add(number)
            mailbox.acknowledge(found)
            if not found:
                time.sleep(0.001)
    os._exit(0)


def _numbers(folder: Path, session: str) -> list[int]:
    """Return the numbers in a log, without a line that a kill cut off."""
    with suppress(Exception):
        lines = [line for _, line in JsonlStore(folder).read(session).read()]
        return [int(line) for line in lines if line.endswith(b"\n") and line.strip().isdigit()]
    return []


def ours(folder: Path, count: int, sync: Sync) -> float:
    """Return our messages per second; each is sent, taken and acknowledged on its own."""
    with closing(JsonlStore(folder / sync, sync=sync).mailbox()) as mailbox:
        began = time.perf_counter()
        for number in range(count):
            mailbox.send(AgentMessage(str(number), "a", "b", "This is a message of some length."))
            mailbox.acknowledge(mailbox.waiting("b", 1))
        return count / (time.perf_counter() - began)


def theirs(folder: Path, count: int) -> float:
    """Return the same for persist-queue, which also commits each step."""
    import persistqueue

    queue = persistqueue.SQLiteAckQueue(str(folder / "queue"), auto_commit=True)
    began = time.perf_counter()
    for number in range(count):
        queue.put({"id": number, "sender": "a", "text": "This is a message of some length."})
        queue.ack(queue.get())
    return count / (time.perf_counter() - began)


def main() -> int:
    """Run the soak test and the comparison; return 1 if there were problems, else 0."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        found = soak(Path(name), messages=options.messages, seed=options.seed)
    print(
        f"{found.messages:,} messages, {found.kills} kills, {found.repeated} repeated deliveries recognised, "
        f"{found.seconds:.0f} s ({found.messages / found.seconds:,.0f}/s): "
        f"{'; '.join(found.problems) or 'each once, in order'}"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(
            f"send, take, acknowledge: {ours(folder, COMPARED, Sync.DURABLE):,.0f}/s; forced to the disk each time "
            f"{ours(folder, COMPARED, Sync.ALWAYS):,.0f}/s, persist-queue {theirs(folder, COMPARED):,.0f}/s"
        )
    return 1 if found.problems else 0


if __name__ == "__main__":
    sys.exit(main())
