"""The texts of lasting memory: the instruction to extract it, and what is recalled from it."""

from __future__ import annotations

from sevenfold.prompts.text import Text


class RememberFacts(Text, frozen=True):
    """The instruction to find what is worth remembering."""

    since: str | None
    """How the user's first message begins that was not looked at yet."""
    tools: str = "do not call any tool"
    """Which tools may be called."""
    earlier: str | None = None
    """Messages of the user to look at instead, because they have left the context."""


class Recalled(Text, frozen=True):
    """Entries of memory that fit what the user just said."""

    entries: str


class DreamEntries(Text, frozen=True):
    """The instruction to find entries of memory that say the same, or no longer hold."""

    entries: str
    shell: str | None = None
    """The tool with which the model may look around; None: it has none."""
    commands: str | None = None
