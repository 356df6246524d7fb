"""Twelve written conversations with questions, in the shape of LoCoMo.

Each numbered file holds what two friends tell each other over about a year, and questions about it in other words, each
with the messages that answer it. Files 1 to 8 and 11 to 12 are written in whole sentences; 9 and 10 in bursts of short
messages. Between these topics come exchanges of small talk, which all conversations draw from the same file, as real
ones resemble each other there. Everything was written for this measurement.

The format: a line with both names, then topics, separated by empty lines. A line `M: text [3]` is a message of the
speaker whose name begins with M; the number marks it as an answer. `? 3: question` cites it.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
_MARK = re.compile(r"\s*\[(\d+)\]\s*")
_CATEGORY = 4
"""LoCoMo's number for questions that one place answers."""
TOPICS_PER_SESSION = 2
SMALL_TALK_PER_SESSION = 3


def samples(seed: int = 1) -> list[dict[str, Any]]:
    """Every conversation as a LoCoMo sample."""
    small_talk = _blocks((FOLDER / "small_talk.txt").read_text(encoding="utf-8"))
    return [_sample(path, small_talk, seed) for path in sorted(FOLDER.glob("[0-9]*.txt"))]


def write(path: Path, seed: int = 1) -> None:
    """Write all conversations to one file, as `sevenfold eval locomo` reads it."""
    path.write_text(json.dumps(samples(seed), ensure_ascii=False), encoding="utf-8")


def _blocks(text: str) -> list[list[str]]:
    return [block.splitlines() for block in text.strip().split("\n\n")]


def _sample(path: Path, small_talk: Sequence[list[str]], seed: int) -> dict[str, Any]:
    names, _, text = path.read_text(encoding="utf-8").partition("\n")
    speakers = {name.strip()[0]: name.strip() for name in names.split(",")}
    chance = random.Random(f"{seed} {path.stem}")
    topics = _blocks(text)
    talk = _endless(small_talk, chance)
    day = datetime(2023, 1, chance.randint(2, 28), 9, 0)
    conversation: dict[str, Any] = {}
    questions: list[dict[str, Any]] = []
    places: dict[str, str] = {}
    for number, start in enumerate(range(0, len(topics), TOPICS_PER_SESSION), 1):
        blocks = topics[start : start + TOPICS_PER_SESSION]
        for _ in range(SMALL_TALK_PER_SESSION):
            blocks.insert(chance.randint(0, len(blocks)), _between(next(talk), list(speakers), chance))
        turns: list[dict[str, str]] = []
        for line in (line for block in blocks for line in block):
            who, _, said = line.partition(": ")
            if who.startswith("? "):
                cited = who[2:].split()
                questions.append({"question": said, "evidence": cited, "category": _CATEGORY})
                continue
            turn = f"D{number}:{len(turns) + 1}"
            places.update(dict.fromkeys(_MARK.findall(said), turn))
            turns.append({"speaker": speakers[who], "dia_id": turn, "text": _MARK.sub(" ", said).strip()})
        day += timedelta(days=chance.randint(3, 24), minutes=chance.randint(0, 400))
        conversation[f"session_{number}"] = turns
        conversation[f"session_{number}_date_time"] = day.strftime("%I:%M %p on %d %B, %Y")
    for question in questions:
        question["evidence"] = [places[mark] for mark in question["evidence"]]
    return {"conversation": conversation, "qa": questions}


def _endless(small_talk: Sequence[list[str]], chance: random.Random) -> Iterator[list[str]]:
    while True:
        yield from chance.sample(small_talk, len(small_talk))


def _between(exchange: Sequence[str], initials: Sequence[str], chance: random.Random) -> list[str]:
    """An exchange of small talk, with the speakers in either order."""
    order = chance.sample(initials, 2)
    speakers = dict(zip("ab", order, strict=True))
    return [f"{speakers[line[0]]}{line[1:]}" for line in exchange]
