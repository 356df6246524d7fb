"""What comes back behind a summary when an agent's conversation is compacted.

Each slot works from what the agent keeps (`sevenfold.wiring.keeping`), not from the conversation, so it is as good
after the tenth compaction as after the first. Instruction files come back another way: the system prompt is computed
anew, and takes effect with the epoch the compaction opens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec.structs import replace

from sevenfold.adapters.processes import Task
from sevenfold.request.sections import SystemPrompt
from sevenfold.runtime.compaction.restore import (
    BYTES_PER_TOKEN,
    FilesSlot,
    Moment,
    Restored,
    Seen,
    Slot,
    State,
    StateSlot,
)
from sevenfold.runtime.exchange import Exchange
from sevenfold.tools import files
from sevenfold.tools.context import Desk, Todo
from sevenfold.tools.plan import PlanFile
from sevenfold.tools.todo import as_text
from sevenfold.wiring.grants import Grants
from sevenfold.wiring.keeping import Familiar, KnownTask, UsedSkill
from sevenfold.wiring.standing import Standing

FILE_TOKENS = SKILL_TOKENS = 5_000
SKILLS_TOKENS = 25_000


class SectionsSlot:
    """Has the system prompt computed anew, in time for the epoch that begins with the summary."""

    name = "sections"
    needed = True

    def __init__(self, renewed: Callable[[], SystemPrompt], exchange: Exchange) -> None:
        self._renewed = renewed
        self._exchange = exchange

    def restore(self, moment: Moment) -> Restored:
        """Nothing behind the summary; what precedes the messages is wanted as it is now."""
        prompt = self._renewed()
        self._exchange.wanted = replace(
            self._exchange.wanted, system=prompt.blocks(), sections=tuple(prompt.parts().items())
        )
        return Restored()


class OpenFilesSlot:
    """The files read or changed last; what the model knows of files afterwards is what it is shown here.

    A file whose reading stays among the kept messages stays known; one that is put back whole is known as it is now;
    all others have to be read again before they are changed.
    """

    name = "files"
    needed = False

    def __init__(
        self,
        familiar: Familiar,
        desk: Desk,
        *,
        may_read: Callable[[str], bool],
        own: Callable[[str], bool],
    ) -> None:
        self._familiar = familiar
        self._desk = desk
        self._read: dict[str, bytes] = {}
        self._known: dict[str, str] = {}
        self._slot = FilesSlot(self._recent, self._text, may_read=may_read, own=own, each=FILE_TOKENS)

    def restore(self, moment: Moment) -> Restored:
        """The newest first."""
        self._read.clear()
        restored = self._slot.restore(moment)
        shown = {
            one.path: one.version
            for one in self._familiar.files.values()
            if one.call and moment.shows(one.call)
        }
        back = {
            path: files.version(found)
            for path in (str(one.facts.get("filename", "")) for one in restored.beside)
            if (found := self._read.get(path)) is not None
            and len(found) <= moment.budget(FILE_TOKENS) * BYTES_PER_TOKEN
        }
        self._known = {**shown, **back}
        return restored

    def forget(self) -> None:
        """After the compaction: nothing counts as read but what was put back or stays in view."""
        self._desk.forget()
        for path, version in self._known.items():
            self._desk.know(path, version, whole=True)
        self._read.clear()

    def _recent(self) -> Sequence[Seen]:
        return [Seen(one.path, one.call) for one in reversed(self._familiar.files.values())]

    def _text(self, path: str) -> str:
        self._read[path] = found = files.content(path)
        return found.decode("utf-8")


def todo_states(todos: Sequence[Todo]) -> Iterator[State]:
    """The to-do list, if there is one."""
    if todos:
        yield State("To-do list", as_text(todos), facts={"itemCount": len(todos)})


def plan_states(plans: PlanFile) -> Iterator[State]:
    """The plan, whole, and whether it is still being made."""
    if text := plans.text():
        yield State("Plan", text, str(plans.path), {"planFilePath": str(plans.path)})
    if plans.planning:
        words = (
            "You are planning: look around, change nothing but the plan's file. "
            f"Notes for the plan go to {plans.path}; hand it over with PlanReady when it is complete."
        )
        yield State("Planning", words, facts={"planning": True})


def permission_states(grants: Grants) -> Iterator[State]:
    """What the user has settled."""
    lines = [f"Mode: {grants.mode}."]
    lines += [f"Allowed by the user in this session: {rule}" for rule in grants.granted]
    rules = grants.now.rules
    lines += [f"Always asked for: {rule}" for rule in rules.ask]
    lines += [f"Refused, do not try: {rule}" for rule in rules.deny]
    open_questions = (*grants.unanswered, *grants.pending)
    lines += [f"The user was asked about this and has not answered: {one}" for one in open_questions]
    if len(lines) > 1 or grants.mode != "ask":
        yield State("Permissions", "\n".join(lines), facts={"mode": grants.mode})


def goal_states(goal: str) -> Iterator[State]:
    """What all of it is for."""
    if goal:
        yield State("Goal of this session, in the user's words", goal)


def skill_states(used: Iterable[UsedSkill], text: Callable[[UsedSkill], str]) -> Iterator[State]:
    """Skills in use, the newest first."""
    for skill in reversed(list(used)):
        if words := text(skill):
            yield State(f"Skill in use: {skill.name}", words, skill.path, {"skill": skill.name})


def task_states(tasks: Sequence[Task], known: Iterable[KnownTask]) -> Iterator[State]:
    """Commands in the background, so that they are not started twice."""
    live = {task.id: task for task in tasks}
    lines = [f"{task.id} ({task.state}): {task.command} — output in {task.path}" for task in live.values()]
    lines += [
        f"{one.task} (ended with the process that started it): {one.command} — output in {one.path}"
        for one in known
        if one.task not in live and one.state == "running"
    ]
    if lines:
        yield State("Commands in the background; do not start them again", "\n".join(lines))


def state_slots(standing: Standing, skill_text: Callable[[UsedSkill], str]) -> list[Slot]:
    """The slots of what an agent keeps, those given up last first."""
    familiar = standing.familiar

    def skills() -> Iterator[State]:
        return skill_states(familiar.skills.values(), skill_text)

    def tasks() -> Iterator[State]:
        return task_states(standing.processes.tasks(), familiar.tasks.values())

    return [
        StateSlot("plan", lambda: plan_states(standing.plans), needed=True, kind="plan_file_reference"),
        StateSlot("goal", lambda: goal_states(standing.goal), needed=True),
        StateSlot("todos", lambda: todo_states(standing.todos.get()), needed=True, kind="todo_reminder"),
        StateSlot("permissions", lambda: permission_states(standing.grants)),
        StateSlot("tasks", tasks, kind="task_status"),
        StateSlot("skills", skills, each=SKILL_TOKENS, together=SKILLS_TOKENS, kind="invoked_skills"),
    ]
