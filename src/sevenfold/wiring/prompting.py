"""The standard system prompt of an agent: computed when a session begins, and again at each compaction.

What a project brings (its instruction files, its skills, what its git says) counts only in a folder the user trusts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from sevenfold.adapters import instructions
from sevenfold.adapters.instructions import Loaded, Reason
from sevenfold.adapters.surroundings import look_around
from sevenfold.ports import Clock
from sevenfold.prompts import given, session
from sevenfold.request.sections import Sections, SectionSource, SystemPrompt, standard
from sevenfold.tools.skills import Skills


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
        others: Iterable[SectionSource] = (),
    ) -> None:
        self._folder = folder
        self._trusted = trusted
        self._user = user
        self._reason: Reason = "session_start"
        self.loaded: tuple[Loaded, ...] = ()
        """The instruction files, as they were read last."""
        sources = [
            SectionSource.of(given.Instructions, self._instructions),
            SectionSource.of(
                session.Environment,
                lambda: look_around(folder, clock=clock, environ=environ, model=model, trusted=trusted),
            ),
            SectionSource.of(given.Skills, lambda: given.Skills.of(skills.listing())),
            SectionSource.of(session.Scratch, lambda: session.Scratch(str(scratch))),
        ]
        if kept_results is not None:
            sources.append(SectionSource.of(session.Clearing, lambda: session.Clearing(kept_results)))
        self._sections: Sections = standard([*sources, *others])

    def prompt(self) -> SystemPrompt:
        """The prompt as it is now."""
        made, self._sections = self._sections.prompt()
        return made

    def renewed(self) -> SystemPrompt:
        """The prompt with every section computed anew: instruction files are read again."""
        self._reason = "compact"
        self._sections = self._sections.renewed()
        return self.prompt()

    def _instructions(self) -> given.Instructions | None:
        root = self._folder if self._trusted else self._user
        self.loaded = instructions.load(root, root, self._user, reason=self._reason)
        return instructions.as_text(self.loaded)
