"""The texts with which the engine asks a model to summarise or to keep notes, and what the next model reads."""

from __future__ import annotations

from typing import Literal

from sevenfold.prompts.text import Static, Text


class CompactAsked(Text, frozen=True):
    """What the user wants of the summary."""

    words: str


class CompactHooks(Text, frozen=True):
    """What hooks want of the summary."""

    words: str


class Compact(Text, frozen=True):
    """The instruction to summarise: the whole, what follows a message, or what is before it."""

    whole: bool = False
    after: str | None = None
    """Where the part to summarise begins."""
    before: bool = False
    now: bool = False
    done: bool = False
    part: str | None = None
    """Which part of how many this is, when it had to be sent in several."""
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
    ) -> Compact:
        """The instruction; ``begins`` quotes the message a part begins with, and blank wishes are none."""
        wishes = [CompactAsked(user.strip()).render()] if user.strip() else []
        wishes += [CompactHooks(hooks.strip()).render()] if hooks.strip() else []
        return cls(
            whole=span == "whole" and part is None,
            after=_beginning(begins) if span in ("from", "range") else None,
            before=span == "up_to",
            now=span in ("whole", "from"),
            done=span in ("up_to", "range"),
            part=part,
            more="\n\n".join(wishes) or None,
        )


def _beginning(message: str) -> str:
    line = " ".join(message.split())[:200]
    return f"from the message that begins “{line}” on" if line else "from the last message marked for it on"


class Summariser(Static, frozen=True):
    """The system prompt of a call that does nothing but summarise."""


class Continued(Text, frozen=True):
    """The message behind a boundary: what was before, where it can be read, and how to go on."""

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
        """The message; ``kept`` says whether other messages stay, word for word, after or before it."""
        return cls(
            summary,
            transcript,
            all=kept == "nothing",
            earlier=kept == "after",
            later=kept == "before",
            go_on=auto and not autonomous,
            autonomous=autonomous,
        )


class ProgramNote(Text, frozen=True):
    """Something a program said on the user's side, as a summariser is shown it."""

    text: str


class EarlierCut(Text, frozen=True):
    """Opens a request whose oldest rounds were left out."""

    rounds: int


class PieceCut(Text, frozen=True):
    """Marks the place in a message or a result where something was left out."""

    characters: int


class RoundCut(Text, frozen=True):
    """Replaces a round of which nothing can be shown."""

    blocks: int


# -- session notes --------------------------------------------------------------------------------


PRESSING = 1.25
"""Times a limit from which the request to be shorter becomes a demand."""
TOO_LONG = 2.0
"""Times a limit from which it is the first thing to do."""


class NotesUpdate(Text, frozen=True):
    """The instruction to bring the notes up to date."""

    limit: int
    total: int
    notes: str
    urgent: str | None = None


class KeepShort(Text, frozen=True):
    """Which sections of the notes have become too long, and how pressing that is."""

    whole: int | None = None
    """Tokens of all sections, if that is too many."""
    total: int = 0
    sections: str | None = None
    soon: bool = False
    now: bool = False
    first: bool = False

    @classmethod
    def of(cls, over: float, sections: str, whole: int, total: int) -> KeepShort:
        """``over`` is how many times the limit the worst of them is."""
        return cls(
            whole if whole > total else None,
            total,
            sections or None,
            soon=over < PRESSING,
            now=PRESSING <= over < TOO_LONG,
            first=over >= TOO_LONG,
        )
