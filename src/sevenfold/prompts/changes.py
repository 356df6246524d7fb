"""The texts that tell the model, in mid-session, that a part of its system prompt has changed."""

from __future__ import annotations

from sevenfold.prompts.text import KB, Text


class Changed(Text, frozen=True):
    """A part of the system prompt as it reads from now on."""

    file = "changed"
    tag = "changed-section"
    body = "text"
    cap = 110 * KB

    name: str
    text: str


class Withdrawn(Text, frozen=True):
    """A part of the system prompt that no longer holds."""

    file = "withdrawn"
    tag = "changed-section"
    cap = 5 * KB

    name: str


class Replaced(Text, frozen=True):
    """A caller's system prompt that takes the place of the one at the start."""

    file = "replaced"
    tag = "changed-instructions"
    body = "text"
    cap = 400 * KB

    text: str
