"""The texts behind a summary: what the work needs at hand, put back."""

from __future__ import annotations

from sevenfold.prompts.text import KB, Text


class RestoredFile(Text, frozen=True):
    """A file that was being worked with, as it is now."""

    file = "restored_file"
    role = "user"
    tag = "restored-file"
    body = "text"
    source = "path"
    cap = 64 * KB

    path: str
    text: str


class PinnedRecord(Text, frozen=True):
    """Something the user wants kept word for word."""

    file = "pinned_record"
    role = "user"
    tag = "pinned"
    body = "text"
    cap = 256 * KB

    record: str
    speaker: str
    text: str


class RecordedFacts(Text, frozen=True):
    """What the record shows, where the summary itself cannot be added to."""

    file = "recorded_facts"
    role = "user"
    tag = "recorded-facts"
    body = "text"
    cap = 256 * KB

    text: str


class HookContext(Text, frozen=True):
    """What hooks want the model to know."""

    file = "hook_context"
    role = "user"
    tag = "hook-context"
    body = "text"
    cap = 64 * KB

    text: str


class RestoredState(Text, frozen=True):
    """Something the work goes by, put back as it is now: a plan, a list of tasks, what runs beside it."""

    file = "restored_state"
    role = "user"
    tag = "restored-state"
    body = "text"
    source = "path"
    cap = 128 * KB

    title: str
    text: str
    path: str | None = None


class TasksGone(Text, frozen=True):
    """What ran beside the conversation and ended with the process that looked after it."""

    file = "tasks_gone"
    role = "user"
    tag = "tasks-gone"
    body = "text"
    cap = 16 * KB

    text: str


class Folded(Text, frozen=True):
    """Stands in the middle of a conversation for rounds that were summarised."""

    file = "folded"
    role = "user"
    tag = "folded-rounds"
    body = "summary"
    source = "transcript"
    cap = 400 * KB

    records: int
    summary: str
    transcript: str | None = None
