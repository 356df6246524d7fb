"""The system prompt of an agent, including the description of its environment.

It consists of sections. A section is computed once and kept until the conversation is cleared or compacted, because
every byte of it is part of the cache key. A volatile section (the date, what is left of limits) is recomputed before
each request, and announced in a message when it has changed. A project's own content (instruction files, skills, git
status) is used only if the user trusts the folder.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from math import ceil
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.agent import instructions, texts
from sevenfold.agent.instructions import project_root
from sevenfold.agent.programs import TIMED_OUT, run_program
from sevenfold.errors import SettingError
from sevenfold.memory.front_matter import split
from sevenfold.prompts.text import Stage, Text, cut, size
from sevenfold.record.blocks import read, words_of
from sevenfold.record.decisions import Epoch
from sevenfold.request.sections import Section, SystemPrompt
from sevenfold.session.factory import memory_in
from sevenfold.stores.files import reason_of

if TYPE_CHECKING:
    from sevenfold.agent.assembly import Assembly
    from sevenfold.agent.instructions import LoadedFile, LoadReason
    from sevenfold.agent.loop import RunLimits
    from sevenfold.memory.memory import Memory
    from sevenfold.settings import Settings

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
R = TypeVar("R")
ANNOUNCED_FRACTIONS = (1.0, 0.5, 0.25, 0.1)
"""Fractions of a limit at which a message tells the model how much is left."""
ANNOUNCED_ELSEWHERE = frozenset({texts.McpInstructions.file})
"""Volatile sections whose changes are announced elsewhere, piece by piece."""
STYLES_FOLDER = "output-styles"
GIT_SECONDS = 2.0
"""How many seconds git may take."""
_GIT_STATUS = (
    # A repository's settings can make git run a program, and files in any folder can form a repository.
    *("git", "-c", "core.fsmonitor=false", "-c", "safe.bareRepository=explicit", "--no-optional-locks"),
    *("status", "--short", "--branch", "--ignore-submodules=all"),
)


class SectionSource(Struct, frozen=True):
    """A section's name and the function that computes its text."""

    name: str
    compute: Callable[[], str | None]
    """Returns the text, or None if the section is not needed now."""
    stage: Stage = "session"
    volatile: str = ""

    @classmethod
    def of(cls, kind: type[Text], compute: Callable[[], Text | None]) -> SectionSource:
        """A source for one of our own texts; name, stage and volatility come from the text's class."""

        def words() -> str | None:
            section_text = compute()
            return section_text.render() if section_text else None

        return cls(kind.file, words, kind.stage, kind.volatile)

    def section(self) -> Section | None:
        """Compute the section; returns None if it has no text now."""
        text = self.compute()
        return Section(self.name, text, self.stage, self.volatile) if text and text.strip() else None


class Sections(Struct, frozen=True):
    """The sections of one session with those computed so far; immutable, so each change creates a new object."""

    sources: tuple[SectionSource, ...]
    kept: Mapping[str, Section | None] = {}

    def prompt(self) -> tuple[SystemPrompt, Sections]:
        """The current prompt, and a copy of this object that keeps all sections that need not be recomputed."""
        current = {
            source.name: self.kept[source.name] if source.name in self.kept else source.section()
            for source in self.sources
        }
        steady = {source.name: current[source.name] for source in self.sources if not source.volatile}
        return SystemPrompt(tuple(filter(None, current.values()))), replace(self, kept=steady)

    def renewed(self) -> Sections:
        """A copy without computed sections, for use after clear or compact: all of them are recomputed."""
        return replace(self, kept={})


def standard(
    session_sources: Iterable[SectionSource], static: Iterable[type[Text]] = texts.STATIC
) -> Sections:
    """The standard prompt: static sections first, then the session's in a fixed order, however they were passed."""
    positions = {kind.file: position for position, kind in enumerate(_ORDER)}
    fixed = [SectionSource.of(kind, kind) for kind in static]
    session_sections = sorted(
        session_sources, key=lambda source: (positions.get(source.name, len(positions)), source.name)
    )
    return Sections((*fixed, *session_sections))


class AgentPrompt:
    """The system prompt of one session."""

    def __init__(self, agent: Assembly, limits: Callable[[], tuple[RunLimits, RunLimits]]) -> None:
        """``limits`` returns the limits of a run, and the remainder of each."""
        self._agent = agent
        self._reason: LoadReason = "session_start"
        self.loaded: tuple[LoadedFile, ...] = ()
        """The instruction files as they were last read."""
        settings = agent.store.settings.current()
        sources = [
            SectionSource.of(texts.Instructions, self._instructions),
            SectionSource.of(texts.Environment, self._environment),
            SectionSource.of(texts.Today, self._today),
            SectionSource.of(texts.Budgets, lambda: _budgets(*limits())),
            *_preferences(agent, settings),
            SectionSource.of(texts.Skills, lambda: texts.Skills.of(agent.skills.listing())),
        ]
        if agent.fit.size == "full":
            scratch = str(agent.home.scratch)
            results_kept = min(settings.gap_keep, settings.size_keep)
            sources.append(SectionSource.of(texts.Scratch, lambda: texts.Scratch(scratch)))
            if settings.layers:
                sources.append(SectionSource.of(texts.Clearing, lambda: texts.Clearing(results_kept)))
        sources += _memory_section(agent)
        sources += [source.section() for source in (agent.servers, agent.types) if source is not None]
        fixed = texts.STATIC if agent.fit.size == "full" else (texts.Brief,)
        self._sections: Sections = standard(sources, fixed)
        self.sent = SystemPrompt()
        """The prompt as the model knows it: the one sent before the messages, with the changes announced since."""

    def compute(self) -> SystemPrompt:
        """Compute the current prompt, to be sent before the messages."""
        self.sent = self._computed()
        return self.sent

    def news(self) -> SystemPrompt | None:
        """The prompt with its volatile sections updated; None if the model knows all of it already."""
        current = self.sent.now(self._computed(), but=ANNOUNCED_ELSEWHERE)
        if current == self.sent:
            return None
        self.sent = current
        return current

    def renew(self) -> SystemPrompt:
        """Recompute every section, after reading instruction files and skills again."""
        self._reason = "compact"
        self._agent.skills.look()
        self._sections = self._sections.renewed()
        return self._computed()

    def _computed(self) -> SystemPrompt:
        prompt, self._sections = self._sections.prompt()
        return prompt

    def _today(self) -> texts.Today:
        return texts.Today(datetime.fromtimestamp(self._agent.clock.now()).date().isoformat())

    def _environment(self) -> texts.Environment:
        agent = self._agent
        return describe_environment(
            agent.workspace, environ=os.environ, model=agent.model, trusted=agent.trusted
        )

    def _instructions(self) -> texts.Instructions | None:
        user_folder = self._agent.user_folder
        folder = self._agent.workspace
        root, folder = (
            (project_root(folder, Path.home()), folder)
            if self._agent.trusted
            else (user_folder, user_folder)
        )
        self.loaded = instructions.load(root, folder, user_folder, reason=self._reason)
        section = instructions.as_text(self.loaded)
        limit = self._agent.fit.instructions
        if section is None or limit is None or size(section.files) <= limit:
            return section
        names = ", ".join(file.path for file in self.loaded)
        return texts.Instructions(f"{cut(section.files, limit)}\n[Cut here; the full text is in {names}.]")


def _memory_section(agent: Assembly) -> Iterator[SectionSource]:
    """The source of the memory section; a resumed session keeps the index of its epoch until a compaction."""
    if not agent.remembers or agent.store.memory is None:
        return
    memories = [memory for memory in (agent.store.memory, agent.store.user_memory) if memory is not None]
    scopes = [memory_in(memory, agent.clock) for memory in memories]
    # What the session itself added since then is in its messages; a changed prompt would only break its cache.
    stored = [_stored_index(epoch) for _, epoch in islice(agent.store.log.decisions(Epoch), 1)]
    kind = texts.MemoryIndex
    yield SectionSource(kind.file, lambda: stored.pop() if stored else _memory_index(scopes), kind.stage)


def _memory_index(scopes: Sequence[Memory]) -> str | None:
    """The indexes of these memories as one section; None if they are all empty."""
    indexes = {f"{memory.path}/MEMORY.md": index for memory in scopes if (index := memory.index())}
    return (
        texts.MemoryIndex(" and ".join(indexes), "\n".join(indexes.values())).render() if indexes else None
    )


def _stored_index(epoch: Epoch) -> str | None:
    """The memory index in the system prompt of an epoch; None if it has none."""
    tag = texts.MemoryIndex.tag
    text = "\n".join(words_of(read(bytes(raw))) for raw in epoch.system)
    section = re.search(f"<{tag}>.*?</{tag}>", text, re.DOTALL)
    return section[0] if section else None


def _preferences(agent: Assembly, settings: Settings) -> Iterator[SectionSource]:
    guidance = agent.options.get("guidance")
    language = settings.language
    style = settings.output_style
    if guidance:
        yield SectionSource.of(texts.Guidance, lambda: texts.Guidance(guidance))
    if language:
        yield SectionSource.of(texts.Language, lambda: texts.Language(language))
    if style is not None:
        # A project's styles are used only if its folder is trusted.
        folders = [agent.user_folder, *([agent.workspace / ".sevenfold"] if agent.trusted else [])]
        chosen_style = find_style(style, folders)
        yield SectionSource.of(texts.OutputStyle, lambda: chosen_style)


def _budgets(limits: RunLimits, remaining: RunLimits) -> texts.Budgets | None:
    turns = _step(limits.turns, remaining.turns, ceil)
    tokens = _step(limits.tokens, remaining.tokens, ceil)
    dollars = _step(limits.usd, remaining.usd, "{:.2f}".format)
    budgets = texts.Budgets(turns, tokens, dollars)
    return budgets if budgets != texts.Budgets() else None


def _step(limit: float | None, remaining: float | None, render: Callable[[float], R]) -> R | None:
    """An upper bound on what is left, in steps: announcing every change would take room and say little."""
    if limit is None or remaining is None:
        return None
    return render(min(limit * share for share in ANNOUNCED_FRACTIONS if limit * share >= remaining))


def find_style(name: str, folders: Sequence[Path]) -> texts.OutputStyle:
    """The output style of this name, from the last folder that has it; raises `SettingError` if none does."""
    places = [folder / STYLES_FOLDER / f"{name}.md" for folder in reversed(folders)]
    for path in places:
        try:
            instructions = split(path.read_text(encoding="utf-8-sig")).body.strip()
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError) as error:
            raise SettingError(f"output_style: {path} cannot be read: {reason_of(error)}") from error
        if not instructions:
            raise SettingError(f"output_style: {path} says nothing; write in it how to answer")
        return texts.OutputStyle(name, instructions)
    raise SettingError(
        f"output_style: there is no style {name!r}; write how to answer into {places[-1]}, or choose another one"
    )


def describe_environment(
    cwd: Path,
    *,
    environ: Mapping[str, str],
    model: str | None = None,
    trusted: bool = False,
    git_seconds: float = GIT_SECONDS,
) -> texts.Environment:
    """Describe the current folder, platform, shell and git status.

    Git runs only in a folder the user trusts, because a repository's own configuration can make git run programs.
    """
    git, changes = _git(cwd, environ, git_seconds) if trusted else (None, None)
    return texts.Environment(
        cwd=str(cwd),
        platform=f"{platform.system()} {platform.release()} ({platform.machine()})",
        shell=PurePath(environ.get("SHELL") or environ.get("COMSPEC") or "").name or None,
        model=model,
        git=git,
        changes=changes,
    )


def _git(cwd: Path, environ: Mapping[str, str], seconds: float) -> tuple[str | None, str | None]:
    """The branch line and the file lines of ``git status``; never fails if git is missing or slow."""
    environ = {**environ, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
    ran = run_program(_GIT_STATUS, cwd=str(cwd), environ=environ, seconds=seconds)
    if ran.problem == TIMED_OUT:
        return f"did not answer within {seconds:g} seconds", None
    if ran.code != 0:
        return None, None
    branch, _, changes = ran.stdout.decode(errors="replace").partition("\n")
    return branch.removeprefix("## "), changes.rstrip("\n") or None
