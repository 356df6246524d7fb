"""Whether the words of a query stand together in a text, or are merely all somewhere in it.

In a long text most words occur by chance. What counts is how much of the query meets within a few lines.
"""

from __future__ import annotations

from collections.abc import Sequence

STRETCH = 400
"""Characters that are looked at together."""
_MOST_PLACES = 40
"""Of each feature: one that is everywhere in a text says little about where to look."""


def stem(word: str) -> str:
    """The beginning of a word that its inflections share, roughly."""
    return word if len(word) < 6 else word[: max(5, len(word) - 3)]


def together(text: str, features: Sequence[str], held: int) -> int:
    """Those of the held features, one bit each, that meet in the stretch of the text where most do."""
    low = text.casefold()
    events: list[tuple[int, int]] = []
    anywhere = 0
    for number, feature in enumerate(features):
        if held >> number & 1:
            places = _places(low, stem(feature.casefold().split()[0]))
            events += [(place, number) for place in places]
            # The index knows inflections that are not seen here: then it has the benefit of the doubt.
            anywhere |= 0 if places else 1 << number
    return anywhere | _best(sorted(events))


def _places(text: str, word: str) -> list[int]:
    found: list[int] = []
    place = text.find(word)
    while place >= 0 and len(found) < _MOST_PLACES:
        found.append(place)
        place = text.find(word, place + len(word))
    return found


def _best(events: Sequence[tuple[int, int]]) -> int:
    """The features of the stretch that has the most different ones."""
    best = first = 0
    counts: dict[int, int] = {}
    for place, number in events:
        counts[number] = counts.get(number, 0) + 1
        while events[first][0] < place - STRETCH:
            gone = events[first][1]
            counts[gone] -= 1
            if not counts[gone]:
                del counts[gone]
            first += 1
        if len(counts) > best.bit_count():
            best = sum(1 << each for each in counts)
    return best
