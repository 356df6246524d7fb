"""Whether a sentence claims the user's permission or order for an act that is hard to take back.

Words of permission, order and request are a closed part of English (`claims.toml`): a sentence without one claims
nothing, and neither does a clause that denies, asks or supposes. What can be permitted is open, and so is how much it
matters. That is decided by a linear model over the words and parts of words, learnt from the sentences in
`bench/claims`; `bench/claims_model.py` writes its weights (`claims.weights`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

from msgspec import Struct

from sevenfold.layers.compact.summary.vocabulary import is_act, pattern, resource, root, roots, words

_CLAUSE: Final = re.compile(r"(?<=[,;—–])\s*|\s+(?=but\b)")
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+")
_TOKEN: Final = re.compile(r"[\w'-]+|[.,:;?]")
_WORD: Final = re.compile(r"[^\W\d_][\w'./-]*\w|\w")
_NUMBER: Final = re.compile(r"\d+")
_PHRASE: Final = 3
"""Words in a row that are looked at together, at most."""
_PARTS: Final = (3, 4, 5)
"""The lengths of the parts of words."""
_INTRODUCTION: Final = 3
"""Words that may follow the permission in the line that introduces a list: "The user approved the following:"."""


class Claim(Struct, frozen=True):
    """The roots of the words for what the user is said to have permitted or ordered: acts, and everything else."""

    acts: frozenset[str]
    about: frozenset[str]

    @property
    def crucial(self) -> frozenset[str]:
        """The words that evidence must have."""
        return self.about & roots("crucial")


class Model(Struct, frozen=True):
    """The weight of every feature that tells claims from other sentences, and where the border is."""

    weights: Mapping[str, float]
    bias: float

    def score(self, text: str) -> float:
        """How sure it is a claim; above 0 it is one."""
        kinds = features(text)
        return self.bias + sum(
            sum(self.weights.get(one, 0.0) for one in kind) / math.sqrt(max(1, len(kind))) for kind in kinds
        )


def features(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """The words of a text, alone and with their neighbours, and the parts of its words."""
    tokens = _TOKEN.findall(_NUMBER.sub("0", text.lower().replace("’", "'")))
    phrases = (
        " ".join(tokens[start : start + length])
        for length in range(1, _PHRASE + 1)
        for start in range(len(tokens) - length + 1)
    )
    parts = (
        f"~{word[start : start + length]}"
        for word in (f" {token} " for token in tokens)
        for length in _PARTS
        for start in range(max(1, len(word) - length + 1))
    )
    return frozenset(phrases), frozenset(parts)


def claim(sentence: str, before: str = "", lead: str = "", model: Model | None = None) -> Claim | None:
    """What a sentence, without code and quotations, claims the user has permitted or ordered.

    ``before`` is what "the user approved it" is about, ``lead`` the line that introduces the list the sentence is in.
    """
    for text in statements(sentence, before, lead):
        if (model or _standard()).score(text) > 0:
            about = frozenset(map(root, content(text)))
            return Claim(frozenset(one for one in about if is_act(one)), about)
    return None


def statements(sentence: str, before: str = "", lead: str = "") -> Iterator[str]:
    """What a sentence states about permissions, orders and requests, if it does."""
    if sentence.rstrip(" *_").endswith("?"):
        return
    clauses = _CLAUSE.split(sentence)
    if pattern("supposes").match(clauses[0].lstrip(" -*")):  # "Once it is approved, it can be published"
        return
    stated = ",".join(clause for clause in clauses if not _is_open(clause))
    if pattern("claimed").search(stated):
        if not any(content(stated)):  # "The user approved it": what is meant comes before it
            stated = f"{stated} {_SENTENCE.split(before.strip())[-1].rstrip('.?!')}"
        if any(content(stated)):
            yield stated
    if stated and not _is_open(lead):
        last = max((found.end() for found in pattern("claimed").finditer(lead)), default=None)
        if last is not None and len(lead[last:].split()) <= _INTRODUCTION:
            yield f"{lead} {stated}"


def content(text: str) -> Iterator[str]:
    """The words for what is permitted: those that are neither small nor words of permission."""
    for word in _WORD.findall(text.lower().replace("’", "'")):
        if (
            word not in words("small")
            and not pattern("will").fullmatch(word)
            and not pattern("leave").fullmatch(word)
        ):
            yield word


def denies(text: str) -> bool:
    """Does it deny or refuse something? "No objections" does not."""
    return bool(pattern("denies").search(pattern("denies_nothing").sub(" ", text)))


def _is_open(clause: str) -> bool:
    """Does a clause deny or only suppose a permission, or speak of somebody else's?"""
    found = pattern("will").search(clause)
    supposed = found and pattern("supposes").search(clause[: found.start()])
    return bool(supposed) or denies(clause) or bool(pattern("others").search(clause))


@cache
def _standard() -> Model:
    lines = (line.split(" ", 1) for line in resource("claims.weights").splitlines())
    weights = {feature: int(weight) / 1000 for weight, feature in lines}
    return Model(weights, weights.pop("", 0.0))
