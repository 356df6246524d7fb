"""A recall benchmark: questions about long conversations, each with the turns known to answer it.

Reads LoCoMo (https://github.com/snap-research/locomo) and data of the same format, such as REALTALK; none of it
comes with Sevenfold. Each conversation becomes a session with one record per turn, and each question one search, by the
same code that `session.recall` uses. The score is the share of a question's evidence among the first hits, averaged
over questions.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec
from msgspec import Struct, structs

from sevenfold.errors import InputError
from sevenfold.recall.index import RecallIndex
from sevenfold.recall.meaning import ByMeaning, Way
from sevenfold.recall.search import Hit, Scorer
from sevenfold.record.decoding import NOT_JSON
from sevenfold.stores.memory import MemoryLog

DEPTHS = (5, 10, 25)
"""Numbers of first hits at which recall is measured."""
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
IN_CONTEXT = 0.2
"""The share of a conversation, at its end, that counts as still in the context if only hidden turns are searched."""
RESAMPLES = 1_000
_SESSION = re.compile(r"session_(\d+)")
_CITATION = re.compile(r"D:?(\d+):0*(\d+)")
Shares = list[tuple[str, list[float]]]
"""The category of each question, and the share of its evidence found at each depth."""
_TIMES = ("%I:%M %p on %d %B, %Y", "%d.%m.%Y, %H:%M:%S")


class DialogueTurn(Struct, frozen=True):
    """One turn of a speaker; the caption of a picture is part of the text."""

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
        """The speakers' names, in the order in which they first speak."""
        return list(dict.fromkeys(turn.speaker for turn in self.turns))


class RecallScore(Struct, frozen=True):
    """Recall in percent at each depth, with its 95% bootstrap interval over the questions."""

    questions: int
    recall: dict[str, float]
    interval: dict[str, tuple[float, float]]

    @classmethod
    def of(cls, shares: Sequence[Sequence[float]]) -> RecallScore:
        """Compute the score from the shares of evidence found: for each question, one at each depth."""
        chance = random.Random(7)
        resampled = [
            [fmean(column) for column in zip(*chance.choices(shares, k=len(shares)), strict=True)]
            for _ in range(RESAMPLES)
        ]
        recall = {}
        interval = {}
        for index, depth in enumerate(DEPTHS):
            recall[str(depth)] = _percent(fmean(share[index] for share in shares))
            means = sorted(sample_means[index] for sample_means in resampled)
            cut = round(0.025 * RESAMPLES)
            interval[str(depth)] = (_percent(means[cut]), _percent(means[-1 - cut]))
        return cls(len(shares), recall, interval)


class LocomoReport(RecallScore, frozen=True):
    """The score of a whole run, also by category and by conversation.

    `recall` counts all hits, as the agent's tool and the command show them: if nothing matches well, they say so and
    show the nearest records. `sure_recall` counts only hits that match well, which is what a program gets by default.
    """

    by_category: dict[str, RecallScore]
    by_conversation: list[RecallScore]
    sure_recall: dict[str, float]
    answered_without_evidence: float | None
    """The share of questions about other conversations that something matches well, in percent; None if not measured:
    for the rest, recall abstains."""


def read(data: Path, key: Path | None = None) -> list[Dialogue]:
    """Read the conversations of a file or folder; with a ``key``, take the evidence of the questions from it.

    Raises `InputError` if a file cannot be read or has another format, or if no question has evidence.
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
    """Ask every question; with ``strangers``, also those about the next conversation, with the speakers renamed."""
    scorers = ByMeaning().scorers(by)
    all_shares: list[Shares] = []
    sure_shares: list[Shares] = []
    stranger_answers: list[bool] = []
    for number, dialogue in enumerate(dialogues):
        examination = Examination(dialogue, by, scorers)
        all_shares.append(examination.shares(dialogue, only_hidden=only_hidden))
        sure_shares.append(examination.shares(dialogue, only_hidden=only_hidden, sure=True))
        if strangers and len(dialogues) > 1:
            stranger_answers += examination.strangers(dialogues[(number + 1) % len(dialogues)])
    return _report(all_shares, sure_shares, stranger_answers)


class Examination:
    """An indexed conversation, ready for questions."""

    def __init__(self, dialogue: Dialogue, by: Way | None, scorers: Sequence[Scorer]) -> None:
        self._dialogue = dialogue
        index = RecallIndex(MemoryLog(list(lines(dialogue))))
        index.catch_up()
        for scorer in scorers:
            while index.prepare(scorer):
                pass
        self._search = partial(
            index.search,
            k=max(DEPTHS),
            around=0,
            scorers=scorers,
            words=by != "meaning",
            only_hidden=True,
            weak=True,
        )

    def shares(self, key: Dialogue, *, only_hidden: bool = False, sure: bool = False) -> Shares:
        """The share of the evidence found for each question.

        ``only_hidden`` ignores evidence still in the context; ``sure`` counts only hits that match well.
        """
        turns = self._dialogue.turns
        still_in_context = turns[round(len(turns) * (1 - IN_CONTEXT)) :] if only_hidden else ()
        visible = frozenset(turn.id for turn in still_in_context)
        shares: Shares = []
        for question in key.questions:
            evidence = question.evidence - visible
            if evidence:
                hits = self._search(question.text, visible=visible)
                counted = [hit for hit in hits if not (sure and hit.weak)]
                shares.append((question.category, shares_found(counted, evidence)))
        return shares

    def strangers(self, other: Dialogue) -> list[bool]:
        """Whether something matches each question about another conversation, with this one's speakers' names, well."""
        names = dict(zip(other.speakers, self._dialogue.speakers, strict=False))
        answered = (self._search(renamed(question.text, names)) for question in other.questions)
        return [any(not hit.weak for hit in hits) for hits in answered]


def _report(
    all_shares: Sequence[Shares], sure_shares: Sequence[Shares], stranger_answers: Sequence[bool]
) -> LocomoReport:
    pooled = [*chain.from_iterable(all_shares)]
    pooled_sure = [shares for _, shares in chain.from_iterable(sure_shares)]
    columns = zip(*pooled_sure, strict=True)
    sure_recall = {
        str(depth): _percent(fmean(column)) for depth, column in zip(DEPTHS, columns, strict=True)
    }
    by_category: dict[str, list[list[float]]] = {}
    for category, shares in pooled:
        by_category.setdefault(category, []).append(shares)
    overall = RecallScore.of([shares for _, shares in pooled])
    return LocomoReport(
        **structs.asdict(overall),
        by_category={name: RecallScore.of(shares) for name, shares in sorted(by_category.items())},
        by_conversation=[_score(shares) for shares in all_shares if shares],
        sure_recall=sure_recall,
        answered_without_evidence=_percent(fmean(stranger_answers)) if stranger_answers else None,
    )


def _score(shares: Shares) -> RecallScore:
    return RecallScore.of([at_depths for _, at_depths in shares])


def shares_found(hits: Sequence[Hit], evidence: frozenset[str]) -> list[float]:
    """The share of the evidence among the first hits, at each depth."""
    uuids = [hit.uuid for hit in hits]
    return [len(evidence.intersection(uuids[:k])) / len(evidence) for k in DEPTHS]


def _percent(share: float) -> float:
    return round(100 * share, 1)


def renamed(text: str, names: Mapping[str, str]) -> str:
    """The text with names replaced by others."""
    pattern = "|".join(rf"\b{re.escape(name)}\b" for name in names)
    return re.sub(pattern, lambda name: names[name[0]], text)


# -- the data ----------------------------------------------------------------------------------


def _dialogues(data: Path) -> Iterator[Dialogue]:
    for path in sorted(data.glob("*.json")) if data.is_dir() else [data]:
        try:
            samples = msgspec.json.decode(path.read_bytes())
        except (OSError, *NOT_JSON) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"{path}: {reason}; name a file or folder of conversations") from error
        for sample in samples if isinstance(samples, list) else [samples]:
            yield _dialogue(sample, path)


def _with_key(dialogue: Dialogue, corrected: Dialogue) -> Dialogue:
    by_text = {question.text: question for question in corrected.questions}
    return Dialogue(
        dialogue.turns,
        [by_text[question.text] for question in dialogue.questions if question.text in by_text],
    )


def _dialogue(sample: Any, path: Path) -> Dialogue:
    try:
        conversation = sample.get("conversation", sample)
        turns = list(_turns(conversation))
        questions = [_question(entry) for entry in sample["qa"] if entry.get("evidence")]
    except (AttributeError, KeyError, TypeError) as error:
        raise InputError(
            f"{path}: this is not a conversation in the format of LoCoMo ({error!r})"
        ) from error
    return Dialogue(turns, [question for question in questions if question.evidence])


def _question(entry: Mapping[str, Any]) -> DialogueQuestion:
    cited = chain.from_iterable(map(_CITATION.findall, entry["evidence"]))
    evidence = frozenset(f"D{session}:{turn}" for session, turn in cited)
    return DialogueQuestion(
        entry["question"], evidence, CATEGORIES.get(entry["category"], str(entry["category"]))
    )


def _turns(conversation: Mapping[str, Any]) -> Iterator[DialogueTurn]:
    sessions = sorted((int(name[1]), name[0]) for name in map(_SESSION.fullmatch, conversation) if name)
    for _, name in sessions:
        session_start = _time(conversation.get(f"{name}_date_time", ""))
        for index, entry in enumerate(conversation[name]):
            texts = [entry.get("text") or entry.get("clean_text") or "", entry.get("blip_caption") or ""]
            time = _time(entry.get("date_time", ""), session_start + timedelta(minutes=index))
            yield DialogueTurn(entry["dia_id"], entry["speaker"], " ".join(filter(None, texts)), time)


def _time(text: str, otherwise: datetime = datetime(1970, 1, 1, tzinfo=UTC)) -> datetime:
    for form in _TIMES:
        with suppress(ValueError):
            return datetime.strptime(text, form).replace(tzinfo=UTC)
    return otherwise


def lines(dialogue: Dialogue) -> Iterable[bytes]:
    """Yield a conversation as a transcript: the first speaker is the user, and each turn names its speaker."""
    previous_id = None
    for turn in dialogue.turns:
        role = "user" if turn.speaker == dialogue.turns[0].speaker else "assistant"
        text = f"{turn.speaker}: {turn.text}"
        record = {
            "type": role,
            "uuid": turn.id,
            "parentUuid": previous_id,
            "timestamp": turn.time.isoformat().replace("+00:00", "Z"),
            "message": {"role": role, "content": [{"type": "text", "text": text}]},
        }
        previous_id = turn.id
        yield json.dumps(record).encode() + b"\n"
