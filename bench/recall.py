"""Recall: whether it finds facts again, how fast, and at what cost.

    python bench/recall.py [FOLDER]         default: ../shared/corpus beside the project, if it is there
    python bench/recall.py --records 1000   only the made-up session, of that many records

Code independent of the engine draws facts from the raw JSON of transcripts: sentences of the user, identifiers (paths,
ids, flags, numbers) and lines of failed calls. Each is searched for verbatim, with its kind: a record that contains it
must be among the ten hits (*reached*); *own* is the share that found the exact record it was drawn from.
*Half the words* searches with every other word of a sentence, in reverse order; *strangers* are sentences from other
projects, for which silence is the right answer. A plain scan of all texts is timed on the same facts.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from msgspec import Struct

from sevenfold.recall.index import RecallIndex
from sevenfold.stores.jsonl.log import JsonlLog

CORPUS = Path(__file__).resolve().parent.parent.parent / "shared" / "corpus"
SIZES = (1_000, 10_000, 100_000)
FACTS = 60
"""The number of facts of each sort drawn from a session."""
IDENTIFIER = re.compile(r"[\w./:@=-]*[/_.:=-][\w./:@=-]*\w")
MOST_MILLISECONDS = 50
"""The limit for the median query at 10,000 records."""

SYLLABLES = (
    "har bour ti de led ger gau ge pan el clo ck sig nal bea con an chor car go ber th pi lot cra ne"
)


class Text(Struct, frozen=True):
    """The text of one block of a record, as read by this script."""

    uuid: str
    sort: str
    words: str


class Fact(Struct, frozen=True):
    """A fact to search for, and the record it was drawn from."""

    sort: str
    words: str
    uuid: str


class Tally(Struct):
    """The results of one sort of facts."""

    asked: int = 0
    first: int = 0
    reached: int = 0
    own: int = 0
    answered: int = 0
    spent: list[float] = []
    scan: list[float] = []


KIND = {"user": "user", "error": "error", "identifier": None}


# The content of a transcript, read here and not by the engine


def texts(lines: Sequence[bytes]) -> Iterator[Text]:
    """Yield all texts of a transcript, block by block."""
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        message, uuid = record.get("message"), record.get("uuid")
        if record.get("type") not in ("user", "assistant") or not isinstance(message, dict) or not uuid:
            continue
        plain = record["type"] == "user" and not record.get("isMeta") and not record.get("isCompactSummary")
        content = message.get("content")
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content or []:
            if text := _said(block):
                spoken = plain and "text" in block and not PROGRAM.match(text)
                sort = "error" if block.get("is_error") else "user" if spoken else "other"
                yield Text(uuid, sort, text)


PROGRAM = re.compile(r"\s*(?:<(?:task-notification|command-|local-command)|\[Request interrupted by user)")
"""Text that a program, not the user, puts in a user message."""


def _said(block: dict[str, Any]) -> str:
    match block:
        case {"type": "text", "text": str() as words} | {"type": "tool_result", "content": str() as words}:
            return words
        case {"type": "tool_result", "content": list() as parts}:
            return "\n".join(part["text"] for part in parts if isinstance(part, dict) and part.get("text"))
        case {"type": "tool_use", "input": dict() as given}:
            return "\n".join(value for value in given.values() if isinstance(value, str))
        case _:
            return ""


def facts(found: Sequence[Text], chance: random.Random) -> Iterator[Fact]:
    """Yield a sample of the facts that should be found."""
    drawn: dict[str, list[Fact]] = {"user": [], "error": [], "identifier": []}
    for text in found:
        if text.sort in ("user", "error"):
            pieces = re.split(r"(?<=[.!?])\s+|\n", text.words)
            drawn[text.sort] += [
                Fact(text.sort, one.strip(), text.uuid) for one in pieces if len(one.strip()) > 8
            ]
        names = IDENTIFIER.findall(text.words[:20_000])
        drawn["identifier"] += [
            Fact("identifier", name, text.uuid) for name in names if 5 < len(name) < 120
        ]
    for several in drawn.values():
        unique = list({fact.words: fact for fact in several}.values())
        yield from chance.sample(unique, min(FACTS, len(unique)))


# A generated session


def made_up(records: int) -> list[bytes]:
    """Return the lines of a generated session with this many records."""
    chance, parts = random.Random(11), SYLLABLES.split()
    words = [first + second + third for first in parts for second in parts for third in parts]
    # As in any language, a few words are everywhere and most are rare.
    often = list(accumulate(1 / (rank + 3) for rank in range(len(words))))
    lines = []
    for number in range(records):
        said = " ".join(chance.choices(words, cum_weights=often, k=chance.randint(5, 60)))
        said += (
            f". See src/{chance.choice(words)}/{chance.choice(words)}_{number}.py:{chance.randint(1, 900)}"
        )
        block: dict[str, Any] = {"type": "text", "text": f"Please {said}."}
        if number % 4 in (1, 2):
            call = f"toolu_{number - number % 4}"
            given = {"command": f"run --{chance.choice(words)}={number} {said}"}
            block = {"type": "tool_use", "id": call, "name": "Bash", "input": given}
            if number % 4 == 2:
                failed = number % 3 == 0
                output = f"{said}\nE{number}: {chance.choice(words)} not found at 0x{number:06x}"
                block = {"type": "tool_result", "tool_use_id": call, "content": output, "is_error": failed}
        role = "assistant" if number % 4 in (1, 3) else "user"
        record = {"type": role, "uuid": f"r{number}", "parentUuid": f"r{number - 1}" if number else None}
        lines.append(json.dumps({**record, "message": {"role": role, "content": [block]}}).encode() + b"\n")
    return lines


# Measuring


def measure(lines: Sequence[bytes], strangers: Sequence[str], folder: Path) -> dict[str, Any]:
    """Index a session on disk, search for its facts, and time a plain scan for the same facts."""
    transcript, side = folder / "session.jsonl", folder / "session.recall.sqlite"
    transcript.write_bytes(b"".join(lines))
    side.unlink(missing_ok=True)
    index = RecallIndex(JsonlLog(transcript), side)
    start = time.process_time()
    records = index.catch_up()
    spent = time.process_time() - start
    found = list(texts(lines))
    plain = [(text.uuid, _flat(text.words)) for text in found]
    tallies = {sort: Tally() for sort in ("user", "error", "identifier", "half the words", "strangers")}
    misses = []
    for fact in facts(found, random.Random(5)):
        if not _ask(index, fact, plain, tallies[fact.sort]):
            misses.append(fact)
        if fact.sort == "user" and len(fact.words.split()) > 7:
            half = fact.words.split()[::-2]
            tally = tallies["half the words"]
            _count(tally, _timed(index, " ".join(half), None, tally), {fact.uuid}, fact.uuid)
    for stranger in strangers:
        tally = tallies["strangers"]
        _count(tally, _timed(index, stranger, None, tally), set(), "")
    index.close()
    return {
        "records": records,
        "text_mb": sum(len(text.words) for text in found) / 1e6,
        "index_ms": 1000 * spent / max(1, records),
        "size_mb": side.stat().st_size / 1e6,
        "tallies": tallies,
        "misses": misses,
    }


def _ask(index: RecallIndex, fact: Fact, plain: Sequence[tuple[str, str]], tally: Tally) -> bool:
    start = time.perf_counter()
    holders = {uuid for uuid, words in plain if _flat(fact.words) in words}
    tally.scan.append(1000 * (time.perf_counter() - start))
    return _count(tally, _timed(index, fact.words, KIND[fact.sort], tally), holders, fact.uuid)


def _timed(index: RecallIndex, query: str, kind: str | None, tally: Tally) -> list[str]:
    start = time.perf_counter()
    hits = index.search(query, kind=kind)
    tally.spent.append(1000 * (time.perf_counter() - start))
    return [hit.uuid for hit in hits]


def _count(tally: Tally, given: Sequence[str], holders: set[str], own: str) -> bool:
    tally.asked += 1
    tally.first += bool(given) and given[0] in holders
    tally.reached += bool(holders & set(given))
    tally.own += own in given
    tally.answered += bool(given)
    return bool(holders & set(given))


def _flat(words: str) -> str:
    return " ".join(words.split()).casefold()


def sentences(lines: Sequence[bytes]) -> list[str]:
    """Return some sentences of the user from a session."""
    drawn = [fact.words for fact in facts(list(texts(lines)), random.Random(3)) if fact.sort == "user"]
    return [words for words in drawn if len(words.split()) > 4]


# Showing


def show(name: str, found: dict[str, Any]) -> bool:
    """Print the figures of a session; return False if a fact was not reached."""
    print(
        f"\n{name}: {found['records']:,} records, {found['text_mb']:.1f} MB of text; "
        f"{found['index_ms']:.2f} ms of CPU to index one, {found['size_mb']:.1f} MB on disk"
    )
    print(
        f"  {'':16}{'asked':>6}{'@1':>7}{'@10':>7}{'own@10':>8}{'answered':>10}{'ms':>8}{'p95':>8}{'scan ms':>9}"
    )
    for sort, tally in found["tallies"].items():
        if tally.asked:
            shares = (tally.first, tally.reached, tally.own, tally.answered)
            first, reached, own, answered = (f"{100 * share / tally.asked:.0f}%" for share in shares)
            spent = sorted(tally.spent)
            scan = f"{statistics.median(tally.scan):.1f}" if tally.scan else ""
            print(
                f"  {sort:16}{tally.asked:>6}{first:>7}{reached:>7}{own:>8}{answered:>10}"
                f"{statistics.median(spent):>8.1f}{spent[int(0.95 * len(spent))]:>8.1f}{scan:>9}"
            )
    for fact in found["misses"][:10]:
        print(f"  NOT REACHED ({fact.sort}, {fact.uuid}): {fact.words[:200]!r}")
    return not found["misses"]


def real(folder: Path) -> Iterator[tuple[str, list[bytes]]]:
    """Yield the transcripts of linked messages in a folder, each with its name."""
    for path in sorted(folder.rglob("*.jsonl")):
        lines = path.read_bytes().splitlines(keepends=True)
        if sum(1 for _ in texts(lines)) > 20:
            yield str(path.relative_to(folder)), lines


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, default=CORPUS)
    parser.add_argument("--records", type=int, nargs="*", default=SIZES)
    options = parser.parse_args(arguments)
    whole = True
    with tempfile.TemporaryDirectory() as name:
        sessions = list(real(options.folder)) if options.folder.is_dir() else []
        for place, (title, lines) in enumerate(sessions):
            others = [one for other, one in sessions if other.split("/")[0] != title.split("/")[0]]
            strangers = sentences(others[place % len(others)])[:30] if others else []
            whole &= show(title, measure(lines, strangers, Path(name)))
        for records in options.records:
            found = measure(made_up(records), [], Path(name))
            whole &= show(f"made up, {records:,}", found)
            if records == 10_000:
                spent = statistics.median(
                    [one for tally in found["tallies"].values() for one in tally.spent]
                )
                print(f"  median of all queries: {spent:.1f} ms, at most {MOST_MILLISECONDS} wanted")
                whole &= spent <= MOST_MILLISECONDS
    print(
        "\neverything was reached" if whole else "\nMISSED: not everything was reached, or it took too long"
    )
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())
