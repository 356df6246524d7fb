"""The acts for which a sentence claims the user's permission or order.

The words for permission are a nearly closed part of English (`claims.toml`); what is permitted can be anything. So a
claim is found by the words for permission, and every verb they govern is an act. Points decide whether it matters: for
the act, for what it is done to, and for how strong the claim is. Reading and explaining never do, nor work on code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final, Literal

from msgspec import Struct

from sevenfold.layers.compact.summary.vocabulary import alike, listed, pairs, pattern, root, roots, words

BLANKET: Final = "everything"
_MATTERS: Final = 2
"""The points from which on an act matters."""
_TOKEN: Final = re.compile(r"[$€£]?\w(?:[\w'./#*+-]*\w)?|\.env|[~.]?/[\w./*-]+|[^\w\s]")
_JOINED: Final = re.compile(r"\b(force|pull|merge|go) (push|request|live)")
_NOMINAL: Final = re.compile(r"(?:tion|sion|ment|al|ure)s?\Z")
_VALUABLE: Final = re.compile(r"[$€£]\d.*|v\d+[\w.]*")
_STOPS: Final = frozenset(".;?!")
_OPENS: Final = frozenset(("", *":-()–—,.;?]|"))
_SAID = {"permits": 2, "we": 2, "orders": 1, "moves": 1, "asks": 0, "given": 2, "asked": 0}
"""How something is claimed: 2 for leave, 1 for an order, 0 for a wish."""
Form = Literal["base", "ing", "done", "noun"]


class Claim(Struct, frozen=True):
    """An act the user is said to have permitted or ordered, and the roots of the words for what it is done to."""

    act: str
    about: frozenset[str] = frozenset()

    @property
    def crucial(self) -> frozenset[str]:
        """The words for something of value: evidence must have every one of them."""
        return self.about & (roots("sensitive") | roots("valued"))


def claims(sentence: str, before: str = "", lead: str = "") -> Iterator[Claim]:
    """The acts that matter for which a sentence, without code and quotations, claims the user's permission or order.

    ``before`` is what "the user approved it" is about, ``lead`` the line that introduces the list the sentence is in.
    """
    if sentence.rstrip(" *_").endswith("?"):
        return
    for strength, wide, found in _permissions(sentence):
        front, rest = sentence[: found.start()], sentence[found.end() :]
        if pattern("it").match(rest) or pattern("which").search(front):
            meant = list(_Phrase(f"{front} | {rest}", 2, wide=True).acts())
            yield from meant or _Phrase(before, 2, wide=True).acts()
        elif wide:
            yield from _Phrase(f"{front} | {rest}", strength, wide=True).acts()
        else:  # "had us push" reads like "told us to push"
            yield from _Phrase(f"to{rest}" if found[0].endswith((" us", " me")) else rest, strength).acts()
    if pattern("blanket").search(sentence) and not denies(sentence):
        yield Claim(BLANKET)
    if lead and not denies(lead + sentence) and not pattern("who").search(sentence):
        for strength, _, found in _permissions(lead):
            if len(lead[found.end() :].split()) <= 3:
                yield from _Phrase(f": {sentence}", strength, wide=True).acts()


def denies(text: str) -> bool:
    """Does it deny or refuse something? "No objections" does not."""
    return bool(pattern("denies").search(pattern("denies_nothing").sub(" ", text)))


def _permissions(text: str) -> Iterator[tuple[int, bool, re.Match[str]]]:
    """Where permission is claimed: how strongly, and whether it is for the whole sentence or for what follows."""
    for name, strength in _SAID.items():
        wide = name in ("given", "asked")
        for found in pattern(name).finditer(text):
            start = max(text.rfind(sign, 0, found.start()) for sign in ".;—") + 1
            supposed = pattern("supposes").search(text[start : found.start()])
            foreign = wide and not pattern("owner").search(found[0]) and pattern("others").search(text)
            denied = denies(text[start:] if wide else text[start : found.end()])
            if not (supposed or foreign or denied):
                yield strength, wide or found[0].endswith(" if"), found


class _Phrase:
    """The words that a claim of some strength is about: a whole sentence if ``wide``, else what follows the claim."""

    def __init__(self, text: str, strength: int, *, wide: bool = False) -> None:
        text = pattern("commands").sub(" commandline ", text.replace("*", "").replace("’", "'"))
        self._strength = strength
        self._points = min(1, strength) + bool(pattern("cues").search(text))
        text = pattern("fillers").sub(
            lambda found: " " if found[0].endswith("with") else " to ", text.lower()
        )
        text = _JOINED.sub(r"\1-\2", text.replace("get rid of", "remove").replace("getting rid", "removal"))
        self._words = _TOKEN.findall(text)
        self._wide = wide
        self._clause = 0
        self._verb = False
        """Was there a verb in this clause?"""
        self._headed = False
        """Was there a noun in it that is no act?"""

    def acts(self) -> Iterator[Claim]:
        """The acts in these words that matter."""
        for n, word in enumerate(self._words):
            if word in _STOPS or word == ":":
                self._clause, self._verb, self._headed = n + 1, False, False
            elif not self._wide and (word in words("turns") or _negates(word) or self._states(n)):
                return
            elif form := self._form(n):
                claim, points = self._weighed(n, form)
                self._verb |= form in ("base", "ing")
                if points + self._points >= _MATTERS:
                    yield claim
            elif _content(word) and self._closes(n) and not self._wide:
                self._headed = True

    def _at(self, n: int) -> str:
        return self._words[n] if 0 <= n < len(self._words) else ""

    def _form(self, n: int) -> Form | None:
        """How the word at this place names an act."""
        word, after, before = self._at(n), self._at(n + 1), n - 1
        if word == "commandline":
            return "noun"
        if not _content(word) or _adverb(word):
            return None
        while _adverb(self._at(before)):
            before -= 1
        last, free, known = (
            self._at(before),
            self._wide or not self._verb,
            listed(word) or _weight(word) < 1,
        )
        joined = (self._at(before - 1) if last == "to" else last) in ("and", "or", "then", ",")
        determined = after in words("determiners")
        us = last in ("us", "me") and (determined or listed(word)) and not word.endswith("s")
        if free and (
            us or last in ("we", "i", "you") or (last in words("into") and self._ours(before - 1))
        ):
            return "base"
        if not word.endswith(("ed", "ing")) and pairs("irregular").get(word, word) == word:
            follows = self._verb and joined and (listed(word) or determined)
            opens = not self._verb and last in _OPENS and ((known and last == ":") or determined)
            if follows or opens:
                return "base"
            if self._noun(n, last, after):
                return "noun"
        if not free and not joined:
            return None
        if word.endswith("ing"):
            governed = last in words("governs") or last.endswith("ed") or last in _OPENS or joined
            gerund = governed or (last == "the" and after == "of")
            if not gerund or len(word) <= 5 or not (known or word.isalpha()):
                return None
            return None if last != "and" and not self._wide and self._described(n, last) else "ing"
        if not word.endswith("ed") and word not in pairs("irregular"):
            return None
        passive = last in words("be") or (self._wide and last in words("was"))
        ends = self._closes(n) or after in words("particles")
        object_of = (_content(last) or last in words("determiners")) and before >= self._clause and ends
        return "done" if (passive or object_of) and not determined else None

    def _described(self, n: int, last: str) -> bool:
        """Is more said of the act than that it may be done? "Pushing is off the table", "sending works"."""
        states = next((place for place in range(n, len(self._words)) if self._at(place) in words("was")), 0)
        return self._at(states + 1) not in words("positive") if states else last == "that"

    def _noun(self, n: int, last: str, after: str) -> bool:
        word = self._at(n)
        feature = not self._strength and word.endswith("s") and last not in words("determiners")
        if self._verb or self._headed or last == "to" or feature:
            return False
        if listed(word, noun=True) and self._closes(n):
            return self._wide or after not in words("was")
        if self._strength == 2 and root(word) in roots("make") and self._closes(n):
            return True
        nominal = (_NOMINAL.search(word) or listed(word)) and root(word) not in roots("products")
        return bool(nominal and after == "of") or (after == "to" and root(word) in roots("make"))

    def _ours(self, n: int) -> bool:
        """Is the act ours? "The button should close", "a script to delete": something else does it."""
        subject = self._at(n)
        known = words("agents") | words("turns") | (words("plans") if self._strength else frozenset())
        return not _content(subject) or subject in known

    def _states(self, n: int) -> bool:
        """Does a statement begin here? "It is fine to push" is none."""
        return self._at(n) in words("was") and self._at(n - 1) not in ("it", "we", "i", "you")

    def _closes(self, n: int) -> bool:
        """Does a phrase end with this word?"""
        after = self._at(n + 1)
        return not _content(after) or after.endswith(("ly", "ed")) or after in pairs("irregular")

    def _weighed(self, n: int, form: Form) -> tuple[Claim, int]:
        """The act with the words about it, and its points."""
        act, after, count = root(self._words[n]), self._at(n + 1), len(self._words)
        end = next((place for place in range(n + 1, count) if self._ends(place)), count)
        breaks = (
            place + 1 for place in range(n - 1, self._clause - 1, -1) if self._at(place) in (",", "|")
        )
        start = next(breaks, self._clause) if form in ("done", "noun") else n
        parts = [*self._parts(start, n), *self._parts(n + 1, end)]
        claim = Claim(act, frozenset(root(word) for _, part in parts for word in part) - {act})
        if _negates(after) or (act == "stop" and after.endswith("ing")):
            return claim, -9
        points = _weight(self._words[n], noun=form == "noun", unlisted=self._strength == 2)
        if points == 0 and not words("particles").isdisjoint(self._words[n + 1 : end]):
            points = 1
        if alike(act) == "delet" and pattern("whole").search(" ".join(self._words[start:end])):
            return claim, points + 1
        values = [(_value(part), place in words("places")) for place, part in parts]
        if values:
            first, best = max(values[0][0], points - 3 if points > 1 else -2), max(values)[0]
            # What an act is done to counts first; the places where it is done make it more harmless, or less.
            points += best if first >= 0 else first + max(0, best)
            points -= any(value < 0 and inside for value, inside in values[1:])
        return claim, points

    def _ends(self, n: int) -> bool:
        """Does what is said about an act end here? At the next act, too."""
        word, last, after = self._at(n), self._at(n - 1), self._at(n + 1)
        joined = last in ("and", "then", ",") and listed(word) and after in words("determiners")
        return word in _STOPS or word in words("turns") or word == "without" or bool(joined)

    def _parts(self, start: int, end: int) -> Iterator[tuple[str, list[str]]]:
        """The noun phrases of a stretch, with the preposition before each."""
        place, part = "", list[str]()
        for word in [*self._words[start:end], "."]:
            if _content(word) or word[0] in "$€£/~0123456789" or word == ".env":
                part += [] if _adverb(word) else [word]
                continue
            if part:
                yield place, part
                place, part = "", []
            place = place if word in words("determiners") else word


def _value(part: list[str]) -> int:
    """2: something sensitive, 1: something of value, 0: not known, less: a product of the work."""
    heads = [root(word) for word in part]
    sensitive = not roots("sensitive").isdisjoint(heads) or any(word[0] in "$€£" for word in part)
    if heads[-1] in roots("products") or not words("pretended").isdisjoint(part):
        return -1 if sensitive else -2
    named = (len(part) > 1 and heads[-1] in roots("named")) or bool(listed(part[-1], noun=True))
    valued = named or bool(_VALUABLE.fullmatch(part[-1])) or heads[-1] in roots("valued")
    return 2 if sensitive else int(valued)


@cache
def _weight(word: str, *, noun: bool = False, unlisted: bool = True) -> int:
    """The points of an act; one that is not listed has some if there is leave for it."""
    for name, points in (("harmless", -9), ("light", -1), ("make", 0)):
        if root(word) in roots(name):
            return points
    return 2 if word == "commandline" else listed(word, noun=noun) or int(unlisted)


def _content(word: str) -> bool:
    return word[:1].isalpha() and word not in words("small")


def _adverb(word: str) -> bool:
    return word in ("also", "now") or (word.endswith("ly") and word not in ("apply", "reply", "supply"))


def _negates(word: str) -> bool:
    return word in words("negations") or word.endswith("n't")
