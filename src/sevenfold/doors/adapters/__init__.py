"""Agents of other frameworks whose conversations stay within their windows, each through the framework's own seams.

Every adapter wraps the SDK's client below the framework's model, so requests keep the framework's bytes until a layer
decides something, and names the conversation by what the framework calls a thread, a session or a conversation. What is
changed then, and what never is, holds for all doors: see `sevenfold.doors.wrapping`.

A framework is imported by its own adapter alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def brought_by(extra: str) -> Iterator[None]:
    """Import what an extra of ours brings; where that is not installed, the error names the extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"this adapter needs {error.name}, which is not installed; run: pip install 'sevenfold[{extra}]'",
            name=error.name,
        ) from error
