"""The texts of an agent: its system prompt, and messages about commands and other agents.

The static texts of the prompt are the same for every session: they come first, so all sessions share one cached prefix.
The others describe this session: where it runs, the user's preferences, and its instruction files, memory, servers and
skills. Each appears only when it has content; otherwise it is left out, and nothing in the prompt hints at it. A text
that quotes other people's words names their source and is cut at its own cap. The quoted pieces together have a cap
too; those that do not fit are named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sevenfold.prompts.text import KB, Static, Text, size
from sevenfold.record.blocks import PLACEHOLDER_CLEARED

# -- the same for every session ------------------------------------------------------------------


class Identity(Static, frozen=True):
    """Who the agent is, and for whom it works."""


class Rules(Static, frozen=True):
    """How the system works, including that content does not stay in view forever."""


class Tasks(Static, frozen=True):
    """How to carry out tasks."""


class Care(Static, frozen=True):
    """Which actions need special care, and which need a question to the user first."""


class Tools(Static, frozen=True):
    """How to use tools."""


class Tone(Static, frozen=True):
    """The tone of answers."""


class Brevity(Static, frozen=True):
    """The length of answers."""


class Brief(Static, frozen=True):
    """The most important rules of all static texts, for windows without room for more."""


STATIC: tuple[type[Static], ...] = (Identity, Rules, Tasks, Care, Tools, Tone, Brevity)
"""All static texts, in the order of the prompt."""


# -- about this session --------------------------------------------------------------------------


class Guidance(Text, frozen=True):
    """Additional guidance from the caller, through the option ``guidance``."""

    advice: str


class Environment(Text, frozen=True):
    """Where the session runs, at the time the prompt was computed."""

    cwd: str
    platform: str
    shell: str | None = None
    model: str | None = None
    git: str | None = None
    """The branch, and whether it is ahead of or behind its upstream."""
    changes: str | None = None
    """The output of `git status --short`; None if it is empty or unknown."""


class Today(Text, frozen=True):
    """The date."""

    date: str


class Language(Text, frozen=True):
    """The language to answer in."""

    language: str


class OutputStyle(Text, frozen=True):
    """The output style the user has chosen."""

    name: str
    style: str


class Scratch(Text, frozen=True):
    """The directory for temporary files."""

    path: str


class Clearing(Text, frozen=True):
    """The notice that old results are cleared in this session, and how many are kept."""

    kept: int
    placeholder: str = PLACEHOLDER_CLEARED


class Budgets(Text, frozen=True):
    """What is left of the run's limits."""

    turns: int | None = None
    tokens: int | None = None
    dollars: str | None = None


# -- other people's words ------------------------------------------------------------------------


class InstructionFile(Text, frozen=True):
    """An instruction file, complete unless it is very long."""

    path: str
    owner: str
    """The owner of the file: ``user`` or ``project``."""
    text: str
    parent: str | None = None
    """The file that imports this one."""
    note: str | None = None
    """How the text had to be repaired."""


class InstructionProblem(Text, frozen=True):
    """An instruction file that could not be loaded."""

    path: str
    problem: str
    parent: str | None = None


class Instructions(Text, frozen=True):
    """All instruction files, from the most general to the most specific."""

    files: str

    @classmethod
    def of(cls, files: Sequence[InstructionFile | InstructionProblem]) -> Instructions | None:
        """A section with these files; if not all fit, the most specific ones (at the end) take precedence."""
        if not files:
            return None
        fits, out = _fitting([(file.path, file.render()) for file in reversed(files)], cls.cap)
        return cls(_joined("\n\n", fits[::-1], out[::-1]))


class MemoryIndex(Text, frozen=True):
    """The index of the memory that earlier sessions have written."""

    path: str
    index: str


class McpServer(Text, frozen=True):
    """The instructions of one MCP server about its tools."""

    name: str
    text: str


class McpInstructions(Text, frozen=True):
    """The instructions of all connected MCP servers about their tools."""

    servers: str

    @classmethod
    def of(cls, servers: Mapping[str, str]) -> McpInstructions | None:
        """A section with each server's instructions, sorted by name; None if there are none."""
        rendered = [
            (name, McpServer(name, instructions).render())
            for name, instructions in sorted(servers.items())
            if instructions.strip()
        ]
        return cls(_joined("\n\n", *_fitting(rendered, cls.cap))) if rendered else None


class SkillLine(Text, frozen=True):
    """One line of the skill listing."""

    file = "skill"

    name: str
    description: str


class Skills(Text, frozen=True):
    """The available skills; their instructions are loaded when they are used."""

    listing: str

    @classmethod
    def of(cls, skills: Mapping[str, str]) -> Skills | None:
        """A section with each skill's name and description, sorted by name; None if there are none."""
        return cls(_listed(SkillLine, skills, cls.cap)) if skills else None


class AgentType(Text, frozen=True):
    """One line of the listing of agent types."""

    name: str
    description: str


class AgentTypes(Text, frozen=True):
    """The types of agents that the model can start."""

    listing: str

    @classmethod
    def of(cls, types: Mapping[str, str]) -> AgentTypes | None:
        """A section with each type's name and description, sorted by name; None if there are none."""
        return cls(_listed(AgentType, types, cls.cap)) if types else None


class LeftOut(Text, frozen=True):
    """Names the entries that did not fit."""

    names: str


# -- in the conversation -----------------------------------------------------------------------


class CommandOutput(Text, frozen=True):
    """The output of a command that the user ran."""

    command: str
    text: str


class AgentMessageText(Text, frozen=True):
    """A message from another agent; each line of its text is quoted, so that it cannot pass as our own text."""

    file = "agent_message"

    heading: str
    text: str


class ForkTask(Text, frozen=True):
    """The task of a fork, an agent that starts with its parent's conversation."""

    agent: str
    role: str | None
    task: str


class AgentNotes(Text, frozen=True):
    """Where an agent keeps its notes for later sessions, and their index, quoted."""

    path: str
    index: str
    origin: str
    """Who may have written them."""


class AgentReport(Text, frozen=True):
    """The report of a background agent that has ended."""

    agent: str
    label: str
    state: str
    text: str
    path: str | None = None


class AskProgress(Text, frozen=True):
    """Asks for one line about what an agent is doing; ``recent`` has its latest steps, for a model that is no fork."""

    recent: str | None = None


class SuggestPrompt(Text, frozen=True):
    """Asks a fork to suggest the user's next prompt."""


# -- what fits -------------------------------------------------------------------------------------

_FOR_NOTE = 2 * KB
_FOR_JOINT = 2


def listed(line: type[SkillLine | AgentType], name: str, description: str) -> str:
    """One line with a name and its description."""
    return line(name, " ".join(description.split())).render()


def _listed(line: type[SkillLine | AgentType], entries: Mapping[str, str], limit: int) -> str:
    """One line for each entry, sorted by name, as far as they fit."""
    lines = [(name, listed(line, name, description)) for name, description in sorted(entries.items())]
    return _joined("\n", *_fitting(lines, limit))


def _fitting(pieces: Iterable[tuple[str, str]], limit: int) -> tuple[list[str], list[str]]:
    """Split named pieces into the texts that fit, taken greedily in order, and the names of the others."""
    pieces = list(pieces)
    if sum(size(text) + _FOR_JOINT for _, text in pieces) <= limit:
        return [text for _, text in pieces], []
    room = limit - _FOR_NOTE
    fitting: list[str] = []
    left_out: list[str] = []
    for name, text in pieces:
        if size(text) + _FOR_JOINT <= room:
            room -= size(text) + _FOR_JOINT
            fitting.append(text)
        else:
            left_out.append(name)
    return fitting, left_out


def _joined(joint: str, fitting: list[str], left_out: list[str]) -> str:
    note = [LeftOut(", ".join(left_out)).render()] if left_out else []
    return joint.join([*note, *fitting])
