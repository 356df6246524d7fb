"""What is asked of a compaction, and what came of it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from sevenfold.layers.fidelity import Score
from sevenfold.layers.scope import Span
from sevenfold.record.usage import Usage

Engine = Literal["notes", "provider", "fork", "plain", "extractive"]
ENGINES: tuple[Engine, ...] = ("notes", "provider", "fork", "plain", "extractive")
"""In the order they are tried."""
Trigger = Literal["auto", "manual", "reactive"]


class Wish(Struct, frozen=True, kw_only=True):
    """What is to be compacted, why and how."""

    trigger: Trigger = "manual"
    span: Span = "whole"
    record: str = ""
    """Around which record, if not everything."""
    instructions: str = ""
    """What the user wants the summary to look after."""
    note: str = ""
    """What the user wants to remember about it."""
    engine: Engine | None = None
    """Only this one, and the extractive one if it fails."""
    autonomous: bool = False
    """Nobody is there to answer questions."""


class Left(Struct, frozen=True):
    """An engine that was not used, and why."""

    engine: Engine
    reason: str


class Compacted(Struct, frozen=True, kw_only=True):
    """What a compaction did."""

    boundary: str
    trigger: Trigger
    engine: Engine
    left: tuple[Left, ...]
    tokens_before: int
    tokens_after: int
    summarised: int
    """Records the summary stands for."""
    kept: int
    summary: str
    """As the next model reads it."""
    score: Score
    invented: tuple[str, ...]
    """Statements about the user's words that had no source; they were taken out."""
    cut: tuple[str, ...]
    """What found no room in the summary, in words."""
    restored: tuple[str, ...]
    usage: Usage | None
    """Of the call that wrote it."""
    usd: float | None
    calls: int
    fires_again: bool
    """Is the conversation at the threshold again at once?"""
