"""What all hooks of one event said together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

Verdict = Literal["allow", "ask", "deny"]
"""Whether a tool may run, from the mildest to the strictest."""


class Failure(Struct, frozen=True):
    """A hook that did not do what it should; the turn goes on without it."""

    hook: str
    problem: str


class Permission(Struct, frozen=True):
    """Whether hooks let a tool run."""

    verdict: Verdict
    reason: str = ""


class Outcome(Struct, frozen=True, kw_only=True):
    """What comes of an event's hooks."""

    event: str
    ran: tuple[str, ...] = ()
    """The hooks that ran, by label, in order."""
    blocked: str | None = None
    """Why what was about to happen should not: the prompt, the tool call, the compaction, or stopping."""
    instructions: tuple[str, ...] = ()
    """For the summary of a compaction."""
    context: tuple[str, ...] = ()
    """For the model."""
    permission: Permission | None = None
    updated_input: Mapping[str, Any] | None = None
    """What the tool should be given instead."""
    updated_output: Any | UnsetType = UNSET
    """What the model should see as the tool's result instead."""
    messages: tuple[str, ...] = ()
    """To show the user."""
    stop: str | None = None
    """Why the agent should stop altogether; may be empty. None: it need not."""
    failures: tuple[Failure, ...] = ()
