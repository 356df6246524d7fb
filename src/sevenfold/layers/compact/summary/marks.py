"""Marks claims in a model's summary that the record does not support; nothing is removed.

A sentence that says the user allowed or ordered a risky act (`claims`) must quote the user, or be supported by the
user's words (`evidence`). If it does neither, a mark is added at its end. Denials, questions, conditions, code and
paths claim nothing. This works for English only; in other languages only quotations are looked up.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from sevenfold.layers.compact.summary.claims import claim, pattern
from sevenfold.layers.compact.summary.evidence import Evidence, in_english

MARK = "[not in the record]"


_CODE = re.compile(r"`[^`\n]*`")
_COPIES = re.compile(r"(<said\b[^>\n]*>)(.*?)(</said>|\Z)", re.DOTALL)
_FRAMES = re.compile(r"<(?=/?(?:said|recorded)\b)")
_ENTRY = re.compile(r"\s*(?:[-*•+]|\d+[.)])\s+(?:\[[ x]\]\s+)?")
_LEADS = re.compile(r":[\s*_]*\Z")
_LONGEST = 600
"""The most characters of a sentence to check: anything longer is a list, or crafted to make this slow."""


class Marked(Struct, frozen=True):
    """The sections of a draft with their marks, and the sentences that were marked."""

    sections: Mapping[int, str]
    sentences: tuple[str, ...] = ()


def mark(sections: Mapping[int, str], evidence: Evidence) -> Marked:
    """Add a citation after each quotation found in a record, and mark the claims without support."""
    marker = _Marker(evidence, in_english("\n".join(sections.values())))
    return Marked(
        {number: marker.section(text) for number, text in sections.items()}, tuple(marker.sentences)
    )


class _Marker:
    def __init__(self, evidence: Evidence, english: bool) -> None:
        self._evidence = evidence
        self._english = english
        self.sentences: list[str] = []

    def section(self, text: str) -> str:
        lines = []
        in_code = False
        lead = ""
        for line in _FRAMES.sub("&lt;", _COPIES.sub(self._copied, text)).split("\n"):
            fence = line.lstrip().startswith(("```", "~~~"))
            in_code ^= fence
            if in_code or fence or not line.strip():
                lines.append(line)
                continue
            lead = lead if _ENTRY.match(line) else ""
            lines.append(self._line(line, lead))
            lead = line if _LEADS.search(line) else lead
        return "\n".join(lines)

    def _copied(self, copy: re.Match[str]) -> str:
        """Mark a ``<said>`` block, which only code should write, unless the user really said that."""
        copied = copy[2].rstrip()
        if not copied or self._evidence.said_by_user(copied):
            return copy[0]
        self.sentences.append(copied.strip())
        return f"{copy[1]}{copied} {MARK}{copy[2][len(copied) :]}{copy[3]}"

    def _line(self, line: str, lead: str) -> str:
        """A line with its marks; ``lead`` is the line that introduces the list it belongs to."""
        marked = line_before = ""
        for sentence in sentences(line):
            end = sentence.rstrip()
            marked += cite(end, self._evidence.record_of)
            if MARK not in sentence and not self._rests(sentence, line_before, lead):
                self.sentences.append(sentence.strip(" -*•\t"))
                marked += f" {MARK}"
            marked += sentence[len(end) :]
            line_before = (line_before + sentence)[-_LONGEST:]
        return marked

    def _rests(self, sentence: str, context: str, lead: str) -> bool:
        quotes = [quote.text for quote in quotations(sentence)]
        if any(len(quote.split()) > 1 and self._evidence.said_by_user(quote) for quote in quotes):
            return True
        if not self._english and not in_english(sentence):
            return all(len(quote) < MIN_QUOTE_LENGTH or self._evidence.record_of(quote) for quote in quotes)
        if not self._evidence.in_english:
            return True
        statement = bare(sentence[:_LONGEST])
        lead = _ENTRY.sub("", lead[-_LONGEST:])
        claimed = claim(statement, context, lead)
        return claimed is None or self._evidence.supports(claimed)


def bare(sentence: str) -> str:
    """A sentence without code, except dangerous commands, and without quotations, except the user's."""

    def speech(quote: Quotation) -> str:
        front = sentence[: quote.start]
        behind = sentence[quote.end :]
        if pattern("speech").search(front):
            return f": {quote.text}"
        return f"the user said: {quote.text}" if pattern("spoken").match(behind) else " … "

    return _CODE.sub(
        lambda code: command[0] if (command := pattern("commands").search(code[0])) else " … ",
        substituted(sentence, speech),
    )


# -- quotations -----------------------------------------------------------------------------

_QUOTED = re.compile(
    r"“([^“”\n]+)”|«([^«»\n]+)»|(?<![\w\"])\"([^\"\n]+)\"(?![\w\"])|(?<![\w'])'([^'\n]{12,})'(?![\w'])"
)
"""Matches only text between a matching pair of quotation marks."""
_MARKS = re.compile("[“”«»\"']")
_SENTENCE = re.compile(r"(?<=[.!?])(?=\s+[^\sa-z\d(\[])|(?<=[。！？])(?=.)")
MIN_QUOTE_LENGTH = 12
"""The shortest quotation that is looked up, in characters."""


class Quotation(Struct, frozen=True):
    """Quoted text, and where the quotation begins and ends, marks included."""

    text: str
    start: int
    end: int


def quotations(text: str) -> list[Quotation]:
    """The quotations in a text; quotation marks inside code do not count."""
    bare = _CODE.sub(lambda code: _MARKS.sub("·", code[0]), text)
    spans = (match.span(match.lastindex or 0) for match in _QUOTED.finditer(bare))
    return [Quotation(text[start:end], start - 1, end + 1) for start, end in spans]


def substituted(text: str, write: Callable[[Quotation], str]) -> str:
    """Replace each quotation, marks included, with what ``write`` returns for it."""
    pieces = []
    last = 0
    for quote in quotations(text):
        pieces += [text[last : quote.start], write(quote)]
        last = quote.end
    return "".join([*pieces, text[last:]])


def sentences(line: str) -> Iterator[str]:
    """Split a line into sentences, keeping the space between them; a quotation is never split."""
    start = 0
    edges: list[int] = []
    for quote in quotations(line):
        edges += (quote.start, quote.end)
    for end in _SENTENCE.finditer(line):
        # After an even number of quotation edges, the position is outside all quotations.
        if bisect_left(edges, end.start()) % 2 == 0:
            yield line[start : end.start()]
            start = end.start()
    yield line[start:]


def cite(text: str, record_of: Callable[[str], str | None]) -> str:
    """After each quotation, cite the record that contains it."""

    def cited(quote: Quotation) -> str:
        record = record_of(quote.text) if len(quote.text) >= MIN_QUOTE_LENGTH else None
        return text[quote.start : quote.end] + (f" [{record}]" if record else "")

    return substituted(text, cited)
