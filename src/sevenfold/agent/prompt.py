"""The standard system prompt of an agent: computed when a session begins, and again at each compaction.

What varies in it (the date, what is left of limits) is looked at before each request, and told when it has changed.

What a project brings (its instruction files, its skills, what its git says) counts only in a folder the user trusts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from math import ceil
from pathlib import Path

from msgspec import Struct

from sevenfold.agent import instructions
from sevenfold.agent.environment import look_around
from sevenfold.agent.fit import Fit
from sevenfold.agent.instructions import Loaded, Reason
from sevenfold.agent.loop import Limits
from sevenfold.agent.tools.skills import Skills
from sevenfold.ports import Clock
from sevenfold.prompts import system
from sevenfold.prompts.text import cut, size
from sevenfold.request.sections import Sections, SectionSource, SystemPrompt, standard

STEPS = (1.0, 0.5, 0.25, 0.1)
"""Shares of a limit at which the model is told again how much is left of it."""
APART = frozenset({system.McpInstructions.file})
"""Volatile sections whose changes are announced piece by piece, by others."""


class Manners(Struct, frozen=True):
    """How the user wants it."""

    guidance: str | None = None
    """What the model is to know besides."""
    language: str | None = None
    """To answer in."""
    style: system.OutputStyle | None = None


class Prompting:
    """Holds the sections of one session."""

    def __init__(
        self,
        folder: Path,
        *,
        model: str,
        clock: Clock,
        environ: Mapping[str, str],
        trusted: bool,
        user: Path,
        skills: Skills,
        kept_results: int | None,
        scratch: Path,
        fit: Fit,
        manners: Manners,
        left: Callable[[], tuple[Limits, Limits]],
        others: Iterable[SectionSource] = (),
    ) -> None:
        """``left`` tells the limits of a run, and what is left of each."""
        self._folder = folder
        self._trusted = trusted
        self._user = user
        self._skills = skills
        self._fit = fit
        self._reason: Reason = "session_start"
        self.loaded: tuple[Loaded, ...] = ()
        """The instruction files, as they were read last."""
        sources = [
            SectionSource.of(system.Instructions, self._instructions),
            SectionSource.of(
                system.Environment,
                lambda: look_around(folder, environ=environ, model=model, trusted=trusted),
            ),
            SectionSource.of(system.Today, lambda: _today(clock)),
            SectionSource.of(system.Budgets, lambda: _budgets(*left())),
            *_wishes(manners),
            SectionSource.of(system.Skills, lambda: system.Skills.of(skills.listing())),
        ]
        if fit.size == "full":
            sources.append(SectionSource.of(system.Scratch, lambda: system.Scratch(str(scratch))))
        if kept_results is not None and fit.size == "full":
            sources.append(SectionSource.of(system.Clearing, lambda: system.Clearing(kept_results)))
        self._sections: Sections = standard([*sources, *others], fit.texts)
        self.sent = SystemPrompt()
        """The prompt that stands before the messages, with what became of it since."""

    def prompt(self) -> SystemPrompt:
        """The prompt as it is now."""
        self.sent = self._computed()
        return self.sent

    def news(self) -> SystemPrompt | None:
        """The prompt with what varies in it as it is now; None if the model knows all of it."""
        now = self.sent.now(self._computed(), but=APART)
        if now == self.sent:
            return None
        self.sent = now
        return now

    def renewed(self) -> SystemPrompt:
        """The prompt with every section computed anew: instruction files are read, and skills looked for, again."""
        self._reason = "compact"
        self._skills.look()
        self._sections = self._sections.renewed()
        return self._computed()

    def _computed(self) -> SystemPrompt:
        made, self._sections = self._sections.prompt()
        return made

    def _instructions(self) -> system.Instructions | None:
        root = self._folder if self._trusted else self._user
        self.loaded = instructions.load(root, root, self._user, reason=self._reason)
        found, most = instructions.as_text(self.loaded), self._fit.instructions
        if found is None or most is None or size(found.files) <= most:
            return found
        names = ", ".join(file.path for file in self.loaded)
        return system.Instructions(f"{cut(found.files, most)}\n[Cut here; the whole is in {names}.]")


def _wishes(manners: Manners) -> Iterator[SectionSource]:
    advice, language, style = manners.guidance, manners.language, manners.style
    if advice:
        yield SectionSource.of(system.Guidance, lambda: system.Guidance(advice))
    if language:
        yield SectionSource.of(system.Language, lambda: system.Language(language))
    if style:
        yield SectionSource.of(system.OutputStyle, lambda: style)


def _today(clock: Clock) -> system.Today:
    return system.Today(datetime.fromtimestamp(clock.now()).date().isoformat())


def _budgets(limits: Limits, left: Limits) -> system.Budgets | None:
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
    """What is left at most, in steps: told anew before every request, it would say little and take room."""
    if limit is None or left is None:
        return None
    return min(limit * share for share in STEPS if limit * share >= left)
