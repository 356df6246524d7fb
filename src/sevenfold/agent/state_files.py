"""What an agent keeps beside its transcript, to go on with after a compaction and in another process.

The transcript is what was said; this is how things stand: the to-do list, the mode and what was granted, skills in
use, files the model knows, commands in the background. It is a small file of its own and not part of the record,
because it is replaced and not added to, and because permissions must not come from anything a model could have said.
It is written before the results of a round of calls are, so what the model has been told was done is kept.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct, field

from sevenfold.agent.permissions.engine import Mode
from sevenfold.agent.processes import BackgroundTask, TaskState
from sevenfold.agent.tools.context import DeskState, Todo
from sevenfold.errors import TranscriptError
from sevenfold.stores.files import private_folder, write_whole

VERSION = 1
MOST_TASKS = 50
"""Commands in the background that are kept in mind, the newest…"""
MOST_FILES = 200
"""…and files."""


class UsedSkill(Struct, frozen=True):
    """A skill that was loaded."""

    name: str
    path: str


class KnownTask(Struct, frozen=True):
    """A command in the background, as it was when it was last looked after: one that ended with its process runs."""

    task: str
    command: str
    state: TaskState
    path: str
    code: int | None = None
    read: int = 0
    mark: str = ""

    @classmethod
    def of(cls, task: BackgroundTask) -> KnownTask:
        """What is kept of a task."""
        return cls(task.id, task.command, task.state, task.path, task.code, task.read, task.mark)

    def task_again(self) -> BackgroundTask:
        """The task that was kept."""
        return BackgroundTask(
            self.task, self.command, self.state, self.path, self.code, self.read, mark=self.mark
        )


class OpenFile(Struct, frozen=True):
    """A file the agent works with, and the call that showed it whole."""

    path: str
    call: str = ""
    version: str = ""


class AgentState(Struct, frozen=True):
    """How things stand with an agent."""

    version: int = VERSION
    mode: Mode | None = None
    after_planning: Mode = "ask"
    granted: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    todos: tuple[Todo, ...] = ()
    goal: str = ""
    skills: tuple[UsedSkill, ...] = ()
    """The one used last comes last."""
    files: tuple[OpenFile, ...] = ()
    """The one read or changed last comes last."""
    desk: DeskState | None = None
    tasks: tuple[KnownTask, ...] = ()


class StateFile:
    """Keeps the state in a file, or nowhere."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._written = b""
        self.problem = ""
        """Why it could not be read or written, if so; the agent works without."""

    def load(self) -> AgentState:
        """As it was written last; empty where there is none, or one that cannot be read."""
        if self._path is None or not self._path.is_file():
            return AgentState()
        try:
            self._written = self._path.read_bytes()
            found = msgspec.json.decode(self._written, type=AgentState)
        except (OSError, msgspec.DecodeError) as error:
            self.problem = f"{self._path}: cannot be read ({error}); permissions and to-dos start anew"
            return AgentState()
        return found if found.version == VERSION else AgentState()

    def save(self, state: AgentState) -> None:
        """Write it, if it is another one than was written last."""
        written = msgspec.json.encode(state)
        if self._path is None or written == self._written:
            return
        try:
            private_folder(self._path.parent)
            write_whole(self._path, written)
        except (OSError, TranscriptError) as error:
            self.problem = f"{self._path}: cannot be written ({error})"
        else:
            self._written = written


class Familiar(Struct):
    """What the agent has at hand: files and skills, in the order of their last use."""

    files: dict[str, OpenFile] = field(default_factory=dict)
    skills: dict[str, UsedSkill] = field(default_factory=dict)

    @classmethod
    def of(cls, state: AgentState) -> Familiar:
        """What a state has at hand."""
        return cls(
            {one.path: one for one in state.files},
            {one.name: one for one in state.skills},
        )

    def file(self, path: str, call: str = "", version: str = "") -> None:
        """A file was read or changed."""
        self.files.pop(path, None)
        self.files[path] = OpenFile(path, call, version)
        if len(self.files) > MOST_FILES:
            del self.files[next(iter(self.files))]

    def skill(self, name: str, path: str) -> None:
        """A skill was loaded."""
        self.skills.pop(name, None)
        self.skills[name] = UsedSkill(name, path)
