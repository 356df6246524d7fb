"""Small charts made of characters."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_PARTS = " ▏▎▍▌▋▊▉█"


def buckets(values: Sequence[int], width: int) -> list[int]:
    """The values squeezed into as many columns, the largest of each; fewer values stay as they are."""
    if len(values) <= width:
        return list(values)
    edges = [round(column * len(values) / width) for column in range(width + 1)]
    return [max(values[low:high]) for low, high in pairwise(edges)]


def column(index: int, length: int, width: int) -> int:
    """The column in which a value stands once `buckets` has squeezed them."""
    return index if length <= width else min(width - 1, int(index * width / length))


def area(values: Sequence[int], width: int, height: int) -> list[str]:
    """The rows of an area chart, the topmost first."""
    columns = buckets(values, width)
    top = max(columns, default=0) or 1
    levels = [max(1, round(value / top * height * 8)) if value else 0 for value in columns]
    return [
        "".join(_EIGHTHS[min(8, max(0, level - 8 * row))] for level in levels)
        for row in reversed(range(height))
    ]


def sparkline(values: Sequence[int], width: int) -> str:
    """A chart of one row."""
    return area(values, width, 1)[0]


def bar(part: float, whole: float, width: int) -> str:
    """A bar that is full at ``whole``."""
    eighths = round(max(0.0, min(1.0, part / whole if whole else 0.0)) * width * 8)
    if part > 0:
        eighths = max(1, eighths)
    return "█" * (eighths // 8) + _PARTS[eighths % 8].strip()
