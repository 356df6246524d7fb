"""Fewer points of a long series, for charts that cannot show them all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

T = TypeVar("T")


def thinned(values: Sequence[T], limit: int, key: Callable[[T], Any] | None = None) -> list[T]:
    """At most ``limit`` of the values: of each stretch of neighbours the largest, so that no peak is lost.

    ``key`` returns what values are compared by, as for `max`.
    """
    if len(values) <= limit:
        return list(values)
    edges = [round(edge * len(values) / limit) for edge in range(limit + 1)]
    return [max(values[start:end], key=key) for start, end in pairwise(edges)]  # type: ignore[type-var, arg-type]
