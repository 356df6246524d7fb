"""The query taken apart, and what fits put in order.

A query is looked for in two ways. Its text *as it is* (upper and lower case and white space aside) comes first: paths,
ids, flags, error lines and sentences are found exactly, whatever their punctuation. Its *words* come second: each
counts for as much as it is rare, a record is helped by what its neighbours in the conversation say, and one that holds
too little of what was asked is left out, because no answer is better than a wrong one. In a long text most words occur
by chance, so what counts is how much of the query meets within a few lines. Scores of other kinds (by meaning, say) are
brought in as a normalised sum.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_

from msgspec import Struct

from sevenfold.recall.passages import NEEDLE, tidy

MOST_NEEDLES = 5
MOST_FEATURES = 40
LONGEST_QUERY = 20_000
"""Characters of a query that are looked at."""
ENOUGH = 0.4
"""The part of a query, by weight of its words, that a record and its neighbours must hold."""
LENT = 0.3
"""What only a neighbour holds counts this much of that."""
NEAR, NEXT = 0.35, 0.15
"""How much of a neighbour's score a record gets, one and two places away."""
LONG_TEXTS_COUNT_LESS = 0.3
STRETCH = 400
"""Characters that are looked at together."""
_MOST_PLACES = 40
"""Of each feature: one that is everywhere in a text says little about where to look."""

_NO_SPACES = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u31ff\u3400-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_DENSE = re.compile(f"([{_NO_SPACES}])")
DENSE_RUN = re.compile(f"[{_NO_SPACES}]+")
_WORD = re.compile(r"[^\W_]+")
_BETWEEN_HUMPS = re.compile(r"[a-z][A-Z]")
_HUMP = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
FILLERS = frozenset(
    _WORD.findall(
        """a about again all also am an and any are as at be been but by can could did do does done for from
        get had has have he her him his how i if in into is it its just me my no not now of on or our out over
        please she should so some than that the their them then there these they this those to up us was we
        were what when where which who why will with would you your"""
    )
)


class Query(Struct, frozen=True):
    """A query taken apart."""

    needles: tuple[str, ...]
    """Stretches of it that a record must hold, white space evened out."""
    features: tuple[str, ...]
    """Its words, and whatever in it is written as one."""

    @classmethod
    def of(cls, text: str) -> Query:
        """What to look for; anything at all may be asked."""
        units = tidy(text[:LONGEST_QUERY]).split()
        return cls(_needles(units), _features(units))


class RecordPlace(Struct, frozen=True):
    """A record by its conversation, and its number in it."""

    lane: int
    number: int

    def around(self, distance: int) -> tuple[RecordPlace, RecordPlace]:
        """The places that far before and after."""
        return RecordPlace(self.lane, self.number - distance), RecordPlace(
            self.lane, self.number + distance
        )


class Match(Struct, frozen=True):
    """A record that holds some of the words."""

    score: float
    held: int
    """Which of the features it holds, one bit each."""


# -- text --------------------------------------------------------------------------------------


def folded(text: str) -> str:
    """The text with white space and upper case evened out: what is compared where matches must be exact."""
    return " ".join(text.split()).casefold()


def spaced(text: str) -> str:
    """The text with every character of a script that writes no spaces as a word of its own."""
    return text if text.isascii() else _DENSE.sub(r" \1 ", text)


def humps(text: str) -> str:
    """The parts of the words that are written in camel case."""
    return " ".join(" ".join(_HUMP.findall(word)) for word in _humped(text))


def _humped(text: str) -> Iterator[str]:
    """The words written in camel case: one looks for their humps, for most words have none."""
    end = 0
    for hump in _BETWEEN_HUMPS.finditer(text):
        start = hump.start()
        if start < end:
            continue
        while start > 0 and text[start - 1].isalnum():
            start -= 1
        word = _WORD.match(text, start)
        if word is not None:
            end = word.end()
            yield word[0]


def phrase(text: str, *, open_end: bool = False) -> str:
    """The text as one phrase for the index: nothing in it can be taken for an operator."""
    return '"' + spaced(text).replace('"', " ") + '"' + ("*" if open_end else "")


def phrase_of(needle: str) -> str:
    """A phrase that every text holding the needle has; the needle may begin and end within words."""
    units = needle.split()
    return phrase(" ".join(units[1:-1])) if len(units) > 3 else phrase(needle, open_end=len(units[-1]) > 2)


def _needles(units: Sequence[str]) -> tuple[str, ...]:
    found: list[str] = []
    for unit in (unit[:NEEDLE] for unit in units):
        if found and len(found[-1]) + 1 + len(unit) <= NEEDLE:
            found[-1] += " " + unit
        else:
            found.append(unit)
    if len(found) <= MOST_NEEDLES:
        return tuple(found)
    step = (len(found) - 1) / (MOST_NEEDLES - 1)
    return tuple(found[round(number * step)] for number in range(MOST_NEEDLES))


def _features(units: Iterable[str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for unit in units:
        words = [unit] if DENSE_RUN.fullmatch(unit) else _WORD.findall(unit)
        if len(words) > 1:
            found.setdefault(" ".join(words)[:NEEDLE])
        for word in words:
            found.update(dict.fromkeys(_terms(word[:NEEDLE])))
    telling = [feature for feature in found if feature.casefold() not in FILLERS] or list(found)
    if len(telling) > MOST_FEATURES:
        telling = sorted(telling, key=len, reverse=True)[:MOST_FEATURES]
    return tuple(telling)


def _terms(word: str) -> list[str]:
    """A word as it is; of scripts without spaces all pairs of characters."""
    dense = "".join(DENSE_RUN.findall(word))
    if len(dense) < 2:
        return [word]
    return [dense[place : place + 2] for place in range(len(dense) - 1)]


# -- order -------------------------------------------------------------------------------------


def rarity(holding: int, total: int) -> float:
    """What a feature counts that ``holding`` of all pieces have; most if none does."""
    return math.log(1 + (total - holding + 0.5) / (holding + 0.5))


def matches(found: Mapping[int, Sequence[int]], weights: Sequence[float]) -> dict[int, Match]:
    """Pieces by what they hold of the features; ``found`` gives the pieces that hold each."""
    held: dict[int, int] = {}
    for feature, where in found.items():
        bit = 1 << feature
        for piece in where:
            held[piece] = held.get(piece, 0) | bit
    scores = {bits: worth(bits, weights) for bits in set(held.values())}
    return {piece: Match(scores[bits], bits) for piece, bits in held.items()}


def for_length(score: float, size: int, usual: float) -> float:
    """The score of a text of that size: in a long one words meet more easily."""
    return score / (1 - LONG_TEXTS_COUNT_LESS + LONG_TEXTS_COUNT_LESS * size / max(1.0, usual))


def smoothed(found: Mapping[RecordPlace, Match]) -> dict[RecordPlace, float]:
    """Scores with the neighbours' help."""
    return {
        place: match.score + NEAR * _best_of(found, place, 1) + NEXT * _best_of(found, place, 2)
        for place, match in found.items()
    }


def lent(found: Mapping[RecordPlace, Match], place: RecordPlace) -> int:
    """The features that a record's neighbours hold."""
    near = (other for distance in (1, 2) for other in place.around(distance))
    return reduce(or_, (found[other].held for other in near if other in found), 0)


def share(own: int, neighbours: int, weights: Sequence[float]) -> float:
    """The part of a query that a record holds, from 0 to 1; what only its neighbours hold counts less."""
    held = worth(own, weights)
    return (held + LENT * (worth(own | neighbours, weights) - held)) / (sum(weights) or 1.0)


def fused(opinions: Iterable[tuple[float, Mapping[str, float]]]) -> dict[str, float]:
    """The weighted sum of several scores, each brought to the same scale first."""
    total: dict[str, float] = {}
    for weight, scores in opinions:
        most = max(scores.values(), default=0.0)
        for uuid, score in scores.items() if most > 0 else ():
            total[uuid] = total.get(uuid, 0.0) + weight * score / most
    return total


def closeness(needles: Sequence[str], text: str) -> float:
    """How much of a text the needles it holds amount to, from 0 to 1; half if they begin or end within a word."""
    amount = min(1.0, sum(map(len, needles)) / max(1, len(text)))
    whole = re.search(rf"(?<!\w){re.escape(needles[0])}(?!\w)", text)
    return amount if whole else amount / 2


def worth(bits: int, weights: Sequence[float]) -> float:
    """What these features count together."""
    return sum(weight for number, weight in enumerate(weights) if bits >> number & 1)


def _best_of(found: Mapping[RecordPlace, Match], place: RecordPlace, distance: int) -> float:
    return max((found[other].score for other in place.around(distance) if other in found), default=0.0)


# -- nearness ----------------------------------------------------------------------------------


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
