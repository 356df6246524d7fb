"""Putting a summary together: nine sections, prose where there is some, recorded lists behind it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from msgspec import Struct

from sevenfold.layers.compact.extract import notation
from sevenfold.layers.compact.extract.facts import Facts
from sevenfold.layers.compact.extract.outline import TITLES, heading
from sevenfold.layers.compact.summary.fit import Count, Entries, FittedText, fit_messages, share_out

_FOR_MESSAGES = 0.6
"""The part of the room the user's messages may one before anything else."""
_FILLED = 0.97
"""The part of the budget that is filled: a count of tokens is an estimate."""
_TRIES = 8
_TIGHTER = 0.85
_PARAGRAPH = re.compile(r"\n\s*\n")
_LONG = 600
"""Characters beyond which a paragraph is rather left out line by line than whole."""


class Summary(Struct, frozen=True):
    """A finished summary, and what found no room in it."""

    text: str
    left_out: tuple[str, ...] = ()
    """A sentence each; empty when everything is in it."""


def compose(
    facts: Facts, lists: Sequence[Entries], budget: int, count: Count, titles: Mapping[int, str] = TITLES
) -> Summary:
    """The summary these lists make, never larger than the budget."""
    frame = count(_text(facts, FittedText(()), lists, [[] for _ in lists], titles)) + 12 * len(lists)
    room = int(_FILLED * budget) - frame
    for _ in range(_TRIES):
        if room <= 0:
            break
        told, chosen = _choose(facts, lists, room, count)
        text = _text(facts, told, lists, chosen, titles)
        if count(text) <= budget:
            return Summary(text, tuple(_missing(facts, told, lists, chosen)))
        room = int(room * _TIGHTER)
    return _bare(facts, lists, budget, count, titles)


def paragraphs(text: str) -> tuple[str, ...]:
    """A text in pieces that may be left out one by one; a block of code is one piece."""
    pieces: list[str] = []
    for piece in _PARAGRAPH.split(text.strip()):
        if pieces and pieces[-1].count("```") % 2:
            pieces[-1] += f"\n\n{piece}"
        elif piece.strip():
            pieces.append(piece)
    lines = (
        [f"{piece}\n"] if len(piece) <= _LONG or "```" in piece else f"{piece}\n".splitlines(keepends=True)
        for piece in pieces
    )
    return tuple(chain.from_iterable(lines))


def _choose(
    facts: Facts, lists: Sequence[Entries], room: int, count: Count
) -> tuple[FittedText, list[list[str]]]:
    """Messages first, then everything else; what that leaves goes back to the messages."""
    wanted = sum(count(entry) + 1 for one in lists for entry in one.entries[: one.most])
    told = fit_messages(facts, max(int(_FOR_MESSAGES * room), room - wanted), count)
    chosen = share_out(lists, max(0, room - _used(told, facts, count)), count)
    if told.words != facts.messages:
        spent = sum(count(entry) + 1 for entries in chosen for entry in entries)
        told = fit_messages(facts, max(0, room - spent), count)
    return told, chosen


def _used(told: FittedText, facts: Facts, count: Count) -> int:
    return sum(count(notation.said(words, facts)) + 1 for words in told.words)


def _text(
    facts: Facts,
    told: FittedText,
    lists: Sequence[Entries],
    chosen: Sequence[Sequence[str]],
    titles: Mapping[int, str],
) -> str:
    said = [notation.said(words, facts) for words in told.words]
    messages = notation.framed("messages", said, told.left_out + facts.left_out.get("messages", 0))
    parts: list[str] = []
    for number in titles:
        here = [
            _shown(one, entries, facts)
            for one, entries in zip(lists, chosen, strict=True)
            if one.section == number
        ]
        here = [part for part in ([*here, messages] if number == 6 else here) if part]
        here.sort(key=lambda part: part.startswith("<recorded"))
        parts.append("\n".join([heading(number, titles), *(here or [notation.NOTHING])]))
    return "\n\n".join(parts)


def _shown(one: Entries, entries: Sequence[str], facts: Facts) -> str:
    missing = len(one.entries) - len(entries)
    if one.kind:
        return notation.framed(one.kind, entries, missing + facts.left_out.get(one.kind, 0))
    prose = "".join([f"{one.label}\n" if one.label and entries else "", *entries])
    return prose.rstrip() if not missing or notation.MORE in prose else f"{prose}{notation.MORE}"


def _missing(
    facts: Facts, told: FittedText, lists: Sequence[Entries], chosen: Sequence[Sequence[str]]
) -> Iterable[str]:
    """What is not in the summary, in words."""
    if gone := told.left_out + facts.left_out.get("messages", 0):
        yield f"{gone} {'message' if gone == 1 else 'messages'} of the user"
    for words in told.words:
        if words.lost:
            yield f"{words.lost} characters of the user's message {facts.name(words.record)}"
    for one, entries in zip(lists, chosen, strict=True):
        if gone := len(one.entries) - len(entries) + facts.left_out.get(one.kind, 0):
            yield f"{gone} {'entry' if gone == 1 else 'entries'} of {one.kind or _prose_of(one)}"


def _prose_of(one: Entries) -> str:
    return f"the prose of “{TITLES[one.section]}”"


def _bare(
    facts: Facts, lists: Sequence[Entries], budget: int, count: Count, titles: Mapping[int, str]
) -> Summary:
    """What can be said where there is no room at all: that there is more, cut to what fits."""
    nothing: list[list[str]] = [[] for _ in lists]
    told = FittedText((), len(facts.messages))
    text = _text(facts, told, lists, nothing, titles)
    while text and count(text) > budget:
        text = text[: len(text) * 3 // 4]
    return Summary(text, tuple(_missing(facts, told, lists, nothing)))
