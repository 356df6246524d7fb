"""The system prompt as a list of sections.

Static sections come first and are the same for everybody; then a boundary, where a cache marker
can go; then the sections of this session. Every byte of them is part of the cache key and, on current models, of what
thinking is bound to. So a section that varies says why: it is sent once, with the rest; what becomes of it
later is appended to the conversation as a message, and what was sent is left alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping
from typing import get_args

from msgspec import Struct

from sevenfold.errors import InputError
from sevenfold.prompts.context import Changed, Withdrawn
from sevenfold.prompts.text import Stage, Text
from sevenfold.record import blocks
from sevenfold.record.blocks import encode_json

BETWEEN = "\n\n"
"""What separates two sections."""


class Section(Struct, frozen=True):
    """One part of the system prompt."""

    name: str
    text: str
    stage: Stage
    volatile: str = ""
    """Why it must be computed again for every request; empty: it is computed once."""

    def __post_init__(self) -> None:
        # Encoded only to be refused here, by its name, if JSON could not hold it.
        encode_json({self.name: self.text})
        if self.stage not in get_args(Stage):
            raise InputError(
                f"section {self.name!r} is {self.stage!r}; a section is static or of the session"
            )
        if self.stage == "static" and self.volatile:
            raise InputError(
                f"section {self.name!r} is static, so it cannot vary ({self.volatile!r}); "
                "make it a session section, or take its reason away"
            )


class SystemPrompt(Struct, frozen=True):
    """Sections in the order they are sent, static ones before those of the session."""

    sections: tuple[Section, ...] = ()

    def __post_init__(self) -> None:
        last: Section | None = None
        for section in self.sections:
            if not section.text.strip():
                raise InputError(f"section {section.name!r} says nothing; leave it out")
            if last and last.stage == "session" and section.stage == "static":
                raise InputError(
                    f"static section {section.name!r} comes after {last.name!r}, which is of this session; "
                    "put it before all session sections, or the cache could not be shared"
                )
            last = section
        names = Counter(section.name for section in self.sections)
        if twice := [name for name, count in names.items() if count > 1]:
            raise InputError(f"two sections are called {twice[0]!r}; every section needs a name of its own")

    @classmethod
    def own(cls, text: str) -> SystemPrompt:
        """A caller's own prompt, word for word, in place of ours; blank text is no system prompt at all."""
        return cls((Section("own", text, "static"),) if text.strip() else ())

    def blocks(self) -> tuple[bytes, ...]:
        """The encoded text blocks to send: all static sections in one, all of this session in the next."""
        joined = [
            BETWEEN.join(section.text for section in self.sections if section.stage == stage)
            for stage in get_args(Stage)
        ]
        return tuple(blocks.text(words).raw for words in joined if words)

    def parts(self) -> dict[str, str]:
        """Every section by name, in the order sent: for finding out which of them changed."""
        return {section.name: section.text for section in self.sections}

    def now(self, later: SystemPrompt, *, but: Container[str] = ()) -> SystemPrompt:
        """This prompt with its volatile sections as they are in ``later``, except those named."""

        def varies(section: Section) -> bool:
            return bool(section.volatile) and section.name not in but

        fresh = {section.name: section for section in later.sections if varies(section)}
        kept = [fresh.pop(one.name, None) if varies(one) else one for one in self.sections]
        return SystemPrompt((*filter(None, kept), *fresh.values()))


def announcement(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """The words that tell the model what became of sections it was sent before; empty: they read the same.

    Compare with the last announcement, or a change is announced again and again.
    """
    changed: list[Text] = [Changed(name, words) for name, words in now.items() if before.get(name) != words]
    gone = [Withdrawn(name) for name in before if name not in now]
    return BETWEEN.join(text.render() for text in (*changed, *gone))
