"""How many calls of our own functions, in how many modules, a turn, an opening and a compaction by code take.

    python bench/calls.py [--turns 200] [--modules 10]

Calls are counted and not timed, so a busy machine changes nothing. The session is a plain conversation of that many
turns, without tools; the simulated model weighs every request it gets, which a turn's figure includes. The session is
opened from its file, and compacted without a model. Each is done a second time before it
is counted, so that nothing is counted that is loaded or computed once in a process.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import sevenfold
from sevenfold.providers.offline import OfflineClient, Script

PACKAGE = str(Path(sevenfold.__file__).parent)
MODEL = "claude-sonnet-5-5"
VOCABULARY = (
    "harbour light config server please never deploy the test must keep port 8443 src/app/main.py and to"
)
Calls = Counter[tuple[str, str]]
"""How often each function was called, by module and qualified name."""


def counted(act: Callable[[], object]) -> Calls:
    """The calls of our own functions while ``act`` runs in this thread; a generator's resumption is one too."""
    calls: Calls = Counter()

    def count(frame: FrameType, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(PACKAGE):
            calls[str(Path(file).relative_to(PACKAGE)), frame.f_code.co_qualname] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(before)
    return calls


def by_module(calls: Calls) -> Counter[str]:
    """The calls in each module."""
    modules: Counter[str] = Counter()
    for (module, _), number in calls.items():
        modules[module] += number
    return modules


def conversation(turns: int) -> list[tuple[str, str]]:
    """Questions and answers, the same in every run."""
    chance = random.Random(5)
    vocabulary = VOCABULARY.split()

    def sentence(words: int) -> str:
        return " ".join(chance.choices(vocabulary, k=words)).capitalize() + "."

    return [(sentence(15) + " " + sentence(12), sentence(40) + " " + sentence(20)) for _ in range(turns)]


def say(session: sevenfold.Session, question: str) -> None:
    """One turn of a question and an answer."""
    session.user(question)
    session.complete()


def measure(turns: int, folder: Path) -> dict[str, Calls]:
    """The calls of the last turn of a conversation, of opening it, and of compacting it."""
    talk = conversation(turns + 1)
    client = OfflineClient(Script([answer for _, answer in talk]))
    open_session = partial(
        sevenfold.Session.open,
        model=MODEL,
        store=folder,
        settings={"notes": False},
        client=client,
    )
    with open_session("calls") as session:
        for question, _ in talk[:-1]:
            say(session, question)
        turn = counted(partial(say, session, talk[-1][0]))
        session.settle()
    open_session("calls").close()
    opened: list[sevenfold.Session] = []
    opening = counted(lambda: opened.append(open_session("calls")))
    with opened[0] as session:
        compaction = counted(partial(session.compact, engine="extractive"))
    return {"turn": turn, "opening": opening, "compaction by code": compaction}


def main() -> None:
    """Count, and print a line for each of the three and its busiest modules."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--modules", type=int, default=10, help="the busiest modules to print for each")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, calls in measure(options.turns, Path(folder)).items():
            modules = by_module(calls)
            print(f"{name}: {calls.total():,} calls in {len(modules)} modules")
            for module, number in modules.most_common(options.modules):
                print(f"{number:9,}  {module}")


if __name__ == "__main__":
    main()
