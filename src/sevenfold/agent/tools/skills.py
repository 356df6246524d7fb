"""Skills: folders with a ``SKILL.md``; until the model uses a skill, it sees only its name and description.

The header of a ``SKILL.md``, between two lines of ``---``, has at least a ``description``. The rest is loaded when the
skill is used. The model reads other files of the folder itself, when the skill tells it to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from sevenfold.agent.tools import files
from sevenfold.agent.tools.context import Context
from sevenfold.agent.tools.output import SkillUsed, ToolOutput
from sevenfold.agent.tools.tool import ServiceTool
from sevenfold.errors import InputError, Refused
from sevenfold.memory.front_matter import split
from sevenfold.stores.files import real_path

FILE = "SKILL.md"
LONGEST_BODY = 40_000
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,99}")


class Skill(Struct, frozen=True):
    """The name, description and file of a skill."""

    name: str
    description: str
    path: str
    """Its ``SKILL.md``, with links resolved."""


class SkillCatalog:
    """The skills in some folders, by name; if two have the same name, the first folder takes precedence."""

    def __init__(self, folders: Iterable[Path] = ()) -> None:
        self._folders = tuple(folders)
        self.known: Mapping[str, Skill] = {}
        self.problems: tuple[str, ...] = ()
        """The files that could not be read, and why."""
        self.look()

    def look(self) -> None:
        """Read the folders again."""
        skills: dict[str, Skill] = {}
        problems: list[str] = []
        for folder in self._folders:
            for file in sorted(folder.glob(f"*/{FILE}")):
                try:
                    skill = _read(file)
                except (InputError, Refused, OSError) as error:
                    problems.append(f"{file}: {error}")
                    continue
                skills.setdefault(skill.name, skill)
        self.known = skills
        self.problems = tuple(problems)

    def listing(self) -> dict[str, str]:
        """Names and descriptions, for `sevenfold.agent.texts.Skills.of`."""
        return {name: skill.description for name, skill in sorted(self.known.items())}


def _read(file: Path) -> Skill:
    real = str(real_path(file))
    head = split(files.content(real).decode(errors="replace")).values
    name = head.get("name") or file.parent.name
    description = head.get("description", "")
    if not _NAME.fullmatch(name):
        raise InputError(f"{name!r} is not a valid skill name: letters, digits, dot, dash and underscore.")
    if not description:
        raise InputError("it has no description; add a header with one.")
    return Skill(name, description, real)


class SkillInput(Struct, forbid_unknown_fields=True):
    """Which skill to use.

    Args:
        skill: Its name.
        arguments: What to use it on, if it takes arguments.
    """

    skill: str
    arguments: Annotated[str, Meta(max_length=10_000)] = ""


class SkillTool(ServiceTool[SkillInput, SkillCatalog]):
    """Loads a skill."""

    concurrent = True

    def act(self, arguments: SkillInput, context: Context) -> ToolOutput:
        """Show the skill's instructions, read from disk each time."""
        skill = self.service.known.get(arguments.skill.removeprefix("/"))
        if skill is None:
            raise InputError(
                f"There is no skill {arguments.skill!r}; there are: {', '.join(self.service.known) or 'none'}."
            )
        body = split(files.content(skill.path).decode(errors="replace")).body
        if len(body) > (limit := min(LONGEST_BODY, context.room)):
            body = f"{body[:limit]}\n(There is more: read {skill.path}.)"
        origin = (
            f"Skill {skill.name}, from {Path(skill.path).parent}. Files it mentions are in that folder."
        )
        skill_arguments = f"\n\nArguments: {arguments.arguments}" if arguments.arguments else ""
        text = f"{origin}\n\n{body.strip()}{skill_arguments}"
        return ToolOutput(text, facts=(SkillUsed(skill.name, skill.path),))
