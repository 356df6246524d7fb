"""A dream as a background task: what it is doing, what it said and looked at, what it wrote."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

Phase = Literal["orient", "gather", "consolidate", "prune"]
"""Listing and skimming; searching logs and transcripts; merging and closing; writing and indexing."""
State = Literal["running", "completed", "failed", "killed"]

MOST_TURNS_KEPT = 30


class DreamTurn(Struct, frozen=True):
    """One answer of the model."""

    text: str
    commands: tuple[str, ...] = ()
    """What it wanted to look at."""


class DreamTask(Struct, frozen=True):
    """A dream that is under way, or has ended."""

    began: float
    """Seconds since 1970."""
    phase: Phase = "orient"
    state: State = "running"
    turns: tuple[DreamTurn, ...] = ()
    """The newest last; the last 30 are kept."""
    turn_count: int = 0
    tool_uses: int = 0
    paths: tuple[str, ...] = ()
    """The files it wrote or removed."""
    done: tuple[str, ...] = ()
    """What it did, in words."""
    refused: tuple[str, ...] = ()
    """What was suggested and not followed, and why."""
    reason: str = ""
    """Why it failed."""

    @property
    def stage(self) -> Literal["starting", "updating"]:
        """Starting until the first write."""
        return "updating" if self.paths else "starting"

    def after(self, turn: DreamTurn) -> DreamTask:
        """With one more turn."""
        return replace(
            self,
            phase="gather" if turn.commands else self.phase,
            turns=(*self.turns, turn)[-MOST_TURNS_KEPT:],
            turn_count=self.turn_count + 1,
            tool_uses=self.tool_uses + len(turn.commands),
        )
