"""The texts of an agent: its system prompt, and what it tells of commands and of other agents.

The static ones of the prompt are the same for every session: they come first, and one cache serves them all. The others
belong to this session: where it runs, how the user wants it, which instruction files, memory, servers and
skills there are. Each appears only when there is something to say; without its facts it is left out, and
nothing in the prompt hints at it. A text that carries other people's words is framed with where they come
from and cut at its own cap, and the pieces together have a cap too; what finds no room is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sevenfold.prompts.text import KB, Static, Text, size
from sevenfold.record.blocks import PLACEHOLDER_CLEARED

# -- the same for every session ------------------------------------------------------------------


class Identity(Static, frozen=True):
    """Who is speaking, and for whom."""


class Rules(Static, frozen=True):
    """How the system works, and that what was seen does not stay in view for ever."""


class Tasks(Static, frozen=True):
    """How work is done."""


class Care(Static, frozen=True):
    """Which actions want a second thought, and which a question."""


class Tools(Static, frozen=True):
    """How tools are used."""


class Tone(Static, frozen=True):
    """How to speak."""


class Brevity(Static, frozen=True):
    """How much to say."""


class Brief(Static, frozen=True):
    """The most important of all of them, where the window has no room for more."""


STATIC: tuple[type[Static], ...] = (Identity, Rules, Tasks, Care, Tools, Tone, Brevity)
"""Every static text, in the order it is said."""


# -- about this session --------------------------------------------------------------------------


class Guidance(Text, frozen=True):
    """What the parts that are switched on in this session want the model to know."""

    advice: str


class Environment(Text, frozen=True):
    """Where the session runs: facts of the moment the prompt was made."""

    cwd: str
    platform: str
    shell: str | None = None
    model: str | None = None
    git: str | None = None
    """The branch, and whether it is ahead of or behind its upstream."""
    changes: str | None = None
    """What `git status --short` lists; None where there is nothing, or it is unknown."""


class Today(Text, frozen=True):
    """The date."""

    date: str


class Language(Text, frozen=True):
    """The language to answer in."""

    language: str


class OutputStyle(Text, frozen=True):
    """A manner of answering the user has chosen."""

    name: str
    style: str


class Scratch(Text, frozen=True):
    """A directory for what need not last."""

    path: str


class Clearing(Text, frozen=True):
    """The notice that old results are cleared in this session, and how many are kept."""

    kept: int
    placeholder: str = PLACEHOLDER_CLEARED


class Budgets(Text, frozen=True):
    """What is left to spend."""

    turns: int | None = None
    tokens: int | None = None
    dollars: str | None = None


# -- other people's words ------------------------------------------------------------------------


class InstructionFile(Text, frozen=True):
    """A file of instructions, whole unless it is very long."""

    path: str
    owner: str
    """Whose it is: the user's or the project's."""
    text: str
    parent: str | None = None
    """The file that asked for this one."""
    note: str | None = None
    """What was done to the text before it came here."""


class InstructionProblem(Text, frozen=True):
    """A file of instructions that could not be loaded."""

    path: str
    problem: str
    parent: str | None = None


class Instructions(Text, frozen=True):
    """All instruction files, from the most general to the most specific."""

    files: str

    @classmethod
    def of(cls, files: Sequence[InstructionFile | InstructionProblem]) -> Instructions | None:
        """These files; where there is no room for all, the most specific ones, which come last."""
        if not files:
            return None
        fits, out = _fitting([(file.path, file.render()) for file in reversed(files)], cls.cap)
        return cls(_joined("\n\n", fits[::-1], out[::-1]))


class MemoryIndex(Text, frozen=True):
    """The index of what earlier sessions have noted down."""

    path: str
    index: str


class McpServer(Text, frozen=True):
    """What one server says about its own tools."""

    name: str
    text: str


class McpInstructions(Text, frozen=True):
    """What the connected servers say about their tools."""

    servers: str

    @classmethod
    def of(cls, servers: Mapping[str, str]) -> McpInstructions | None:
        """The words of each server by its name, in the order of names."""
        said = [
            (name, McpServer(name, words).render())
            for name, words in sorted(servers.items())
            if words.strip()
        ]
        return cls(_joined("\n\n", *_fitting(said, cls.cap))) if said else None


class SkillLine(Text, frozen=True):
    """One line of the skills listing."""

    file = "skill"

    name: str
    description: str


class Skills(Text, frozen=True):
    """The skills there are; what they say is loaded when one is used."""

    listing: str

    @classmethod
    def of(cls, skills: Mapping[str, str]) -> Skills | None:
        """Each skill's name and description, in the order of names."""
        return cls(_listed(SkillLine, skills, cls.cap)) if skills else None


class AgentType(Text, frozen=True):
    """One line of the listing of agents."""

    name: str
    description: str


class AgentTypes(Text, frozen=True):
    """The types of agents that can be started."""

    listing: str

    @classmethod
    def of(cls, types: Mapping[str, str]) -> AgentTypes | None:
        """Each type's name and description, in the order of names."""
        return cls(_listed(AgentType, types, cls.cap)) if types else None


class LeftOut(Text, frozen=True):
    """Names what found no room."""

    names: str


# -- in the conversation -----------------------------------------------------------------------


class CommandOutput(Text, frozen=True):
    """What a command printed that the user ran."""

    command: str
    text: str


class AgentMessageText(Text, frozen=True):
    """A message of another agent; each line of its text is quoted, so that none can be taken for ours."""

    file = "agent_message"

    heading: str
    text: str


class ForkTask(Text, frozen=True):
    """The task of an agent that begins with the conversation of another."""

    agent: str
    role: str | None
    task: str


class AgentNotes(Text, frozen=True):
    """Where an agent keeps what it wants to know the next time, and the index of it."""

    path: str
    index: str


class AgentReport(Text, frozen=True):
    """What an agent in the background reports when it has ended."""

    agent: str
    label: str
    state: str
    text: str
    path: str | None = None


class AskProgress(Text, frozen=True):
    """Asks for a line about what an agent does: a fork of it, or another model that gets what was said last."""

    recent: str | None = None


class SuggestPrompt(Text, frozen=True):
    """Asks a fork for the user's next prompt."""


# -- what fits -------------------------------------------------------------------------------------

_FOR_NOTE = 2 * KB
_FOR_JOINT = 2


def _listed(line: type[SkillLine | AgentType], entries: Mapping[str, str], most: int) -> str:
    """A line for each name with its description, in the order of names, as far as they fit."""
    lines = [
        (name, line(name, " ".join(description.split())).render())
        for name, description in sorted(entries.items())
    ]
    return _joined("\n", *_fitting(lines, most))


def _fitting(pieces: Iterable[tuple[str, str]], most: int) -> tuple[list[str], list[str]]:
    """Those named pieces that fit, and the names of the others; each is taken if it still fits."""
    pieces = list(pieces)
    if sum(size(words) + _FOR_JOINT for _, words in pieces) <= most:
        return [words for _, words in pieces], []
    room = most - _FOR_NOTE
    fits: list[str] = []
    out: list[str] = []
    for name, words in pieces:
        if size(words) + _FOR_JOINT <= room:
            room -= size(words) + _FOR_JOINT
            fits.append(words)
        else:
            out.append(name)
    return fits, out


def _joined(joint: str, fits: list[str], out: list[str]) -> str:
    note = [LeftOut(", ".join(out)).render()] if out else []
    return joint.join([*note, *fits])
