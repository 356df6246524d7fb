"""When to stop asking a model for something it does not give: after some tries in a row that came to nothing.

Summaries are not asked for any more until one succeeds again; notes are, after longer and longer pauses.
"""

from __future__ import annotations

FAILURES = 3


def opened(failures: int) -> bool:
    """Are model engines to be left out? Notes and the extractive engine stay."""
    return failures >= FAILURES


def after(failures: int, *, succeeded: bool) -> int:
    """The count after another compaction that asked a model."""
    return 0 if succeeded else failures + 1


def pause(failures: int) -> int:
    """How many times as far as usual it is to the next try: twice as far with every failure once it rests."""
    return 2 ** (failures - FAILURES + 1) if opened(failures) else 1
