"""What is restored after an agent's conversation is compacted.

Each slot restores from the agent's state, not from the conversation, so it is as good after the tenth compaction as
after the first. `StateSlot` restores state that the agent keeps outside its conversation; `AnnouncedSlot` repeats
announcements. Instruction files are restored differently: the system prompt is recomputed, and takes effect in the
epoch that begins with the compaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from sevenfold.agent import texts
from sevenfold.agent.processes import GONE, BackgroundTask
from sevenfold.agent.tools import files
from sevenfold.agent.tools.session_tools import todo_text
from sevenfold.conversation.restore import BYTES_PER_TOKEN, FilesSlot, Moment, Restored, Seen, Slot
from sevenfold.conversation.transcript import Attachment
from sevenfold.prompts.context import RestoredState
from sevenfold.prompts.text import Text, cut
from sevenfold.record import blocks
from sevenfold.request.sections import announcement

if TYPE_CHECKING:
    from sevenfold.agent.assembly import Assembly
    from sevenfold.agent.state import AgentState

MOST_ANNOUNCED = 5_000
"""The most tokens that announcements of one kind may take."""
LEAST = 50
"""With fewer tokens than this, a cut text is not worth the frame around it."""
FILE_TOKENS = SKILL_TOKENS = 5_000
SKILLS_TOKENS = 25_000
PLAN_TOKENS = 25_000
"""More than any plan has, so a plan is restored in full except in small windows."""
GOAL_TOKENS = TODO_TOKENS = 10_000
PERMISSIONS_TOKENS = 4_000
TASKS_TOKENS = 2_000
ANNOUNCED = (texts.McpInstructions.file, texts.Skills.file, texts.AgentTypes.file)
"""Sections of the prompt whose changes are restored by separate slots."""
PLANNING = "plan_mode"
PLANNING_KIND = frozenset({PLANNING})
TASKS = "Background commands; do not restart those that are running"


class State(Struct, frozen=True):
    """One item that a `StateSlot` restores."""

    title: str
    text: str
    path: str = ""
    """Where the full text can be read if it is cut."""
    facts: Mapping[str, object] = {}
    """Further fields of its attachment, for other programs."""
    kind: str = ""
    """The kind of its attachment; empty: the slot's kind."""


class StateSlot(Struct, eq=False):
    """Restores state that is kept outside the conversation: plan, to-dos, skills, agents, permissions."""

    name: str
    states: Callable[[], Iterable[State]]
    each: int | None = None
    """The most tokens that one state may take."""
    together: int | None = None
    """The most tokens that all states may take."""
    needed: bool = False
    kind: str = ""
    """The kind of its attachments; empty: its name."""
    kinds: frozenset[str] = frozenset()
    """Further kinds that a state may have instead."""

    def __post_init__(self) -> None:
        self.kind = self.kind or self.name
        self.kinds |= {self.kind}

    def restore(self, moment: Moment) -> Restored:
        """Restore all states in order while there is room, each cut to its budget with a note where the rest is."""
        attachments: list[Attachment] = []
        left_out: list[str] = []
        room = moment.budget(self.together) if self.together is not None else moment.room
        room = room if self.needed else min(room, moment.room)
        used = 0
        for state in self.states():
            limit = moment.budget(self.each) if self.each is not None else room
            text = _rendered(state, min(limit, room - used) if not self.needed else limit, moment)
            tokens = moment.count(text)
            if not self.needed and used + tokens > room:
                left_out.append(f"{state.title}: no room")
                continue
            used += tokens
            attachments.append(Attachment(state.kind or self.kind, (blocks.text(text),), dict(state.facts)))
        return Restored(tuple(attachments), used, tuple(left_out))


class AnnouncedSlot(Struct, eq=False):
    """Repeats announcements that are no longer in view after a compaction: servers, skills, agent types."""

    name: str
    kind: str
    announced: Callable[[], Mapping[str, str]]
    piece: Callable[[str, str], str]
    """Renders one entry, exactly as it appears wherever it is announced."""
    whole: Callable[[Mapping[str, str]], Text | None]
    """Renders an announcement of several entries."""
    facts: Callable[[list[str], list[str], str], dict[str, object]]
    """Returns the attachment's fields, given the names, the rendered entries and the whole text."""
    needed: bool = False
    kinds: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.kinds = frozenset({self.kind})

    def restore(self, moment: Moment) -> Restored:
        """Restore only entries that would be missing, in order; entries without room are named in `Restored.left`."""
        room = min(moment.room, moment.budget(MOST_ANNOUNCED))
        announced = self.announced().items()
        missing = {name: text for name, text in announced if not moment.says(self.piece(name, text))}
        left_out: list[str] = []
        while missing and moment.count(self._text(missing)) > room:
            left_out.insert(0, f"{missing.popitem()[0]}: no room")
        if not missing:
            return Restored(left=tuple(left_out))
        whole_text = self._text(missing)
        pieces = [self.piece(*entry) for entry in missing.items()]
        facts = self.facts(list(missing), pieces, whole_text)
        attachment = Attachment(self.kind, (blocks.text(whole_text),), facts)
        return Restored((attachment,), moment.count(whole_text), tuple(left_out))

    def _text(self, entries: Mapping[str, str]) -> str:
        listing = self.whole(entries)
        return listing.render() if listing else ""


def _rendered(state: State, limit: int, moment: Moment) -> str:
    text = RestoredState(state.title, state.text).render()
    if moment.count(text) <= limit or limit < LEAST:
        return text
    head = cut(state.text, (limit - LEAST) * BYTES_PER_TOKEN)
    return RestoredState(state.title, f"{head}\n[Cut here.]", state.path or None).render()


class SectionsSlot:
    """Recomputes the system prompt, in time for the epoch that begins with the summary.

    If the prompt has to stay as it was sent, its changes are restored after the summary instead.
    """

    name = "sections"
    needed = True
    kinds = frozenset({"changed_sections"})

    def __init__(self, agent: Assembly) -> None:
        self._prompt = agent.prompt
        self._want = agent.want_prompt

    def restore(self, moment: Moment) -> Restored:
        """Recompute the prompt; returns its changes if it stays as it was sent, else nothing."""
        sent = self._prompt.sent
        prompt = self._prompt.renew()
        if not moment.keeps_front:
            self._prompt.sent = prompt
            self._want(prompt)
            return Restored()
        sent_texts = {section.name: section.text for section in sent.sections}
        changed: dict[str, str] = {}
        for section in prompt.sections:
            if section.name in ANNOUNCED or section.text == sent_texts.get(section.name):
                continue
            if not moment.says(announcement({}, {section.name: section.text})):
                changed[section.name] = section.text
        if not changed:
            return Restored()
        text = announcement({}, changed)
        attachment = Attachment("changed_sections", (blocks.text(text),), {"names": list(changed)})
        return Restored((attachment,), moment.count(text))


class OpenFilesSlot:
    """Restores the files read or changed last, and updates which files count as read.

    A file whose Read result is among the preserved messages stays known, and a file that is restored in full is known
    in its current version. All others must be read again before they can be changed.
    """

    name = "files"
    needed = False
    kinds = FilesSlot.kinds

    def __init__(self, agent: Assembly) -> None:
        self._state = state = agent.state
        self._read: dict[str, bytes] = {}
        self._known: dict[str, str] = {}
        self._slot = FilesSlot(
            self._recent, self._text, may_read=state.may_restore, own=agent.is_own_file, each=FILE_TOKENS
        )

    def restore(self, moment: Moment) -> Restored:
        """Restore the files, most recently used first, and note which ones the model will know."""
        self._read.clear()
        restored = self._slot.restore(moment)
        recent = self._state.recent.files.values()
        shown = [file for file in recent if file.call and moment.shows(file.call)]
        self._known = {file.path: file.version for file in shown}
        most_bytes = moment.budget(FILE_TOKENS) * BYTES_PER_TOKEN
        for attachment in restored.attachments:
            path = str(attachment.facts.get("filename", ""))
            content = self._read.get(path)
            # A longer file was cut, so the model knows only a part of it.
            if content is not None and len(content) <= most_bytes:
                self._known[path] = files.version(content)
        return restored

    def forget(self) -> None:
        """After the compaction, count only files that were restored or stayed in view as read."""
        self._state.desk.forget()
        for path, version in self._known.items():
            self._state.desk.know(path, version, whole=True)
        self._read.clear()

    def _recent(self) -> Sequence[Seen]:
        return [Seen(file.path, file.call) for file in reversed(self._state.recent.files.values())]

    def _text(self, path: str) -> str:
        self._read[path] = content = files.content(path)
        text = content.decode("utf-8")
        gate = self._state.gate
        # Masked before the text is cut: part of a secret would not be recognised as one.
        return gate.text(text) if gate else text


def install(agent: Assembly) -> None:
    """Set up the slots that restore everything an agent needs after a compaction."""
    conversation = agent.conversation
    files = OpenFilesSlot(agent)
    slots_before = [slot for slot in conversation.slots if not isinstance(slot, FilesSlot)]
    announced: list[Slot] = [agent.server_updater.slot()] if agent.server_updater is not None else []
    if agent.has_standard_prompt:
        slots_before.insert(0, SectionsSlot(agent))
        announced += _listing_slots(agent)
    conversation.restore((*slots_before, *_state_slots(agent), *announced, files))
    conversation.call_after_compaction(files.forget)
    conversation.call_after_compaction(agent.state.save)


def _state_slots(agent: Assembly) -> list[Slot]:
    """The slots for an agent's state, most important first: if room is short, the last ones are left out."""
    state = agent.state
    needed = partial(StateSlot, needed=True)

    def skills() -> Iterator[State]:
        for skill in reversed(state.recent.skills.values()):
            if text := agent.skill_text(skill.name):
                yield State(f"Skill in use: {skill.name}", text, skill.path, {"skill": skill.name})

    return [
        needed("plan", partial(_plan, state), PLAN_TOKENS, kind="plan_file_reference", kinds=PLANNING_KIND),
        needed("goal", partial(_goal, state), GOAL_TOKENS, kind="goal_status"),
        needed("todos", partial(_todos, state), TODO_TOKENS, kind="todo_reminder"),
        needed("permissions", partial(_permissions, state), PERMISSIONS_TOKENS),
        *([needed("agents", team.states, TASKS_TOKENS)] if (team := agent.team) else []),
        needed("tasks", partial(_tasks, state), TASKS_TOKENS, kind="task_status"),
        StateSlot("skills", skills, SKILL_TOKENS, SKILLS_TOKENS, kind="invoked_skills"),
    ]


def task_lines(tasks: Iterable[BackgroundTask]) -> list[str]:
    """A line for each background command that is running, is gone, or has unread output."""
    lines = []
    for task in tasks:
        if task.state in ("running", "gone") or task.unread:
            ended = GONE if task.state == "gone" else task.state
            unread = f", {task.unread:,} bytes of output not looked at" if task.unread else ""
            location = f" — output in {task.path}" if task.path else ""
            lines.append(f"{task.id} ({ended}{unread}): {task.command}{location}")
    return lines


def _tasks(state: AgentState) -> list[State]:
    lines = task_lines(state.processes.tasks())
    # Newest first, because long text is cut at the end.
    return [State(TASKS, "\n".join(reversed(lines)))] if lines else []


def _listing_slots(agent: Assembly) -> Iterator[AnnouncedSlot]:
    """The slots that announce new skills and agent types if the prompt stays as it was; entries in view are skipped."""
    yield AnnouncedSlot(
        "skill listing",
        "skill_listing",
        agent.skills.listing,
        partial(texts.listed, texts.SkillLine),
        texts.Skills.of,
        lambda names, lines, text: {"content": text, "skillCount": len(names), "names": names},
    )
    if agent.types is not None:
        constant_fields = {"removedTypes": [], "isInitial": False}
        yield AnnouncedSlot(
            "agent types",
            "agent_listing_delta",
            agent.types.listing,
            partial(texts.listed, texts.AgentType),
            texts.AgentTypes.of,
            lambda names, lines, text: {"addedTypes": names, "addedLines": lines, **constant_fields},
        )


def _plan(state: AgentState) -> Iterator[State]:
    plans = state.plans
    if text := plans.text():
        yield State("Plan", text, str(plans.path), {"planFilePath": str(plans.path)})
    if plans.planning:
        reminder = (
            "You are planning: explore, and change nothing but the plan's file. "
            f"Notes for the plan go to {plans.path}; hand it over with PlanReady when it is complete."
        )
        facts = {"reminderType": "full", "isSubAgent": False, "planFilePath": str(plans.path)}
        yield State("Planning", reminder, facts={**facts, "planExists": bool(text)}, kind=PLANNING)


def _goal(state: AgentState) -> Iterator[State]:
    if goal := state.goal:
        facts = {"met": False, "condition": goal}
        yield State("Goal of this session, in the user's words", goal, facts=facts)


def _todos(state: AgentState) -> Iterator[State]:
    if todos := state.todos.get():
        listed = [{"content": todo.content, "status": todo.status} for todo in todos]
        yield State("To-do list", todo_text(todos), facts={"content": listed, "itemCount": len(todos)})


def _permissions(state: AgentState) -> Iterator[State]:
    grants, rules = state.grants, state.grants.now.rules
    lines = [f"Mode: {grants.mode}."]
    lines += [f"Allowed by the user in this session: {rule}" for rule in grants.granted]
    lines += [f"Always needs approval: {rule}" for rule in rules.ask]
    lines += [f"Denied, do not try: {rule}" for rule in rules.deny]
    open_questions = (*grants.unanswered, *grants.pending)
    lines += [
        f"The user was asked about this and has not answered: {question}" for question in open_questions
    ]
    if len(lines) > 1 or grants.mode != "ask":
        yield State("Permissions", "\n".join(lines), facts={"mode": grants.mode})
