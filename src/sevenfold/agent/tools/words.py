"""Sets of names, written as one text."""

from __future__ import annotations


def names(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())
