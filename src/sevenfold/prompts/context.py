"""The texts that enter the conversation: next to what the user says, in place of a result, behind a summary."""

from __future__ import annotations

from collections.abc import Iterable

from sevenfold.prompts.text import Text

# -- a changed system prompt -----------------------------------------------------------------------


class Changed(Text, frozen=True):
    """A part of the system prompt as it reads from now on."""

    name: str
    text: str


class Withdrawn(Text, frozen=True):
    """A part of the system prompt that no longer holds."""

    name: str


class Replaced(Text, frozen=True):
    """A caller's system prompt that takes the place of the one at the start."""

    text: str


# -- files and folders the user mentions -----------------------------------------------------------


class MentionedFile(Text, frozen=True):
    """A file the user mentions, as it is now."""

    path: str
    text: str


class MentionedFolder(Text, frozen=True):
    """A folder the user mentions, and what is in it now."""

    path: str
    entries: str


# -- tool results ----------------------------------------------------------------------------------


class StoredResult(Text, frozen=True):
    """The beginning of a result that was stored, and the way to the rest."""

    characters: int
    path: str
    reader: str
    text: str


class KeptResult(Text, frozen=True):
    """The beginning of a result that is kept where no tool can read it."""

    characters: int
    text: str


class CutResult(Text, frozen=True):
    """The beginning of a result that is too big and could not be stored either."""

    shown: int
    characters: int
    problem: str
    text: str


class EmptyResult(Text, frozen=True):
    """A result of nothing; without a word in it a model may take its turn for finished."""


# -- behind a summary ------------------------------------------------------------------------------


class RestoredFile(Text, frozen=True):
    """A file that was being worked with, as it is now."""

    path: str
    text: str


class PinnedRecord(Text, frozen=True):
    """Something the user wants kept word for word."""

    record: str
    speaker: str
    text: str


class RecordedFacts(Text, frozen=True):
    """What the record shows, where the summary itself cannot be added to."""

    text: str


class Unsupported(Text, frozen=True):
    """What a summary that cannot be changed claims and the record does not show."""

    sentences: str

    @classmethod
    def of(cls, sentences: Iterable[str]) -> Unsupported:
        """The note about these sentences."""
        return cls("\n".join(f"- {' '.join(one.split())}" for one in sentences))


class HookContext(Text, frozen=True):
    """What hooks want the model to know."""

    text: str


class RestoredState(Text, frozen=True):
    """Something the work goes by, put back as it is now: a plan, a list of tasks, what runs in the background."""

    title: str
    text: str
    path: str | None = None


class KeepAlive(Text, frozen=True):
    """Asks for the shortest answer, in a fork whose only purpose is to read the cache."""


class TasksGone(Text, frozen=True):
    """Background commands that ended with the process that started them."""

    text: str


class Folded(Text, frozen=True):
    """Replaces rounds in the middle of a conversation that were summarised."""

    records: int
    summary: str
    transcript: str | None = None
