"""Finds the user's whole statement for a quotation that a model made, which is seldom exact.

A model is asked for the user's words to the letter, and gives them with another case, other quotation marks, a full
stop more or less, or an ellipsis in the middle. What is stored is never the model's text: it is the user's statement,
whole, that the quotation is from. So the question is only which statement is meant, and only differences that cannot
change the answer are forgiven. Looser rules take "uninstall" for "install".

A typo is forgiven in one word: one edit, behind two equal letters, in a word without digits that denies nothing. And a
quotation may say more than the user did ("The user said: …"), as long as it has a whole statement of theirs in it: that
one is meant. Such matches are good enough to remember what the user said, and never to end it.
"""

from __future__ import annotations

import html
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from sevenfold.memory.statements import LONGEST, Statement, statements, strip_marker
from sevenfold.memory.words import denies
from sevenfold.recall.ranking import DENSE_RUN, spaced

MIN_WORDS = 3
"""The fewest words of a quotation in which a typo is forgiven."""
MAX_WORDS = 300
"""The most words of a quotation in which a typo is looked for."""
SAME_LETTERS = 2
"""The letters with which a word and its misspelling both begin."""
_EDGES = ".,;:!?()[]{}*_~`'\"“”„‘’«»‹›「」『』。、！？・"
_DASHES = frozenset("-–—−•")
_QUOTED_LINE = re.compile(r"^\s*(?:>\s?)+")
"""The mark that the user's lines are shown to a model with."""
_ELLIPSIS = re.compile(r"\s*(?:\[\s*(?:…|\.{3,})\s*\]|\(\s*(?:…|\.{3,})\s*\)|…|\.{3,})\s*")


class QuotedStatement(Struct, frozen=True):
    """The statement of the user's that a quotation is from."""

    text: str
    """The user's own words: whole sentences, with what introduces them."""
    exact: bool = True
    """False if a word of the quotation had to be taken for a misspelling, or if it says more than the user did."""


class _MessageWords(Struct, frozen=True):
    """The words of all statements of a message, comparable with those of a quotation."""

    statements: tuple[Statement, ...]
    words: tuple[str, ...]
    owners: tuple[int, ...]
    """For each word, the number of the statement it is in."""
    joined: str
    """All words, each between two spaces."""
    starts: tuple[int, ...]
    """For each word, where it begins in ``joined``."""


def nearest(message: str, quotation: str, *, forgiving: bool = True) -> QuotedStatement | None:
    """The user's statements in a message that a quotation is from; None if it is from none.

    Without ``forgiving``, no word may be misspelt.
    """
    match = _nearest(message, quotation, forgiving=forgiving)
    if match is None and "&" in quotation:
        # A model that answers in tags may escape what would be one in them.
        match = _nearest(message, html.unescape(quotation), forgiving=forgiving)
    return match


def _nearest(message: str, quotation: str, *, forgiving: bool) -> QuotedStatement | None:
    lines = [strip_marker(_QUOTED_LINE.sub("", line)) for line in quotation.splitlines()]
    wanted = comparable("\n".join(lines))
    message_words = _words_of(message)
    if not wanted or not message_words.words:
        return None
    start = _find(message_words, wanted, 0)
    if start >= 0:
        return _quotation(message_words, start, start + len(wanted))
    pieces = [part_words for part in _ELLIPSIS.split("\n".join(lines)) if (part_words := comparable(part))]
    if len(pieces) > 1 and (match := _in_parts(message_words, pieces)):
        return match
    if not forgiving:
        return None
    start = _misspelt(message_words.words, wanted)
    if start >= 0:
        return _quotation(message_words, start, start + len(wanted), exact=False)
    return _contained(message_words, wanted)


def comparable(text: str) -> tuple[str, ...]:
    """The words of a text without case, marks and quotation marks; a character each in scripts without spaces."""
    # Before the compatibility form, which would turn an ellipsis into three full stops inside a word.
    plain = unicodedata.normalize("NFKC", text.replace("…", " ")).casefold().replace("’", "'")
    words = []
    for run in spaced(plain).split():
        # A file such as .env begins with its full stop.
        bare = run.rstrip(_EDGES).lstrip(_EDGES.replace(".", "")) if run[0] == "." else run.strip(_EDGES)
        if bare and bare not in _DASHES:
            words.append(bare)
    return tuple(words)


@lru_cache(maxsize=256)
def _words_of(message: str) -> _MessageWords:
    in_message = statements(message)
    all_words: list[str] = []
    owners: list[int] = []
    for number, statement in enumerate(in_message):
        own_words = comparable(statement.own)
        all_words += own_words
        owners += [number] * len(own_words)
    starts: list[int] = []
    end = 1
    for word in all_words:
        starts.append(end)
        end += len(word) + 1
    return _MessageWords(
        in_message, tuple(all_words), tuple(owners), f" {' '.join(all_words)} ", tuple(starts)
    )


def _find(message_words: _MessageWords, wanted: Sequence[str], start: int) -> int:
    """The place of the first of these words, in a row and from ``start`` on; -1 if they are not there."""
    if start >= len(message_words.words):
        return -1
    at = message_words.joined.find(f" {' '.join(wanted)} ", message_words.starts[start] - 1)
    return bisect_right(message_words.starts, at + 1) - 1 if at >= 0 else -1


def _in_parts(message_words: _MessageWords, pieces: Sequence[Sequence[str]]) -> QuotedStatement | None:
    """The statements from the first of these parts to the last, if the message has all of them in this order."""
    first = end = -1
    for piece in pieces:
        start = _find(message_words, piece, max(end, 0))
        if start < 0:
            return None
        first = start if first < 0 else first
        end = start + len(piece)
    return _quotation(message_words, first, end)


def _quotation(
    message_words: _MessageWords, start: int, end: int, *, exact: bool = True
) -> QuotedStatement | None:
    first = message_words.owners[start]
    last = message_words.owners[end - 1]
    following = (statement.own for statement in message_words.statements[first + 1 : last + 1])
    text = " ".join((message_words.statements[first].text, *following))
    return QuotedStatement(text, exact) if len(text) <= LONGEST else None


def _contained(message_words: _MessageWords, wanted: Sequence[str]) -> QuotedStatement | None:
    """The statements that are whole in these words, if they follow one another; None if there are none.

    Without the statements of fewer than `MIN_WORDS` words, which many a text has in it by chance.
    """
    text = f" {' '.join(wanted)} "
    by_statement: dict[int, list[str]] = {}
    for word, owner in zip(message_words.words, message_words.owners, strict=True):
        by_statement.setdefault(owner, []).append(word)
    inside = []
    for owner, statement_words in by_statement.items():
        if len(statement_words) >= MIN_WORDS and f" {' '.join(statement_words)} " in text:
            inside.append(owner)
    if not inside or inside[-1] - inside[0] >= len(inside):
        return None
    start = message_words.owners.index(inside[0])
    end = bisect_right(message_words.owners, inside[-1])
    return _quotation(message_words, start, end, exact=False)


def _misspelt(message_words: Sequence[str], wanted: Sequence[str]) -> int:
    """Where all these words are in a row, one of them misspelt; -1 if nowhere."""
    length = len(wanted)
    if not MIN_WORDS <= length <= MAX_WORDS:
        return -1
    for start in range(len(message_words) - length + 1):
        differing = 0
        for offset in range(length):
            word = message_words[start + offset]
            other = wanted[offset]
            if word != other:
                differing += 1
                if differing > 1 or not is_typo(word, other):
                    break
        else:
            return start
    return -1


def is_typo(word: str, other: str) -> bool:
    """Whether one of two words can be a misspelling of the other, and cannot be a different word that matters."""
    if word[:SAME_LETTERS] != other[:SAME_LETTERS] or min(len(word), len(other)) <= SAME_LETTERS:
        return False
    if any(character.isdigit() for character in word + other) or DENSE_RUN.search(word + other):
        return False
    return not (denies(word) or denies(other)) and _one_edit(word, other)


def _one_edit(word: str, other: str) -> bool:
    """Whether a letter more, less, exchanged, or swapped with the next makes one word the other."""
    if len(word) > len(other):
        word, other = other, word
    if len(other) - len(word) > 1:
        return False
    same = 0
    while same < len(word) and word[same] == other[same]:
        same += 1
    if len(word) < len(other):
        return word[same:] == other[same + 1 :]
    swapped = (
        word[same : same + 2] == other[same : same + 2][::-1] and word[same + 2 :] == other[same + 2 :]
    )
    return swapped or word[same + 1 :] == other[same + 1 :]
