"""Recall on long conversations: its accuracy, the value of its few weights, and its speed at 100,000 records.

    python bench/locomo.py DATA            LoCoMo's locomo10.json, or data of the same shape; it does not come with us
    python bench/locomo.py DATA --pace     only the pace
    python bench/locomo.py DATA --by words|both --key FILE

*Left out*: the weights are chosen on all conversations but one, from a small grid around the current ones, and measured
on that one; the figure is the mean over questions. If it is about as high as with the current weights, these are not
overfitted to the data. *Hidden*: only content that has left the context is searched and asked for. *Corrected key*: the
same questions with the evidence of ``--key``. *Silence*: for each value of the floor `ranking.ENOUGH_IF_ASKED`, how
many questions about another conversation get an answer, and how much recall the floor costs; it is chosen on every
second conversation and validated on the rest. *Pace*: the questions are searched in one index of 100,000 records (all
conversations, and turns generated from word pairs of the same data) and compared with plain FTS5 on the same texts.
The cost of the bound on frequent words is the difference in recall from a search without it.
"""

from __future__ import annotations

import argparse
import random
import re
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise, product
from pathlib import Path
from statistics import fmean

from sevenfold.lab import locomo
from sevenfold.lab.locomo import Dialogue, DialogueTurn, Examination, Shares
from sevenfold.recall import by_words, ranking
from sevenfold.recall.index import RecallIndex
from sevenfold.recall.meaning import ByMeaning, Way
from sevenfold.recall.search import Scorer
from sevenfold.recall.tables import Tables
from sevenfold.stores.memory import MemoryLog

RECORDS = 100_000
ASKED = 150
"""The number of questions that the pace is measured on."""
GRID = {
    "SPOKE": (1.0, 1.5, 2.0),
    "NEIGHBOUR_CREDIT": ((0.6, 0.4, 0.2, 0.1), ranking.NEIGHBOUR_CREDIT, (0.8, 0.6, 0.45, 0.3, 0.2, 0.15)),
}
AT_MOST, LOSS = 0.5, 0.5
"""The bars: the time as a share of plain FTS5's p95, and the points of recall lost."""

FLOORS = (0.25, 0.275, 0.3, 0.325, 0.35, 0.4, 0.45)
GIVEN_UP = 2.0
"""The points of recall that silence may cost; the highest floor that costs no more is chosen."""


class Kept:
    """A scorer that caches its scores, which do not depend on the weights that are tried."""

    def __init__(self, scorer: Scorer) -> None:
        self.name, self.weight, self.enough = scorer.name, scorer.weight, scorer.enough
        self.place, self.prepare = scorer.place, scorer.prepare
        self._scorer = scorer
        self._kept: dict[tuple[Tables, str], Mapping[int, float]] = {}

    def scores(self, pieces: Tables, query: str) -> Mapping[int, float]:
        """Return the scores of the wrapped scorer, computed only once per query."""
        if (pieces, query) not in self._kept:
            self._kept[pieces, query] = self._scorer.scores(pieces, query)
        return self._kept[pieces, query]


@contextmanager
def weights(**values: object) -> Iterator[None]:
    """Use other weights for searches inside the context."""
    before = {name: getattr(ranking, name) for name in values}
    for name, value in values.items():
        setattr(ranking, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(ranking, name, value)


def examine(dialogues: Sequence[Dialogue], corrected: Sequence[Dialogue], by: Way | None) -> None:
    """Ask all questions, with one index per conversation, and print the recall."""
    tried: dict[tuple[object, ...], list[Shares]] = {values: [] for values in product(*GRID.values())}
    hidden: list[Shares] = []
    with_key: list[Shares] = []
    floors: dict[float, list[tuple[Shares, list[bool]]]] = {floor: [] for floor in FLOORS}
    scorers = [Kept(scorer) for scorer in ByMeaning().scorers(by)]
    for place, dialogue in enumerate(dialogues):
        examined = Examination(dialogue, by, scorers)
        for values, found in tried.items():
            with weights(**dict(zip(GRID, values, strict=True))):
                found.append(examined.shares(dialogue))
        hidden.append(examined.shares(dialogue, only_hidden=True))
        with_key += map(examined.shares, corrected[place : place + 1])
        other = dialogues[(place + 1) % len(dialogues)]
        for floor, pairs in floors.items():
            with weights(ENOUGH_IF_ASKED=floor):
                pairs.append((examined.shares(dialogue), examined.strangers(other)))
    left_out(tried)
    _show("hidden", hidden)
    if with_key:
        _show("corrected key", with_key)
    silence(floors)


def left_out(tried: Mapping[tuple[object, ...], Sequence[Shares]]) -> None:
    """Choose the weights on all conversations but one, measure them on that one, and print the results."""
    present = tried[tuple(getattr(ranking, name) for name in GRID)]
    chosen: list[Shares] = []
    for place in range(len(present)):
        best = max(tried, key=lambda values: _mean([*tried[values][:place], *tried[values][place + 1 :]]))
        chosen.append(tried[best][place])
        print(f"  conversation {place + 1}: {best} chosen, R@10 {100 * _mean([chosen[-1]]):.1f}")
    _show("left out", chosen)
    _show("as they are", present)


def silence(floors: Mapping[float, Sequence[tuple[Shares, list[bool]]]]) -> None:
    """Print what each floor silences and costs, on the conversations used to choose it and on the others."""
    found = {
        floor: [
            (
                100 * _mean([shares for shares, _ in pairs[half::2]]),
                100 * fmean(one for _, answered in pairs[half::2] for one in answered),
            )
            for half in (0, 1)
        ]
        for floor, pairs in floors.items()
    }
    most = max(chosen_on[0] for chosen_on, _ in found.values())
    chosen = max(floor for floor, (half, _) in found.items() if half[0] >= most - GIVEN_UP)
    for floor, (half, other) in found.items():
        print(
            f"  floor {floor}: R@10 {half[0]:.1f}, strangers answered {half[1]:.1f}%; on the other conversations"
            f" {other[0]:.1f}, {other[1]:.1f}%{' (chosen)' if floor == chosen else ''}"
        )


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
    """Return all conversations as one, padded with generated turns; ids start with the conversation's number."""
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
    """Search an index of 100,000 records; return whether both the speed and the recall meet the bars."""
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
    bounds, by_words.TOO_COMMON = by_words.TOO_COMMON, (RECORDS, RECORDS)
    figures["recall, nothing bounded"] = _timed(by_recall, asked)
    by_words.TOO_COMMON = bounds
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
    parser.add_argument("--key", type=Path)
    parser.add_argument("--pace", action="store_true")
    options = parser.parse_args(arguments)
    dialogues = locomo.read(options.data)
    if not options.pace:
        examine(dialogues, locomo.read(options.data, options.key) if options.key else [], options.by)
    return 0 if pace(dialogues) else 1


if __name__ == "__main__":
    sys.exit(main())
