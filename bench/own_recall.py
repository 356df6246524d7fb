"""Recall on twelve conversations of our own: how much is found, and how often nothing is rightly said to match.

    python bench/own_recall.py [--quick] [--write FILE]

The conversations are in `bench/dialogues`, 40 questions each in other words than their answers. Each is also asked the
40 questions of the next one under the names of its own speakers, to which nothing is the right answer. Plain SQLite
FTS5 (porter stemming, the question's words without stop words), recall by words and, where the extras are installed,
by the small and the large weights answer the same questions. The floors were chosen on conversations 1, 3, 5, …; the
other half only reports. ``--write`` stores the conversations as `sevenfold eval locomo` reads them.
"""

from __future__ import annotations

import argparse
import re
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import fmean

from msgspec import Struct

from bench import dialogues
from sevenfold.lab import locomo
from sevenfold.lab.locomo import Dialogue, renamed
from sevenfold.recall import meaning, ranking
from sevenfold.recall.index import RecallIndex
from sevenfold.recall.search import Scorer
from sevenfold.stores.memory import MemoryLog

MOST_ANSWERED = 0.2
"""The most questions about nothing that may get an answer."""
QUICK = 4

Answer = tuple[list[str], bool]
"""The turns found, best first, and whether they match well."""


class Found(Struct, frozen=True):
    """What one way of searching finds on some conversations; all are shares."""

    recall: float
    """Evidence among the first ten, weak hits included."""
    sure: float
    """Evidence among the first ten of questions that something matches well."""
    answered: float
    """Questions about another conversation that something is said to match well."""


def read() -> list[Dialogue]:
    """The conversations, by way of a file, as for any other data."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "own.json"
        dialogues.write(path)
        return locomo.read(path)


def by_fts5(dialogue: Dialogue) -> Callable[[str], Answer]:
    """Plain full-text search, which always answers if any word occurs."""
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE said USING fts5 (text, tokenize = 'porter unicode61')")
    texts = ((f"{turn.speaker}: {turn.text}",) for turn in dialogue.turns)
    database.executemany("INSERT INTO said VALUES (?)", texts)

    def answer(question: str) -> Answer:
        every = re.findall(r"\w+", question)
        telling = [word for word in every if word.casefold() not in ranking.FILLERS] or every
        match = " OR ".join(f'"{word}"' for word in telling)
        statement = "SELECT rowid FROM said WHERE said MATCH ? ORDER BY rank LIMIT 10"
        turns = [dialogue.turns[row - 1].id for (row,) in database.execute(statement, (match,))]
        return turns, bool(turns)

    return answer


def by_recall(scorers: Sequence[Scorer]) -> Callable[[Dialogue], Callable[[str], Answer]]:
    """Recall with these scorers besides words."""

    def indexed(dialogue: Dialogue) -> Callable[[str], Answer]:
        index = RecallIndex(MemoryLog(list(locomo.lines(dialogue))))
        index.catch_up()
        for scorer in scorers:
            while index.prepare(scorer):
                pass

        def answer(question: str) -> Answer:
            hits = index.search(question, k=10, around=0, scorers=scorers, weak=True)
            return [hit.uuid for hit in hits], any(not hit.weak for hit in hits)

        return answer

    return indexed


def measure(way: Callable[[Dialogue], Callable[[str], Answer]], every: Sequence[Dialogue]) -> list[Found]:
    """What this way finds on the conversations the floors were chosen on, and on the others."""
    recall: list[list[float]] = [[], []]
    sure: list[list[float]] = [[], []]
    answered: list[list[bool]] = [[], []]
    for number, dialogue in enumerate(every):
        half = number % 2
        answer = way(dialogue)
        for question in dialogue.questions:
            turns, well = answer(question.text)
            share = len(question.evidence.intersection(turns)) / len(question.evidence)
            recall[half].append(share)
            sure[half].append(share if well else 0.0)
        other = every[(number + 1) % len(every)]
        names = dict(zip(other.speakers, dialogue.speakers, strict=True))
        for question in other.questions:
            answered[half].append(answer(renamed(question.text, names))[1])
    return [Found(fmean(recall[half]), fmean(sure[half]), fmean(answered[half])) for half in (0, 1)]


def ways() -> Iterator[tuple[str, Callable[[Dialogue], Callable[[str], Answer]]]]:
    """All ways of searching that are installed here."""
    yield "plain FTS5", by_fts5
    yield "by words", by_recall(())
    for name, packages, make in (
        ("words and wordllama", meaning.SMALL, meaning.small),
        ("words and e5", meaning.LARGE, meaning.large),
    ):
        with suppress(ImportError, OSError, ValueError):
            if meaning.folders(packages):
                yield name, by_recall([make()])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures; return exit status 0 if recall abstains often enough on the half not tuned on, else 1."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args(arguments)
    if options.write:
        dialogues.write(options.write)
        return 0
    every = read()[: QUICK if options.quick else None]
    print(
        f"{'':22}{'R@10':>7}{'sure':>7}{'answered':>10}   the other half:{'R@10':>7}{'sure':>7}{'answered':>10}"
    )
    good = True
    for name, way in ways():
        chosen, other = measure(way, every)
        left, right = (
            f"{100 * half.recall:7.1f}{100 * half.sure:7.1f}{100 * half.answered:9.1f}%"
            for half in (chosen, other)
        )
        print(f"{name:22}{left}                  {right}")
        good &= way is by_fts5 or other.answered <= MOST_ANSWERED
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
