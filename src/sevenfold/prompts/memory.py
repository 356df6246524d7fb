"""Prompts for lasting memory: the instructions to extract and consolidate it, and what is recalled from it."""

from __future__ import annotations

from sevenfold.prompts.text import Text


class RememberFacts(Text, frozen=True):
    """The instruction to find facts worth remembering."""

    material: str
    """What is remembered already, what was quoted inexactly before, and the user's messages to look at."""
    tools: str = "do not call any tool"
    """Which tools may be called."""

    @classmethod
    def of(cls, messages: str, *, known: str = "", inexact: str = "", tools: str = "") -> RememberFacts:
        """The instruction about these messages, which are numbered.

        ``known`` lists what is remembered and may be changed by them, by handle, and ``inexact`` the sentences in them
        that an earlier answer did not quote to the letter.
        """
        parts = [RememberedAlready(known).render()] if known else []
        parts += [QuotedInexactly(inexact).render()] if inexact else []
        parts.append(MessagesToLookAt(messages).render())
        material = "\n\n".join(parts)
        return cls(material, tools) if tools else cls(material)


class RememberedAlready(Text, frozen=True):
    """Entries of memory, by handle."""

    entries: str


class QuotedInexactly(Text, frozen=True):
    """Sentences of the user that a model meant, but did not quote to the letter."""

    sentences: str


class MessagesToLookAt(Text, frozen=True):
    """Messages of the user, by number."""

    messages: str


class Recalled(Text, frozen=True):
    """Memory entries that match what the user just said."""

    entries: str


class DreamEntries(Text, frozen=True):
    """The instruction to find memory entries that state the same fact, or no longer hold."""

    entries: str
    shell: str | None = None
    """The tool with which the model may gather evidence; None: it has none."""
    commands: str | None = None
