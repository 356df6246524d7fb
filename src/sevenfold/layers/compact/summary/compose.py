"""Putting a summary together: nine sections, prose where there is some, recorded lists behind it.

The user's messages are served first, and of them the newest. When they do not all fit, the longest are cut first, each
keeping its beginning and its end; when even that is too much, the oldest are left out, all but the first, and the
summary says how many. Everything else has a share of what remains, takes less if it needs less, and may then take from
what the others did not need.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.layers.compact.extract import notation
from sevenfold.layers.compact.extract.notation import Facts, Words
from sevenfold.layers.compact.extract.outline import TITLES, heading

Count = Callable[[str], int]
"""Tells how many tokens a text has."""

_SHORT = 160
"""Tokens, its frame included, up to which a message of the user is shown whole or left out, but never cut."""
_FRAME = 48
"""Tokens the frame of a cut message takes, and the note in it."""
_FOR_THE_FIRST = 0.5
"""The part of the room that the newest message leaves, which the first may take when others are left out."""
_HEAD = 2 / 3
"""The part of a cut message that is its beginning."""


_MOST = {
    "corrections": 30,
    "permissions": 30,
    "identifiers": 60,
    "errors": 25,
    "outcomes": 40,
    "commands": 20,
}
"""Entries beyond these are rather looked up than read every time."""


class Entries(Struct, frozen=True):
    """Entries that want a place in a section, most wanted first."""

    section: int
    kind: str
    """The list they make up; empty for prose."""
    entries: tuple[str, ...]
    share: float
    label: str = ""
    """Shown before them, if any of them finds room."""
    oldest_first: bool = False
    """Shown in the order of the conversation, though the newest are the most wanted."""

    @property
    def most(self) -> int:
        """How many of them are shown at most."""
        return _MOST.get(self.kind, len(self.entries))


def share_out(claims: Sequence[Entries], room: int, count: Count) -> list[list[str]]:
    """For each claim the entries that fit; first each within its share, then in order."""
    sizes = [[count(entry) + 1 for entry in claim.entries] for claim in claims]
    taken: list[set[int]] = [set() for _ in claims]
    left = room
    for within_share in (True, False):
        for claim, size, chosen in zip(claims, sizes, taken, strict=True):
            most = min(left, int(claim.share * room)) if within_share else left
            for place, tokens in enumerate(size):
                if place not in chosen and tokens <= most and len(chosen) < claim.most:
                    chosen.add(place)
                    most -= tokens
                    left -= tokens
    return [
        [claim.entries[place] for place in sorted(chosen, reverse=claim.oldest_first)]
        for claim, chosen in zip(claims, taken, strict=True)
    ]


def fit_messages(facts: Facts, room: int, count: Count) -> tuple[Words, ...]:
    """The user's messages in this room: whole if possible, else cut, the oldest left out at worst."""
    messages = facts.messages
    sizes = [_size(words, facts, count) for words in messages]
    if sum(sizes) <= room:
        return messages
    most = max(_level(sizes, room), _SHORT)
    cut = [_cut(words, size, most) for words, size in zip(messages, sizes, strict=True)]
    sizes = [
        size if words.lost == before.lost else _size(words, facts, count)
        for words, before, size in zip(cut, messages, sizes, strict=True)
    ]
    if sizes[-1] > room:
        # Even alone it is too large as it is: then it is all there is, and both its ends are shown.
        newest = _cut(messages[-1], _size(messages[-1], facts, count), room)
        return (newest,) if room > _FRAME and _size(newest, facts, count) <= room else ()
    return tuple(cut) if sum(sizes) <= room else _newest(cut, sizes, room)


def _size(words: Words, facts: Facts, count: Count) -> int:
    return count(notation.said(words, facts)) + 1


def _level(sizes: Sequence[int], room: int) -> int:
    """The size to which the long ones must come down so that all fit together."""
    levels = range(1, max(sizes, default=0) + 1)
    return bisect_right(levels, room, key=lambda level: sum(min(size, level) for size in sizes))


def _newest(messages: Sequence[Words], sizes: Sequence[int], room: int) -> tuple[Words, ...]:
    """The newest message, the first, which says what it is all about, and as many before the newest as fit."""
    left = room - sizes[-1]
    first = 1 if len(messages) > 1 and sizes[0] <= left * _FOR_THE_FIRST else 0
    left -= sum(sizes[:first])
    start = len(messages) - 1
    while start > first and sizes[start - 1] <= left:
        start -= 1
        left -= sizes[start]
    return (*messages[:first], *messages[start:])


def _cut(words: Words, size: int, most: int) -> Words:
    """A message brought down to about so many tokens; the frame and the note take some of them."""
    if size <= most:
        return words
    characters = len(words.head) + len(words.tail)
    keep = max(0, int(characters * (most - _FRAME) / size))
    head = min(len(words.head), int(keep * _HEAD))
    tail = keep - head
    end = (words.tail or words.head[head:])[-tail:] if tail else ""
    return Words(words.record, words.head[:head], end, words.lost + characters - head - len(end))


# -- the whole -----------------------------------------------------------------------------------

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
    draft, nothing = _Composition(facts, lists, titles), [list[str]() for _ in lists]
    empty = replace(draft, facts=replace(facts, messages=()))
    frame = count(empty.text((), nothing)) + 12 * len(lists)
    room = int(_FILLED * budget) - frame
    for _ in range(_TRIES):
        if room <= 0:
            break
        told, chosen = draft.choose(room, count)
        text = draft.text(told, chosen)
        if count(text) <= budget:
            return Summary(text, tuple(draft.missing(told, chosen)))
        room = int(room * _TIGHTER)
    # There is no room at all: that there is more is said, cut to what fits.
    text = draft.text((), nothing)
    while text and count(text) > budget:
        text = text[: len(text) * 3 // 4]
    return Summary(text, tuple(draft.missing((), nothing)))


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


class _Composition(Struct, frozen=True):
    """What a summary is made of; its room is filled with messages as they fit, and with entries of each list."""

    facts: Facts
    lists: Sequence[Entries]
    titles: Mapping[int, str]

    def choose(self, room: int, count: Count) -> tuple[tuple[Words, ...], list[list[str]]]:
        """Messages first, then everything else; what that leaves goes back to the messages."""
        wanted = sum(count(entry) + 1 for one in self.lists for entry in one.entries[: one.most])
        told = fit_messages(self.facts, max(int(_FOR_MESSAGES * room), room - wanted), count)
        used = sum(_size(words, self.facts, count) for words in told)
        chosen = share_out(self.lists, max(0, room - used), count)
        if told != self.facts.messages:
            spent = sum(count(entry) + 1 for entries in chosen for entry in entries)
            told = fit_messages(self.facts, max(0, room - spent), count)
        return told, chosen

    def text(self, told: Sequence[Words], chosen: Sequence[Sequence[str]]) -> str:
        """The summary."""
        said = [notation.said(words, self.facts) for words in told]
        messages = notation.framed("messages", said, self._untold(told))
        parts: list[str] = []
        for number in self.titles:
            both = zip(self.lists, chosen, strict=True)
            here = [self._shown(one, entries) for one, entries in both if one.section == number]
            here = [part for part in ([*here, messages] if number == 6 else here) if part]
            here.sort(key=lambda part: part.startswith("<recorded"))
            parts.append("\n".join([heading(number, self.titles), *(here or [notation.NOTHING])]))
        return "\n\n".join(parts)

    def missing(self, told: Sequence[Words], chosen: Sequence[Sequence[str]]) -> Iterable[str]:
        """What is not in the summary, in words."""
        if gone := self._untold(told):
            yield f"{gone} {'message' if gone == 1 else 'messages'} of the user"
        for words in told:
            if words.lost:
                yield f"{words.lost} characters of the user's message {self.facts.name(words.record)}"
        for one, entries in zip(self.lists, chosen, strict=True):
            if gone := self._unlisted(one, entries):
                name = one.kind or f"the prose of “{TITLES[one.section]}”"
                yield f"{gone} {'entry' if gone == 1 else 'entries'} of {name}"

    def _shown(self, one: Entries, entries: Sequence[str]) -> str:
        missing = self._unlisted(one, entries)
        if one.kind:
            return notation.framed(one.kind, entries, missing)
        prose = "".join([f"{one.label}\n" if one.label and entries else "", *entries])
        return prose.rstrip() if not missing or notation.MORE in prose else f"{prose}{notation.MORE}"

    def _untold(self, told: Sequence[Words]) -> int:
        """Messages of the user that found no room, here or in earlier summaries."""
        return len(self.facts.messages) - len(told) + self.facts.left_out.get("messages", 0)

    def _unlisted(self, one: Entries, entries: Sequence[str]) -> int:
        """Entries that found no room, here or in earlier summaries."""
        return len(one.entries) - len(entries) + self.facts.left_out.get(one.kind, 0)
