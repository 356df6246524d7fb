"""Prompts for lasting memory: the instructions to extract and consolidate it, and what is recalled from it."""

from __future__ import annotations

from sevenfold.prompts.text import Text


class RememberFacts(Text, frozen=True):
    """The instruction to find facts worth remembering."""

    messages: str
    """The user's messages to look at, by number."""
    known: str | None = None
    """What is remembered and may be changed by them, by handle."""
    tools: str = "do not call any tool"
    """Which tools may be called."""


class Recalled(Text, frozen=True):
    """Memory entries that match what the user just said."""

    entries: str


class DreamEntries(Text, frozen=True):
    """The instruction to find memory entries that state the same fact, or no longer hold."""

    entries: str
    shell: str | None = None
    """The tool with which the model may gather evidence; None: it has none."""
    commands: str | None = None
