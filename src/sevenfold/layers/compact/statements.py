"""Splits a message of the user into statements, each with its place in the text.

A statement is never less than a sentence, so that no negation or condition is cut off, and an item of a list comes
with the line that introduces the list. Unlike in memory, all of a message is the user's, pasted text included. In any
language: sentences end at the marks of their script, and text without any ends at its lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

LONG_PARAGRAPH = 400
"""A paragraph of more characters was pasted or written line by line: each of its lines ends a statement."""
_ITEM = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)])\s+\S")
_END = re.compile(r"[.!?…]+[\"'”’»)\]*_`]*(?=\s|$)|[。！？]+[」』”]?")
_MARKS = re.compile('["“”„«»「」『』]')
_ABBREVIATED = re.compile(
    r"\b(?:al|approx|bzw|ca|cf|dr|e\.g|i\.e|mrs?|ms|prof|st|vs|z\.B)\.$", re.IGNORECASE
)
_INTRODUCES = (":", "：")

Span = tuple[int, int]
"""The first character of a part of a text, and the one after its last."""


class Sentence(Struct, frozen=True):
    """A sentence of a text, by its characters, and the line that introduces the list it is in."""

    span: Span
    lead: Span | None = None

    @property
    def spans(self) -> tuple[Span, ...]:
        """All it needs to be understood."""
        return (self.span,) if self.lead is None else (self.lead, self.span)

    def text(self, whole: str) -> str:
        """Its words, with those that introduce it."""
        return " ".join(whole[start:end] for start, end in self.spans)


def statements(text: str) -> list[Sentence]:
    """The statements of a text, in order; together they hold all of it but the white space between them."""
    sentences: list[Sentence] = []
    lead: Span | None = None
    for paragraph, is_item in _paragraphs(text):
        in_paragraph = [Sentence(span, lead if is_item else None) for span in _sentences(text, paragraph)]
        sentences += in_paragraph
        if text[paragraph[0] : paragraph[1]].endswith(_INTRODUCES):
            lead = in_paragraph[-1].span
        elif not is_item:
            lead = None
    return sentences


def _paragraphs(text: str) -> Iterator[tuple[Span, bool]]:
    """The paragraphs and list items of a text, without the white space around them."""
    begin = -1
    end = -1
    is_item = False
    position = 0
    for line in text.splitlines(keepends=True):
        first = position + len(line) - len(line.lstrip())
        last = position + len(line.rstrip())
        position += len(line)
        starts_item = _ITEM.match(line) is not None
        if begin >= 0 and (first >= last or starts_item):
            yield from _split_long(text, (begin, end), is_item=is_item)
            begin = -1
        if first >= last:
            continue
        if begin < 0:
            begin = first
            is_item = starts_item
        end = last
    if begin >= 0:
        yield from _split_long(text, (begin, end), is_item=is_item)


def _split_long(text: str, paragraph: Span, *, is_item: bool) -> Iterator[tuple[Span, bool]]:
    begin, end = paragraph
    if end - begin <= LONG_PARAGRAPH:
        yield paragraph, is_item
        return
    position = begin
    for line in text[begin:end].splitlines(keepends=True):
        bare = line.strip()
        if bare:
            first = position + len(line) - len(line.lstrip())
            yield (first, first + len(bare)), is_item
        position += len(line)


def _sentences(text: str, paragraph: Span) -> Iterator[Span]:
    """The sentences of a paragraph; none ends inside quotes, after an abbreviation or before a small letter."""
    begin, end = paragraph
    looked = begin
    marks = 0
    for stop in _END.finditer(text, begin, end):
        marks += len(_MARKS.findall(text, looked, stop.end()))
        looked = stop.end()
        following = text[looked:end].lstrip()
        goes_on = following[:1].islower() and not text[looked : looked + 1].startswith("\n")
        if marks % 2 or goes_on or _ABBREVIATED.search(text, max(begin, looked - 10), looked):
            continue
        if looked > begin:
            yield begin, looked
        begin = looked + len(text[looked:end]) - len(following)
    if begin < end:
        yield begin, end
