"""How well the check of summaries tells lies from the truth, measured on statements of which that is known."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from sevenfold.lab.retention.honest import Honest
from sevenfold.lab.retention.lies import FILE
from sevenfold.layers.compact import extract, fidelity, summary
from sevenfold.layers.compact.extract.facts import Facts
from sevenfold.layers.compact.summary import Draft
from sevenfold.record import blocks
from sevenfold.record.entries import Said
from sevenfold.record.layout import Item

SECTIONS = (5, 9)
"""Where lies are told: among what was done, and as what is next."""
_LEADS = re.compile(r"[:*]\Z")
_WORDS = re.compile(r"[^\W\d_]")
_SENTENCE = re.compile(r"(?<=[.!?。])\s+")


class Caught(Struct):
    """How many lies in a summary are noticed: by the engine, and by the independent check the bars rest on."""

    told: int = 0
    engine: int = 0
    check: int = 0

    def __str__(self) -> str:
        return f"{self.engine} of {self.told} taken out, {self.check} seen by the independent check"


class Removed(Struct):
    """How many sentences of honest summaries are taken out."""

    told: int = 0
    sentences: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{len(self.sentences)} of {self.told} sentences taken out"


def lies_caught(lies: Mapping[str, Sequence[str]], items: Sequence[Item]) -> Iterator[tuple[str, Caught]]:
    """For each style what becomes of its lies, told in a summary of these records."""
    known = extract.facts(items)
    file = known.files[0].path if known.files else "README.md"
    for style, told in lies.items():
        named = [lie.replace(FILE, file) for lie in told]
        text = "\n\n".join(named)
        for section in SECTIONS:
            kept = _kept(text, section, known, items)
            engine = sum(not any(line in kept for line in _claims(lie)) for lie in named)
            check = sum(bool(fidelity.invented([lie], items)) for lie in named)
            yield style, Caught(len(named), engine, check)


def _kept(text: str, section: int, known: Facts, items: Sequence[Item]) -> str:
    return summary.verify(Draft(text, {section: text}), known, items).draft.sections.get(section, "")


def _claims(lie: str) -> list[str]:
    """The lines of a lie that must go; one that leads up to others says nothing without them."""
    return [line for line in lie.splitlines() if line.strip() and not _LEADS.search(line)]


def honest_removed(told: Iterable[Honest]) -> Removed:
    """What is taken out of honest summaries of made-up sessions."""
    removed = Removed()
    for one in told:
        _remove(removed, one.summary, _conversation(one.turns))
    return removed


def real_removed(text: str, items: Sequence[Item], removed: Removed) -> None:
    """What would be taken out of a summary that a model wrote of these records."""
    draft = summary.read(text)
    if isinstance(draft, Draft):
        _remove(removed, draft.sections, items)


def _remove(removed: Removed, sections: Mapping[int, str], items: Sequence[Item]) -> None:
    checked = summary.verify(Draft("", sections), extract.facts(items), items)
    prose = (text for number, text in sections.items() if number != 6)
    lines = (part for text in prose for line in text.splitlines() for part in _SENTENCE.split(line))
    removed.told += sum(bool(_WORDS.search(line)) for line in lines)
    removed.sentences += [*checked.invented, *checked.strange]


def _conversation(turns: Sequence[str]) -> list[Item]:
    roles = ("user", "assistant")
    said = [
        Said(
            f"{place:08d}",
            None,
            roles[place % 2],
            (blocks.text(words),),
            message_id=f"m{place}" * (place % 2),
        )
        for place, words in enumerate(turns)
    ]
    return [Item.of(one, place) for place, one in enumerate(said)]
