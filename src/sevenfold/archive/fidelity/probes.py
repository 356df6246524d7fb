"""The facts in a range of records, as a bounded sample.

The number of facts of each kind is limited, so that the check takes milliseconds however long the conversation was.
The choice depends only on the records: the most important facts first and, among equals, the newest.

Exact identifiers (paths, ids, hashes, versions, flags, figures, addresses) are useful only if repeated to the letter.
Candidates are words between whitespace, without surrounding punctuation; their shape decides which are identifiers.
That is fast enough for megabytes, because each distinct candidate is checked once.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain

from msgspec import Struct

from sevenfold.archive.fidelity import facts
from sevenfold.archive.fidelity.facts import EDITED_FILE, IDENTIFIER, KINDS, MOST_PER_KIND, Probe
from sevenfold.archive.fidelity.reader import Call, ContentByAuthor, Excerpt, read_items
from sevenfold.archive.fidelity.sentences import pattern
from sevenfold.record.layout import Item

_EDGES = "\"'`“”‘’«»()[]{}<>,;:!?*|=…"
_SHAPE = pattern("shape")
_SAID_FIGURE = pattern("said_figure")
_SEPARATOR = re.compile(r"[/\\]")
_MAYBE = re.compile(r"[0-9/\\_]|\.\w|--\w")
_HEX = re.compile(r"[0-9a-f]{7,64}")
_MIXED = re.compile(r"(?=.*\d)(?=.*[a-f])")
SHORTEST = 3
LONGEST = 200
PASTED = 600
"""Characters above which a message of the user counts as partly pasted."""
READ = 4_000
READ_IN_ALL = 200_000
"""Characters searched for identifiers: in one text, and in all texts of the user or of the model, newest first."""
OFTEN = 3
"""How many calls must contain an identifier for it to count if no message mentions it."""


class Sample(Struct, frozen=True):
    """Facts to look for, and how many of each kind were left out."""

    probes: tuple[Probe, ...]
    left_out: dict[str, int] = {}


def probes(items: Iterable[Item], *, later_rounds_visible: bool = False) -> tuple[Probe, ...]:
    """The facts in the records a compaction hides, by kind.

    ``later_rounds_visible`` means that later rounds stay in view: the current step is not among the hidden records.
    """
    return sample(items, later_rounds_visible=later_rounds_visible).probes


def sample(
    items: Iterable[Item], *, later_rounds_visible: bool = False, everything: bool = False
) -> Sample:
    """Like `probes`, with the number of facts of each kind that were left out; with ``everything``, none is."""
    content = read_items(items)
    chosen: list[Probe] = []
    left_out: dict[str, int] = {}
    by_kind: dict[str, dict[str, Probe]] = {kind: {} for kind in KINDS}
    for probe in _all(content, later_rounds_visible):
        by_kind[probe.kind].setdefault(probe.text, probe)
    for probe in _identifiers(content, by_kind[EDITED_FILE].values()):
        by_kind[IDENTIFIER].setdefault(probe.text, probe)
    for kind, probes_of_kind in by_kind.items():
        limit = len(probes_of_kind) if everything else MOST_PER_KIND[kind]
        # Within a kind, the most important facts come last.
        chosen += list(probes_of_kind.values())[max(0, len(probes_of_kind) - limit) :]
        if len(probes_of_kind) > limit:
            left_out[kind] = len(probes_of_kind) - limit
    return Sample(tuple(chosen), left_out)


def _all(content: ContentByAuthor, later_rounds_visible: bool) -> Iterator[Probe]:
    yield from facts.messages(content)
    yield from facts.wishes(content)
    yield from facts.decisions(content)
    yield from facts.pending_tasks(content)
    if not later_rounds_visible:
        yield from facts.current_step(content)
    yield from facts.edited_files(content)
    yield from facts.errors(content)


def _identifiers(content: ContentByAuthor, edited: Iterable[Probe]) -> Iterator[Probe]:
    """Yield exact identifiers other than the changed files."""
    files = {*chain.from_iterable((probe.text, *probe.accepts) for probe in edited)}
    names = Names([*content.user, *content.refusals], content.model, content.calls)
    for text in names.significant():
        if text not in files:
            record, recall_kind = names.newest(text)
            yield Probe(IDENTIFIER, text, record, (recall_kind,), "exact")


class _Finding(Struct):
    """The records that contain an identifier, with the kind recall gives each, and how important it is."""

    records: dict[str, str] = {}
    spoken: bool = False
    level: int = 0


class Names:
    """The identifiers of a conversation."""

    def __init__(self, user: Iterable[Excerpt], model: Iterable[Excerpt], calls: Iterable[Call]) -> None:
        self._findings = defaultdict[str, _Finding](_Finding)
        for excerpt in _newest(user):
            figures = (" ".join(hit.split()) for hit in _SAID_FIGURE.findall(excerpt.text))
            level = 1 if len(excerpt.text) > PASTED else 2
            self._note(
                [*_identifiers_in(excerpt.text), *figures], excerpt.record, excerpt.recall_kind, level
            )
        for excerpt in _newest(model):
            self._note(_identifiers_in(excerpt.text), excerpt.record, excerpt.recall_kind)
        for call in calls:
            short = (
                value for value in call.given.values() if isinstance(value, str) and len(value) <= 1_000
            )
            named = (name for name in _identifiers_in(" ".join(short)) if not name.startswith("--"))
            self._note(named, call.record, "tool_use")

    def significant(self) -> list[str]:
        """Identifiers that the user mentioned or that occur repeatedly, the most important last.

        What the user typed is most important, then what the user pasted, then what occurs most often.
        """
        folders = self._folders()
        texts = [
            text for text, finding in self._findings.items() if _is_significant(text, finding, folders)
        ]
        return sorted(
            texts, key=lambda text: (self._findings[text].level, len(self._findings[text].records))
        )

    def newest(self, text: str) -> tuple[str, str]:
        """The newest record with it (the user's first, then the model's, then calls), and the kind recall gives it."""
        records = self._findings[text].records
        first = next(iter(records.values()))
        return [(record, kind) for record, kind in records.items() if kind == first][-1]

    def _folders(self) -> set[str]:
        """Every leading part of an identifier that ends at a path separator."""
        folders: set[str] = set()
        for text in self._findings:
            folders.update(text[: separator.start()] for separator in _SEPARATOR.finditer(text))
        return folders

    def _note(self, names: Iterable[str], record: str, recall_kind: str, level: int = 0) -> None:
        for name in names:
            finding = self._findings[name]
            finding.records.setdefault(record, recall_kind)
            finding.spoken |= recall_kind != "tool_use"
            finding.level = max(finding.level, level)


def _ends(excerpt: Excerpt) -> Excerpt:
    """Cut a long text to its beginning and end, which are searched for identifiers."""
    if len(excerpt.text) <= READ:
        return excerpt
    return Excerpt(
        excerpt.record, f"{excerpt.text[: READ // 2]}\n{excerpt.text[-READ // 2 :]}", excerpt.recall_kind
    )


def _newest(stretches: Iterable[Excerpt]) -> list[Excerpt]:
    """The newest texts that fit into `READ_IN_ALL`, in order."""
    newest: list[Excerpt] = []
    room = READ_IN_ALL
    for excerpt in map(_ends, reversed(list(stretches))):
        room -= len(excerpt.text)
        if room < 0:
            break
        newest.append(excerpt)
    return newest[::-1]


def _is_significant(text: str, finding: _Finding, folders: set[str]) -> bool:
    """Whether an identifier is worth a probe; a folder of other identifiers is so only if the user named it."""
    often = len(finding.records) > 1 if finding.spoken else len(finding.records) >= OFTEN
    return bool(finding.level) or (often and text not in folders)


def _identifiers_in(text: str) -> list[str]:
    """The identifiers in a text, in order."""
    return [name for word in dict.fromkeys(text.split()) if (name := _identifier(word))]


@lru_cache(maxsize=100_000)
def _identifier(word: str) -> str:
    """The identifier in a word, without punctuation around it; empty if it is none."""
    if not _MAYBE.search(word):
        return ""
    name = word.strip(_EDGES).rstrip(".").removesuffix("'s").rstrip(_EDGES)
    if not SHORTEST <= len(name) <= LONGEST or not _SHAPE.fullmatch(name) or name.startswith("/dev/"):
        return ""
    return "" if _HEX.fullmatch(name) and not _MIXED.match(name) else name
