"""What a statement about the user can rest on: the user's words, and what the user said yes to."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property

from sevenfold.layers.compact.extract.facts import Facts
from sevenfold.layers.compact.extract.words import sentences, users_words, whole_text
from sevenfold.layers.compact.summary.acts import Act
from sevenfold.record.layout import Item

_SIGNS = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "…": "...", "*": None, "`": None})
_ENGLISH = re.compile(r"\b(?:the|a|to|of|and|is|it|for|with|that|this|user|you|please|can|do|yes|no|ok|go)\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]{3,}|\d+")
_SMALL = frozenset(
    "the and for with that this was were are has have had been from into then than they them their its all any our your"
    " user asked said wants wanted told should would could will can may not now today once also before after when while"
    " allowed approved authorised authorized agreed confirmed requested permission approval ahead instructed changes work"
    " code everything done".split()
)
_DENIES = re.compile(
    r"\b(?:not?|never|without|stop|avoid|neither|nor|before|until|unless|ask me)\b|n't\b|\bdont\b", re.IGNORECASE
)
_WISHES = re.compile(r"\b(?:can|could|will|would) (?:you|we)\b|\bplease\b|\blet's\b", re.IGNORECASE)
_NEAR = 40
"""Characters before an act within which a "not" is about it."""
_ENOUGH = 0.51
"""The part of a claim's words that one sentence of the user must have for the claim to rest on it."""


class Evidence:
    """The user's words in these records, and everything else that was said in them."""

    def __init__(self, facts: Facts, items: Iterable[Item]) -> None:
        self._items = [item for item in items if not item.hidden_by]
        said = [(words.record, f"{words.head}\n{words.tail}") for words in facts.messages]
        said += [(one.record, one.text) for one in facts.replies]
        self._users = dict(said + [(item.said.uuid, words) for item in self._items if (words := users_words(item))])
        self._agreed = [one.proposal for one in facts.permissions if one.given and one.proposal]
        self._names = facts.names

    @cached_property
    def in_english(self) -> bool:
        """Does the user write English? In another language a claim in English cannot be held against the words."""
        return 2 * sum(map(in_english, self._users.values())) >= len(self._users)

    def said_by_user(self, quote: str) -> bool:
        """Did the user say this, white space and case aside?"""
        return any(_holds(text, quote) for _, text in self._spoken)

    def record_of(self, quote: str) -> str | None:
        """How the record is cited that holds these words; the user's are looked at first."""
        found = next((record for record, text in self._everything if _holds(text, quote)), None)
        return self._names.get(found, found) if found else None

    def supports(self, act: Act, claim: str) -> bool:
        """Does a sentence of the user, or one the user said yes to, speak of this act and of what it is done to?"""
        wanted = _words(claim, act)
        for sentence in self._sentences:
            found, given = act.word.search(sentence), _words(sentence, act)
            if not found or _DENIES.search(sentence[max(0, found.start() - _NEAR) : found.start()]):
                continue
            # "Push it" says nothing of what is pushed, and bears out a claim that hardly says more.
            if len(wanted & given) >= _ENOUGH * len(wanted) or (not given and len(wanted) < 2):
                return True
        return False

    @cached_property
    def _sentences(self) -> list[str]:
        told = [sentence for text in self._users.values() for sentence in sentences(text)]
        return [one for one in told if not one.endswith("?") or _WISHES.search(one)] + self._agreed

    @cached_property
    def _spoken(self) -> list[tuple[str, str]]:
        return [(record, _plain(text)) for record, text in self._users.items()]

    @cached_property
    def _everything(self) -> list[tuple[str, str]]:
        return [*self._spoken, *((item.said.uuid, _plain(whole_text(item))) for item in self._items)]


def in_english(text: str) -> bool:
    """Is one in twenty of its words among the small ones of English?"""
    return 20 * len(_ENGLISH.findall(text)) >= len(text.split())


def _plain(text: str) -> str:
    return " ".join(text.translate(_SIGNS).casefold().split())


def _holds(text: str, quote: str) -> bool:
    """Are these words in the text, in this order? Where the quotation leaves something out, so may the text."""
    place = 0
    for piece in re.split(r"\.\.\.|\[[^\]]*\]", _plain(quote)):
        piece = piece.strip(" ,.;:!?")
        found = text.find(piece, place)
        if found < 0:
            return False
        place = found + len(piece)
    return True


def _words(text: str, act: Act) -> frozenset[str]:
    """The words that say what an act is done to, by their first letters."""
    words = _WORD.findall(text.casefold())
    return frozenset(word[:6] for word in words if word not in _SMALL and word[:5] not in act.stems)
