"""Words put into the user's mouth.

A summary that says "the user asked for X" is believed, and acted on. So what it quotes as the user's, and what it
says the user wants, is held against everything that stands on the user's side of the records. The check is
conservative: a quotation may be shortened or reworded, and a report may use other words, as long as there is
something it can rest on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from sevenfold.layers.fidelity.asking import answers
from sevenfold.layers.fidelity.reading import account
from sevenfold.layers.fidelity.sentences import Vocabulary, folded, sentences, share, telling
from sevenfold.record.layout import Item

_CLAIM = re.compile(
    r"\buser(?:'s)?\b[^.\n]{0,40}?\b(?:ask(?:s|ed)|sa(?:id|ys)|want(?:s|ed)|request(?:s|ed)?|told|insist(?:s|ed)"
    r"|approve[sd]|confirm(?:s|ed)|agree[sd]|prefer(?:s|red)|instruct(?:s|ed)|decide[sd]|chose|chooses|consent(?:s|ed)"
    r"|demand(?:s|ed)|message|feedback)\b"
    r"|\buser\W{0,4}:",
    re.I,
)
_QUOTED = re.compile(r"[\"“]([^\"”\n]{2,600})[\"”]")
_NOTHING_SAID = "“”"
_GAP = re.compile(r"\.{3}|…|\[[^\]]*\]")
_LIST_OF_MESSAGES = re.compile(r"^[#*\s\d.]*all (?:the )?user'?s? messages", re.I)
_HEADING = re.compile(r"^(?:#{1,4} |\**\d{1,2}\.\s+\**[A-Z])")
_SUPPOSED = re.compile(r"\b(?:unless|if|whether|until|when|not|hasn't|didn't|n't) ", re.I)
REWORDED = 0.6
"""The part of a quotation's telling words that one passage must hold for the quotation to be a rewording of it."""
ASKED, TOGETHER, PROPOSED = 0.34, 0.5, 0.5
"""The part of a report's telling words that must be in one passage of the user, in all the user typed, or in one
passage of the model, for the report to have something to rest on."""
PASSAGE = 800
"""Characters of a passage at most."""
FEWEST = 3
"""Telling words below which a report says too little to be held against anything."""


def invented(context: Sequence[str], items: Iterable[Item]) -> list[str]:
    """Statements about what the user said or wants that no record supports.

    ``context`` are the texts a compaction put there; ``items`` all the records they may rest on.
    """
    records = _Records(items)
    found = (said for text in context for said in _from(text) if not records.support(*said))
    return list(dict.fromkeys(said for said, _ in found))


def _from(text: str) -> Iterator[tuple[str, bool]]:
    """What a text says of the user: quotations, and reports in other words; true for quotations."""
    listing = False
    for line in text.splitlines():
        if _HEADING.match(line.strip()):
            listing = bool(_LIST_OF_MESSAGES.match(line.strip()))
        if listing or _CLAIM.search(line):
            yield from ((quote, True) for quote in _QUOTED.findall(line))
        for sentence in sentences(_QUOTED.sub(_NOTHING_SAID, line)):
            if _CLAIM.search(sentence) and _NOTHING_SAID not in sentence and not _SUPPOSED.search(sentence):
                yield sentence, False


class _Records:
    """What a statement about the user can rest on."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._account = account(items)

    @cached_property
    def _told(self) -> list[str]:
        told = self._account
        return [words.text for words in (*told.user, *told.refusals, *told.beside, *answers(told))]

    @cached_property
    def _folded(self) -> str:
        return "\n".join(map(folded, self._told))

    @cached_property
    def _asked(self) -> list[frozenset[str]]:
        """The words of each passage the user wrote, or an earlier summary holds…"""
        told, words = self._account, Vocabulary()
        summaries = (one for one in told.beside if one.known_as == "summary")
        said = (*told.user, *told.refusals, *answers(told), *summaries)
        return [telling(part, words) for one in said for part in _passages(one.text)]

    @cached_property
    def _typed(self) -> frozenset[str]:
        """…of all that the user typed, pasted matter aside…"""
        short = (telling(words.text) for words in self._account.user if len(words.text) <= PASSAGE)
        return frozenset[str]().union(*short)

    @cached_property
    def _proposed(self) -> list[frozenset[str]]:
        """…and on the model's: a user who agrees to something need not have said it."""
        words = Vocabulary()
        return [telling(part, words) for one in self._account.model for part in _passages(one.text)]

    def support(self, statement: str, quoted: bool) -> bool:
        """Is there a record it can rest on?"""
        return self._said(statement) if quoted else self._heard(statement)

    def _said(self, quote: str) -> bool:
        parts = [part for part in (folded(part).strip(" .,;:!?'") for part in _GAP.split(quote)) if part]
        if all(part in self._folded for part in parts):
            return True
        words = telling(quote)
        return len(words) < 2 or any(share(words, given) >= REWORDED for given in self._asked)

    def _heard(self, report: str) -> bool:
        words = telling(_CLAIM.sub(" ", report))
        if len(words) < FEWEST or any(share(words, given) >= ASKED for given in self._asked):
            return True
        return share(words, self._typed) >= TOGETHER or any(
            share(words, given) >= PROPOSED for given in self._proposed
        )


def _passages(text: str) -> Iterator[str]:
    """The text in overlapping parts: in a long enough one any words can be found."""
    for start in range(0, max(1, len(text) - PASSAGE // 2), PASSAGE // 2):
        yield text[start : start + PASSAGE]
