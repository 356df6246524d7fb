"""The state of an agent besides the conversation: goal, to-dos, permissions, files, background commands.

It is saved in its own small file, not in the transcript, because it is replaced rather than appended to, and because
permissions must not come from anything a model could have written. It is saved before the results of a round of calls,
so everything that the model knows to be done is in it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from sevenfold.agent.executor import Asked, Consented
from sevenfold.agent.permissions.engine import Mode, PermissionDecision, Permissions
from sevenfold.agent.permissions.paths import hook_folders
from sevenfold.agent.permissions.rules import PermissionRequest
from sevenfold.agent.processes import BackgroundTask, LocalProcesses
from sevenfold.agent.sandbox.assembly import make_sandbox
from sevenfold.agent.secret_files import with_secrets
from sevenfold.agent.tools.context import Desk, DeskState, Todo
from sevenfold.agent.tools.output import FileChanged, FileRead, SkillUsed, ToolOutput
from sevenfold.agent.tools.session_tools import PlanFile, TodoList
from sevenfold.conversation.gate import Gate
from sevenfold.conversation.request import ToolCall
from sevenfold.errors import TranscriptError
from sevenfold.ports import StoredText
from sevenfold.record.decoding import NOT_JSON
from sevenfold.session.factory import known_secrets
from sevenfold.stores.files import real_path
from sevenfold.stores.home import user_home
from sevenfold.stores.trust import user_folder

if TYPE_CHECKING:
    from sevenfold.agent.assembly import Assembly

VERSION = 1
MOST_TASKS = 50
"""How many background commands are saved: the newest."""
MOST_FILES = 200
"""How many files are remembered: the most recently used."""


class UsedSkill(Struct, frozen=True):
    """A skill that was loaded."""

    name: str
    path: str


class OpenFile(Struct, frozen=True):
    """A file the agent works with; ``call`` is the call whose result showed all of it, if any."""

    path: str
    call: str = ""
    version: str = ""


class SavedState(Struct, frozen=True):
    """An agent's state in the form in which it is saved."""

    version: int = VERSION
    mode: Mode | None = None
    after_planning: Mode = "ask"
    granted: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    todos: tuple[Todo, ...] = ()
    goal: str = ""
    skills: tuple[UsedSkill, ...] = ()
    """Least recently used first."""
    files: tuple[OpenFile, ...] = ()
    """Least recently read or changed first."""
    desk: DeskState | None = None
    tasks: tuple[BackgroundTask, ...] = ()
    """Tasks that ended with their process are saved as running until the model has been told."""


class StateFile:
    """Loads and saves the state; without a `StoredText`, it does nothing."""

    def __init__(self, text: StoredText | None, gate: Gate | None = None) -> None:
        self._text = text
        self._gate = gate
        self._written = b""
        self.problem = ""
        """Why the state could not be read or written; the agent works without it."""

    def load(self) -> SavedState:
        """The saved state; an empty one if there is none, it cannot be read, or its version is unknown."""
        if self._text is None:
            return SavedState()
        try:
            if (text := self._text.read()) is None:
                return SavedState()
            self._written = text.encode()
            state = msgspec.json.decode(self._written, type=SavedState)
        except (TranscriptError, *NOT_JSON) as error:
            self.problem = (
                f"{self._text.path}: cannot be read ({error}); permissions and to-dos start empty"
            )
            return SavedState()
        return state if state.version == VERSION else SavedState()

    def save(self, state: SavedState) -> None:
        """Write the state if it has changed since it was last read or written."""
        written = msgspec.json.encode(state)
        if self._gate is not None:
            written = self._gate.json(written)
        if self._text is None or written == self._written:
            return
        try:
            self._text.write(written.decode())
        except (OSError, TranscriptError) as error:
            self.problem = f"{self._text.path}: cannot be written ({error})"
        else:
            self._written = written


class RecentUse(Struct):
    """The files and skills the agent uses, least recently used first."""

    files: dict[str, OpenFile] = field(default_factory=dict)
    skills: dict[str, UsedSkill] = field(default_factory=dict)

    def file(self, path: str, call: str = "", version: str = "") -> None:
        """Record that a file was read or changed."""
        self.files.pop(path, None)
        self.files[path] = OpenFile(path, call, version)
        if len(self.files) > MOST_FILES:
            del self.files[next(iter(self.files))]

    def skill(self, name: str, path: str) -> None:
        """Record that a skill was loaded."""
        self.skills.pop(name, None)
        self.skills[name] = UsedSkill(name, path)


class AgentState:
    """Everything an agent changes as it works, except the conversation."""

    def __init__(self, agent: Assembly) -> None:
        self._workspace = agent.workspace
        self._roots = agent.roots
        self._home = agent.home
        self._consent = agent.consent
        self._secret_files = agent.store.settings.current().secret_files
        self.gate = gate = Gate.of(agent.store.settings.current(), known=known_secrets(agent.store))
        """Masks secrets in saved data; None: nothing is masked."""
        self._file = StateFile(self._home.saved, gate)
        self._lock = threading.RLock()
        saved = self._file.load()
        self.goal = saved.goal
        self.recent = RecentUse(
            {file.path: file for file in saved.files},
            {skill.name: skill for skill in saved.skills},
        )
        sandbox = make_sandbox(agent, lambda: self.grants.now)
        self.processes = LocalProcesses(self._home.folder / "tasks", saved.tasks, gate, sandbox)
        self._lost = [task.id for task in saved.tasks if task.state == "running"]
        self._ended: set[str] = set()
        self.desk = Desk(self._workspace)
        if saved.desk is not None and Path(saved.desk.cwd).is_dir():
            self.desk.restore(saved.desk)
        self.grants = agent.grants_within(self._permissions(), saved.mode)
        self.grants.restore(saved.granted, saved.pending, saved.after_planning)
        self.todos = TodoList(saved.todos, self.save)
        self.plans = PlanFile(self._home.plan, self.grants, self._approve, gate)
        self.grants.changed = self.save

    @property
    def problem(self) -> str:
        """Why the state could not be loaded or saved; empty if it could."""
        return self._file.problem or self._home.problem

    def save(self) -> None:
        """Save the state."""
        with self._lock:
            self._file.save(self._saved())
            self._home.save()

    def inherit(self, parent: AgentState) -> None:
        """Copy another agent's knowledge of files, for a fork: it has read the files its parent has read."""
        self.recent.files.update(parent.recent.files)
        self.desk.restore(parent.desk.state())

    def learn(self, call: ToolCall, output: ToolOutput, on_read: Callable[[str, str, str], None]) -> None:
        """Note the files and skills a call used; the executor saves the state after the whole round of calls.

        ``on_read`` is called with path, call id and version of each file whose full text this call shows.
        """
        with self._lock:
            for fact in output.facts:
                match fact:
                    case FileRead(path=path, version=version, whole=whole, again=again):
                        if whole and not again:
                            on_read(path, call.id, version)
                        self.recent.file(path, again or (call.id if whole else ""), version)
                    case FileChanged(path=path, version=version):
                        self.recent.file(path, "", version)
                    case SkillUsed(name=name, path=path):
                        self.recent.skill(name, path)

    def close(self) -> None:
        """End background commands and save the state."""
        self._ended = {task.id for task in self.processes.tasks() if task.state == "running"}
        self.processes.close()
        self.save()
        self._home.remove()

    def take_lost_tasks(self) -> list[BackgroundTask]:
        """The background commands that ended with an earlier process; each is returned only once."""
        lost = self._lost
        self._lost = []
        return [task for task in self.processes.tasks() if task.id in lost]

    def may_restore(self, path: str) -> bool:
        """Whether the file may be read now without asking the user; False if its path has become a link."""
        if str(real_path(Path(path))) != path:
            return False
        request = with_secrets(PermissionRequest("Read", "read", path))
        permissions = self.grants.now
        # What is restored is not masked, so it must not need to be.
        return permissions.decide(request).verdict == "allow" and not permissions.masks(request)

    def _permissions(self) -> Permissions:
        guarded_roots = (user_folder(os.environ).resolve(), user_home().root.resolve())
        return Permissions(
            workspace=str(self._workspace),
            roots=(str(self._home.scratch), *map(str, self._roots)),
            readable=tuple(str(folder) for folder in (self._home.results, self._home.folder) if folder),
            guarded=(*map(str, guarded_roots), *map(str, hook_folders(self._workspace))),
            home=str(Path.home()),
            plan=str(self._home.plan),
            secret_files=self._secret_files,
        )

    def _saved(self) -> SavedState:
        return SavedState(
            mode=self.grants.mode,
            after_planning=self.grants.after_planning,
            granted=self.grants.granted,
            pending=self.grants.pending,
            todos=tuple(self.todos.get()),
            goal=self.goal,
            skills=tuple(self.recent.skills.values()),
            files=tuple(self.recent.files.values()),
            desk=self.desk.state(),
            tasks=tuple(map(self._saved_task, self.processes.tasks()[-MOST_TASKS:])),
        )

    def _saved_task(self, task: BackgroundTask) -> BackgroundTask:
        # Saved as running until the next process has told the model that the task ended with this one.
        untold = task.id in self._ended or task.id in self._lost
        return replace(task, unread=0, state="running" if untold else task.state)

    def _approve(self, plan: str) -> Consented:
        """Ask the user to approve a plan, the same way as for other consent."""
        if self._consent is None:
            free = self.grants.after_planning == "autonomous"
            return Consented(free, remark="" if free else "No user is available in this session.")
        question = Asked(
            ToolCall("", "PlanReady", {"plan": plan}),
            PermissionRequest("PlanReady", "call", str(self.plans.path)),
            PermissionDecision("ask", "A plan needs the user's approval."),
        )
        return self._consent(question)
