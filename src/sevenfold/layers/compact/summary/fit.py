"""Sharing out a summary's room: who gets how much, and what is left out when it is not enough.

The user's messages are served first, and of them the newest. When they do not all fit, the longest are cut first, each
keeping its beginning and its end; when even that is too much, the oldest are left out, all but the first, and the
summary says how many. Everything else has a share of what remains, takes less if it needs less, and may then take from
what the others did not need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from sevenfold.layers.compact.extract.facts import Facts, Words
from sevenfold.layers.compact.extract.notation import said

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


class Entries(Struct, frozen=True):
    """Entries that want a place in a section, most wanted first."""

    section: int
    kind: str
    """The list they make up; empty for prose."""
    entries: tuple[str, ...]
    share: float
    most: int = 1_000_000
    """Entries beyond so many are rather looked up than read every time."""
    label: str = ""
    """Shown before them, if any of them finds room."""
    oldest_first: bool = False
    """Shown in the order of the conversation, though the newest are the most wanted."""


class FittedText(Struct, frozen=True):
    """The user's messages as they fit, and how many did not."""

    words: tuple[Words, ...]
    left_out: int = 0


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


def fit_messages(facts: Facts, room: int, count: Count) -> FittedText:
    """The user's messages in this room: whole if possible, else cut, the oldest left out at worst."""
    messages = facts.messages
    sizes = [_size(words, facts, count) for words in messages]
    if sum(sizes) <= room:
        return FittedText(messages)
    most = max(_level(sizes, room), _SHORT)
    cut = [_cut(words, size, most) for words, size in zip(messages, sizes, strict=True)]
    sizes = [
        size if words.lost == before.lost else _size(words, facts, count)
        for words, before, size in zip(cut, messages, sizes, strict=True)
    ]
    if sizes[-1] > room:
        # Even alone it is too large as it is: then it is all there is, and both its ends are shown.
        newest = _cut(messages[-1], _size(messages[-1], facts, count), room)
        fits = room > _FRAME and _size(newest, facts, count) <= room
        return FittedText((newest,) if fits else (), len(messages) - fits)
    return FittedText(tuple(cut)) if sum(sizes) <= room else _newest(cut, sizes, room)


def _size(words: Words, facts: Facts, count: Count) -> int:
    return count(said(words, facts)) + 1


def _level(sizes: Sequence[int], room: int) -> int:
    """The size to which the long ones must come down so that all fit together."""
    low, high = 0, max(sizes, default=0)
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(size, middle) for size in sizes) <= room:
            low = middle
        else:
            high = middle - 1
    return low


def _newest(messages: Sequence[Words], sizes: Sequence[int], room: int) -> FittedText:
    """The newest message, the first, which says what it is all about, and as many before the newest as fit."""
    left = room - sizes[-1]
    first = 1 if len(messages) > 1 and sizes[0] <= left * _FOR_THE_FIRST else 0
    left -= sum(sizes[:first])
    start = len(messages) - 1
    while start > first and sizes[start - 1] <= left:
        start -= 1
        left -= sizes[start]
    chosen = (*messages[:first], *messages[start:])
    return FittedText(chosen, len(messages) - len(chosen))


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
