"""Quotations in a text: finding them, and telling whether a record holds them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator

QUOTED = re.compile(
    r"“([^“”\n]+)”|«([^«»\n]+)»|(?<![\w\"])\"([^\"\n]+)\"(?![\w\"])|(?<![\w'])'([^'\n]{12,})'(?![\w'])"
)
"""Only what begins and ends with marks that belong together."""
CODE = re.compile(r"`[^`\n]*`")
LEAST = 12
"""Characters from which on a quotation is looked up."""
_SENTENCE = re.compile(r"(?<=[.!?])(?=\s+[^\sa-z\d(\[])|(?<=[。！？])(?=.)")
_GAP = re.compile(r"\.\.\.|\[[^\]]*\]")
_SIGNS = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "…": "...", "*": None, "`": None})


def inside(quote: re.Match[str]) -> str:
    """The words between the marks."""
    found: str = next(filter(None, quote.groups()))
    return found


def quotations(text: str) -> list[str]:
    """The words quoted in a text, code aside."""
    return [inside(quote) for quote in QUOTED.finditer(CODE.sub(" ", text))]


def sentences(line: str) -> Iterator[str]:
    """The sentences of a line, with the space between them; a quotation of several is not torn apart."""
    start, quotes = 0, [place for found in QUOTED.finditer(line) for place in found.span()]
    for end in _SENTENCE.finditer(line):
        # Between an even number of opening and closing marks it is outside all quotations.
        if bisect_left(quotes, end.start()) % 2 == 0:
            yield line[start : end.start()]
            start = end.start()
    yield line[start:]


def cite(text: str, record_of: Callable[[str], str | None]) -> str:
    """The text with the record that holds it behind each quotation; code is left as it is."""

    def cited(quote: re.Match[str]) -> str:
        record = record_of(inside(quote)) if len(inside(quote)) >= LEAST else None
        return f"{quote[0]} [{record}]" if record else quote[0]

    parts, code = CODE.split(text), [*CODE.findall(text), ""]
    return "".join(QUOTED.sub(cited, part) + kept for part, kept in zip(parts, code, strict=True))


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
