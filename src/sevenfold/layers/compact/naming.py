"""What a model is asked about the user's words, and what its answer means: pure functions.

If the words exceed the budget, `listing` puts into the instruction every message that is not yet lasting: a line
`[id] text`, or for a long message a line `[id.n] text` for each of its statements, numbered from 1; lines are cut where
room is short, and if even short lines find none, messages that were offered least often and are the oldest come first.
The model answers behind its summary:

    <lasting>
    [3f2a91c4] forbids
    [77aa0b12.4] decides
    [90bc11ef] corrects [3f2a91c4]
    </lasting>

An id of the list, a word for what the message does (sets a rule, allows, forbids, decides, corrects, defines: any word
is stored as given), and optionally the id of an earlier message that it replaces. `named` reads those lines; ids that
are not in the list are ignored, so is everything else, and code copies the words from the record.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.layers.compact.recogniser import Recogniser, by_word_lists
from sevenfold.layers.compact.statements import Span, statements
from sevenfold.layers.compact.user_words import HEAD, Count, UserMessage, fits, level, line
from sevenfold.record.decisions import Lasting

_LISTED_WHOLE = 150
"""A message of more tokens is listed statement by statement."""
_LEAST_LISTED = 24
"""The tokens to which a line of the list for the model is cut at most."""
_NAME = 8
"""Tokens of the id in front of such a line."""
_NAMED = re.compile(
    r"^[\s>*-]*\[?(?P<id>[^\[\]\s:]+)\]?[\s:–—-]*(?P<kind>[^\[\]\n]{0,40})[^\[\]\n]*(?:\[(?P<old>[^\[\]\s]+)\].*)?$"
)


class OfferedWords(Struct, frozen=True):
    """The list of messages of which a model is asked to name those that last."""

    text: str = ""
    records: frozenset[str] = frozenset()
    """The records of the messages in it."""
    is_complete: bool = True
    """Whether every message that is not lasting yet found room in it."""


def listing(
    messages: Sequence[UserMessage],
    budget: int,
    count: Count,
    room: int,
    most_room: int,
    records: Collection[str] | None = None,
) -> OfferedWords:
    """What could be left out, by id; nothing if everything fits into the budget.

    Long lines are cut until all take about ``room`` tokens; if short ones take more than ``most_room``, some find none.

    Everything that is not lasting yet is listed, not only what would be left out as things stand: what a model names
    takes the room of something else, which must have had its chance too. ``records`` limits it to some of them.
    """
    if fits(messages, budget, count):
        return OfferedWords()
    candidates = [message for message in messages if records is None or message.record in records]
    lines_of: dict[str, list[_ListLine]] = {}
    for message in candidates:
        if lines := _lines(message, count):
            lines_of[message.record] = lines
    room_left = most_room
    listed: set[str] = set()
    for message in sorted(candidates, key=_times_offered):
        shortest = sum(min(line.size, _LEAST_LISTED) + _NAME for line in lines_of.get(message.record, ()))
        if shortest and shortest <= room_left:
            room_left -= shortest
            listed.add(message.record)
    shown: list[_ListLine] = []
    for record, lines in lines_of.items():
        if record in listed:
            shown += lines
    longest_line = level([line.size for line in shown], room - _NAME * len(shown), _LEAST_LISTED)
    text = "\n".join(f"[{line.name}] {_shortened(line, longest_line)}" for line in shown)
    return OfferedWords(text, frozenset(listed), len(listed) == len(lines_of))


def _times_offered(message: UserMessage) -> int:
    """How often a model has seen it in such a list; what a summary showed was listed when it was new."""
    return message.offered + bool(message.shown)


class _ListLine(Struct, frozen=True):
    """A line of the list: a message, or one of its statements."""

    name: str
    """The id by which the model names it."""
    text: str
    size: int
    """Its text in tokens."""

    @classmethod
    def of(cls, name: str, text: str, count: Count) -> _ListLine:
        """The line for a text, which may have several."""
        flat = " ".join(text.split())
        return cls(name, flat, count(flat))


def _lines(message: UserMessage, count: Count) -> list[_ListLine]:
    """A message in the list: what is not lasting yet."""
    if count(message.text) <= _LISTED_WHOLE:
        return [] if message.lasting else [_ListLine.of(message.name, message.text, count)]
    lines: list[_ListLine] = []
    for number, statement in enumerate(statements(message.text), 1):
        start, end = statement.span
        if not _is_within(statement.span, message.lasting):
            lines.append(_ListLine.of(f"{message.name}.{number}", message.text[start:end], count))
    return lines


def _shortened(line: _ListLine, limit: int) -> str:
    """The text of a line in at most so many tokens: its beginning and its end."""
    if line.size <= limit:
        return line.text
    characters = int(len(line.text) * limit / line.size)
    head = int(characters * HEAD)
    return f"{line.text[:head]} … {line.text[len(line.text) - (characters - head) :]}"


def named(lines: Iterable[str], messages: Sequence[UserMessage]) -> list[UserMessage]:
    """The messages with the marks that a model's lines give them; the lines that name none of them are ignored."""
    by_name = {message.name: index for index, message in enumerate(messages)}
    marked = list(messages)
    all_marks = chain.from_iterable(message.marks for message in messages)
    number = 1 + max((mark.number for mark in all_marks), default=0)
    for answer_line in lines:
        match = _NAMED.match(answer_line.strip())
        index, spans = _meant(match["id"], messages, by_name) if match else (-1, ())
        if match is None or index < 0:
            continue
        older = by_name.get(match["old"] or "", index)
        # Only an earlier message can be replaced.
        replaces = messages[older].record if older < index else ""
        kind = match["kind"].strip(" :.,–—-")
        new_spans = [span for span in spans if not _is_within(span, marked[index].marks)]
        if new_spans:
            marks = (Lasting(*span, kind=kind, replaces=replaces, number=number) for span in new_spans)
            marked[index] = replace(marked[index], named=(*marked[index].named, *marks))
            number += 1
    return marked


def _is_within(span: Span, marks: Iterable[Lasting]) -> bool:
    """Whether a part of a message is in one that is marked already."""
    start, end = span
    return any(mark.start <= start and end <= mark.end for mark in marks)


def heeded(
    messages: Sequence[UserMessage], count: Count, recognise: Recogniser = by_word_lists
) -> list[UserMessage]:
    """The messages without the names that a model gives too late: to more of the older ones than the user said since.

    A model that obeys a hostile page may call all old small talk lasting, in this compaction and in the next ones. So
    names of what a compaction before this one has seen count only up to the size of what is new: whatever a model
    names, no more gives way to it than to the user's own words.
    """
    room = sum(count(line(message, message.text)) for message in messages if message.is_new)
    late: list[tuple[bool, int, int, Lasting]] = []
    for index, message in enumerate(messages):
        for mark in () if message.is_new else message.named:
            statement = message.text[mark.start : mark.end]
            late.append((not recognise(statement), count(line(message, statement)), index, mark))
    marked = list(messages)
    # Rules are short, and a pasted log has many lines.
    for _, size, index, mark in sorted(late, key=lambda entry: entry[:3]):
        if size <= room:
            room -= size
        else:
            counted = tuple(named for named in marked[index].named if named is not mark)
            marked[index] = replace(marked[index], named=counted)
    return marked


def _meant(
    name: str, messages: Sequence[UserMessage], by_name: Mapping[str, int]
) -> tuple[int, tuple[Span, ...]]:
    """The index of the message that an id names, and the parts of it; -1 if there is none."""
    if (index := by_name.get(name)) is not None:
        return index, ((0, len(messages[index].text)),)
    name, _, number = name.rpartition(".")
    index = by_name.get(name, -1)
    sentences = statements(messages[index].text) if index >= 0 and number.isdecimal() else []
    if not sentences or not 0 < int(number) <= len(sentences):
        return -1, ()
    return index, sentences[int(number) - 1].spans
