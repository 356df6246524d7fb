"""The system prompt of an agent, and the description of where it runs.

It is computed when a session begins and again at each compaction. What varies in it (the date, what is
left of limits) is checked before each request and announced when it has changed. What a project brings (its
instruction files, its skills, its git status) counts only in a folder the user trusts.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from math import ceil
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from msgspec import Struct

from sevenfold.agent import instructions
from sevenfold.agent.programs import TIMED_OUT, run_program
from sevenfold.errors import SettingError
from sevenfold.memory.front_matter import split
from sevenfold.prompts import system
from sevenfold.prompts.text import cut, size
from sevenfold.record.blocks import read, words_of
from sevenfold.record.decisions import Epoch
from sevenfold.request.sections import Sections, SectionSource, SystemPrompt, standard

if TYPE_CHECKING:
    from sevenfold.agent.instructions import LoadedFile, LoadReason
    from sevenfold.agent.loop import RunLimits
    from sevenfold.agent.standard_tools import Fit
    from sevenfold.agent.tools.skills import SkillCatalog
    from sevenfold.memory.memory import Memory
    from sevenfold.ports import Clock, Log

STEPS = (1.0, 0.5, 0.25, 0.1)
"""Shares of a limit at which what is left of it is announced to the model."""
APART = frozenset({system.McpInstructions.file})
"""Volatile sections whose changes are announced elsewhere, piece by piece."""
STYLES_FOLDER = "output-styles"
GIT_SECONDS = 2.0
"""How long git may take."""
_GIT_STATUS = (
    # Settings in a repository can name a program for git to run, and files anywhere can make a repository.
    *("git", "-c", "core.fsmonitor=false", "-c", "safe.bareRepository=explicit", "--no-optional-locks"),
    *("status", "--short", "--branch", "--ignore-submodules=all"),
)


class PromptOptions(Struct, frozen=True, kw_only=True):
    """What the system prompt of an agent is made from."""

    workspace: Path
    user: Path
    """The folder with the user's settings, instructions and skills."""
    scratch: Path
    trusted: bool
    """Whether the user trusts the workspace."""
    model: str
    environ: Mapping[str, str]
    kept_results: int | None
    """How many tool results stay when old ones are cleared; None if none are ever cleared."""
    guidance: str | None = None
    language: str | None = None
    """The language to answer in."""
    style: system.OutputStyle | None = None


class AgentPrompt:
    """The system prompt of one session."""

    def __init__(
        self,
        options: PromptOptions,
        *,
        fit: Fit,
        skills: SkillCatalog,
        clock: Clock,
        limits: Callable[[], tuple[RunLimits, RunLimits]],
        others: Iterable[SectionSource] = (),
    ) -> None:
        """``limits`` returns the limits of a run, and what is left of each."""
        self._options = options
        self._fit = fit
        self._skills = skills
        self._reason: LoadReason = "session_start"
        self.loaded: tuple[LoadedFile, ...] = ()
        """The instruction files as they were last read."""
        sources = [
            SectionSource.of(system.Instructions, self._instructions),
            SectionSource.of(system.Environment, self._environment),
            SectionSource.of(system.Today, lambda: _today(clock)),
            SectionSource.of(system.Budgets, lambda: _budgets(*limits())),
            *_preferences(options),
            SectionSource.of(system.Skills, lambda: system.Skills.of(skills.listing())),
        ]
        kept = options.kept_results
        if fit.size == "full":
            sources.append(SectionSource.of(system.Scratch, lambda: system.Scratch(str(options.scratch))))
        if fit.size == "full" and kept is not None:
            sources.append(SectionSource.of(system.Clearing, lambda: system.Clearing(kept)))
        self._sections: Sections = standard([*sources, *others], fit.texts)
        self.sent = SystemPrompt()
        """The prompt before the messages, with the changes announced since."""

    def compute(self) -> SystemPrompt:
        """The prompt as it is now."""
        self.sent = self._computed()
        return self.sent

    def news(self) -> SystemPrompt | None:
        """The prompt with its varying parts as they are now; None if the model knows all of it."""
        now = self.sent.now(self._computed(), but=APART)
        if now == self.sent:
            return None
        self.sent = now
        return now

    def renew(self) -> SystemPrompt:
        """Compute every section again: instruction files are read, and skills looked for, once more."""
        self._reason = "compact"
        self._skills.look()
        self._sections = self._sections.renewed()
        return self._computed()

    def _computed(self) -> SystemPrompt:
        made, self._sections = self._sections.prompt()
        return made

    def _environment(self) -> system.Environment:
        options = self._options
        return describe_environment(
            options.workspace, environ=options.environ, model=options.model, trusted=options.trusted
        )

    def _instructions(self) -> system.Instructions | None:
        user = self._options.user
        root = self._options.workspace if self._options.trusted else user
        self.loaded = instructions.load(root, root, user, reason=self._reason)
        found, most = instructions.as_text(self.loaded), self._fit.instructions
        if found is None or most is None or size(found.files) <= most:
            return found
        names = ", ".join(file.path for file in self.loaded)
        return system.Instructions(f"{cut(found.files, most)}\n[Cut here; the full text is in {names}.]")


def index_section(scopes: Sequence[Memory], log: Log) -> SectionSource:
    """What is remembered, as a section; a session that is continued keeps the index of its epoch until a compaction."""
    # What it added itself since then is in its messages: another prompt would only cost it the cache.
    stored = [_stored_index(epoch) for _, epoch in islice(log.decisions(Epoch), 1)]
    kind = system.MemoryIndex
    return SectionSource(kind.file, lambda: stored.pop() if stored else _memory_index(scopes), kind.stage)


def _memory_index(scopes: Sequence[Memory]) -> str | None:
    """The indexes of these memories as one section; None if nothing was ever remembered."""
    found = {f"{memory.path}/MEMORY.md": index for memory in scopes if (index := memory.index())}
    return system.MemoryIndex(" and ".join(found), "\n".join(found.values())).render() if found else None


def _stored_index(epoch: Epoch) -> str | None:
    """The index that precedes the messages of an epoch."""
    tag = system.MemoryIndex.tag
    words = "\n".join(words_of(read(bytes(raw))) for raw in epoch.system)
    found = re.search(f"<{tag}>.*?</{tag}>", words, re.DOTALL)
    return found[0] if found else None


def _preferences(options: PromptOptions) -> Iterator[SectionSource]:
    guidance, language, style = options.guidance, options.language, options.style
    if guidance:
        yield SectionSource.of(system.Guidance, lambda: system.Guidance(guidance))
    if language:
        yield SectionSource.of(system.Language, lambda: system.Language(language))
    if style:
        yield SectionSource.of(system.OutputStyle, lambda: style)


def _today(clock: Clock) -> system.Today:
    return system.Today(datetime.fromtimestamp(clock.now()).date().isoformat())


def _budgets(limits: RunLimits, left: RunLimits) -> system.Budgets | None:
    turns, tokens = _step(limits.turns, left.turns), _step(limits.tokens, left.tokens)
    usd = _step(limits.usd, left.usd)
    if turns is tokens is usd is None:
        return None
    return system.Budgets(
        None if turns is None else ceil(turns),
        None if tokens is None else ceil(tokens),
        None if usd is None else f"{usd:.2f}",
    )


def _step(limit: float | None, left: float | None) -> float | None:
    """What is left at most, in steps: announcing every change would take room and say little."""
    if limit is None or left is None:
        return None
    return min(limit * share for share in STEPS if limit * share >= left)


def find_style(name: str, folders: Sequence[Path]) -> system.OutputStyle:
    """The output style of this name from the last of these folders that has it; raises `SettingError` if none has."""
    places = [folder / STYLES_FOLDER / f"{name}.md" for folder in reversed(folders)]
    for path in places:
        try:
            words = split(path.read_text(encoding="utf-8-sig")).body.strip()
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError) as error:
            raise SettingError(f"output_style: {path} cannot be read: {error}") from error
        if not words:
            raise SettingError(f"output_style: {path} says nothing; write in it how to answer")
        return system.OutputStyle(name, words)
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
) -> system.Environment:
    """Folder, platform, shell and git status, as they are now.

    Git is run only in a folder the user trusts, because a repository's own configuration can make git run programs.
    """
    git, changes = _git(cwd, environ, git_seconds) if trusted else (None, None)
    return system.Environment(
        cwd=str(cwd),
        platform=f"{platform.system()} {platform.release()} ({platform.machine()})",
        shell=PurePath(environ.get("SHELL") or environ.get("COMSPEC") or "").name or None,
        model=model,
        git=git,
        changes=changes,
    )


def _git(cwd: Path, environ: Mapping[str, str], seconds: float) -> tuple[str | None, str | None]:
    """The line about the branch, and the lines about files; a slow repository or a missing git is fine."""
    environ = {**environ, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
    ran = run_program(_GIT_STATUS, cwd=str(cwd), environ=environ, seconds=seconds)
    if ran.problem == TIMED_OUT:
        return f"did not answer within {seconds:g} seconds", None
    if ran.code != 0:
        return None, None
    branch, _, changes = ran.stdout.decode(errors="replace").partition("\n")
    return branch.removeprefix("## "), changes.rstrip("\n") or None
