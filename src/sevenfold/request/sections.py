"""The system prompt as a list of sections.

Static sections come first and are the same for everybody; then a boundary, at which a cache marker can
stand; then the sections of this session. A section is computed once and kept until the conversation is
cleared or compacted, because every byte of it is part of the cache key and, on current models, of what
thinking is bound to. One that must vary says why. It is sent once, with the rest; what becomes of it
later is appended to the conversation as a message, and what was sent is left alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import get_args

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.errors import InputError
from sevenfold.prompts import given, session, static
from sevenfold.prompts.changes import Changed, Withdrawn
from sevenfold.prompts.text import Stage, Text
from sevenfold.record import blocks, canonical

_BETWEEN = "\n\n"
_ORDER: tuple[type[Text], ...] = (
    session.Guidance,
    given.MemoryIndex,
    given.Instructions,
    session.Environment,
    session.Language,
    session.OutputStyle,
    given.McpInstructions,
    given.Skills,
    session.Scratch,
    session.Clearing,
    session.Budgets,
)


class Section(Struct, frozen=True):
    """One part of the system prompt."""

    name: str
    text: str
    """What it says; empty only in an answer of `SystemPrompt.changed`, where it means: no longer there."""
    stage: Stage
    volatile: str = ""
    """Why it must be computed again for every request; empty: it is computed once."""

    def __post_init__(self) -> None:
        # Encoded only to be refused here, by its name, if JSON could not hold it.
        canonical.encode({self.name: self.text})
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
            _BETWEEN.join(section.text for section in self.sections if section.stage == stage)
            for stage in get_args(Stage)
        ]
        return tuple(blocks.text(words).raw for words in joined if words)

    def parts(self) -> dict[str, bytes]:
        """Every section by name, encoded, in the order sent: for finding out which one moved the cache."""
        return {section.name: blocks.text(section.text).raw for section in self.sections}

    def changed(self, later: SystemPrompt) -> tuple[Section, ...]:
        """Which volatile sections read differently in ``later``: what to append as a message.

        Compare with what the model was last told, or a change is told again and again. A difference
        anywhere else cannot be appended: that is an `InputError`, see `frozen_differences`.
        """
        if told := self.frozen_differences(later):
            raise InputError(
                "the system prompt is frozen while its epoch lasts, yet " + "; ".join(told) + ". Keep the "
                "text as it was sent, declare the section volatile with a reason, or open a new epoch"
            )
        return tuple(new for _, new in self._differences(later))

    def frozen_differences(self, later: SystemPrompt) -> tuple[str, ...]:
        """What differs in ``later`` and must not inside an epoch: one clause for each difference."""
        told = [_clause(old, new) for old, new in self._differences(later) if not old.volatile]
        mine, theirs = {s.name for s in self.sections}, {s.name for s in later.sections}
        order = [s.name for s in self.sections if s.name in theirs]
        if order != [s.name for s in later.sections if s.name in mine]:
            told.append("the sections come in another order")
        return tuple(told)

    def _differences(self, later: SystemPrompt) -> list[tuple[Section, Section]]:
        """Sections before and after, where they differ; one that is not there has no text."""
        before = {section.name: section for section in self.sections}
        pairs = [(before.pop(new.name, replace(new, text="")), new) for new in later.sections]
        pairs += [(old, replace(old, text="")) for old in before.values()]
        return [(old, new) for old, new in pairs if (old.text, old.stage) != (new.text, new.stage)]


def announcement(changed: Iterable[Section]) -> str:
    """The words that tell the model what became of sections it was sent earlier."""
    texts = [
        Changed(section.name, section.text) if section.text else Withdrawn(section.name)
        for section in changed
    ]
    return _BETWEEN.join(text.render() for text in texts)


class SectionSource(Struct, frozen=True):
    """Where a section comes from: something to call when it is needed."""

    name: str
    compute: Callable[[], str | None]
    """Gives the text, or None when there is nothing to say now."""
    stage: Stage = "session"
    volatile: str = ""

    @classmethod
    def of(cls, kind: type[Text], compute: Callable[[], Text | None]) -> SectionSource:
        """A source of one of our own texts, which knows its name, its stage and whether it varies."""

        def words() -> str | None:
            text = compute()
            return text.render() if text else None

        return cls(kind.file, words, kind.stage, kind.volatile)

    def section(self) -> Section | None:
        """The section as it is now."""
        text = self.compute()
        return Section(self.name, text, self.stage, self.volatile) if text and text.strip() else None


class Sections(Struct, frozen=True):
    """The sections of one session with what was computed so far; the session holds the newest of these."""

    sources: tuple[SectionSource, ...]
    kept: Mapping[str, Section | None] = {}

    def prompt(self) -> tuple[SystemPrompt, Sections]:
        """The prompt as it is now, and the sections with all that need not be computed again."""
        now = {
            source.name: self.kept[source.name] if source.name in self.kept else source.section()
            for source in self.sources
        }
        steady = {source.name: now[source.name] for source in self.sources if not source.volatile}
        return SystemPrompt(tuple(filter(None, now.values()))), replace(self, kept=steady)

    def renewed(self) -> Sections:
        """After clear or compact: every section is computed anew, instruction files included."""
        return replace(self, kept={})


def standard(session_sources: Iterable[SectionSource]) -> Sections:
    """Our own prompt: the static sections, then these in a fixed order, however they were given."""
    places = {kind.file: place for place, kind in enumerate(_ORDER)}
    fixed = [SectionSource.of(kind, kind) for kind in static.ALL]
    mine = sorted(session_sources, key=lambda source: (places.get(source.name, len(places)), source.name))
    return Sections((*fixed, *mine))


def _clause(old: Section, new: Section) -> str:
    if not old.text:
        return f"section {new.name!r} is new"
    if not new.text:
        return f"section {old.name!r} is gone"
    if old.stage != new.stage:
        return f"section {old.name!r} moved from {old.stage} to {new.stage}"
    return f"section {old.name!r} reads differently ({len(new.text) - len(old.text):+} characters)"
