"""Recall on long conversations: what is found, what the few weights are worth, and how fast it is at 100,000 records.

    python bench/locomo.py DATA            LoCoMo's locomo10.json, or data of the same shape; it does not come with us
    python bench/locomo.py DATA --pace     only the pace
    python bench/locomo.py DATA --by words|both

*Left out*: the weights are chosen on all conversations but one, from a small grid around the present ones, and measured
on that one; the figure is the mean over questions. If it is about as high as that of the present weights, these are not
fitted to the data. *Pace*: all conversations and made-up turns (chains of word pairs of the same data) in one index of
100,000 records, asked the questions of the data, next to plain FTS5 on the same texts; how much the bound on frequent
words costs is the difference in recall to a search without it.
"""

from __future__ import annotations

import argparse
import random
import re
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, product
from pathlib import Path
from statistics import fmean

from sevenfold.lab import locomo
from sevenfold.lab.locomo import Dialogue, DialogueTurn
from sevenfold.recall import ranking, search
from sevenfold.recall.index import RecallIndex
from sevenfold.recall.meaning import ByMeaning, Way
from sevenfold.stores.memory import MemoryLog

RECORDS = 100_000
ASKED = 150
"""Questions that the pace is measured on."""
GRID = {
    "SPOKE": (1.0, 1.5, 2.0),
    "LENT": ((0.6, 0.4, 0.2, 0.1), ranking.LENT, (0.8, 0.6, 0.45, 0.3, 0.2, 0.15)),
}
AT_MOST, LOSS = 0.5, 0.5
"""The bars: the share of plain FTS5's p95, and points of recall lost."""

Shares = list[tuple[str, list[float]]]


def ask(dialogues: Sequence[Dialogue], by: Way | None) -> list[Shares]:
    """The shares of evidence found, by conversation."""
    scorers = ByMeaning().scorers(by)
    found = []
    for dialogue in dialogues:
        index = RecallIndex(MemoryLog(list(locomo.lines(dialogue))))
        index.catch_up()
        hits = (
            (one, index.search(one.text, k=25, around=0, scorers=scorers)) for one in dialogue.questions
        )
        found.append([(one.category, locomo.shares_found(given, one.evidence)) for one, given in hits])
        index.close()
    return found


def left_out(dialogues: Sequence[Dialogue], by: Way | None) -> None:
    """Choose the weights on all conversations but one, and measure them on that one."""
    before = {name: getattr(ranking, name) for name in GRID}
    tried: dict[tuple[object, ...], list[Shares]] = {}
    for values in product(*GRID.values()):
        for name, value in zip(GRID, values, strict=True):
            setattr(ranking, name, value)
        tried[values] = ask(dialogues, by)
    for name, value in before.items():
        setattr(ranking, name, value)
    chosen: list[Shares] = []
    for place in range(len(dialogues)):
        best = max(tried, key=lambda values: _mean(tried[values][:place] + tried[values][place + 1 :]))
        chosen.append(tried[best][place])
        print(f"  conversation {place + 1}: {best} chosen, R@10 {100 * _mean([chosen[-1]]):.1f}")
    _show("left out", chosen)
    _show("as they are", tried[tuple(before.values())])


def _mean(several: Sequence[Shares]) -> float:
    return fmean(shares[1] for one in several for _, shares in one)


def _show(name: str, several: Sequence[Shares]) -> None:
    together = [one for shares in several for one in shares]
    for category in ("all", *sorted({category for category, _ in together})):
        score = locomo.RecallScore.of([shares for named, shares in together if category in ("all", named)])
        print(
            f"  {name}, {category}: {score.questions} questions, recall {score.recall}, R@10 {score.interval['10']}"
        )


def one_session(dialogues: Sequence[Dialogue]) -> Dialogue:
    """All conversations, and made-up turns until there are enough; the ids say which conversation they are of."""
    turns: list[DialogueTurn] = []
    for place, dialogue in enumerate(dialogues):
        turns += [
            DialogueTurn(f"{place}/{one.id}", one.speaker, one.text, one.time) for one in dialogue.turns
        ]
    follows: dict[str, list[str]] = {}
    for turn in turns:
        for word, after in pairwise(["", *turn.text.split(), ""]):
            follows.setdefault(word, []).append(after)
    chance, last = random.Random(3), turns[-1]
    for number in range(RECORDS - len(turns)):
        said = " ".join(_chain(follows, chance))
        turns.append(DialogueTurn(f"made-up/{number}", f"Speaker{number // 600}", said, last.time))
    return Dialogue(turns, [])


def _chain(follows: dict[str, list[str]], chance: random.Random) -> Iterator[str]:
    word = chance.choice(follows[""])
    for _ in range(60):
        if not word:
            return
        yield word
        word = chance.choice(follows[word])


def pace(dialogues: Sequence[Dialogue]) -> bool:
    """Ask in an index of 100,000 records; false if it is slower, or finds less, than the bars allow."""
    session = one_session(dialogues)
    index = RecallIndex(MemoryLog(list(locomo.lines(session))))
    index.catch_up()
    plain = sqlite3.connect(":memory:")
    plain.execute("CREATE VIRTUAL TABLE said USING fts5 (text, tokenize = 'porter unicode61')")
    plain.executemany(
        "INSERT INTO said VALUES (?)", ((f"{one.speaker}: {one.text}",) for one in session.turns)
    )
    every = [
        (one.text, frozenset(f"{place}/{turn}" for turn in one.evidence))
        for place, dialogue in enumerate(dialogues)
        for one in dialogue.questions
    ]
    asked = random.Random(5).sample(every, min(ASKED, len(every)))

    def by_fts5(text: str) -> list[str]:
        match = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", text))
        rows = plain.execute("SELECT rowid FROM said WHERE said MATCH ? ORDER BY rank LIMIT 10", (match,))
        return [session.turns[row - 1].id for (row,) in rows]

    def by_recall(text: str) -> list[str]:
        return [hit.uuid for hit in index.search(text, k=10)]

    figures = {"plain FTS5": _timed(by_fts5, asked), "recall": _timed(by_recall, asked)}
    bounds, search.TOO_COMMON = search.TOO_COMMON, (RECORDS, RECORDS)
    figures["recall, nothing bounded"] = _timed(by_recall, asked)
    search.TOO_COMMON = bounds
    for name, (found, median, high) in figures.items():
        print(f"  {name}: R@10 {100 * found:.1f}, median {median:.0f} ms, p95 {high:.0f} ms of CPU")
    slower = figures["recall"][2] / figures["plain FTS5"][2]
    lost = 100 * (figures["recall, nothing bounded"][0] - figures["recall"][0])
    print(
        f"  p95 is {slower:.2f} of plain FTS5's, at most {AT_MOST}; {lost:.1f} points are lost, at most {LOSS}"
    )
    return slower <= AT_MOST and lost <= LOSS


def _timed(
    found: Callable[[str], list[str]], asked: Sequence[tuple[str, frozenset[str]]]
) -> tuple[float, float, float]:
    spent, shares = [], []
    for text, evidence in asked:
        start = time.process_time()
        given = found(text)
        spent.append(1000 * (time.process_time() - start))
        shares.append(len(evidence.intersection(given)) / len(evidence))
    spent.sort()
    return fmean(shares), spent[len(spent) // 2], spent[int(0.95 * len(spent))]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--by", choices=("words", "both"), default="words")
    parser.add_argument("--pace", action="store_true")
    options = parser.parse_args(arguments)
    dialogues = locomo.read(options.data)
    if not options.pace:
        left_out(dialogues, options.by)
    return 0 if pace(dialogues) else 1


if __name__ == "__main__":
    sys.exit(main())
