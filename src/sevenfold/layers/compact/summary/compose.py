"""Putting a summary together: nine sections, prose where there is some, recorded lists behind it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from msgspec import Struct

from sevenfold.layers.compact.extract import notation
from sevenfold.layers.compact.extract.facts import Facts
from sevenfold.layers.compact.extract.outline import TITLES, heading
from sevenfold.layers.compact.summary.fit import Claim, Count, Told, fit_messages, share_out

_FOR_MESSAGES = 0.6
"""The part of the room the user's messages may claim before anything else."""
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
    facts: Facts, claims: Sequence[Claim], budget: int, count: Count, titles: Mapping[int, str] = TITLES
) -> Summary:
    """The summary these claims make, never larger than the budget."""
    frame = count(_text(facts, Told(()), claims, [[] for _ in claims], titles)) + 12 * len(claims)
    room = budget - frame
    for _ in range(_TRIES):
        if room <= 0:
            break
        told, chosen = _choose(facts, claims, room, count)
        text = _text(facts, told, claims, chosen, titles)
        if count(text) <= budget:
            return Summary(text, tuple(_missing(facts, told, claims, chosen)))
        room = int(room * _TIGHTER)
    return _bare(facts, claims, budget, count, titles)


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


def _choose(facts: Facts, claims: Sequence[Claim], room: int, count: Count) -> tuple[Told, list[list[str]]]:
    wanted = sum(count(entry) + 1 for claim in claims for entry in claim.entries)
    told = fit_messages(facts, max(int(_FOR_MESSAGES * room), room - wanted), count)
    used = sum(count(notation.said(words, facts)) + 1 for words in told.words)
    return told, share_out(claims, max(0, room - used), count)


def _text(
    facts: Facts,
    told: Told,
    claims: Sequence[Claim],
    chosen: Sequence[Sequence[str]],
    titles: Mapping[int, str],
) -> str:
    said = [notation.said(words, facts) for words in told.words]
    messages = notation.framed("messages", said, told.left_out + facts.left_out.get("messages", 0))
    parts: list[str] = []
    for number in titles:
        here = [
            _shown(claim, entries, facts)
            for claim, entries in zip(claims, chosen, strict=True)
            if claim.section == number
        ]
        here = [part for part in ([*here, messages] if number == 6 else here) if part]
        here.sort(key=lambda part: part.startswith("<recorded"))
        parts.append("\n".join([heading(number, titles), *(here or [notation.NOTHING])]))
    return "\n\n".join(parts)


def _shown(claim: Claim, entries: Sequence[str], facts: Facts) -> str:
    missing = len(claim.entries) - len(entries)
    if claim.kind:
        return notation.framed(claim.kind, entries, missing + facts.left_out.get(claim.kind, 0))
    prose = "".join([f"{claim.label}\n" if claim.label and entries else "", *entries])
    return prose.rstrip() if not missing or notation.MORE in prose else f"{prose}{notation.MORE}"


def _missing(
    facts: Facts, told: Told, claims: Sequence[Claim], chosen: Sequence[Sequence[str]]
) -> Iterable[str]:
    """What is not in the summary, in words."""
    if gone := told.left_out + facts.left_out.get("messages", 0):
        yield f"{gone} {'message' if gone == 1 else 'messages'} of the user"
    for words in told.words:
        if words.lost:
            yield f"{words.lost} characters of the user's message {facts.name(words.record)}"
    for claim, entries in zip(claims, chosen, strict=True):
        if gone := len(claim.entries) - len(entries) + facts.left_out.get(claim.kind, 0):
            yield f"{gone} {'entry' if gone == 1 else 'entries'} of {claim.kind or _prose_of(claim)}"


def _prose_of(claim: Claim) -> str:
    return f"the prose of “{TITLES[claim.section]}”"


def _bare(
    facts: Facts, claims: Sequence[Claim], budget: int, count: Count, titles: Mapping[int, str]
) -> Summary:
    """What can be said where there is no room at all: that there is more, cut to what fits."""
    nothing: list[list[str]] = [[] for _ in claims]
    told = Told((), len(facts.messages))
    text = _text(facts, told, claims, nothing, titles)
    while text and count(text) > budget:
        text = text[: len(text) * 3 // 4]
    return Summary(text, tuple(_missing(facts, told, claims, nothing)))
