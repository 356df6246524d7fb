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
from sevenfold.layers.fidelity.sentences import folded, sentences, share, telling
from sevenfold.record.layout import Item

_CLAIM = re.compile(
    r"\buser(?:'s)?\b[^.\n]{0,40}?\b(?:ask(?:s|ed)|sa(?:id|ys)|want(?:s|ed)|request(?:s|ed)?|told|insist(?:s|ed)"
    r"|approve[sd]|confirm(?:s|ed)|agree[sd]|prefer(?:s|red)|instruct(?:s|ed)|decide[sd]|chose|chooses|consent(?:s|ed)"
    r"|demand(?:s|ed)|message|feedback)\b",
    re.I,
)
_QUOTED = re.compile(r"[\"“]([^\"”\n]{8,600})[\"”]")
_GAP = re.compile(r"\.{3}|…|\[[^\]]*\]")
_LIST_OF_MESSAGES = re.compile(r"^[#*\s\d.]*all (?:the )?user'?s? messages", re.I)
_HEADING = re.compile(r"^(?:#{1,4} |\**\d{1,2}\.\s+\**[A-Z])")
REWORDED = 0.6
"""The part of a quotation's telling words that one message must hold for the quotation to be a rewording of it."""
UNHEARD = 0.75
"""The part of a report's telling words that nobody ever said from which on it is invented."""


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
        for sentence in sentences(line):
            claims = bool(_CLAIM.search(sentence))
            quotes = _QUOTED.findall(sentence) if claims or listing else []
            yield from ((quote, True) for quote in quotes)
            if claims and not quotes:
                yield sentence, False


class _Records:
    """What a statement about the user can rest on."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._items = list(items)

    @cached_property
    def _told(self) -> list[str]:
        told = account(self._items)
        return [words.text for words in (*told.user, *told.refusals, *told.beside, *answers(told))]

    @cached_property
    def _folded(self) -> str:
        return "\n".join(map(folded, self._told))

    @cached_property
    def _words(self) -> list[frozenset[str]]:
        return [telling(text) for text in self._told]

    @cached_property
    def _everything(self) -> str:
        raw = b"\n".join(block.raw for item in self._items for block in item.said.blocks if block.kind != "thinking")
        return raw.decode(errors="replace").casefold()

    def support(self, statement: str, quoted: bool) -> bool:
        """Is there a record it can rest on?"""
        return self._said(statement) if quoted else self._heard(statement)

    def _said(self, quote: str) -> bool:
        parts = [part for part in (folded(part).strip(" .,;:!?'") for part in _GAP.split(quote)) if part]
        if all(part in self._folded for part in parts):
            return True
        words = telling(quote)
        return len(words) < 2 or any(share(words, given) >= REWORDED for given in self._words)

    def _heard(self, report: str) -> bool:
        words = telling(_CLAIM.sub(" ", report))
        if len(words) < 3 or any(share(words, given) > 1 - UNHEARD for given in self._words):
            return True
        unheard = sum(word not in self._everything for word in words)
        return unheard < UNHEARD * len(words)
