"""How much of the evidence recall finds: questions about long conversations whose turns are known to answer them.

Reads LoCoMo (https://github.com/snap-research/locomo) and data of the same shape, REALTALK's among it; none of it
comes with Sevenfold. Each conversation becomes a session, a record for each turn, and each question one search, on the
path that `session.recall` takes. The figure is the share of a question's evidence among the first hits, averaged over
questions.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec
from msgspec import Struct, structs

from sevenfold.errors import InputError
from sevenfold.recall.index import RecallIndex
from sevenfold.recall.meaning import ByMeaning, Way
from sevenfold.recall.search import Hit, Scorer
from sevenfold.stores.memory import MemoryLog

DEPTHS = (5, 10, 25)
"""Hits among which the evidence is looked for."""
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
IN_CONTEXT = 0.2
"""The part of a conversation, its end, that counts as still in the context where only the rest is searched."""
RESAMPLES = 1_000
_SESSION = re.compile(r"session_(\d+)")
_CITATION = re.compile(r"D:?(\d+):0*(\d+)")
Shares = list[tuple[str, list[float]]]
"""The category of each question, and the share of its evidence that was found at each depth."""
_TIMES = ("%I:%M %p on %d %B, %Y", "%d.%m.%Y, %H:%M:%S")


class DialogueTurn(Struct, frozen=True):
    """Something a speaker said; the words of a picture's caption count as said."""

    id: str
    speaker: str
    text: str
    time: datetime


class DialogueQuestion(Struct, frozen=True):
    """A question and the ids of the turns that answer it."""

    text: str
    evidence: frozenset[str]
    category: str


class Dialogue(Struct, frozen=True):
    """A conversation and the questions about it."""

    turns: Sequence[DialogueTurn]
    questions: Sequence[DialogueQuestion]

    @property
    def speakers(self) -> list[str]:
        """Their names, in the order in which they first speak."""
        return list(dict.fromkeys(turn.speaker for turn in self.turns))


class RecallScore(Struct, frozen=True):
    """Recall in percent at each depth, with the interval that holds 95 in 100 resamples of the questions."""

    questions: int
    recall: dict[str, float]
    interval: dict[str, tuple[float, float]]

    @classmethod
    def of(cls, shares: Sequence[Sequence[float]]) -> RecallScore:
        """The score of questions by the shares of their evidence found, one for each depth."""
        chance = random.Random(7)
        drawn = [
            [fmean(column) for column in zip(*chance.choices(shares, k=len(shares)), strict=True)]
            for _ in range(RESAMPLES)
        ]
        recall, interval = {}, {}
        for place, depth in enumerate(DEPTHS):
            recall[str(depth)] = _percent(fmean(share[place] for share in shares))
            means = sorted(one[place] for one in drawn)
            cut = round(0.025 * RESAMPLES)
            interval[str(depth)] = (_percent(means[cut]), _percent(means[-1 - cut]))
        return cls(len(shares), recall, interval)


class LocomoReport(RecallScore, frozen=True):
    """What was found."""

    by_category: dict[str, RecallScore]
    by_conversation: list[RecallScore]
    answered_without_evidence: float | None
    """The share of questions about other conversations that got an answer, in percent; None if it was not asked."""


def read(data: Path, key: Path | None = None) -> list[Dialogue]:
    """The conversations of a file, or of all files in a folder; with a ``key``, its evidence in place of theirs.

    Raises `InputError` if a file holds none.
    """
    dialogues = list(_dialogues(data))
    if key is not None:
        dialogues = [_with_key(*pair) for pair in zip(dialogues, _dialogues(key), strict=False)]
    if not any(dialogue.questions for dialogue in dialogues):
        raise InputError(f"{key or data}: there are no questions with evidence in it")
    return dialogues


def measure(
    dialogues: Sequence[Dialogue],
    by: Way | None = None,
    *,
    only_hidden: bool = False,
    strangers: bool = False,
) -> LocomoReport:
    """Ask every question; with ``strangers``, also those about the next conversation, under the names of this one."""
    scorers = ByMeaning().scorers(by)
    asked: list[Shares] = []
    answered: list[bool] = []
    for number, dialogue in enumerate(dialogues):
        examined = Examination(dialogue, by, scorers)
        asked.append(examined.shares(dialogue, only_hidden=only_hidden))
        if strangers and len(dialogues) > 1:
            answered += examined.strangers(dialogues[(number + 1) % len(dialogues)])
    return _report(asked, answered)


class Examination:
    """A conversation in an index, to be asked questions."""

    def __init__(self, dialogue: Dialogue, by: Way | None, scorers: Sequence[Scorer]) -> None:
        self._dialogue = dialogue
        index = RecallIndex(MemoryLog(list(lines(dialogue))))
        index.catch_up()
        for scorer in scorers:
            while index.prepare(scorer):
                pass
        self._search = partial(
            index.search, k=max(DEPTHS), around=0, scorers=scorers, words=by != "meaning", only_hidden=True
        )

    def shares(self, key: Dialogue, *, only_hidden: bool = False) -> Shares:
        """What is found of the evidence of a key's questions; of that which left the context, if so asked."""
        turns = self._dialogue.turns
        kept = turns[round(len(turns) * (1 - IN_CONTEXT)) :] if only_hidden else ()
        visible = frozenset(turn.id for turn in kept)
        return [
            (one.category, shares_found(self._search(one.text, visible=visible), one.evidence - visible))
            for one in key.questions
            if one.evidence - visible
        ]

    def strangers(self, other: Dialogue) -> list[bool]:
        """Does each question about another conversation, under the names of this one, get an answer?"""
        names = dict(zip(other.speakers, self._dialogue.speakers, strict=False))
        return [bool(self._search(_renamed(one.text, names))) for one in other.questions]


def _report(asked: Sequence[Shares], answered: Sequence[bool]) -> LocomoReport:
    together = [one for several in asked for one in several]
    by_category: dict[str, list[list[float]]] = {}
    for category, shares in together:
        by_category.setdefault(category, []).append(shares)
    whole = RecallScore.of([shares for _, shares in together])
    return LocomoReport(
        **structs.asdict(whole),
        by_category={name: RecallScore.of(shares) for name, shares in sorted(by_category.items())},
        by_conversation=[RecallScore.of([shares for _, shares in several]) for several in asked if several],
        answered_without_evidence=_percent(fmean(answered)) if answered else None,
    )


def shares_found(found: Sequence[Hit], evidence: frozenset[str]) -> list[float]:
    """The share of the evidence among the first hits, for each depth."""
    uuids = [hit.uuid for hit in found]
    return [len(evidence.intersection(uuids[:k])) / len(evidence) for k in DEPTHS]


def _percent(share: float) -> float:
    return round(100 * share, 1)


def _renamed(text: str, names: Mapping[str, str]) -> str:
    pattern = "|".join(rf"\b{re.escape(name)}\b" for name in names)
    return re.sub(pattern, lambda name: names[name[0]], text)


# -- the data ----------------------------------------------------------------------------------


def _dialogues(data: Path) -> Iterator[Dialogue]:
    for path in sorted(data.glob("*.json")) if data.is_dir() else [data]:
        try:
            samples = msgspec.json.decode(path.read_bytes())
        except (OSError, msgspec.DecodeError, RecursionError) as error:
            why = getattr(error, "strerror", None) or error
            raise InputError(f"{path}: {why}; name a file or folder of conversations") from error
        for sample in samples if isinstance(samples, list) else [samples]:
            yield _dialogue(sample, path)


def _with_key(dialogue: Dialogue, corrected: Dialogue) -> Dialogue:
    held = {one.text: one for one in corrected.questions}
    return Dialogue(dialogue.turns, [held[one.text] for one in dialogue.questions if one.text in held])


def _dialogue(sample: Any, path: Path) -> Dialogue:
    try:
        held = sample.get("conversation", sample)
        turns = list(_turns(held))
        questions = [
            DialogueQuestion(
                one["question"],
                frozenset(
                    f"D{session}:{turn}"
                    for cited in one["evidence"]
                    for session, turn in _CITATION.findall(cited)
                ),
                CATEGORIES.get(one["category"], str(one["category"])),
            )
            for one in sample["qa"]
            if one.get("evidence")
        ]
    except (AttributeError, KeyError, TypeError) as error:
        raise InputError(
            f"{path}: this is not a conversation in the shape of LoCoMo ({error!r})"
        ) from error
    return Dialogue(turns, [one for one in questions if one.evidence])


def _turns(held: Mapping[str, Any]) -> Iterator[DialogueTurn]:
    sessions = sorted((int(name[1]), name[0]) for name in map(_SESSION.fullmatch, held) if name)
    for _, name in sessions:
        begun = _time(held.get(f"{name}_date_time", ""))
        for place, one in enumerate(held[name]):
            said = [one.get("text") or one.get("clean_text") or "", one.get("blip_caption") or ""]
            time = _time(one.get("date_time", ""), begun + timedelta(minutes=place))
            yield DialogueTurn(one["dia_id"], one["speaker"], " ".join(filter(None, said)), time)


def _time(text: str, otherwise: datetime = datetime(1970, 1, 1, tzinfo=UTC)) -> datetime:
    for form in _TIMES:
        with suppress(ValueError):
            return datetime.strptime(text, form).replace(tzinfo=UTC)
    return otherwise


def lines(dialogue: Dialogue) -> Iterable[bytes]:
    """The conversation as a transcript: the first speaker is the user, and each turn names its speaker."""
    before = None
    for turn in dialogue.turns:
        role = "user" if turn.speaker == dialogue.turns[0].speaker else "assistant"
        text = f"{turn.speaker}: {turn.text}"
        record = {
            "type": role,
            "uuid": turn.id,
            "parentUuid": before,
            "timestamp": turn.time.isoformat().replace("+00:00", "Z"),
            "message": {"role": role, "content": [{"type": "text", "text": text}]},
        }
        before = turn.id
        yield json.dumps(record).encode() + b"\n"
