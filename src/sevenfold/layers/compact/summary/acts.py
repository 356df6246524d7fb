"""How an act that is hard to take back is recognised in a sentence.

A sentence is read word by word. An act is a verb or a noun of the list where it heads its phrase: "delete the table",
"deleting it", "the table be deleted", "the deletion of"; not "the delete button". Whether it counts depends on three
things: the act itself, what it is done to, and whether leave was given for it or it was only asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Final, Literal

from msgspec import Struct

from sevenfold.layers.compact.summary import vocabulary
from sevenfold.layers.compact.summary.vocabulary import any_of, phrase
from sevenfold.layers.compact.summary.vocabulary import word_set as _set

_COMMANDED: Final = "commandline"
_TOKEN: Final = re.compile(r"[$€£]?\w(?:[\w'./#*+-]*\w)?|\.env|[~.]?/[\w./*-]+|[^\w\s]")
_WORD: Final = re.compile("[a-z'-]+")
_FORCE_PUSH: Final = re.compile(r"\bforce push", re.IGNORECASE)
_SIGNS: Final = frozenset(".:;,*-–—(")
_STOPS: Final = frozenset(".;?!")

Form = Literal["base", "ing", "done", "noun", "command"]
SENSITIVE, VALUED, PRODUCT, SETTING = 2, 1, -1, -2
"""What a noun refers to; a setting is a product in which something is done: "in the tests"."""


class Kind(Struct, frozen=True):
    """Acts that are alike: evidence for one is evidence for the others."""

    stems: tuple[str, ...]
    listed: bool = True

    @property
    def removes(self) -> bool:
        """Is something gone after it?"""
        return "delet" in self.stems


class Act(Struct, frozen=True):
    """A word that can name an act."""

    kind: Kind
    form: Form
    counts: int
    """2: always; 1: with leave, or done to something of value; 0: only if that is sensitive."""
    particle: str = ""
    alone: bool = False
    """Does it count without saying what it is done to?"""


class Found(Struct, frozen=True):
    """An act in a sentence, and the words about it."""

    kind: Kind
    about: str


class Phrase:
    """The words of a sentence, or of a part of one, and whether they give ``leave`` or only ask."""

    def __init__(self, text: str, *, leave: bool = False) -> None:
        text = _FORCE_PUSH.sub("force-push", command().sub(f" {_COMMANDED} ", text))
        self._words = _TOKEN.findall(text.lower().replace("’", "'"))
        self._leave = leave

    def asked_for(self) -> Found | None:
        """The act that is asked for or allowed in these words, which follow a verb of asking or allowing.

        It must be what they are about: "a script that deletes the table" is a script.
        """
        before, other = 0, False
        for place, word in enumerate(self._words):
            if word in _STOPS or word in _set("TURNS") or _negates(word) or self._states(place):
                return None
            heads = [act for act in self._acts(place) if self._heads(act, place, _set("BE"))]
            for act in heads:
                described = act.form == "noun" and (other or self._generic(place))
                if not described and (found := self._weighed(act, place, before)):
                    return found
            if any(act.form != "noun" for act in heads):
                return self._joined(place)
            if strange := self._unlisted(place):
                return self._weighed(strange, place, 0) or self._joined(place)
            # All of the tests are more than a product, if they are to be removed: the act may be still to come.
            if (value := self._value(place)) < 0 and not self._whole(0, place + 1):
                return None
            before = max(before, value)
            other |= not heads and _content(word) and self._ends(place)
        return None

    def named(self) -> Found | None:
        """An act that these words say is done or to be done, wherever."""
        for place in range(len(self._words)):
            for act in self._acts(place):
                if self._heads(act, place, _set("WAS")):
                    values = [self._value(n) for n in range(self._clause(place), place)]
                    if found := self._weighed(act, place, max(values, default=0)):
                        return found
        return None

    def speaks_of(self, kind: Kind) -> bool:
        """Do these words of the user speak of such an act, and not against it?"""
        for place, word in enumerate(self._words):
            alike = any(act.kind is kind for act in self._acts(place))
            near = self._words[max(0, place - 6) : place]
            named = alike or (not kind.listed and word.startswith(kind.stems))
            against = any(_negates(one) or one in _set("AGAINST") for one in near)
            if named and not against and near[-1:] not in _DETERMINED:
                return True
        return False

    def _acts(self, place: int) -> Sequence[Act]:
        return _acts().get(self._words[place], ())

    def _heads(self, act: Act, place: int, passive: frozenset[str]) -> bool:
        """Does the word name the act here, rather than describe something else?"""
        words, before = self._words, place - 1
        while before >= 0 and (words[before].endswith("ly") or words[before] in ("also", "now")):
            before -= 1
        last = words[before] if before >= 0 else ""
        if act.particle and act.particle not in words[place + 1 : place + 6]:
            return False
        match act.form:
            case "base":
                return not place or last in _SIGNS or last in _set("INTO") or last in ("i", "we", "you")
            case "ing":
                return last not in ("a", "an")
            case "done":
                return last in passive or (last not in _set("STATES") and self._ends(place))
            case "noun":
                return last != "to" and self._ends(place)
            case "command":
                return True

    def _weighed(self, act: Act, place: int, before: int) -> Found | None:
        """The act with the words about it, if it counts; ``before`` is what was spoken of before it."""
        words, end = self._words, place + 1
        while end < len(words) and words[end] not in _STOPS and words[end] not in _set("TURNS"):
            if words[end - 1] in ("and", "then", ",") and any(
                one.form != "noun" for one in self._acts(end)
            ):
                break
            end += 1
        about = words[place + 1 : end]
        if about and _negates(about[0]):
            return None
        values = [_worth(word) for word in words[max(0, place - 2) : place] if act.form == "noun"]
        values += [before] * (act.form == "done") + [self._value(n) for n in range(place + 1, end)]
        known = [value for value in values if value]
        start = self._clause(place) if act.form in ("done", "noun") else place
        if act.kind.removes and self._whole(start, end):
            known = [VALUED]
        worth = max(known, default=int(act.alone and not any(map(_content, about))))
        if min(known, default=0) < 0:
            # A product is none of it, but for where it goes: "post the summary in the public channel".
            first = next(n for n, value in enumerate(known) if value < 0)
            inside = first == 0 or SETTING in known
            if worth < VALUED or (act.counts < 2 and inside and SENSITIVE not in known[first:]):
                return None
        if act.counts + max(worth, int(self._leave and act.counts == 1)) < 2:
            return None
        return Found(act.kind, " ".join(words[start:end]))

    def _joined(self, place: int) -> Found | None:
        """An act that is joined to another one: "to commit and push"."""
        words = self._words
        for n in range(place + 1, len(words)):
            if words[n] in _STOPS or words[n] in _set("TURNS"):
                return None
            if words[n - 1] in ("and", "then", ",") or words[n - 2 : n] == ["and", "to"]:
                for act in self._acts(n):
                    if act.form != "noun" and (found := self._weighed(act, n, 0)):
                        return found
        return None

    def _unlisted(self, place: int) -> Act | None:
        """A verb that is not on the list: with leave, what is done to something sensitive counts all the same."""
        word, last = self._words[place], self._words[place - 1] if place else ""
        verb = last in _set("INTO") - {"and", "or", "then"} or (not last and word.endswith("ing"))
        if not verb or not _content(word) or word.endswith("ly"):
            return None
        return Act(Kind((word[:5],), listed=False), "base", 0 if self._leave else -9)

    def _value(self, place: int) -> int:
        """What the noun that ends its phrase here refers to; 0 for no noun of the lists."""
        if not self._ends(place):
            return 0
        word, last = self._words[place], self._words[place - 1] if place else ""
        value = PRODUCT if last in _set("PRETENDED") else _worth(word) or _worth(f"{last} {word}")
        if (
            value in (0, VALUED)
            and _content(word)
            and not word.endswith("ing")
            and _worth(last) == SENSITIVE
        ):
            return SENSITIVE
        return SETTING if value < 0 and "in" in self._words[max(0, place - 6) : place] else value

    def _whole(self, start: int, end: int) -> bool:
        """Do these words speak of all the tests or documents, and not of some of them?"""
        after = self._words[end : end + 1]
        return bool(phrase("WHOLE").search(" ".join([*self._words[start:end], *after])))

    def _ends(self, place: int) -> bool:
        """Does a phrase end with this word?"""
        if place + 1 == len(self._words):
            return True
        after = self._words[place + 1]
        small = after in _set("SMALL") or after.endswith(("ly", "ed")) or not _WORD.fullmatch(after)
        return small or any(act.form == "done" for act in self._acts(place + 1))

    def _states(self, place: int) -> bool:
        """Does a statement begin here? "It is fine to push" is none."""
        last = self._words[place - 1] if place else ""
        return self._words[place] in _set("STATES") and last not in ("it", "we", "i", "you")

    def _generic(self, place: int) -> bool:
        """Refunds are a feature, a refund is an act, and so is the migration if nothing is stated about it."""
        near = self._words[max(0, place - 3) : place]
        several = self._words[place].endswith("s") and not (_set("SMALL") - _set("INTO")).intersection(near)
        return (several and not self._leave) or not _set("STATES").isdisjoint(
            self._words[place + 1 : place + 2]
        )

    def _clause(self, place: int) -> int:
        return next((n + 1 for n in range(place - 1, -1, -1) if self._words[n] in ".;:,"), 0)


_DETERMINED: Final = [[word] for word in ("the", "a", "an", "our", "my", "this")]


@cache
def command() -> re.Pattern[str]:
    """Command lines that do such a thing, whatever is said about them."""
    return re.compile(any_of("COMMANDS"), re.IGNORECASE)


def _negates(word: str) -> bool:
    return word in _set("NEGATIONS") or word.endswith("n't")


def _content(word: str) -> bool:
    return word.isalpha() and word not in _set("SMALL") and word not in _set("FILLERS")


@cache
def _nouns() -> tuple[tuple[int, re.Pattern[str]], ...]:
    lists = ((SENSITIVE, "SENSITIVE"), (PRODUCT, "PRODUCTS"), (VALUED, "ASSETS"))
    return tuple((value, re.compile(rf"{any_of(name)}(?:e?s)?")) for value, name in lists)


@cache
def _worth(words: str) -> int:
    return next((value for value, pattern in _nouns() if pattern.fullmatch(words)), 0)


@cache
def _acts() -> Mapping[str, Sequence[Act]]:
    """Every form of every word of the list."""
    found: dict[str, list[Act]] = {}
    for line in re.sub(r"\n +", " ", vocabulary.text("ACTS")).splitlines():
        verbs, _, nouns = line.partition("|")
        kind = Kind(tuple({name[:5].rstrip("e") for name in re.findall(r"(?<![/+])\b[a-z-]{3,}", line)}))
        for entry in verbs.split():
            word, *particle = entry.rstrip("!?.").split("+")
            counts = {"!": 2, "?": 0}.get(entry[-1], 1)
            for form, spelt in _forms(word):
                act = Act(kind, form, counts, "".join(particle), alone=entry.endswith("."))
                found.setdefault(spelt, []).append(act)
        for entry in nouns.split():
            noun = Act(kind, "noun", 1 + entry.endswith("!"), alone=True)
            for spelt in (entry.rstrip("!"), f"{entry.rstrip('!')}s"):
                found.setdefault(spelt, []).append(noun)
    found[_COMMANDED] = [Act(Kind(("comma",)), "command", 2)]
    return found


def _forms(verb: str) -> Iterator[tuple[Form, str]]:
    """To do, doing and done."""
    base, _, irregular = verb.partition("/")
    stem = base.rstrip("e")
    yield "base", base
    regular = f"{stem[:-1]}ied" if re.search("[^aeiou]y$", base) else f"{stem}ed"
    yield "done", irregular or regular
    yield "ing", f"{stem}ing"
    if base[-1] not in "eyw":
        yield "ing", f"{stem}{base[-1]}ing"
        if not irregular:
            yield "done", f"{stem}{base[-1]}ed"
