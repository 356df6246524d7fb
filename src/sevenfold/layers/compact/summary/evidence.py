"""What a statement about the user can rest on: the user's words, and what the user said yes to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property

from sevenfold.layers.compact.extract.facts import Facts
from sevenfold.layers.compact.extract.recent import models_words
from sevenfold.layers.compact.extract.words import sentences, users_words
from sevenfold.layers.compact.summary.acts import Act
from sevenfold.record import blocks
from sevenfold.record.blocks import ToolUse
from sevenfold.record.layout import Item

_SIGNS = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "…": "...", "*": None, "`": None})
_WORD = re.compile(r"[^\W\d_]{3,}|\d+")
_SMALL = frozenset(
    "the and for with that this was were are has have had been from into then than they them their its all any our your"
    " user asked said wants wanted told should would could will can may not now today once also before after when while"
    " allowed approved authorised authorized agreed confirmed requested permission approval ahead instructed".split()
)
_ENGLISH = re.compile(r"\b(?:the|a|to|is|and|of|it|in|you|this|that|on|for|with|please|not|yes|no|ok|can|do|go|add|fix)\b")
_DENIES = re.compile(r"\b(?:no|not|never|without|stop|avoid|neither|nor)\b|n't\b|\bdont\b", re.IGNORECASE)
_WISHES = re.compile(r"\b(?:can|could|will|would) (?:you|we)\b|\bplease\b|\blet's\b", re.IGNORECASE)
_NEAR = 40
"""Characters before an act within which a "not" is taken to be about it."""
ENOUGH = 0.34
"""The part of a claim's words that one sentence of the user must have for the claim to rest on it."""


class Evidence:
    """The user's words in these records, and everything else that was said in them."""

    def __init__(self, facts: Facts, items: Iterable[Item]) -> None:
        self._items = [item for item in items if not item.hidden_by]
        said = [(words.record, f"{words.head}\n{words.tail}") for words in facts.messages]
        said += [(one.record, one.text) for one in facts.replies]
        said += [(item.said.uuid, words) for item in self._items if (words := users_words(item))]
        self._users = {record: text for record, text in said}
        self._agreed = [one.proposal for one in facts.permissions if one.proposal]

    @cached_property
    def english(self) -> bool:
        """Does the user write English? In another language a claim in English cannot be held against the words."""
        texts = [text for text in self._users.values() if text.strip()]
        return 2 * sum(bool(_ENGLISH.search(text.casefold())) for text in texts) >= len(texts)

    def said_by_user(self, quote: str) -> bool:
        """Did the user say this, white space and case aside?"""
        return any(_holds(text, quote) for _, text in self._plain_users)

    def record_of(self, quote: str) -> str | None:
        """The record that holds these words: the user's first."""
        return next((record for record, text in self._everything if _holds(text, quote)), None)

    def supports(self, act: Act, claim: str) -> bool:
        """Does a sentence of the user, or one the user said yes to, speak of this act and of what it is done to?"""
        verb = re.compile(rf"(?<![\w/.-])(?:{act.base}|{act.ing}|{act.done}|{act.nouns})(?![\w/-])", re.IGNORECASE)
        wanted = _words(claim) - _words(" ".join(verb.findall(claim)))
        return any(
            (found := verb.search(sentence))
            and not _DENIES.search(sentence[max(0, found.start() - _NEAR) : found.start()])
            and len(wanted & _words(sentence)) >= ENOUGH * len(wanted)
            for sentence in self._sentences
        )

    @cached_property
    def _sentences(self) -> list[str]:
        told = [sentence for text in self._users.values() for sentence in sentences(text)]
        return [one for one in told if not one.endswith("?") or _WISHES.search(one)] + self._agreed

    @cached_property
    def _plain_users(self) -> list[tuple[str, str]]:
        return [(record, plain(text)) for record, text in self._users.items()]

    @cached_property
    def _everything(self) -> list[tuple[str, str]]:
        return [*self._plain_users, *((record, plain(text)) for record, text in _texts(self._items))]


def _texts(items: Iterable[Item]) -> Iterator[tuple[str, str]]:
    """What was said in each record; a call's input counts as said."""
    for item in items:
        words = [models_words(item)]
        for block in item.said.blocks:
            if block.kind == "tool_use" and isinstance(body := block.body(), ToolUse):
                words.append(bytes(body.input).decode(errors="replace").replace('\\"', '"').replace("\\n", " "))
            elif block.kind == "tool_result" or item.said.summary or item.said.meta:
                words.append(blocks.words_of(block))
        if text := "\n".join(filter(None, words)):
            yield item.said.uuid, text


def plain(text: str) -> str:
    """A text as it is compared: one case, one kind of space and of quotation mark."""
    return " ".join(text.translate(_SIGNS).casefold().split())


def _holds(text: str, quote: str) -> bool:
    """Are these words in the text, in this order? Where the quotation leaves something out, so may the text."""
    place = 0
    for piece in re.split(r"\.\.\.|\[[^\]]*\]", plain(quote)):
        piece = piece.strip(" ,.;:!?")
        found = text.find(piece, place)
        if found < 0:
            return False
        place = found + len(piece)
    return True


def _words(text: str) -> frozenset[str]:
    """The words that say what a text is about, by their first letters."""
    return frozenset(word[:6] for word in _WORD.findall(text.casefold()) if word not in _SMALL)
