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
