"""Which memory entries a dream says are contradicted, on contradicting and unrelated pairs, and how long one takes.

    python bench/dreams.py

A dream by rules proposes and closes nothing; who is told too much stops reading, so the bar for unrelated pairs is 0. A
contradiction that is not noticed costs little, because the later entry is there too. Besides the given pairs, every
statement is compared with every other one of the set. The exit status is 1 if a bar is missed.
"""

from __future__ import annotations

import sys
import time
import tomllib
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

from sevenfold.clock import ManualClock
from sevenfold.memory.consolidation import dream
from sevenfold.memory.contradiction import ends
from sevenfold.memory.entry import new_entry, quoted
from sevenfold.memory.generation import Provenance, digest
from sevenfold.memory.memory import EntryEdit, Memory
from sevenfold.stores.folder import MemoryFolder

PAIRS = Path(__file__).with_name("dreams.toml")
NOTICED = 0.8
"""The least share of contradictions that must be noticed."""
THINGS = (
    "warehouse",
    "parser",
    "harbour",
    "invoice",
    "kettle",
    "violin",
    "orchard",
    "bridge",
    "ferry",
    "archive",
)
ACTS = ("keeps", "checks", "receives", "stores", "reports", "labels", "counts", "sorts", "mails", "paints")
MANY = 400
"""The number of entries in the memory whose dream is timed."""


def pairs() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the pairs that do not contradict each other, and those that do."""
    read = tomllib.loads(PAIRS.read_text(encoding="utf-8"))
    unrelated, contradicting = (
        [(one, other) for one, other in read[key]] for key in ("unrelated", "contradicting")
    )
    return unrelated, contradicting


def proposes(older: str, newer: str) -> bool:
    """Whether a dream without a model says that the earlier of two statements is contradicted."""
    held = Memory(MemoryFolder(), ManualClock(1.8e9), lambda: "2027-06-01")
    for place, words in enumerate((older, newer)):
        entry = new_entry(f"fact-{place}", "project", words, quoted([words]))
        at = 1.7e9 + place * 86_400
        held.write(
            entry, "user", "said", stamp=Provenance(digest(entry.render()), "user", created=at, verified=at)
        )
    return any(line.startswith("fact-0:") for line in dream(held).proposed)


def seconds_for(number: int) -> float:
    """Return the CPU seconds of one dream over this many entries, which share only their sentence pattern."""
    held = Memory(MemoryFolder(), ManualClock(1.8e9), lambda: "2027-06-01")
    edits = {}
    for place in range(number):
        noun, verb = THINGS[place % len(THINGS)], ACTS[place // len(THINGS) % len(ACTS)]
        words = f"The {noun} {verb} item-{place} near gate {place % 13}."
        entry = new_entry(f"fact-{place}", "project", words, quoted([words]))
        edits[entry.file] = EntryEdit(
            entry.render(), Provenance(digest(entry.render()), "user", created=1.7e9)
        )
    held.commit(edits, "user", "said")
    began = time.process_time()
    dream(held)
    return time.process_time() - began


class Closings(NamedTuple):
    """The pairs of statements that were proposed or missed."""

    unrelated: int
    """The number of pairs tried that do not contradict each other…"""
    wrong: list[tuple[str, str]]
    """…and those in which one statement was said to be contradicted."""
    contradicting: int
    missed: list[tuple[str, str]]
    crossed: list[tuple[str, str]]
    """Other pairs of statements, not meant to contradict each other, in which one would end the other."""


def closings() -> Closings:
    """Run a dream over every pair, and compare all other statements with each other."""
    unrelated, contradicting = pairs()
    wrong = [pair for pair in unrelated if proposes(*pair) or proposes(*reversed(pair))]
    missed = [pair for pair in contradicting if not proposes(*pair)]
    said = dict.fromkeys(words for pair in (*unrelated, *contradicting) for words in pair)
    meant = {frozenset(pair) for pair in contradicting}
    crossed = [pair for pair in permutations(said, 2) if frozenset(pair) not in meant and ends(*pair)]
    return Closings(len(unrelated), wrong, len(contradicting), missed, crossed)


def main() -> int:
    """Print the figures; return exit status 0 if all bars are met, else 1."""
    found = closings()
    print(f"unrelated pairs said to contradict each other: {len(found.wrong)} of {found.unrelated}")
    print(
        f"contradictions that were noticed: {found.contradicting - len(found.missed)} of {found.contradicting}"
    )
    print(f"other statements of the set that would end each other: {len(found.crossed)}")
    for name, some in (("said", found.wrong), ("not noticed", found.missed), ("would be", found.crossed)):
        for one, other in some:
            print(f"   {name}: {one}  /  {other}")
    print(f"one dream over {MANY} entries: {seconds_for(MANY):.1f} s of the processor")
    wrong = found.wrong or found.crossed or len(found.missed) > found.contradicting * (1 - NOTICED)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
