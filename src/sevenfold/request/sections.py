"""The system prompt as a list of sections.

Static sections come first and are the same for all users; then a division, where a cache marker can go; then the
sections of this session. Every byte of them is part of the cache key and, on current models, of what thinking is bound
to. So a section that varies must give a reason: it is sent once, with the rest; later changes are appended to the
conversation as a message, and what was sent stays unchanged.
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
"""The separator between sections."""


class Section(Struct, frozen=True):
    """One part of the system prompt."""

    name: str
    text: str
    stage: Stage
    volatile: str = ""
    """Why it must be computed again for every request; empty: it is computed once."""

    def __post_init__(self) -> None:
        # Encoded only to reject here, with its name, a section that JSON cannot represent.
        encode_json({self.name: self.text})
        if self.stage not in get_args(Stage):
            raise InputError(f"section {self.name!r} is {self.stage!r}; a section is 'static' or 'session'")
        if self.stage == "static" and self.volatile:
            raise InputError(
                f"section {self.name!r} is static, so it cannot vary ({self.volatile!r}); "
                "make it a session section, or remove its reason"
            )


class SystemPrompt(Struct, frozen=True):
    """Sections in the order they are sent, static ones before those of the session."""

    sections: tuple[Section, ...] = ()

    def __post_init__(self) -> None:
        last: Section | None = None
        for section in self.sections:
            if not section.text.strip():
                raise InputError(f"section {section.name!r} is empty; leave it out")
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
        """A caller's own prompt, verbatim, in place of ours; blank text means no system prompt."""
        return cls((Section("own", text, "static"),) if text.strip() else ())

    def blocks(self) -> tuple[bytes, ...]:
        """The encoded text blocks to send: all static sections in one, all session sections in the next."""
        texts: dict[Stage, list[str]] = {stage: [] for stage in get_args(Stage)}
        for section in self.sections:
            texts[section.stage].append(section.text)
        joined = map(BETWEEN.join, texts.values())
        return tuple(blocks.text(text).raw for text in filter(None, joined))

    def parts(self) -> dict[str, str]:
        """The text of every section by name, in the order sent; to find which section changed."""
        return {section.name: section.text for section in self.sections}

    def now(self, later: SystemPrompt, *, but: Container[str] = ()) -> SystemPrompt:
        """This prompt with its volatile sections as they are in ``later``, except those named in ``but``."""

        def varies(section: Section) -> bool:
            return bool(section.volatile) and section.name not in but

        fresh = {section.name: section for section in later.sections if varies(section)}
        current = []
        for section in self.sections:
            if not varies(section):
                current.append(section)
            elif section.name in fresh:
                current.append(fresh.pop(section.name))
        return SystemPrompt((*current, *fresh.values()))


def announcement(announced: Mapping[str, str], current: Mapping[str, str]) -> str:
    """The text that tells the model which sections changed or were withdrawn; empty if none.

    ``announced`` must be what was last announced, or the same change is announced again and again.
    """
    changes: list[Text] = []
    for name, text in current.items():
        if announced.get(name) != text:
            changes.append(Changed(name, text))
    changes += [Withdrawn(name) for name in announced if name not in current]
    return BETWEEN.join(change.render() for change in changes)
