"""Compares statements: literally, and by their distinctive words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import chain

from sevenfold.recall.ranking import DENSE_RUN, FILLERS, folded

Alike = Callable[[str, str], bool]
"""Whether two texts mean the same, judging by similarity of meaning."""

_WORD = re.compile(r"\w+(?:[./:@-]\w+)*")
_PASSING = re.compile(
    r"\b(?:(?:just )?this (?:once|time)|just now|for (?:now|the moment|the time being)|(?:just|only) (?:for )?today"
    r"|today only|in this (?:file|session|case)"
    r"|nur (?:dieses|das) (?:eine )?mal|nur diesmal|nur für (?:heute|jetzt)|nur heute|ausnahmsweise|fürs erste"
    r"|(?:juste|seulement|que) (?:pour )?cette fois(?:-ci)?|pour cette fois(?:-ci)?|pour (?:l['’]instant|le moment)"
    r"|(?:juste|seulement|que) (?:pour )?aujourd['’]hui)\b"
    r"|就这一?次|只(?:有|限|在)?这一?次|仅此一次|这一?次先|今天先|暂时先",
    re.IGNORECASE,
)
_FINISHED = re.compile(
    r"\b(?:(?:is|are|was|were|got) (?:now |finally )?(?:fixed|solved|resolved)|fixed (?:it|that|now)"
    r"|works? (?:again|now)|turned out to be|the (?:bug|problem|culprit|root cause) was)\b",
    re.IGNORECASE,
)
_WISH = re.compile(
    r"\b(?:always|never|from now on|in future|prefer|must|should|do not|don['’]t|remember)\b", re.IGNORECASE
)
_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?](?!\s|$)[^.!?\n]*)*")
_NUMBER = re.compile(r"\d")
ROOT = 4
"""The fewest leading letters that two forms of a word share."""
ENDING = 3
"""The most letters by which their endings differ."""
MOST_APART = 2
"""The most words that each of two texts may have, and the other lack, if they mean the same."""
SAME_FRAME = 0.6
"""Sentences with at least this share of common words in the same order have the same structure."""
_WISHING = frozenset(
    _WORD.findall(
        """always each every like made make must need needs please prefer remember sure time use used using want
        wants"""
    )
)
"""Words that express a wish or a rule, but not its content."""
_QUALIFIERS = frozenset(
    _WORD.findall(
        """after against avoid before could dislike down drop except from hate if inside instead less may maybe might
        more only outside over perhaps possibly probably since some sometimes stop than unless until up while"""
    )
)
_NEGATION = re.compile(r"\b(?:no|not|never|none|without|nor|cannot|\w+n['’]t)\b", re.IGNORECASE)
_DENIES = frozenset(
    _WORD.findall(
        """no not never none nothing nobody nor neither without cannot cant dont doesnt didnt wont isnt arent
        nicht nichts nie niemals niemand kein keine keinen keinem keiner keines ohne weder
        ne pas jamais aucun aucune rien sans ni non plus"""
    )
)


def denies(word: str) -> bool:
    """Whether this word denies something, in English, German or French."""
    bare = word.casefold().replace("’", "'")
    return bare in _DENIES or bare.replace("'", "") in _DENIES or bare.endswith("n't")


def is_temporary(text: str) -> bool:
    """Whether these words say that they apply only for the moment."""
    return bool(_PASSING.search(text))


def finished(text: str) -> bool:
    """Whether these words report finished debugging, and ask for nothing in the future."""
    return bool(_FINISHED.search(text)) and not _WISH.search(text)


def says(text: str, statement: str) -> bool:
    """Whether the text contains these words, or a sentence that says all of it."""
    alike = (sentence for sentence in _sentences(text) if same_fact(sentence, statement))
    return holds(text, statement) or any(covers(sentence, statement) for sentence in alike)


@lru_cache(maxsize=64)
def _sentences(text: str) -> tuple[str, ...]:
    return tuple(sentence.strip(" -*#>|\t") for sentence in _SENTENCE.findall(text))


def holds(text: str, wanted: str) -> bool:
    """Whether the text contains these words literally, ignoring white space and case."""
    return bool(wanted.strip()) and folded(wanted) in folded(text)


@lru_cache(maxsize=4096)
def distinctive_words(text: str) -> frozenset[str]:
    """The distinctive words of a text; for scripts without spaces, all pairs of characters."""
    candidates = (word for word in _WORD.findall(text.casefold()) if word not in FILLERS)
    distinctive = {word for word in candidates if len(word) > 1 or word.isdigit()}
    for run in DENSE_RUN.findall(text):
        distinctive |= {run[start : start + 2] for start in range(len(run) - 1)}
    return frozenset(distinctive)


def shared(words: Iterable[str], other_words: frozenset[str]) -> frozenset[str]:
    """Those words that also occur in the others, regardless of endings."""
    beginnings = _by_beginning(other_words)
    held = set()
    # Comparing each word with each would take minutes in a large memory, so only those that begin alike are.
    for word in words:
        if any(same_word(word, other) for other in beginnings.get(word[:ROOT], ())):
            held.add(word)
    return frozenset(held)


@lru_cache(maxsize=4096)
def _by_beginning(words: frozenset[str]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for word in words:
        grouped.setdefault(word[:ROOT], []).append(word)
    return grouped


def same_word(word: str, other: str) -> bool:
    """Whether these are the same word, or two forms of it."""
    if word == other:
        return True
    if names_something(word) or names_something(other) or min(len(word), len(other)) < ROOT:
        return False
    root = max(ROOT, len(word) - ENDING)
    return word[:root] == other[:root] and abs(len(word) - len(other)) <= ENDING


@lru_cache(maxsize=4096)
def names_something(word: str) -> bool:
    """Whether this is a name, a path, a flag or a figure rather than an ordinary word."""
    return bool(_NUMBER.search(word)) or any(sign in word for sign in "./:@_")


def covers(text: str, other: str) -> bool:
    """Whether the first text has all words that state the other's content."""
    return not _carrying(other) - shared(_carrying(other), _carrying(text))


def same_fact(statement: str, other: str, alike: Alike | None = None) -> bool:
    """Whether two texts state the same fact.

    Figures, names, negations, hedges and conditions must agree. By words, one text may say a little more than the
    other; if each has a word that the other lacks, that word may be the point ("with tabs", "with spaces"), and so may
    the order of the same words ("Ada asks Ben"). By meaning, if ``alike`` is given, a few words may differ on both
    sides, unless the sentences have the same structure: then the difference is the point.
    """
    if folded(statement) == folded(other):
        return True
    content = _carrying(statement)
    other_content = _carrying(other)
    common = shared(content, other_content)
    missing = content - common
    added = other_content - shared(other_content, content)
    if any(map(names_something, missing | added)) or _qualified(statement) != _qualified(other):
        return False
    order, other_order = (_WORD.findall(text.casefold()) for text in (statement, other))
    if sorted(order) == sorted(other_order):
        return order == other_order
    if not missing or not added:
        return len(common) >= 3 and 3 * len(missing | added) <= len(common)
    if alike is None or max(len(missing), len(added)) > MOST_APART or len(common) < 2:
        return False
    built_alike = SequenceMatcher(None, order, other_order, autojunk=False).ratio()
    return built_alike < SAME_FRAME and alike(statement, other)


def shortens(short: str, statement: str) -> bool:
    """Whether a text only leaves words out of a statement, and none that denies, limits, names or counts something.

    Every gap must be marked with an ellipsis, so that the text cannot be taken for the whole statement.
    """
    pieces = [piece.split() for piece in re.split(r"\s*(?:…|\.{3})\s*", short.strip())]
    statement_words = statement.split()
    at = 0
    for number, piece in enumerate(pieces):
        starts = range(at, len(statement_words) - len(piece) + 1)
        start_of_part = next(
            (start for start in starts if statement_words[start : start + len(piece)] == piece), -1
        )
        if start_of_part < 0 or (number == 0 and start_of_part > 0 and piece):
            return False
        at = start_of_part + len(piece)
    if at < len(statement_words) and pieces[-1]:
        return False
    kept_words = list(chain.from_iterable(pieces))
    left_out = list(statement_words)
    for word in kept_words:
        left_out.remove(word)
    matters = (denies(word.strip(".,;:!?")) or names_something(word.strip(".,;:!?")) for word in left_out)
    return (
        bool(kept_words) and not any(matters) and _qualified(" ".join(kept_words)) == _qualified(statement)
    )


def _qualified(text: str) -> tuple[int, frozenset[str]]:
    """The number of negations in a text, and the words in it that limit its validity."""
    all_words = frozenset(_WORD.findall(text.casefold()))
    return len(_NEGATION.findall(text)), all_words & _QUALIFIERS


@lru_cache(maxsize=4096)
def _carrying(text: str) -> frozenset[str]:
    """The words that state a text's content, without those that only mark it as a wish, a rule or a habit."""
    return distinctive_words(text) - _WISHING
