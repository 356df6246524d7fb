"""Recall by meaning: what is compared, when likeness is trusted, and when to keep silent.

A passage and a query are each one vector; how alike two vectors are says how alike two texts are in meaning. That
says less than words do: among a thousand passages one is always the most alike. So nothing is found unless the best
passage is alike enough by itself, the more so the longer the query (a long text is a little like everything), and
passages far behind the best one are left out. To put them in order, what all passages of a session have in common
is taken off first: it tells them apart better.

Only what was said is compared (the user's words, the model's, summaries). Calls and results are made of names,
which are found to the letter or not at all; compared by meaning they merely crowd out what was said about them.
The figures were set on recorded sessions, see `docs/recall.md`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

from msgspec import Struct

from sevenfold.errors import InputError
from sevenfold.recall.passages import ASSISTANT, SUMMARY, USER
from sevenfold.recall.recall import Query

Way = Literal["words", "meaning", "both"]
"""How to look: for the words of a query, for what it means, or for both. Its exact text comes first in any case."""
WAYS: tuple[Way, ...] = get_args(Way)

SPOKEN = (USER, ASSISTANT, SUMMARY)
"""The kinds of passages that are compared by meaning."""
TRUSTED = 0.27
"""How alike the best passage must be, from 0 to 1…"""
LONG, LONGER = 6, 0.1
"""…and how much more so if the query has more telling words than these: this much for each e-fold."""
BEHIND = 0.5
"""A passage less alike than this share of the best one is left out."""
WEIGHT = 1.0
"""How much meaning counts beside the words, which count 1."""
ORDINARY = 100
"""A session counts as having this many more passages that have nothing in common: small ones have no mean yet."""
FEWEST = 2
"""Telling words a query must have: what a single name means is anybody's guess."""


class Likeness(Struct, frozen=True):
    """How alike a passage and a query are."""

    piece: int
    near: float
    """As they stand."""
    apart: float
    """Without what all passages have in common."""


def way(asked: str | None) -> Way | None:
    """The way of that name; none if none is named."""
    for known in WAYS:
        if asked == known:
            return known
    if asked is not None:
        raise InputError(f"recall cannot look by {asked!r}; it looks by {', '.join(WAYS)}")
    return None


def enough(query: str) -> float | None:
    """How alike a passage must be for this query; None if it has too few words to mean anything."""
    telling = sum(feature.isalpha() for feature in Query.of(query).features)
    if telling < FEWEST or len(query.split()) < FEWEST:
        return None
    return TRUSTED + LONGER * max(0.0, math.log(telling / LONG))


def trusted(found: Sequence[Likeness], least: float) -> dict[int, float]:
    """The pieces to be shown, each with its score; none if the best is not alike enough."""
    if max((one.near for one in found), default=0.0) < least:
        return {}
    behind = BEHIND * max(one.apart for one in found)
    return {one.piece: one.apart for one in found if one.apart >= max(behind, 1e-9)}
