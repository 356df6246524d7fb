"""What comes back behind a summary when an agent's conversation is compacted.

Each slot works from what the agent keeps (`sevenfold.agent.state_files`), not from the conversation, so it is as good
after the tenth compaction as after the first. Instruction files come back another way: the system prompt is computed
anew, and takes effect with the epoch the compaction opens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from sevenfold.agent.permissions.engine import Grants
from sevenfold.agent.processes import BackgroundTask
from sevenfold.agent.prompt import Prompting
from sevenfold.agent.state import Standing
from sevenfold.agent.state_files import Familiar, UsedSkill
from sevenfold.agent.tools import files
from sevenfold.agent.tools.context import Desk, Todo
from sevenfold.agent.tools.session_tools import PlanFile, todo_text
from sevenfold.agent.tools.skills import Skills
from sevenfold.conversation.exchange import Exchange
from sevenfold.conversation.transcript import Beside
from sevenfold.layers.compact.slots import (
    BYTES_PER_TOKEN,
    AnnouncedSlot,
    FilesSlot,
    Moment,
    Restored,
    Seen,
    Slot,
    State,
    StateSlot,
    Work,
    WorkSlot,
)
from sevenfold.prompts import system
from sevenfold.record import blocks
from sevenfold.request.sections import SystemPrompt, announcement

FILE_TOKENS = SKILL_TOKENS = 5_000
SKILLS_TOKENS = 25_000
PLAN_TOKENS = 25_000
"""More than any plan has: it comes back whole, but for small windows."""
GOAL_TOKENS = TODO_TOKENS = 10_000
PERMISSIONS_TOKENS = 4_000
ANNOUNCED = (system.McpInstructions.file, system.Skills.file)
"""Sections whose changes are announced piece by piece, by slots of their own."""
PLANNING = "plan_mode"
GONE = "ended with the process that started it"
TASKS = "Commands in the background; do not start again what runs"


class SectionsSlot:
    """Has the system prompt computed anew, in time for the epoch that begins with the summary.

    Where the prompt stays as it was sent, what has changed in it since comes behind the summary.
    """

    name = "sections"
    needed = True
    kinds = frozenset({"changed_sections"})

    def __init__(self, prompting: Prompting, exchange: Exchange) -> None:
        self._prompting = prompting
        self._exchange = exchange

    def restore(self, moment: Moment) -> Restored:
        """What precedes the messages is wanted as it is now, or its changes are told."""
        sent, prompt = self._prompting.sent, self._prompting.renewed()
        if moment.keeps_front:
            return self._changes(sent, prompt, moment)
        self._prompting.sent = prompt
        self._exchange.wanted = self._exchange.wanted.saying(prompt)
        return Restored()

    def _changes(self, sent: SystemPrompt, prompt: SystemPrompt, moment: Moment) -> Restored:
        before = {section.name: section.text for section in sent.sections}
        changed = [
            section
            for section in prompt.sections
            if section.name not in ANNOUNCED
            and section.text != before.get(section.name)
            and not moment.says(announcement({}, {section.name: section.text}))
        ]
        if not changed:
            return Restored()
        text = announcement({}, {section.name: section.text for section in changed})
        facts: dict[str, object] = {"names": [section.name for section in changed]}
        return Restored((Beside("changed_sections", (blocks.text(text),), facts),), moment.count(text))


class OpenFilesSlot:
    """The files read or changed last; what the model knows of files afterwards is what it is shown here.

    A file whose reading stays among the kept messages stays known; one that is put back whole is known as it is now;
    all others have to be read again before they are changed.
    """

    name = "files"
    needed = False
    kinds = FilesSlot.kinds

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
        listed = [{"content": todo.content, "status": todo.status} for todo in todos]
        yield State("To-do list", todo_text(todos), facts={"content": listed, "itemCount": len(todos)})


def plan_states(plans: PlanFile) -> Iterator[State]:
    """The plan, whole, and whether it is still being made."""
    if text := plans.text():
        yield State("Plan", text, str(plans.path), {"planFilePath": str(plans.path)})
    if plans.planning:
        words = (
            "You are planning: look around, change nothing but the plan's file. "
            f"Notes for the plan go to {plans.path}; hand it over with PlanReady when it is complete."
        )
        facts = {"reminderType": "full", "isSubAgent": False, "planFilePath": str(plans.path)}
        facts["planExists"] = bool(plans.text())
        yield State("Planning", words, facts=facts, kind=PLANNING)


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
        yield State(
            "Goal of this session, in the user's words", goal, facts={"met": False, "condition": goal}
        )


def skill_states(used: Iterable[UsedSkill], text: Callable[[UsedSkill], str]) -> Iterator[State]:
    """Skills in use, the newest first."""
    for skill in reversed(list(used)):
        if words := text(skill):
            yield State(f"Skill in use: {skill.name}", words, skill.path, {"skill": skill.name})


def works(tasks: Iterable[BackgroundTask]) -> Iterator[Work]:
    """Commands in the background that run, or of which the model does not know how they ended."""
    for task in tasks:
        if task.state in ("running", "gone") or task.unread:
            state = GONE if task.state == "gone" else task.state
            yield Work(task.id, task.command, state, task.path, task.unread)


def skill_listing_slot(skills: Skills) -> AnnouncedSlot:
    """Announces skills that are new, where the prompt stays as it was; those in view are not announced again."""
    return AnnouncedSlot(
        "skill listing",
        skills.listing,
        lambda name, words: system.Skill(name, " ".join(words.split())).render(),
        _listing,
        lambda news: {"content": _listing(news), "skillCount": len(news), "names": list(news)},
        kind="skill_listing",
    )


def _listing(news: Mapping[str, str]) -> str:
    made = system.Skills.of(news)
    return made.render() if made else ""


def state_slots(standing: Standing, skill_text: Callable[[UsedSkill], str]) -> list[Slot]:
    """The slots of what an agent keeps, those given up last first."""
    familiar = standing.familiar

    def skills() -> Iterator[State]:
        return skill_states(familiar.skills.values(), skill_text)

    return [
        StateSlot(
            "plan",
            lambda: plan_states(standing.plans),
            needed=True,
            each=PLAN_TOKENS,
            kind="plan_file_reference",
            other_kinds=[PLANNING],
        ),
        StateSlot(
            "goal",
            lambda: goal_states(standing.goal),
            needed=True,
            each=GOAL_TOKENS,
            kind="goal_status",
        ),
        StateSlot(
            "todos",
            lambda: todo_states(standing.todos.get()),
            needed=True,
            each=TODO_TOKENS,
            kind="todo_reminder",
        ),
        StateSlot(
            "permissions", lambda: permission_states(standing.grants), each=PERMISSIONS_TOKENS, needed=True
        ),
        WorkSlot("tasks", TASKS, lambda: works(standing.processes.tasks()), kind="task_status"),
        StateSlot("skills", skills, each=SKILL_TOKENS, together=SKILLS_TOKENS, kind="invoked_skills"),
    ]
