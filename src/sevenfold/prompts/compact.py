"""The prompts that ask a model for a summary or for notes, and the texts that follow a compaction."""

from __future__ import annotations

from typing import Literal

from sevenfold.prompts.text import Static, Text


class CompactAsked(Text, frozen=True):
    """The user's instructions for the summary."""

    words: str


class CompactHooks(Text, frozen=True):
    """Instructions from hooks for the summary."""

    words: str


class UserWordsListed(Text, frozen=True):
    """Messages of the user for which there may be no room behind the summary, by id; asks which of them last."""

    words: str


class UserWordsAsked(Text, frozen=True):
    """The same list in a request of its own, which asks for nothing else."""

    words: str


class Compact(Text, frozen=True):
    """The instruction to summarise: the whole conversation, or a part of it."""

    whole: bool = False
    after: str | None = None
    """Where the part to summarise begins."""
    before: bool = False
    now: bool = False
    done: bool = False
    part: str | None = None
    """Which part of how many this is, if the conversation had to be sent in several."""
    lasting: bool = False
    """Whether the model is asked to name what lasts of the user's messages."""
    more: str | None = None

    @classmethod
    def of(
        cls,
        span: Literal["whole", "from", "up_to", "range"] = "whole",
        *,
        begins: str = "",
        user: str = "",
        hooks: str = "",
        part: str | None = None,
        listed: str = "",
    ) -> Compact:
        """The instruction; ``begins`` is the message that a part starts with; blank wishes are ignored.

        ``listed`` are the user's messages, by id, of which the model is to name those that last.
        """
        wishes = [UserWordsListed(listed).render()] if listed else []
        wishes += [CompactAsked(user.strip()).render()] if user.strip() else []
        wishes += [CompactHooks(hooks.strip()).render()] if hooks.strip() else []
        return cls(
            whole=span == "whole" and part is None,
            after=_beginning(begins) if span in ("from", "range") else None,
            before=span == "up_to",
            now=span in ("whole", "from"),
            done=span in ("up_to", "range"),
            part=part,
            lasting=bool(listed),
            more="\n\n".join(wishes) or None,
        )


def _beginning(message: str) -> str:
    line = " ".join(message.split())[:200]
    return f"from the message that begins “{line}” on" if line else "from the last message marked for it on"


class Summariser(Static, frozen=True):
    """The system prompt of a call that only summarises."""


class Continued(Text, frozen=True):
    """The message after a boundary: the summary, where to read the full conversation, and how to continue."""

    summary: str
    transcript: str | None = None
    all: bool = False
    earlier: bool = False
    later: bool = False
    go_on: bool = False
    autonomous: bool = False

    @classmethod
    def of(
        cls,
        summary: str,
        *,
        transcript: str | None = None,
        kept: Literal["nothing", "after", "before"] = "nothing",
        auto: bool = False,
        autonomous: bool = False,
    ) -> Continued:
        """The message; ``kept`` says whether other messages stay verbatim after or before it."""
        return cls(
            summary,
            transcript,
            all=kept == "nothing",
            earlier=kept == "after",
            later=kept == "before",
            go_on=auto and not autonomous,
            autonomous=autonomous,
        )


class UserWords(Text, frozen=True):
    """The user's own messages: a block of its own at the end of a summary message."""

    words: str
    left_out: str | None = None
    """What found no room, if anything."""


class GivenTask(Text, frozen=True):
    """The task of a sub-agent: a block of its own in a summary message."""

    task: str


class ProgramNote(Text, frozen=True):
    """A program's text on the user's side, as shown to a model that summarises."""

    text: str


class EarlierCut(Text, frozen=True):
    """Starts a request whose oldest rounds were left out."""

    rounds: int


class PieceCut(Text, frozen=True):
    """Marks the place in a message or a tool result where something was left out."""

    characters: int


class RoundCut(Text, frozen=True):
    """Replaces a round that is too large to show."""

    blocks: int


# -- session notes --------------------------------------------------------------------------------


PRESSING = 1.25
"""From this many times the limit on, the prompt tells the model to shorten the notes in this update."""
TOO_LONG = 2.0
"""From this many times the limit on, that comes before anything else."""


class NotesUpdate(Text, frozen=True):
    """The instruction to update the notes."""

    limit: int
    total: int
    notes: str
    urgent: str | None = None


class KeepShort(Text, frozen=True):
    """Which sections of the notes are too long, and how urgent that is."""

    whole: int | None = None
    """Tokens of all sections together, if too many."""
    total: int = 0
    sections: str | None = None
    soon: bool = False
    now: bool = False
    first: bool = False

    @classmethod
    def of(cls, over: float, sections: str, whole: int, total: int) -> KeepShort:
        """The instruction; ``over`` is by what factor the longest section, or the whole, exceeds its limit."""
        return cls(
            whole if whole > total else None,
            total,
            sections or None,
            soon=over < PRESSING,
            now=PRESSING <= over < TOO_LONG,
            first=over >= TOO_LONG,
        )
