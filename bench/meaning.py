"""Recall by meaning: whether paraphrased questions find the records that answer them.

    python bench/meaning.py [FOLDER]        default: ../shared/corpus beside the project, if it is there

`paraphrases.toml` holds questions about recorded sessions in different words, each with the records known to answer
it when it was written; others may answer it too, so the shares found are low estimates. It also holds questions that
no session answers, for which silence is right. All are asked by words, by meaning and by both. Most of them were used
to tune the parameters; those *held out* were written afterwards, but had been asked once before the last change of
the threshold, so they are not a blind test. *Half the words* and *sentences of others* are those of `recall.py`: they
check that search by words does not get worse. Generated sessions show what the vectors cost, in CPU time and disk
space.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from bench import recall
from sevenfold.recall.index import RecallIndex
from sevenfold.recall.meaning import installed
from sevenfold.recall.search import Scorer
from sevenfold.stores.jsonl.log import JsonlLog

QUESTIONS = Path(__file__).with_name("paraphrases.toml")
WAYS = ("words", "meaning", "both")
SIZES = (1_000, 10_000, 100_000)
MOST_FALSE = 0.15
"""The highest share of held-out questions without an answer that may get one."""
LEAST_FOUND = 0.15
"""The least share of held-out paraphrases that words and meaning together must find among ten hits."""


class Question(Struct, frozen=True):
    """A question, and the prefixes of the ids of the records that answer it; none if no record does."""

    sort: str
    words: str
    answers: tuple[str, ...] = ()


class Tally(Struct):
    """The results of one sort of questions."""

    asked: int = 0
    answered: int = 0
    first: int = 0
    among: int = 0
    hits: int = 0

    def count(self, found: Sequence[str], answers: tuple[str, ...]) -> None:
        right = [any(uuid.startswith(one) for one in answers) for uuid in found]
        self.asked += 1
        self.answered += bool(found)
        self.first += right[:1] == [True]
        self.among += any(right)
        self.hits += len(found)


Tallies = dict[tuple[str, str], Tally]


def questions(session: str) -> Iterator[Question]:
    """Yield the questions about a session, and those about none."""
    held = tomllib.loads(QUESTIONS.read_text(encoding="utf-8"))
    for one in held["session"]:
        for answers, words in one["asked"] if one["id"] == session else ():
            yield Question(_sort("paraphrases", one), words, tuple(answers.split()))
    for several in held["strangers"]:
        for words in several["asked"]:
            yield Question(_sort("about nothing", several), words)


def _sort(name: str, table: dict[str, Any]) -> str:
    return f"{name}, held out" if table.get("held_out") else name


def from_the_session(lines: Sequence[bytes], others: Sequence[bytes]) -> Iterator[Question]:
    """Yield questions from half the words of the session's sentences, and from sentences of other sessions."""
    drawn = recall.facts(list(recall.texts(lines)), random.Random(5))
    for fact in drawn:
        if fact.sort == "user" and len(fact.words.split()) > 7:
            yield Question("half the words", " ".join(fact.words.split()[::-2]), (fact.uuid,))
    for words in recall.sentences(others)[:30]:
        yield Question("sentences of others", words)


def ask(index: RecallIndex, question: Question, meaning: Scorer, tallies: Tallies) -> None:
    for way in WAYS:
        scorers = () if way == "words" else (meaning,)
        hits = index.search(question.words, scorers=scorers, words=way != "meaning", around=0)
        tally = tallies.setdefault((question.sort, way), Tally())
        tally.count([hit.uuid for hit in hits], question.answers)


def sessions(folder: Path) -> Iterator[tuple[str, str, list[bytes]]]:
    """Yield the sessions that there are questions about: id, project and lines."""
    held = tomllib.loads(QUESTIONS.read_text(encoding="utf-8"))
    for one in held["session"]:
        for path in folder.rglob(f"{one['id']}*.jsonl"):
            project = path.relative_to(folder).parts[0]
            yield one["id"], project, path.read_bytes().splitlines(keepends=True)


def measure(folder: Path, meaning: Scorer, place: Path) -> Tallies:
    """Ask all questions of every session that there are questions about."""
    tallies: Tallies = {}
    found = list(sessions(folder))
    for name, project, lines in found:
        transcript = place / f"{name}.jsonl"
        transcript.write_bytes(b"".join(lines))
        index = RecallIndex(JsonlLog(transcript))
        index.catch_up()
        others = [one for _, other, one in found if other != project][-1]
        for question in [*questions(name), *from_the_session(lines, others)]:
            ask(index, question, meaning, tallies)
        index.close()
    return tallies


def cost(records: int, place: Path) -> dict[str, float]:
    """Return the time and disk space for a generated session."""
    transcript, side = place / "made-up.jsonl", place / "made-up.recall.sqlite"
    side.unlink(missing_ok=True)
    transcript.write_bytes(b"".join(recall.made_up(records)))
    index = RecallIndex(JsonlLog(transcript), side)
    index.catch_up()
    before = side.stat().st_size
    start = time.process_time()
    meaning = installed()
    assert meaning is not None
    loaded = time.process_time() - start
    spent = []
    for query in ("what did the harbour clerk say", *["why the ledger of tides was late"] * 9):
        start = time.process_time()
        index.search(query, scorers=[meaning], words=False)
        spent.append(time.process_time() - start)
    index.close()
    return {
        "load_ms": 1000 * loaded,
        "first_ms": 1000 * spent[0],
        "later_ms": 1000 * statistics.median(spent[1:]),
        "index_mb": before / 1e6,
        "vectors_mb": (side.stat().st_size - before) / 1e6,
    }


def show(tallies: Tallies) -> bool:
    """Print the shares; return False if too little is found or too much is answered."""
    print(f"{'':32}{'by':10}{'asked':>6}{'answered':>10}{'@1':>6}{'@10':>6}{'hits':>6}")
    for (sort, way), tally in sorted(tallies.items()):
        answered, first, among = (
            f"{100 * share / tally.asked:.0f}%" for share in (tally.answered, tally.first, tally.among)
        )
        hits = f"{tally.hits / tally.asked:.1f}"
        print(f"{sort:32}{way:10}{tally.asked:>6}{answered:>10}{first:>6}{among:>6}{hits:>6}")
    wrong, found = tallies["about nothing, held out", "both"], tallies["paraphrases, held out", "both"]
    return wrong.answered <= MOST_FALSE * wrong.asked and found.among >= LEAST_FOUND * found.asked


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, default=recall.CORPUS)
    parser.add_argument("--records", type=int, nargs="*", default=SIZES)
    options = parser.parse_args(arguments)
    meaning: Any = installed()
    if meaning is None:
        print("recall by meaning is not installed: pip install 'sevenfold[meaning]'")
        return 1
    good = True
    with tempfile.TemporaryDirectory() as name:
        if options.folder.is_dir():
            good = show(measure(options.folder, meaning, Path(name)))
        for records in options.records:
            figures = (f"{figure} {value:.1f}" for figure, value in cost(records, Path(name)).items())
            print(f"made up, {records:,} records:", ", ".join(figures))
    print("good" if good else "MISSED: too little was found, or too much answered")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
