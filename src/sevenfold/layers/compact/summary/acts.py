"""How an act that is hard to take back is recognised in a text.

"Delete the table" is one, "remove the semicolon" is not, and a merge sort is neither: some verbs count only for what
lies outside the source code, some only for what protects it, and a noun counts only at the end of its phrase.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Final

from msgspec import Struct

from sevenfold.layers.compact.summary.vocabulary import (
    ACTS,
    AFTER_A_NOUN,
    AFTER_A_VERB,
    BETWEEN,
    COMMANDS,
    OBJECTS,
    any_of,
)

COMMAND: Final = re.compile(any_of(COMMANDS), re.IGNORECASE)
"""Command lines that do such a thing, whatever is said about them."""
_NOUN_ENDS: Final = rf"(?=\s*(?:[^\w\s'/-]|\Z)|\s+{any_of(AFTER_A_NOUN)}\b)"
_VERB_ENDS: Final = rf"(?=\s+{any_of(AFTER_A_VERB)}\b|\s*(?:[.,;:]|\Z))"
_BETWEEN: Final = rf"(?:{any_of(BETWEEN)}\b[\s,:]*)*?"
_TO: Final = (
    r"(?:(?<=\bto )|(?<=\bwe )|(?<=\bi )|(?<=\byou )|(?<=\band )|(?<=\bjust )|(?<=\bplease )|(?<=\bwith ))"
)
_RUNS: Final = re.compile(
    rf"[\s:]*{_BETWEEN}(?:(?:commit|push|pipe)\w*\s.*?)?{any_of(COMMANDS)}", re.IGNORECASE
)


class Act(Struct, frozen=True):
    """One act, as patterns."""

    word: re.Pattern[str]
    stems: tuple[str, ...]
    asked: re.Pattern[str]
    """How it is named behind "the user asked"."""
    named: re.Pattern[str]
    """How it is named in a sentence of its own."""
    counts: re.Pattern[str] | None
    """What it must be done to; None: it always counts."""


def asked_for(text: str) -> Act | None:
    """The act this text is about, which follows a verb of asking or allowing; one that it only mentions is none."""
    bare = text.lstrip(" *_,(")
    return _first(bare, (act for act in acts() if act.asked.match(bare)), _RUNS.match(bare))


def named(text: str) -> Act | None:
    """An act that this text says is done or to be done."""
    return _first(text, (act for act in acts() if act.named.search(text)), COMMAND.search(text))


def _first(text: str, found: Iterable[Act], command: object) -> Act | None:
    counting = (act for act in found if act.counts is None or act.counts.search(text))
    return next(counting, acts()[0] if command else None)


@cache
def acts() -> tuple[Act, ...]:
    """The list, read."""
    objects: dict[str, str] = {}
    for line in OBJECTS.strip().splitlines():
        kind, _, words = line.partition(" ")
        objects[kind] = f"{objects.get(kind, '')} {words}".replace(" PATH", r" [~.\w-]*/[\w./*-]+")
    found = []
    for line in ACTS.strip().splitlines():
        verbs, _, nouns = line.partition("|")
        kind, *names = verbs.split()
        stems = tuple({word[:5] for word in re.findall(r"\w{3,}", f"{' '.join(names)} {nouns}")})
        base, ing, done = ("|".join(one) for one in zip(*map(_forms, names), strict=True))
        patterns = _patterns(base, ing, done, rf"(?:{'|'.join(nouns.split()) or '(?!)'})s?")
        word, asked, said = (re.compile(one, re.IGNORECASE) for one in patterns)
        counts = None if kind == "any" else _ending(objects[kind])
        found.append(Act(word, stems, asked, said, counts))
    return tuple(found)


def _patterns(*forms: str) -> tuple[str, str, str]:
    base, ing, done, noun = (rf"(?<![\w/.-])(?:{form})(?![\w/-]|\.\w)" for form in forms)
    verbs = "to|that|which|is|are|was|were|be|before"
    head = rf"(?:(?!(?:{verbs}|by|for|of|in)\b)[\w'-]+\s+){{0,3}}?{noun}{_NOUN_ENDS}"
    left = rf"(?:(?!(?:{verbs})\b)[\w'/.-]+\s+){{1,8}}?(?<!\bthe )(?<!\ba )(?<!\ban )(?!{base}){done}{_NOUN_ENDS}"
    may = rf"\b(?:can|may|could|should|must|will|shall|we|i)\s+(?:\w+ly\s+)?{base}"
    too = rf"(?:\band|\bthen|,)\s+(?:to |then |just )?(?:{base}|{ing}){_VERB_ENDS}"
    asked = (
        rf"{_BETWEEN}(?:{_TO}{base}|(?<!\ba )(?<!\ban ){ing}|(?<!\bto ){head}|{left})"
        rf"|:[:\s*]*{_BETWEEN}(?:{base}|{head})"
        rf"|(?:(?!\bto (?!be\b)).)*?(?:\b(?:be|being|gets?)\s+(?:\w+ly\s+)?(?:\w+ and )?{done}|{may})|.*?{too}"
    )
    named = (
        rf"(?:\A|[.?!:][\s*]+)\W*{_BETWEEN}(?:{ing}|{base}|{head})|{may}|{too}|\b(?:for|of|on) {head}"
        rf"|\b(?:to|for|before|of|covers?|including|with) (?:\w+ly )?(?:{base}|{ing})"
        rf"|\b(?:be|been|was|were|is|are|gets?|i|we)\s+(?:\w+ly\s+)?{done}"
    )
    return rf"{base}|{ing}|{done}|{noun}", asked, named


def _ending(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-]){any_of(words)}(?:e?s)?{_NOUN_ENDS}", re.IGNORECASE)


def _forms(verb: str) -> tuple[str, str, str]:
    """To do, doing and done."""
    first, *particles = verb.split("+")
    base, _, irregular = first.partition("/")
    rest = "".join(rf"(?:\s+[\w-]+){{0,4}}?[\s-]{particle}" for particle in particles)
    stem, last = base.rstrip("e"), "" if base[-1] in "eyw" else f"{base[-1]}?"
    regular = f"{stem[:-1]}ied" if re.search("[^aeiou]y$", base) else f"{stem}{last}ed"
    return base + rest, f"{stem}{last}ing{rest}", (irregular or regular) + rest
