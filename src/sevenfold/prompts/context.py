"""Texts added to the conversation: next to the user's messages, in place of a tool result, or after a summary."""

from __future__ import annotations

from collections.abc import Iterable

from sevenfold.prompts.text import Text

# -- a changed system prompt -----------------------------------------------------------------------


class Changed(Text, frozen=True):
    """A section of the system prompt that changed, with its new text."""

    name: str
    text: str


class Withdrawn(Text, frozen=True):
    """A section of the system prompt that no longer applies."""

    name: str


class Replaced(Text, frozen=True):
    """A caller's new system prompt, which replaces the one at the start."""

    text: str


# -- files and folders the user mentions -----------------------------------------------------------


class MentionedFile(Text, frozen=True):
    """A file the user mentions, with its current content."""

    path: str
    text: str


class MentionedFolder(Text, frozen=True):
    """A folder the user mentions, with its current entries."""

    path: str
    entries: str


# -- tool results ----------------------------------------------------------------------------------


class StoredResult(Text, frozen=True):
    """The beginning of an offloaded tool result, and where to find the rest."""

    characters: int
    path: str
    reader: str
    text: str


class KeptResult(Text, frozen=True):
    """The beginning of an offloaded tool result that is in no file, and the name our tools take for it."""

    characters: int
    name: str
    text: str


class CutResult(Text, frozen=True):
    """The beginning of a tool result that is too large and could not be stored."""

    shown: int
    characters: int
    problem: str
    text: str


class EmptyResult(Text, frozen=True):
    """Replaces an empty tool result: without any text, a model may think that its turn is over."""


# -- after a summary -------------------------------------------------------------------------------


class RestoredFile(Text, frozen=True):
    """A file that was being worked on, with its current content."""

    path: str
    text: str


class PinnedRecord(Text, frozen=True):
    """A record the user wants kept verbatim."""

    record: str
    speaker: str
    text: str


class RecordedFacts(Text, frozen=True):
    """Facts from the record, for a summary to which nothing can be added."""

    text: str


class Unsupported(Text, frozen=True):
    """Claims of a summary that cannot be changed which the record does not support."""

    sentences: str

    @classmethod
    def of(cls, sentences: Iterable[str]) -> Unsupported:
        """The note about these sentences."""
        return cls("\n".join(f"- {' '.join(sentence.split())}" for sentence in sentences))


class HookContext(Text, frozen=True):
    """Context from hooks for the model."""

    text: str


class RestoredState(Text, frozen=True):
    """Restored working state in its current form: a plan, a list of tasks, what runs in the background."""

    title: str
    text: str
    path: str | None = None


class KeepAlive(Text, frozen=True):
    """Asks for the shortest answer, in a fork that only reads the cache to keep it alive."""


class TasksGone(Text, frozen=True):
    """Background commands that ended when the program that started them did."""

    text: str


class Folded(Text, frozen=True):
    """The summary that replaces rounds in the middle of a conversation."""

    records: int
    summary: str
    transcript: str | None = None
