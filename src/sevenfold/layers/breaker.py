"""When to stop asking a model for summaries: after some compactions in a row that got none, until one does again."""

from __future__ import annotations

FAILURES = 3


def opened(failures: int) -> bool:
    """Are model engines to be left out? Notes and the extractive engine stay."""
    return failures >= FAILURES


def after(failures: int, *, succeeded: bool) -> int:
    """The count after another compaction that asked a model."""
    return 0 if succeeded else failures + 1
