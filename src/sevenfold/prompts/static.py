"""The texts that are the same for every session: they come first, and one cache serves them all."""

from __future__ import annotations

from sevenfold.prompts.text import KB, Text


class Static(Text, frozen=True):
    """A text without holes."""

    stage = "static"
    cap = 3 * KB


class Identity(Static, frozen=True):
    """Who is speaking, and for whom."""

    file = "identity"


class Rules(Static, frozen=True):
    """How the system works, and that what was seen does not stay in view for ever."""

    file = "rules"


class Tasks(Static, frozen=True):
    """How work is done."""

    file = "tasks"


class Care(Static, frozen=True):
    """Which actions want a second thought, and which a question."""

    file = "care"


class Tools(Static, frozen=True):
    """How tools are used."""

    file = "tools"


class Tone(Static, frozen=True):
    """How to speak."""

    file = "tone"


class Brevity(Static, frozen=True):
    """How much to say."""

    file = "brevity"


class Brief(Static, frozen=True):
    """The most important of all of them, where the window has no room for more."""

    file = "brief"


ALL: tuple[type[Static], ...] = (Identity, Rules, Tasks, Care, Tools, Tone, Brevity)
"""Every static text, in the order it is said."""
