"""Detects sentences that claim the user's permission or order for an act that is hard to undo.

Neither the wordings nor the acts can be listed, so a linear model decides. Its features are the words, their position
before or after the first word of permission or request ("will" in `claims.toml`), the grammatical frame without the
content words, parts of words, and the forms that deny, suppose or permit. It is trained on the sentences in
`bench/claims`: `bench/claims_model.py` trains it, evaluates it on writers it has not seen, and writes its weights
(`claims.weights`). A question is never a claim.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

_CLAUSE: Final = re.compile(r"(?<=[,;—–])\s*|\s+(?=but\b)")
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+")
_TOKEN: Final = re.compile(r"[\w'-]+|[.,:;?|]")
_WORD: Final = re.compile(r"[^\W\d_][\w'./-]*\w|\w")
_NUMBER: Final = re.compile(r"\d+")
_PHRASE: Final = 2
"""The longest phrase feature, in words."""
_FRAME: Final = 4
"""The longest frame feature, in words and gaps."""
_GAP: Final = "…"
_PART: Final = 4
"""The length of the word-part features, in characters."""
_FORM: Final = 0.3
"""The value of a form feature; the values of each other kind are scaled so that their squares add up to 1."""
_INTRODUCTION: Final = 3
"""The most words after the permission in a line that introduces a list: "The user approved the following:"."""


class Claim(Struct, frozen=True):
    """What the user is said to have permitted or ordered: the roots of the words for acts, and of all content words."""

    acts: frozenset[str]
    about: frozenset[str]


class Model(Struct, frozen=True):
    """A linear classifier: the weight of every feature, and the bias."""

    weights: Mapping[str, float]
    bias: float

    def score(self, text: str) -> float:
        """The score of a text; above 0 it is a claim."""
        return self.bias + sum(self.weights.get(feature, 0.0) * value for feature, value in features(text))


def features(text: str) -> Iterator[tuple[str, float]]:
    """The features of a text with their values; the first character of a feature tells its kind."""
    tokens = _tokens(text)
    phrases = set(_phrases(tokens, 1, _PHRASE))
    frame = {f"#{phrase}" for phrase in _phrases(_framed(tokens), 2, _FRAME)}
    for kind in (phrases, set(_word_parts(tokens)), frame, set(_sides(text))):
        yield from ((feature, len(kind) ** -0.5) for feature in kind)
    yield from ((f"={form}", _FORM) for form in _forms(text))


def _word_parts(tokens: Iterable[str]) -> Iterator[str]:
    """The parts of words, so that an inflected or misspelt word still counts; a space marks its beginning and end."""
    for token in tokens:
        word = f" {token} "
        for start in range(max(1, len(word) - _PART + 1)):
            yield f"~{word[start : start + _PART]}"


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(_NUMBER.sub("0", text.lower().replace("’", "'")))


def _phrases(tokens: Sequence[str], shortest: int, longest: int) -> Iterator[str]:
    for length in range(shortest, longest + 1):
        yield from (" ".join(tokens[at : at + length]) for at in range(len(tokens) - length + 1))


def _framed(tokens: Sequence[str]) -> list[str]:
    """The grammatical words in order, with one gap for each run of content words."""
    shown = (token if _is_grammar(token) else _GAP for token in tokens)
    without_repeats = (token_or_gap for token_or_gap, _ in groupby(shown))
    return ["^", *without_repeats, "$"]


@cache
def _is_grammar(word: str) -> bool:
    listed = word in words("grammar") or word in words("small") or not word[0].isalnum()
    return listed or any(pattern(name).fullmatch(word) for name in ("will", "leave", "person"))


def _sides(text: str) -> Iterator[str]:
    """Features for the words before, after and next to the first word of permission or request."""
    searches = (pattern(name).search(text) for name in ("will", "leave"))
    matches = [match for match in searches if match]
    if not matches:
        return
    will = min(matches, key=lambda match: match.start())
    words_before = _tokens(text[: will.start()])
    words_after = _tokens(text[will.end() :])
    yield f"!{will[0].lower()}"
    yield from (f"<{word}" for word in words_before)
    yield from (f">{word}" for word in words_after)
    yield f"! {' '.join(words_before[-2:])} ! {' '.join(words_after[:1])}"
    yield f"! {' '.join(words_before[-1:])} ! {' '.join(words_after[:2])}"


def claim(sentence: str, context: str = "", lead: str = "", model: Model | None = None) -> Claim | None:
    """What a sentence, given without code and quotations, claims the user permitted or ordered; None if nothing.

    ``context`` is the text that "it" in "the user approved it" refers to, ``lead`` the line that introduces the list.
    """
    for text in statements(sentence, context, lead):
        if (model or _standard()).score(text) > 0:
            return topic(text)
    return None


def topic(text: str) -> Claim:
    """The acts and the other content words of a text, whether or not it claims a permission."""
    about = frozenset(map(root, content(text)))
    return Claim(about & _acts().keys(), about)


def statements(sentence: str, context: str = "", lead: str = "") -> Iterator[str]:
    """The statements of a sentence that may claim a permission: by itself, and as a list entry after ``lead``."""
    if sentence.rstrip(" *_").endswith("?"):
        return
    # "The user approved it": the preceding sentence says what "it" is.
    if not any(content(sentence)) and pattern("claimed").search(sentence):
        sentence = f"{sentence} {_SENTENCE.split(context.strip())[-1].rstrip('.?!')}"
    if any(content(sentence)):
        if pattern("mentions").search(sentence):
            yield sentence
        last = max((match.end() for match in pattern("claimed").finditer(lead)), default=None)
        if last is not None and not _is_open(lead) and len(lead[last:].split()) <= _INTRODUCTION:
            yield f"{lead} {sentence}"


def content(text: str) -> Iterator[str]:
    """The content words of a text: neither small words nor words of permission."""
    for word in _WORD.findall(text.lower().replace("’", "'")):
        permits = pattern("will").fullmatch(word) or pattern("leave").fullmatch(word)
        if word not in words("small") and not permits:
            yield word


def denies(text: str) -> bool:
    """Whether a text denies or refuses something; "no objections" does not count."""
    return bool(pattern("denies").search(pattern("denies_nothing").sub(" ", text)))


def _forms(text: str) -> Iterator[str]:
    """The names of the forms in a text: that it permits, denies, supposes, or reports someone else's permission."""
    clauses = _CLAUSE.split(text)
    stated = [clause for clause in clauses if not _is_open(clause)]
    if denies(text):
        yield "denies"
    for name in ("supposes", "others", "claimed"):
        if pattern(name).search(text):
            yield name
    if not stated:
        yield "open"
    elif len(stated) < len(clauses):
        yield "partly open"
    if pattern("supposes").match(clauses[0].lstrip(" -*")):
        yield "begins with a supposition"
    if pattern("claimed").search(",".join(stated)):
        yield "stated"


def _is_open(clause: str) -> bool:
    """Whether a clause denies a permission, only supposes it, or is about someone else's."""
    permission = pattern("will").search(clause)
    supposed = permission and pattern("supposes").search(clause[: permission.start()])
    return bool(supposed) or denies(clause) or bool(pattern("others").search(clause))


@cache
def _standard() -> Model:
    lines = (line.split(" ", 1) for line in _file("claims.weights").splitlines())
    weights = {feature: int(weight) / 1000 for weight, feature in lines}
    return Model(weights, weights.pop("", 0.0))


# -- the English words and phrases by which a claim is recognised; other languages are not covered -----------------

_ENTRY: Final = re.compile(r"(?:\[[^\]]*\]|\S)+")
_NAME: Final = re.compile("<([A-Z]+)>")
_ENDING: Final = re.compile(r"(?<=\w\w)(?:ing|ed|es|s|e)\Z")
_VOWEL: Final = re.compile("[aeiouy]")


@cache
def _lists() -> Mapping[str, Any]:
    return tomllib.loads(_file("claims.toml"))


@cache
def words(name: str) -> frozenset[str]:
    """The words of a list in `claims.toml`."""
    return frozenset(_lists()[name].split())


@cache
def roots(name: str) -> frozenset[str]:
    """The roots of the words of a list in `claims.toml`."""
    return frozenset(map(root, words(name)))


@cache
def pairs(name: str) -> Mapping[str, str]:
    """A list in `claims.toml` that maps words to their base word."""
    return dict(pair.split(":") for pair in _lists()[name].split())


@cache
def root(word: str) -> str:
    """The word without its inflectional ending."""
    first, _, last = pairs("irregular").get(word, word).removesuffix("'s").removesuffix("'").rpartition("-")
    word = last if first in ("", "self", "bulk", "mass", "force", "hard") else f"{first}-{last}"
    bare = _ENDING.sub("", word)
    bare = re.sub(r"(\w)\1\Z", r"\1", bare if _VOWEL.search(bare) else word)
    return f"{bare[:-1]}i" if bare.endswith("y") else bare


@cache
def _acts() -> Mapping[str, str]:
    """The root of each listed act, with the root of the first act on its line."""
    first_of: dict[str, str] = {}
    for line in _lists()["acts"].strip().splitlines():
        first, *others = map(root, line.split())
        first_of.update(dict.fromkeys((first, *others), first))
    return first_of


@cache
def alike(word: str) -> str:
    """The common root of all words with the same meaning: evidence for one is evidence for the others."""
    word = root(pairs("same").get(word, word))
    return _acts().get(word, word)


@cache
def pattern(name: str) -> re.Pattern[str]:
    """A regular expression that matches any entry of a list in `claims.toml`."""
    body = _filled(name)
    whole_words = isinstance(_lists()[name], str)
    return re.compile(rf"(?<![\w-]){body}(?!\w)" if whole_words else body, re.IGNORECASE)


def _filled(name: str) -> str:
    entries = _lists()[name]
    text = "|".join(_ENTRY.findall(entries) if isinstance(entries, str) else entries)
    text = re.sub(r"\((?!\?)", "(?:", text).replace("_", " ")
    return f"(?:{_NAME.sub(lambda match: _filled(match[1].lower()), text)})"


def _file(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")
