"""How an act that is hard to take back is recognised in a text.

"Delete the table" is one, "remove the semicolon" is not, and a merge sort is neither: some verbs count only for what
lies outside the source code, some only for what protects it, and a noun counts only at the end of its phrase.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from msgspec import Struct

from sevenfold.layers.compact.summary.vocabulary import ACTS, COMMANDS, GUARDS, THINGS, any_of

COMMAND: Final = re.compile(any_of(COMMANDS), re.IGNORECASE)
"""Command lines that do such a thing, whatever is said about them."""
_IRREGULAR: Final = dict(
    re.findall(
        r"(\w+)/(\w+)",
        "send/sent pay/paid buy/bought sell/sold shut/shut take/taken give/given make/made set/set get/got run/run"
        " go/gone overwrite/overwritten rewrite/rewritten withdraw/withdrawn throw/thrown spend/spent reset/reset",
    )
)
_ONE_WORD: Final = frozenset({"force-push", "open-source", "bulk-update", "self-approve"})
# A noun ends its phrase before punctuation, a figure, a participle or one of these words, but not before another noun.
_SMALL: Final = any_of(
    "and or but of on in from to for with that which who at by before after older over as into under without outside"
    " against right now today tonight tomorrow is are was were be can may could should will has have had so again once"
    " until when whenever while via about anyway off down out public offline straight myself made taken withdrawn"
    " rewritten this the they we i it if because not next last through during"
)
_PHRASE_ENDS: Final = rf"(?=\s*(?:[^\w\s'/-]|\Z)|\s+(?:#?\d|\w+ed\b|\w+ly\b|{_SMALL}\b))"
_GOES_ON: Final = any_of(
    "the an? it them this that all every to with anyway now today everything and or as"
)
_VERB_ENDS: Final = rf"(?=\s+{_GOES_ON}\b|\s*(?:[.,;:]|\Z))"
_PASSED_OVER: Final = any_of(
    r"me us we i you it that the an? any all this these to for on of with over so yes please go ahead and just then now"
    r" also assistant agent is was fine right okay ok have using use run running do \w+ly"
)
_FILLERS: Final = rf"(?:{_PASSED_OVER}\b[\s,:]*)*?"
_TO_A_VERB: Final = any_of(
    " ".join(rf"(?<=\b{word}_)" for word in ["to", "we", "i", "you", "and", "just", "please", "with"])
)
_RUNS: Final = re.compile(
    rf"[\s:]*{_FILLERS}(?:(?:commit|push|pipe)\w*\s.*?)?{COMMAND.pattern}", re.IGNORECASE
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
    found = (
        act for act in acts() if act.asked.match(bare) and (act.counts is None or act.counts.search(bare))
    )
    return next(found, acts()[0] if _RUNS.match(bare) else None)


def named(text: str) -> Act | None:
    """An act that this text says is done or to be done."""
    found = (
        act for act in acts() if act.named.search(text) and (act.counts is None or act.counts.search(text))
    )
    return next(found, acts()[0] if COMMAND.search(text) else None)


@cache
def acts() -> tuple[Act, ...]:
    """The list, read."""
    objects = {"always": None, "thing": _ending(THINGS, r"|[~.\w-]*/[\w./*-]+"), "guard": _ending(GUARDS)}
    found = []
    for line in ACTS.strip().splitlines():
        verbs, _, nouns = line.partition("|")
        counts, *names = verbs.split()
        words = (word for name in (*names, *nouns.split()) for word in name.split("-"))
        stems = tuple({word[:5] for word in words if len(word) > 2})
        base, ing, done = ("|".join(one) for one in zip(*map(_forms, names), strict=True))
        patterns = _patterns(base, ing, done, rf"(?:{'|'.join(nouns.split()) or '(?!)'})s?")
        word, asked, said = (re.compile(one, re.IGNORECASE) for one in patterns)
        found.append(Act(word, stems, asked, said, objects[counts]))
    return tuple(found)


def _patterns(*forms: str) -> tuple[str, str, str]:
    base, ing, done, noun = (rf"(?<![\w/.-])(?:{form})(?![\w/-]|\.\w)" for form in forms)
    verbs = "to|that|which|is|are|was|were|be|before"
    head = rf"(?:(?!(?:{verbs}|by|for|of|in)\b)[\w'-]+\s+){{0,3}}?{noun}{_PHRASE_ENDS}"
    left = rf"(?:(?!(?:{verbs})\b)[\w'/.-]+\s+){{1,8}}?(?<!\bthe )(?<!\ba )(?<!\ban )(?!{base}){done}{_PHRASE_ENDS}"
    may = rf"\b(?:can|may|could|should|must|will|shall|we|i)\s+(?:\w+ly\s+)?{base}"
    too = rf"(?:\band|\bthen|,)\s+(?:to |then |just )?(?:{base}|{ing}){_VERB_ENDS}"
    asked = (
        rf"{_FILLERS}(?:{_TO_A_VERB}{base}|(?<!\ba )(?<!\ban ){ing}|{head}|{left})|:[:\s*]*{_FILLERS}(?:{base}|{head})"
        rf"|(?:(?!\bto (?!be\b)).)*?(?:\b(?:be|being|gets?)\s+(?:\w+ly\s+)?(?:\w+ and )?{done}|{may})|.*?{too}"
    )
    named = (
        rf"(?:\A|[.?!:]\s+)\W*{_FILLERS}(?:{ing}|{base}|{head})|{may}|{too}|\b(?:for|of|on) {head}"
        rf"|\b(?:to|for|before|of) (?:\w+ly )?(?:{base}|{ing})"
        rf"|\b(?:be|been|was|were|is|are|gets?)\s+(?:\w+ly\s+)?{done}"
    )
    return rf"{base}|{ing}|{done}|{noun}", asked, named


def _ending(words: str, more: str = "") -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-])(?:{any_of(words)}(?:e?s)?{more}){_PHRASE_ENDS}", re.IGNORECASE)


def _forms(verb: str) -> tuple[str, str, str]:
    """To do, doing and done; something may stand before the particle of a verb that has one."""
    first, *particles = [verb] if verb in _ONE_WORD else verb.split("-")
    rest = "".join(rf"(?:\s+[\w-]+){{0,4}}?[\s-]{particle}" for particle in particles)
    stem, last = first.rstrip("e"), "" if first[-1] in "eyw" else f"{first[-1]}?"
    done = _IRREGULAR.get(first, f"{stem[:-1]}ied" if re.search("[^aeiou]y$", first) else f"{stem}{last}ed")
    return first + rest, f"{stem}{last}ing{rest}", done + rest
