"""How things stand with an agent while it works: what the tools changed, kept so that it can go on."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from sevenfold.agent.executor import Asked, Consent
from sevenfold.agent.loop import Call
from sevenfold.agent.options import Place
from sevenfold.agent.permissions.engine import Decision, Grants, Mode, Permissions
from sevenfold.agent.permissions.rules import PermissionRequest, Rules
from sevenfold.agent.processes import BackgroundTask, LocalProcesses
from sevenfold.agent.state_files import MOST_TASKS, AgentState, Familiar, KnownTask, StateFile
from sevenfold.agent.toolkit import KeptTodos, Plans
from sevenfold.agent.tools.context import Abort, Desk, Verdict
from sevenfold.agent.tools.output import FileChanged, FileRead, SkillUsed, ToolOutput
from sevenfold.stores.home import user_home
from sevenfold.stores.trust import user_folder

ReadOf = Callable[[str, str, str], None]
"""Told of a file that was read in full: its path, the call, the version."""


class Standing:
    """Everything an agent changes as it works, but for the conversation."""

    def __init__(
        self,
        folder: Path,
        place: Place,
        *,
        mode: Mode | None,
        rules: Mapping[str, Sequence[str]],
        consent: Consent | None,
    ) -> None:
        self.folder = folder
        self.place = place
        self._file = StateFile(None if place.passing else place.state)
        self._consent = consent
        self._lock = threading.RLock()
        state = self._file.load()
        self.goal = state.goal
        self.familiar = Familiar.of(state)
        self.processes = LocalProcesses(place.tasks, [one.task_again() for one in state.tasks])
        self._gone = [one.task for one in state.tasks if one.state == "running"]
        self._ended: set[str] = set()
        self.desk = Desk(folder)
        if state.desk is not None and Path(state.desk.cwd).is_dir():
            self.desk.restore(state.desk)
        self.grants = Grants(self._permissions(mode or state.mode or "ask", rules))
        self.grants.restore(state.granted, state.pending, state.after_planning)
        self.todos = KeptTodos(state.todos, self.save)
        self.plans = Plans(place.plan, self.grants, self._approve)
        self.grants.changed = self.save

    @property
    def problem(self) -> str:
        """Why it is not kept, if so."""
        return self._file.problem

    def save(self) -> None:
        """Keep how things stand."""
        with self._lock:
            self._file.save(self._state())

    def set_goal(self, goal: str) -> None:
        """What all of it is for, from now on."""
        self.goal = goal
        self.save()

    def learn(self, call: Call, output: ToolOutput, read: ReadOf) -> None:
        """Take in what a call did; kept once the calls beside it are done as well."""
        with self._lock:
            for fact in output.facts:
                match fact:
                    case FileRead(path=path, version=version, whole=whole, again=again):
                        if whole and not again:
                            read(path, call.id, version)
                        self.familiar.file(path, again or (call.id if whole else ""), version)
                    case FileChanged(path=path, version=version):
                        self.familiar.file(path, "", version)
                    case SkillUsed(name=name, path=path):
                        self.familiar.skill(name, path)

    def close(self) -> None:
        """End what runs in the background, and keep how things stand."""
        self._ended = {task.id for task in self.processes.tasks() if task.state == "running"}
        self.processes.close()
        self.save()
        self.place.remove()

    def take_gone(self) -> list[BackgroundTask]:
        """Commands that ended with an earlier process and that nobody has been told of; they are told of now."""
        gone, self._gone = self._gone, []
        return [task for task in self.processes.tasks() if task.id in gone]

    def may_restore(self, path: str) -> bool:
        """Would this file be read without asking, as it is now?"""
        if str(Path(path).resolve()) != path:
            return False
        return self.grants.now.decide(PermissionRequest("Read", "read", path)).verdict == "allow"

    def _permissions(self, mode: Mode, rules: Mapping[str, Sequence[str]]) -> Permissions:
        return Permissions(
            workspace=str(self.folder),
            roots=(str(self.place.scratch),),
            readable=(str(self.place.results), str(self.place.folder)),
            guarded=tuple(str(own.resolve()) for own in (user_folder(os.environ), user_home().root)),
            home=str(Path.home()),
            mode=mode,
            rules=Rules.of(rules),
            plan=str(self.place.plan),
        )

    def _state(self) -> AgentState:
        return AgentState(
            mode=self.grants.mode,
            after_planning=self.grants.after_planning,
            granted=self.grants.granted,
            pending=self.grants.pending,
            todos=tuple(self.todos.get()),
            goal=self.goal,
            skills=tuple(self.familiar.skills.values()),
            files=tuple(self.familiar.files.values()),
            desk=self.desk.state(),
            tasks=tuple(map(self._known, self.processes.tasks()[-MOST_TASKS:])),
        )

    def _known(self, task: BackgroundTask) -> KnownTask:
        """What is kept of a task; until the next process has told of it, one that ended with this one runs."""
        untold = task.id in self._ended or task.id in self._gone
        return KnownTask.of(replace(task, state="running") if untold else task)

    def _approve(self, plan: str, abort: Abort) -> Verdict:
        """Put a plan to the user, like anything else that needs consent."""
        if self._consent is None:
            free = self.grants.after_planning == "autonomous"
            return Verdict(free, "" if free else "Nobody can be asked in this session.")
        asked = Asked(
            Call("", "PlanReady", {"plan": plan}),
            PermissionRequest("PlanReady", "call", str(self.plans.path)),
            Decision("ask", "A plan needs the user's approval."),
        )
        said = self._consent(asked)
        return Verdict(said.granted, said.remark)
