"""The texts that carry other people's words: instruction files, memory, servers, skills.

Each piece is framed with where it comes from and cut at its own cap; the pieces together have a cap too.
What finds no room is named, so that nothing goes missing unseen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sevenfold.prompts.text import KB, LINE_CAP, Text, size


class InstructionFile(Text, frozen=True):
    """A file of instructions, whole unless it is very long."""

    file = "instruction_file"
    tag = "instruction-file"
    body = "text"
    source = "path"
    cap = 40 * KB

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

    file = "instruction_problem"
    cap = 3 * LINE_CAP + 200

    path: str
    problem: str
    parent: str | None = None


class Instructions(Text, frozen=True):
    """All instruction files, from the most general to the most specific."""

    file = "instructions"
    tag = "instructions"
    body = "files"
    cap = 100 * KB

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

    file = "memory_index"
    tag = "memory-index"
    body = "index"
    source = "path"
    cap = 25 * KB
    lines = 200

    path: str
    index: str


class McpServer(Text, frozen=True):
    """What one server says about its own tools."""

    file = "mcp_server"
    tag = "mcp-server"
    body = "text"
    cap = 2 * KB

    name: str
    text: str


class McpInstructions(Text, frozen=True):
    """What the connected servers say about their tools."""

    file = "mcp_instructions"
    tag = "mcp-instructions"
    body = "servers"
    cap = 20 * KB
    volatile = "Servers connect and go away while a session runs."

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


class Skill(Text, frozen=True):
    """One line of the skills listing."""

    file = "skill"
    body = "description"
    cap = 1536

    name: str
    description: str


class Skills(Text, frozen=True):
    """The skills there are; what they say is loaded when one is used."""

    file = "skills"
    tag = "skills"
    body = "listing"
    cap = 16 * KB

    listing: str

    @classmethod
    def of(cls, skills: Mapping[str, str]) -> Skills | None:
        """Each skill's name and description, in the order of names."""
        lines = [
            (name, Skill(name, " ".join(description.split())).render())
            for name, description in sorted(skills.items())
        ]
        return cls(_joined("\n", *_fitting(lines, cls.cap))) if lines else None


class LeftOut(Text, frozen=True):
    """Names what found no room."""

    file = "left_out"
    body = "names"
    cap = KB

    names: str


_FOR_NOTE = 2 * KB
_FOR_JOINT = 2


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
