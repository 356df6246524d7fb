"""The agent's system prompt: sections that are computed when they are needed, and kept.

A section is computed once and kept until the conversation is cleared or compacted, because every byte of it is part of
the cache key. One that must vary is computed for every request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.agent import texts
from sevenfold.prompts.text import Stage, Text
from sevenfold.request.sections import Section, SystemPrompt

_ORDER: tuple[type[Text], ...] = (
    texts.Guidance,
    texts.MemoryIndex,
    texts.Instructions,
    texts.Environment,
    texts.Today,
    texts.Language,
    texts.OutputStyle,
    texts.McpInstructions,
    texts.Skills,
    texts.AgentTypes,
    texts.Scratch,
    texts.Clearing,
    texts.Budgets,
)


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
        """After clear or compact: every section is computed again, instruction files included."""
        return replace(self, kept={})


def standard(
    session_sources: Iterable[SectionSource], static: Iterable[type[Text]] = texts.STATIC
) -> Sections:
    """Our own prompt: the static sections, then these in a fixed order, however they were given."""
    places = {kind.file: place for place, kind in enumerate(_ORDER)}
    fixed = [SectionSource.of(kind, kind) for kind in static]
    mine = sorted(session_sources, key=lambda source: (places.get(source.name, len(places)), source.name))
    return Sections((*fixed, *mine))
