"""What memory keeps of labelled conversations in four languages, with a perfect model and a sloppy one.

    python bench/remembering.py [perfect|sloppy] [--second] [--seed N]

The conversations are in ``remembering.toml``, and a second set of them, with ``--second``, in
``remembering_second.toml``: short and long, with corrections, retractions, irony, wishes that hold
only for now, and pasted and forwarded text. Both models know the labels, and see only what an instruction shows them.
The perfect one answers as asked. The sloppy one misquotes (a full stop more or less, an ellipsis, other case, other
quotation marks, a typo, no number of the message), takes everything that is quoted for the user's, and now and then
irony or a wish for now. So what is measured is the engine: when it asks, what it shows, what it makes of the answer.

Bars: at least 90% of what should be kept is kept as the user's, at least 95% of what is trusted is right; of changed
minds the later statement counts in at least 95%, and the earlier one can be brought back in all; of 30 explicit wishes
in a row all are kept, or the user is told which are not. The exit status is 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import sevenfold
from sevenfold.clock import ManualClock
from sevenfold.errors import Refused
from sevenfold.events import Event, SteppedAside
from sevenfold.memory.memory import KnownEntry, Memory
from sevenfold.memory.quotation import comparable


def read_set(name: str) -> dict[str, Any]:
    """The conversations of a file beside this one, by language."""
    return tomllib.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))


SET = read_set("remembering.toml")
MODEL = "claude-sonnet-5-5"
KEPT, RIGHT, CHANGED = 0.9, 0.95, 0.95
WISHES = 30
START = 1_795_000_000.0
"""A Wednesday in November 2026."""
MINUTE = 60.0
SEED = 7
WORK = "Look at part {number} of the ledger and tell me in one line what it is about."
_LABEL = re.compile(
    r"\[\[(?:(?P<sign>[+-])|(?P<id>[a-z])(?P<role>[<>!]))(?:@(?P<day>[^|\]]+)\|)?(?P<words>.*?)\]\]",
    re.DOTALL,
)
_MESSAGE = re.compile(r"^\[(\d+)\] [^\n]*\n", re.MULTILINE)
_BEGINNING = re.compile(r'^\[(\d+)\] [^":\n]*: "(.*)"$', re.MULTILINE)
_HANDLE = re.compile(r'^(m\d+): "(.*)" \(', re.MULTILINE)


class Label(NamedTuple):
    """A statement in a message, and what should become of it."""

    words: str
    kind: str
    """keep, trap, earlier, later or lifts"""
    change: str = ""
    """What connects an earlier statement with the one that ends it."""
    day: str = ""
    """The words in it that name a day."""


class Conversation(NamedTuple):
    """A conversation without its labels, and the labels."""

    language: str
    steps: tuple[object, ...]
    labels: tuple[Label, ...]


class Score(NamedTuple):
    """The figures of some conversations."""

    kept: int = 0
    wanted: int = 0
    right: int = 0
    trusted: int = 0
    changed: int = 0
    changes: int = 0
    undone: int = 0
    dated: int = 0
    days: int = 0

    def plus(self, other: Score) -> Score:
        """Both together."""
        return Score(*(one + more for one, more in zip(self, other, strict=True)))


def conversations() -> list[Conversation]:
    """The labelled conversations."""
    made = []
    for language, table in SET.items():
        for steps in table["conversations"]:
            labels: list[Label] = []
            bare = tuple(_bare(step, labels) if isinstance(step, str) else step for step in steps)
            made.append(Conversation(language, bare, tuple(labels)))
    return made


def _bare(text: str, labels: list[Label]) -> str:
    roles = {"<": "earlier", ">": "later", "!": "lifts"}

    def take(match: re.Match[str]) -> str:
        kind = {"+": "keep", "-": "trap"}.get(match["sign"] or "") or roles[match["role"]]
        labels.append(Label(match["words"], kind, match["id"] or "", match["day"] or ""))
        return match["words"]

    return _LABEL.sub(take, text)


# -- the models --------------------------------------------------------------------------------------


class PerfectModel:
    """Answers as the instruction asks, with what the labels say about the messages that it shows."""

    def __init__(self, labels: tuple[Label, ...], chance: random.Random) -> None:
        self.labels = labels
        self.chance = chance

    def __call__(self, request: Mapping[str, Any]) -> str:
        """The answer to a request for facts."""
        contents = [message["content"] for message in request["messages"]]
        *before, instruction = [text if isinstance(text, str) else _joined(text) for text in contents]
        known, _, listed = instruction.partition("Look only at these messages of the user:")
        handles = {words: handle for handle, words in _HANDLE.findall(known)}
        answers = []
        for number, shown in _shown(listed, before):
            held = [label for label in self.labels if _holds(shown, label.words)]
            answers += [self.answer(label, number, handles) for label in held if self.proposes(label)]
        return "\n".join(answers) or "<nothing/>"

    def proposes(self, label: Label) -> bool:
        """Whether it takes this statement for worth keeping."""
        return label.kind in ("keep", "later", "lifts", "earlier")

    def quote(self, words: str) -> str:
        """How it quotes."""
        return words

    def number(self, number: str) -> str:
        """How it names a message."""
        return f' message="{number}"'

    def answer(self, label: Label, number: str, handles: dict[str, str]) -> str:
        """The tags for one statement."""
        ended = [one for one in self.labels if one.change == label.change and one.kind == "earlier"]
        parts = [f"<quote>{self.quote(label.words)}</quote>"]
        if label.kind in ("later", "lifts"):
            for earlier in ended:
                named = next((handles[words] for words in handles if _same(words, earlier.words)), "")
                parts.append(f"<replaces>{named or earlier.words}</replaces>")
        if label.day:
            parts.append(f'<date words="{label.day}">{friday()}</date>')
        tag = "forget" if label.kind == "lifts" else "fact"
        return f"<{tag}{self.number(number)}>\n{chr(10).join(parts)}\n</{tag}>"


class SloppyModel(PerfectModel):
    """Misquotes, and believes more than it should."""

    def proposes(self, label: Label) -> bool:
        """It takes all that others wrote for the user's, and one in five of the user's own passing remarks."""
        return label.kind != "trap" or label in quoted_traps() or self.chance.random() < 0.2

    def quote(self, words: str) -> str:
        """One of the ways in which models misquote."""
        ways: list[Callable[[str], str]] = [
            lambda text: text,
            lambda text: text.rstrip(".。") if text.endswith((".", "。")) else f"{text}.",
            lambda text: f"{text.rstrip('.。')}…",
            str.upper,
            lambda text: text.replace('"', "“").replace("'", "’"),
            self._with_gap,
            self._with_typo,
        ]
        return self.chance.choice(ways)(words)

    def number(self, number: str) -> str:
        """It forgets the number of the message one time in five."""
        return "" if self.chance.random() < 0.2 else f' message="{number}"'

    def _with_gap(self, text: str) -> str:
        words = text.split()
        return f"{' '.join(words[:2])} … {' '.join(words[3:])}" if len(words) > 5 else text

    def _with_typo(self, text: str) -> str:
        long = [word for word in text.split() if len(word) > 6 and word.isalpha() and word.isascii()]
        if not long:
            return text
        word = self.chance.choice(long)
        return text.replace(word, word[:4] + word[5:], 1)


def quoted_traps() -> set[Label]:
    """The traps that others wrote: they are behind >, in a fence or in a tag."""
    found = set()
    for table in SET.values():
        for steps in table["conversations"]:
            for step in steps:
                if isinstance(step, str) and re.search(r"^(?:>|```|<mail>)", step, re.MULTILINE):
                    labels: list[Label] = []
                    _bare(step, labels)
                    found |= {label for label in labels if label.kind == "trap"}
    return found


def friday() -> date:
    """The Friday after the conversations."""
    day = date.fromtimestamp(START)
    return day + timedelta(days=(4 - day.weekday()) % 7)


def _joined(content: list[dict[str, Any]]) -> str:
    return "\n".join(block.get("text", "") for block in content)


def _shown(listed: str, before: list[str]) -> Iterator[tuple[str, str]]:
    """The messages that an instruction shows or names, by number."""
    named = _BEGINNING.findall(listed)
    for number, beginning in named:
        start = beginning.rstrip("…").split("'")[0]
        yield (
            number,
            next((text for text in reversed(before) if " ".join(text.split()).startswith(start)), ""),
        )
    if named:
        return
    headings = list(_MESSAGE.finditer(listed))
    for heading, end in zip(headings, [*(one.start() for one in headings[1:]), len(listed)], strict=True):
        lines = listed[heading.end() : end].splitlines()
        yield heading[1], "\n".join(line.removeprefix("> ") for line in lines if line.startswith(">"))


def _holds(text: str, words: str) -> bool:
    return " ".join(words.split()) in " ".join(text.split())


def _same(one: str, other: str) -> bool:
    left, right = (" ".join(comparable(text)) for text in (one.rstrip("…"), other))
    return bool(left) and (left in right or right in left)


# -- the measurement ---------------------------------------------------------------------------------


@contextmanager
def _home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        before = os.environ.get("SEVENFOLD_HOME")
        os.environ["SEVENFOLD_HOME"] = str(Path(folder) / "home")
        work = Path(folder) / "work"
        work.mkdir()
        try:
            yield work
        finally:
            if before is None:
                del os.environ["SEVENFOLD_HOME"]
            else:
                os.environ["SEVENFOLD_HOME"] = before


def run(conversation: Conversation, model: PerfectModel, work: Path, clock: ManualClock) -> None:
    """Hold a conversation, in as many sessions as it has."""
    steps = [*conversation.steps, "==="]
    number = turn = 0
    while steps:
        script = sevenfold.Script(["Fine."] * 200, jobs={"extract_memories": model})
        with sevenfold.Session.open(
            f"s{number}",
            model=MODEL,
            folder=work,
            memory=True,
            client=sevenfold.OfflineClient(script),
            clock=clock,
            settings={"notes": False},
        ) as session:
            while (step := steps.pop(0)) != "===":
                if step == "/compact":
                    session.compact()
                    continue
                count = step if isinstance(step, int) else 1
                for _ in range(count):
                    turn += 1
                    session.user(WORK.format(number=turn) if isinstance(step, int) else str(step))
                    session.complete()
                    clock.advance(MINUTE)
            session.settle()
        number += 1


def score(conversation: Conversation, memory: Memory) -> Score:
    """What became of the labelled statements."""
    known = memory.entries()
    today = memory.today()
    valid = [entry for entry in known if entry.stamp.trusted and not entry.entry.has_expired(today)]
    wanted = [label for label in conversation.labels if label.kind in ("keep", "later")]
    kept = [label for label in wanted if any(_states(entry, label.words) for entry in valid)]
    right = [entry for entry in valid if any(_states(entry, label.words) for label in wanted)]
    changes = {label.change for label in conversation.labels if label.kind == "earlier"}
    changed = [change for change in changes if _counts_later(conversation, change, valid)]
    days = [label for label in kept if label.day]
    dated = [label for label in days if f"{label.day} is {friday()}" in memory.index()]
    undone = sum(_can_be_undone(memory, conversation, change) for change in changes)
    return Score(
        len(kept),
        len(wanted),
        len(right),
        len(valid),
        len(changed),
        len(changes),
        undone,
        len(dated),
        len(days),
    )


def _states(entry: KnownEntry, words: str) -> bool:
    return f" {' '.join(comparable(words))} " in f" {' '.join(comparable(entry.entry.statement))} "


def _counts_later(conversation: Conversation, change: str, valid: list[KnownEntry]) -> bool:
    """Whether only the later of two statements counts."""
    for label in conversation.labels:
        if label.change != change:
            continue
        there = any(_states(entry, label.words) for entry in valid)
        if there != (label.kind == "later"):
            return False
    return True


def _can_be_undone(memory: Memory, conversation: Conversation, change: str) -> bool:
    """Whether the earlier statement counts again once what closed it is undone."""
    earlier = next(
        label for label in conversation.labels if label.change == change and label.kind == "earlier"
    )
    for made in memory.changes():
        if made.reason.startswith("closed ") and made.by == "remember":
            try:
                memory.undo(made.number)
            except Refused:
                continue
            valid = [entry for entry in memory.entries() if not entry.entry.has_expired(memory.today())]
            return any(_states(entry, earlier.words) for entry in valid if entry.stamp.trusted)
    return False


def measure(kind: type[PerfectModel], seed: int = SEED, sample: int = 1) -> dict[str, Score]:
    """The scores by language; of each language every ``sample``-th conversation."""
    chance = random.Random(seed)
    scores: dict[str, Score] = {}
    for conversation in conversations()[::sample]:
        with _home() as work:
            clock = ManualClock(START)
            run(conversation, kind(conversation.labels, chance), work, clock)
            found = score(conversation, _memory(work, clock))
        scores[conversation.language] = scores.get(conversation.language, Score()).plus(found)
    return scores


def _memory(work: Path, clock: ManualClock) -> Memory:
    folder = sevenfold.open_memory(work).folder
    return Memory(folder, clock, lambda: date.fromtimestamp(clock.now()).isoformat())


def wishes(kind: type[PerfectModel]) -> tuple[int, int]:
    """Of 30 explicit wishes in a row: how many were kept, and of how many the user was told that they were not."""
    said = [
        f"From now on always file report {number} under code {number + 40}." for number in range(WISHES)
    ]
    labels = tuple(Label(words, "keep") for words in said)
    told: list[str] = []

    def listen(event: Event) -> None:
        if isinstance(event, SteppedAside) and "not remembered" in event.reason:
            told.append(event.reason)

    with _home() as work:
        clock = ManualClock(START)
        script = sevenfold.Script(
            ["Fine."] * 40, jobs={"extract_memories": kind(labels, random.Random(SEED))}
        )
        with sevenfold.Session.open(
            "wishes",
            model=MODEL,
            folder=work,
            memory=True,
            client=sevenfold.OfflineClient(script),
            clock=clock,
            listen=[listen],
            settings={"notes": False, "memory_daily_budget": 0},
        ) as session:
            for words in said:
                session.user(words)
                session.complete()
        valid = [entry for entry in _memory(work, clock).entries() if entry.stamp.trusted]
        kept = sum(any(_states(entry, words) for entry in valid) for words in said)
    return kept, len(told)


def share(part: int, whole: int) -> float:
    """The share of a whole; all of nothing."""
    return part / whole if whole else 1.0


def main() -> int:
    """Print the figures by model and language; return exit status 0 if all bars are met, else 1."""
    global SET
    kinds = {"perfect": PerfectModel, "sloppy": SloppyModel}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", choices=(*kinds, []), metavar="MODEL", help="perfect, sloppy")
    parser.add_argument("--second", action="store_true", help="the second set of conversations")
    parser.add_argument(
        "--seed", type=int, default=SEED, help="of the chance in the sloppy model's answers"
    )
    options = parser.parse_args()
    if options.second:
        SET = read_set("remembering_second.toml")
    print(f"{len(conversations())} conversations")
    missed = False
    for name in options.models or kinds:
        scores = measure(kinds[name], options.seed)
        total = Score()
        print(f"\n{name:10}{'kept':>14}{'right':>14}{'later counts':>14}{'undone':>9}{'dated':>8}")
        for language, found in scores.items():
            total = total.plus(found)
            print(_row(language, found))
        print(_row("all", total))
        kept, told = wishes(kinds[name])
        print(f"of {WISHES} wishes in a row {kept} were kept, {told} refused and told")
        missed |= share(total.kept, total.wanted) < KEPT or share(total.right, total.trusted) < RIGHT
        missed |= share(total.changed, total.changes) < CHANGED or total.undone < total.changes
        missed |= kept + told < WISHES
    return 1 if missed else 0


def _row(name: str, found: Score) -> str:
    cells = [
        f"{found.kept}/{found.wanted} {share(found.kept, found.wanted):.0%}",
        f"{found.right}/{found.trusted} {share(found.right, found.trusted):.0%}",
        f"{found.changed}/{found.changes}",
    ]
    undone, dated = f"{found.undone}/{found.changes}", f"{found.dated}/{found.days}"
    return f"{name:10}{cells[0]:>14}{cells[1]:>14}{cells[2]:>14}{undone:>9}{dated:>8}"


if __name__ == "__main__":
    sys.exit(main())
