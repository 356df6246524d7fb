"""Quotations in a text: finding them, and telling whether a record holds them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator

from msgspec import Struct

_QUOTED = re.compile(
    r"“([^“”\n]+)”|«([^«»\n]+)»|(?<![\w\"])\"([^\"\n]+)\"(?![\w\"])|(?<![\w'])'([^'\n]{12,})'(?![\w'])"
)
"""Only what begins and ends with marks that belong together."""
_CODE = re.compile(r"`[^`\n]*`")
_MARKS = re.compile("[“”«»\"']")
_SENTENCE = re.compile(r"(?<=[.!?])(?=\s+[^\sa-z\d(\[])|(?<=[。！？])(?=.)")
_GAP = re.compile(r"\.\.\.|\[[^\]]*\]")
# Quotation marks inside a quotation are often changed by the one who quotes.
_SIGNS = str.maketrans({**dict.fromkeys("“”«»‘’\"'*`"), "…": "..."})
LEAST = 12
"""Characters from which on a quotation is looked up."""


class Quotation(Struct, frozen=True):
    """Words in quotation marks, and where these begin and end."""

    words: str
    start: int
    end: int


def quotations(text: str) -> list[Quotation]:
    """The quotations in a text; marks inside code are not quotation marks."""
    bare = _CODE.sub(lambda code: _MARKS.sub("·", code[0]), text)
    spans = (found.span(found.lastindex or 0) for found in _QUOTED.finditer(bare))
    return [Quotation(text[start:end], start - 1, end + 1) for start, end in spans]


def substituted(text: str, write: Callable[[Quotation], str]) -> str:
    """The text with something else in place of each quotation."""
    parts, last = [], 0
    for quote in quotations(text):
        parts += [text[last : quote.start], write(quote)]
        last = quote.end
    return "".join([*parts, text[last:]])


def sentences(line: str) -> Iterator[str]:
    """The sentences of a line, with the space between them; a quotation of several is not torn apart."""
    start, edges = 0, [place for quote in quotations(line) for place in (quote.start, quote.end)]
    for end in _SENTENCE.finditer(line):
        # Behind an even number of opening and closing marks it is outside all quotations.
        if bisect_left(edges, end.start()) % 2 == 0:
            yield line[start : end.start()]
            start = end.start()
    yield line[start:]


def cite(text: str, record_of: Callable[[str], str | None]) -> str:
    """The text with the record that holds it behind each quotation."""

    def cited(quote: Quotation) -> str:
        record = record_of(quote.words) if len(quote.words) >= LEAST else None
        return text[quote.start : quote.end] + (f" [{record}]" if record else "")

    return substituted(text, cited)


def plain(text: str) -> str:
    """A text as it is compared: one case, one kind of white space and of quotation mark."""
    return " ".join(text.translate(_SIGNS).casefold().split())


def holds(text: str, quote: str) -> bool:
    """Are these words in a plain text, in this order? Where the quotation leaves something out, so may the text."""
    place = 0
    for part in _GAP.split(plain(quote)):
        piece = part.strip(" ,.;:!?")
        found = text.find(piece, place)
        if found < 0:
            return False
        place = found + len(piece)
    return True
