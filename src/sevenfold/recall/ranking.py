"""Parsing queries, and ranking what matches.

A query is searched for in two ways. Its *exact text* (ignoring case and white space) comes first: paths, ids, flags,
error lines and sentences are found exactly, with any punctuation. Its *words* come second; rare words count for more.
A record gets credit for its own words and, less the farther away they are, for the words of the records around it: in a
conversation an answer seldom repeats the words of its question. The speaker and the day count if the query names them.
If the best record matches too little of the query, nothing is returned, because no answer is better than a wrong one.
In a long text most words occur by chance, so what counts there is how much of the query occurs within a few lines.
Scores of other kinds (by meaning, for example) are added after normalisation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import NamedTuple, TypeVar

from msgspec import Struct

from sevenfold.recall.passages import NEEDLE, tidy

MOST_NEEDLES = 5
MOST_FEATURES = 40
LONGEST_QUERY = 20_000
"""Characters of a query that are used; the rest is ignored."""
ENOUGH = 0.4
"""The share of a statement, by weight of its words, that the best record must match."""
LEAST_IF_ASKED = 0.325
ENOUGH_IF_ASKED = 0.39
MOST_IF_ASKED = 0.55
PER_DOUBLING = 0.06
"""The share of a question that the best record and those around it must match, since answers use other words, in an
index of `SMALL_INDEX` pieces, how much it rises each time the index doubles, and its bounds. The best of
many places matches more by chance than the best of few: with a fixed share, a long conversation would answer anything.
`docs/recall.md` shows what is lost and what is silenced."""
SMALL_INDEX = 230
BEHIND = 0.3
"""Records with less than this share of the best score are dropped."""
NEIGHBOUR_CREDIT = (0.7, 0.5, 0.3, 0.2, 0.15, 0.1)
"""The credit that a record gets for matches in records one, two, three… places away."""
SATURATION = 0.5
LENGTH = 0.4
"""How strongly the length of a text counts, as in BM25."""
SPOKE = 1.5
"""The weight of a match with the speaker's name."""
STRETCH = 400
"""The distance, in characters, within which words count as close together."""
_MOST_PLACES = 40
"""Occurrences examined per feature: one that is everywhere in a text says little about where to look."""

_NO_SPACES = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u31ff\u3400-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_DENSE = re.compile(f"[{_NO_SPACES}]")
DENSE_RUN = re.compile(f"[{_NO_SPACES}]+")
_WORD = re.compile(r"[^\W_]+")
_POSSESSIVE = re.compile(r"(?<=\w)['’]s\b")
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


_ASKING = frozenset(
    _WORD.findall("what when where which who whom whose why how did does do is are was were has have")
)


class Query(Struct, frozen=True):
    """A parsed query."""

    needles: tuple[str, ...]
    """Parts of its exact text that a record must contain, with white space normalised."""
    features: tuple[str, ...]
    """Its words, and its compound terms (such as paths) as phrases."""
    days: tuple[str, ...]
    """The months and days that it names, in the form that `labels` writes."""
    dates: str
    """The words of those dates: a record from that day need not contain them."""
    asks: bool
    """Whether it is a question. The words of a question occur around the answer, if not in it."""

    def enough(self, pieces: int) -> float:
        """The share of the query that the best record must match, in an index with this many pieces."""
        if not self.asks:
            return ENOUGH
        doublings = math.log2(max(1, pieces) / SMALL_INDEX)
        return max(LEAST_IF_ASKED, min(MOST_IF_ASKED, ENOUGH_IF_ASKED + PER_DOUBLING * doublings))

    @classmethod
    def of(cls, text: str) -> Query:
        """Parse any text as a query."""
        units = tidy(text[:LONGEST_QUERY]).split()
        asks = bool(units) and (units[-1][-1] in "?？" or units[0].casefold() in _ASKING)
        days, dates = _days(" ".join(units))
        return cls(_needles(units), _features(units), days, dates, asks)


class RecordPlace(NamedTuple):
    """A record's conversation, and its number there."""

    lane: int
    number: int


# -- text --------------------------------------------------------------------------------------


def folded(text: str) -> str:
    """The text with white space normalised and case folded, for exact comparison."""
    return " ".join(text.split()).casefold()


def spaced(text: str) -> str:
    """The text with spaces around every character of a script that is written without spaces."""
    return text if text.isascii() else _DENSE.sub(r" \g<0> ", text)


def humps(text: str) -> str:
    """The parts of all camel-case words in a text."""
    return " ".join(" ".join(_HUMP.findall(word)) for word in _humped(text))


def _humped(text: str) -> Iterator[str]:
    """The camel-case words of a text. Searches for the humps themselves, which is fast because most words have none."""
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
    """The text as a quoted FTS phrase, free of operators; with ``open_end``, its last word is a prefix."""
    return '"' + spaced(text).replace('"', " ") + '"' + ("*" if open_end else "")


def phrase_of(needle: str) -> str:
    """An FTS phrase for a needle; if it has over three words, without the first and last, which may be incomplete."""
    units = needle.split()
    return phrase(" ".join(units[1:-1])) if len(units) > 3 else phrase(needle, open_end=len(units[-1]) > 2)


def _needles(units: Sequence[str]) -> tuple[str, ...]:
    needles: list[str] = []
    for unit in (unit[:NEEDLE] for unit in units):
        if needles and len(needles[-1]) + 1 + len(unit) <= NEEDLE:
            needles[-1] += " " + unit
        else:
            needles.append(unit)
    if len(needles) <= MOST_NEEDLES:
        return tuple(needles)
    step = (len(needles) - 1) / (MOST_NEEDLES - 1)
    return tuple(needles[round(number * step)] for number in range(MOST_NEEDLES))


def _features(units: Iterable[str]) -> tuple[str, ...]:
    features: dict[str, None] = {}
    for unit in units:
        unit_words = [unit] if DENSE_RUN.fullmatch(unit) else _WORD.findall(_POSSESSIVE.sub("", unit))
        if len(unit_words) > 1:
            features.setdefault(" ".join(unit_words)[:NEEDLE])
        for word in unit_words:
            features.update(dict.fromkeys(_terms(word[:NEEDLE])))
    telling = [feature for feature in features if feature.casefold() not in FILLERS] or list(features)
    if len(telling) > MOST_FEATURES:
        telling = sorted(telling, key=len, reverse=True)[:MOST_FEATURES]
    return tuple(telling)


def _terms(word: str) -> list[str]:
    """The word itself; for scripts without spaces, all pairs of characters."""
    dense = "".join(DENSE_RUN.findall(word))
    if len(dense) < 2:
        return [word]
    return [dense[start : start + 2] for start in range(len(dense) - 1)]


# -- ranking -----------------------------------------------------------------------------------


def rarity(holding: int, total: int) -> float:
    """The weight of a feature that ``holding`` of all pieces contain; highest if none does."""
    return math.log(1 + (total - holding + 0.5) / (holding + 0.5))


def holding(postings: Sequence[Sequence[int]]) -> dict[int, int]:
    """Each piece that contains any feature, with its features as a bit mask."""
    held: dict[int, int] = {}
    for feature, pieces in enumerate(postings):
        bit = 1 << feature
        for piece in pieces:
            held[piece] = held.get(piece, 0) | bit
    return held


def strongest(held: Mapping[int, int], weights: Sequence[float], limit: int) -> list[int]:
    """The pieces whose features have the highest total weight, at most ``limit``."""
    alike: dict[int, list[int]] = {}
    for piece, bits in held.items():
        alike.setdefault(bits, []).append(piece)
    ranked = sorted(alike, key=lambda bits: -worth(bits, weights))
    return list(islice(chain.from_iterable(alike[bits] for bits in ranked), limit))


Scored = TypeVar("Scored", str, int)
Strengths = dict[int, float]
"""How strongly a record matches each feature, by the feature's number."""
NOTHING: Strengths = {}


def for_length(size: int, usual: float) -> float:
    """The factor for a match in a text of this size: in a long text, words occur together more easily."""
    length = 1 - LENGTH + LENGTH * size / max(1.0, usual)
    return (1 + SATURATION) / (1 + SATURATION * length)


def strengths(bits: int, weights: Sequence[float], share: float) -> Strengths:
    """The strength of each feature in a bit mask: its weight times ``share``."""
    return {number: weight * share for number, weight in enumerate(weights) if bits >> number & 1}


def spread(of_records: Mapping[RecordPlace, Strengths]) -> dict[RecordPlace, Strengths]:
    """The strengths of each record, raised by those of the records around it."""
    held = {piece: dict(strengths) for piece, strengths in of_records.items()}
    for (lane, number), strengths in of_records.items():
        for distance, credit in enumerate(NEIGHBOUR_CREDIT, 1) if strengths else ():
            lent = [(feature, credit * strength) for feature, strength in strengths.items()]
            for neighbour in (number - distance, number + distance):
                # A plain tuple is an equal key, and much faster to create.
                taker = held.get((lane, neighbour), NOTHING)  # type: ignore[call-overload]
                for feature, strength in lent if taker is not NOTHING else ():
                    if strength > taker.get(feature, 0.0):
                        taker[feature] = strength
    return held


def share(held: Strengths, weights: Sequence[float]) -> float:
    """The share of a query that is matched, from 0 to 1."""
    there = sum(min(strength, weights[feature]) for feature, strength in held.items())
    return there / (sum(weights) or 1.0)


def fused(opinions: Iterable[tuple[float, Mapping[Scored, float]]]) -> dict[Scored, float]:
    """The weighted sum of several scores, each normalised to a maximum of 1."""
    total: dict[Scored, float] = {}
    for weight, scores in opinions:
        highest = max(scores.values(), default=0.0)
        for source_uuid, score in scores.items() if highest > 0 else ():
            total[source_uuid] = total.get(source_uuid, 0.0) + weight * score / highest
    return total


def closeness(needles: Sequence[str], text: str) -> float:
    """The share of a text that the needles make up, from 0 to 1; halved if the first begins or ends inside a word."""
    amount = min(1.0, sum(map(len, needles)) / max(1, len(text)))
    whole = re.search(rf"(?<!\w){re.escape(needles[0])}(?!\w)", text)
    return amount if whole else amount / 2


def worth(bits: int, weights: Sequence[float]) -> float:
    """The total weight of the features in a bit mask."""
    return sum(weight for number, weight in enumerate(weights) if bits >> number & 1)


# -- proximity ---------------------------------------------------------------------------------


def stem(word: str) -> str:
    """The beginning of a word that its inflections share, roughly."""
    return word if len(word) < 6 else word[: max(5, len(word) - 3)]


def features_close_together(text: str, features: Sequence[str], held: int) -> int:
    """The bit mask of those features in ``held`` that occur close together, where most of them do."""
    low = text.casefold()
    events: list[tuple[int, int]] = []
    anywhere = 0
    for number, feature in enumerate(features):
        if held >> number & 1:
            positions = _places(low, stem(feature.casefold().split()[0]))
            events += [(position, number) for position in positions]
            # The index also matches inflections that this search misses, so the feature gets the benefit of the doubt.
            anywhere |= 0 if positions else 1 << number
    return anywhere | _best(sorted(events))


def _places(text: str, word: str) -> list[int]:
    return [match.start() for match in islice(re.finditer(re.escape(word), text), _MOST_PLACES)]


def _best(events: Sequence[tuple[int, int]]) -> int:
    """The bit mask of features in the stretch with the most different ones."""
    best = first = 0
    counts: dict[int, int] = {}
    for position, number in events:
        counts[number] = counts.get(number, 0) + 1
        while events[first][0] < position - STRETCH:
            gone = events[first][1]
            counts[gone] -= 1
            if not counts[gone]:
                del counts[gone]
            first += 1
        if len(counts) > best.bit_count():
            best = sum(1 << feature for feature in counts)
    return best


# -- speakers and dates --------------------------------------------------------------------------

_SPEAKER = re.compile(r"\s*([^\W\d_][\w.'’-]*(?: [^\W\d_][\w.'’-]*){0,2}):\s")
_MONTHS = [
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
]
_MONTH = "|".join(f"{name[:3]}(?:{name[3:]})?" if name[3:] else name for name in _MONTHS)
_DAY = r"(\d{1,2})(?:st|nd|rd|th)?"
_DATE = re.compile(rf"\b(?:{_DAY}(?: of)? )?({_MONTH})\b\.?(?: {_DAY}\b)?(?:,? (\d{{4}})\b)?")
_ISO_DATE = re.compile(r"\b(\d{4})-(\d\d)(?:-(\d\d))?\b")
_ANY_WORD = re.compile(r"\w+")


def labels(text: str, timestamp: str) -> str:
    """Labels for the index: the speaker, if the text begins with a name and a colon, and the date as special words."""
    speaker = _SPEAKER.match(text, 0, 80)
    year = timestamp[:4]
    month = timestamp[5:7]
    day = timestamp[8:10]
    date_words = f"y{year} m{month} d{day}" if day and (year + month + day).isdecimal() else ""
    return f"{speaker[1] if speaker else ''} {date_words}".strip()


def _days(query: str) -> tuple[tuple[str, ...], str]:
    """The months and days that a query names, in the form that `labels` writes, and the words that name them."""
    named = {match[0]: match.groups(default="") for match in _ISO_DATE.finditer(query)}
    for match in _DATE.finditer(query):
        day_before, name, day_after, year = match.groups(default="")
        month = 1 + next(number for number, full in enumerate(_MONTHS) if full.startswith(name[:3]))
        day = day_after or day_before
        named[match[0]] = (year, f"{month:02}", day.zfill(2) if day else "")
    months = [f"y{year} m{month}" if year else f"m{month}" for year, month, _ in named.values()]
    exact = [f"m{month} d{day}" for _, month, day in named.values() if day]
    return tuple(dict.fromkeys([*months, *exact])), " ".join(_ANY_WORD.findall(" ".join(named)))
