"""How a running agent can be reached from outside: its tasks from other terminals, its messages, its socket.

An agent whose session is kept writes its list of tasks to one of its files in the store whenever the list changes. It
also carries out the user's orders to the session; see `sevenfold.agent.team.orders`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, NoReturn

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from sevenfold.agent.processes import GONE, LocalProcesses
from sevenfold.agent.team.messages import Correspondent, Outgoing, Post, due
from sevenfold.agent.team.orders import Action, OrderBox, OrderOutcome, OrderTaker, await_outcome
from sevenfold.agent.team.proposals import Done, PendingProposal
from sevenfold.conversation import edits
from sevenfold.conversation.tasks import STATES, Task, TaskRegistry
from sevenfold.errors import Refused, SevenfoldError, TranscriptError, TranscriptOvertaken
from sevenfold.events import Event, SteppedAside
from sevenfold.ports import AgentMessage, Mailbox
from sevenfold.stores.files import safe_name
from sevenfold.stores.home import user_home

if TYPE_CHECKING:
    from sevenfold.agent.assembly import Assembly
    from sevenfold.agent.team.roster import AgentEntry
    from sevenfold.agent.team.team import Team
    from sevenfold.ports import AgentMessage, Clock, Folder, Mailbox

TAKES_NONE = (
    "the program that has this session open takes no orders: only an agent of Sevenfold does, once it has begun "
    "to work"
)
MAIL_HAS_COME = "A message for you has come after you ended. Act on it."
BEAT = 1.0
"""Seconds between two checks of the task list and the mailbox."""
PLAN_SENT = (
    "The agent that started you decides about the plan. End your turn: you go on when its answer comes."
)


class TeamMail:
    """Addresses and wakes the agents around one team; a `sevenfold.agent.team.messages.Directory`."""

    def __init__(self, team: Team, mailbox: Mailbox | None, clock: Clock) -> None:
        self._team = team
        self._mailbox = mailbox
        self._clock = clock
        self._held: dict[str, float] = {}
        """When held messages become due, by the id of their recipient; the empty id is the team's own agent."""

    def everyone(self) -> list[Correspondent]:
        """Return the agents it may send messages to: its leader, the agents it has started, and its peers."""
        team = self._team
        parent = self._team.parent_team
        workers = [
            Correspondent(agent.id, agent.started.name, "worker") for agent in reversed(list(team.roster))
        ]
        if parent is None:
            return workers
        peers = [Correspondent(agent.id, agent.started.name) for agent in reversed(list(parent.roster))]
        leader = Correspondent(parent.address, "leader", "leader")
        return [leader, *workers, *(agent for agent in peers if agent.id != team.owner)]

    def notify(self, to: Correspondent, due: float = 0.0) -> str:
        """Notify an agent of a message: one that is waiting checks its messages, one that has ended continues."""
        team = self._team.parent_team if to.relation != "worker" else None
        team = team or self._team
        entry = None if to.relation == "leader" else team.roster.get(to.id)
        if due > self._clock.now():
            team.mail.hold(entry.id if entry else "", due)
        elif to.relation == "leader":
            team.wake_up()
        elif entry is not None:
            return team.mail.wake_or_restart(entry)
        return ""

    def hold(self, agent: str, due: float) -> None:
        """Remember that messages for an agent become due at this time."""
        self._held[agent] = min(due, self._held.get(agent, due))

    def release_held(self) -> None:
        """Notify agents, here and in the teams below, of held messages that have become due."""
        now = self._clock.now()
        for agent in [agent for agent, until in list(self._held.items()) if until <= now]:
            del self._held[agent]
            entry = self._team.roster.get(agent)
            if entry is None:
                self._team.wake_up()
            elif entry.status in ("working", "completed"):
                self.check_waiting(entry)
        for team in self._team.child_teams():
            team.mail.release_held()

    def wake_or_restart(self, entry: AgentEntry) -> str:
        """Make an agent process its messages, and restart it if it has ended; return what was done."""
        team = self._team
        team.wake_up_in(entry)
        if entry.ended is None:
            return "it is working"
        try:
            team.launch(team.continue_work(entry, MAIL_HAS_COME))
        except Refused as error:
            return f"it has ended, and goes on later: {error}"
        return "it had ended, and goes on"

    def check_waiting(self, entry: AgentEntry) -> None:
        """Make an agent process messages that are still waiting, such as those that arrived just before it ended."""
        with suppress(SevenfoldError):
            waiting = self._mailbox.waiting(entry.id) if self._mailbox else ()
            # Only for messages that are due: a held message would restart it again and again.
            if due(waiting, self._clock.now()):
                self.wake_or_restart(entry)
            elif waiting:
                self.hold(
                    entry.id, min(message.due for message in waiting if message.due > self._clock.now())
                )


class CommandTasks(Struct, frozen=True):
    """Background commands, as tasks."""

    processes: LocalProcesses

    def tasks(self) -> Iterator[Task]:
        """Yield the session's commands; those that were running when an earlier process ended count as failed."""
        for task in self.processes.tasks():
            ended = "" if task.code is None else f"exit code {task.code}"
            progress = GONE if task.state == "gone" else ended
            state = STATES[task.state]
            yield Task(task.id, "command", task.command, state, progress=progress, output=task.path)

    def kill(self, task: str) -> None:
        """End a command and everything it started."""
        self.processes.stop(task)


class AgentTasks(Struct, frozen=True):
    """The agents that an agent has started, as tasks, and the agents' own tasks as ``<agent>/<task>``."""

    team: Team

    def tasks(self) -> Iterator[Task]:
        """Yield every agent on the roster, each followed by its own tasks."""
        team = self.team
        for entry in team.roster:
            started = entry.started
            name = f"{entry.label}: {started.description}"
            at = datetime.fromisoformat(started.timestamp).timestamp() if started.timestamp else None
            progress = team.progress(entry)
            usd = team.usd(entry)
            output = team.output(entry)
            yield Task(entry.id, "agent", name, team.status(entry), at, progress, usd, output)
            for task in team.tasks_of(entry.id) or ():
                yield replace(task, id=f"{entry.id}/{task.id}")

    def kill(self, task: str) -> None:
        """Stop an agent, or a task of an agent."""
        agent, _, subtask = task.partition("/")
        if not subtask:
            self.team.stop(agent)
        elif (tasks := self.team.tasks_of(agent)) is not None:
            tasks.kill(subtask)


class TaskList(Struct, frozen=True):
    """The tasks of a session, as stored for other processes."""

    process: int
    tasks: tuple[Task, ...] = ()
    run: str = ""
    """This opening of the session, which orders must name; empty if it takes none."""
    outcomes: tuple[OrderOutcome, ...] = ()
    """What became of the newest orders."""
    proposals: tuple[PendingProposal, ...] = ()
    """What waits for the user's decision."""
    done: tuple[Done, ...] = ()
    """What was done to the context of a session that another program leads."""


class TaskFile:
    """The file with the task list of one session, through which other processes see the session."""

    NAME = "tasks.json"

    def __init__(self, files: Folder, name: str, mailbox: Mailbox) -> None:
        """``files`` are those of the session's agent, ``name`` is the session's safe name."""
        self.box = OrderBox(mailbox, name)
        self._files = files
        self._written: TaskList | None = None

    # -- for the agent --------------------------------------------------------------------------

    def update(self, tasks: TaskRegistry, tell: Callable[[Event], object], orders: OrderTaker) -> None:
        """Write the list if it has changed; errors are reported, never raised."""
        try:
            self.publish(TaskList(os.getpid(), tuple(tasks), orders.run, tuple(orders.outcomes)))
        except (SevenfoldError, OSError) as error:
            tell(SteppedAside(layer="tasks", reason=str(error), error=type(error).__name__))

    def publish(self, current: TaskList) -> None:
        """Write the list if it has changed; raises what the folder raises."""
        if current != self._written:
            self._files.write(self.NAME, msgspec.json.encode(current))
            self._written = current

    def remove(self) -> None:
        """Remove the file when the session is closed, because no task is running any more."""
        if self._written is not None:
            # Whoever took the session over keeps a list of their own there.
            with suppress(TranscriptOvertaken):
                self._files.remove(self.NAME)

    # -- for another process --------------------------------------------------------------------

    def read(self) -> TaskList | None:
        """Return the list, or None if there is none."""
        try:
            return msgspec.json.decode(self._files.read(self.NAME) or b"", type=TaskList)
        except (TranscriptError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None

    def order(self, action: Action, target: str, patience: float) -> OrderOutcome | None:
        """Order the session to do something, and wait; returns what became of it, None if it did not answer.

        Raises `Refused` if the process that has the session open takes no orders.
        """
        listed = self.read()
        if listed is None or not listed.run:
            raise Refused(TAKES_NONE)
        message = self.box.send(listed.run, action, target, patience)
        return await_outcome(self.outcome, self.box, message, patience)

    def outcome(self, order: str) -> OrderOutcome | None:
        """What became of an order; None if nothing has yet."""
        listed = self.read()
        outcomes = listed.outcomes if listed is not None else ()
        return next((outcome for outcome in outcomes if outcome.order == order), None)


class Presence:
    """Connects an agent with other agents, sessions and terminals."""

    def __init__(self, assembly: Assembly) -> None:
        self._assembly = assembly
        self._ends = ExitStack()
        self.busy: Callable[[], bool] = lambda: False
        """Whether the agent works, so that its conversation changes only between two of its requests."""
        self._orders: OrderTaker | None = None
        self._watching = False
        self._beating = threading.Lock()
        """Held while the task list is updated, so that no update happens after `close`."""
        tasks = assembly.conversation.tasks
        team = assembly.team
        tasks.sources.append(CommandTasks(assembly.state.processes))
        if team is not None:
            tasks.sources.append(AgentTasks(team))
            if team.post is not None and assembly.store.mailbox is not None:
                self._connect(team.post, assembly.store.mailbox, team.wake_up)

    def _connect(self, post: Post, mailbox: Mailbox, wake_up: Callable[[], None]) -> None:
        """Connect messages with the agent's plan approval and shutdown, and with other sessions."""
        # Imported here, because few agents have sub-agents.
        from sevenfold.agent.team import sockets

        assembly = self._assembly
        post.leave = lambda: assembly.loop.interrupt()
        post.control = self._obey
        post.by_socket = sockets.send
        if assembly.descent is not None and assembly.descent.definition.mode == "plan":
            assembly.state.plans.approve = partial(self._ask_leader, post)
            # Its parent's permissions still limit it, so this means whatever its parent may do.
            assembly.state.grants.after_planning = "autonomous"
        if assembly.descent is None and assembly.store.settings.current().message_socket:
            name = safe_name(f"{assembly.store.name}:{assembly.store.path or assembly.workspace}")
            path = user_home().root / "sockets" / f"{name}.sock"
            socket = sockets.MessageSocket(path, mailbox, post.address, wake_up)
            self._ends.callback(socket.close)
            post.by_socket = socket.send

    def _ask_leader(self, post: Post, plan: str) -> NoReturn:
        """Send a plan to the agent that started this one and raise `Refused`; the answer arrives as a message."""
        key = f"plan {sha256(plan.encode(errors='replace')).hexdigest()}"
        (receipt,) = post.send("leader", Outgoing(plan, "a plan that waits for your approval"), key)
        raise Refused(f"{PLAN_SENT} ({receipt})")

    def _obey(self, message: AgentMessage) -> None:
        """Act on a control message; see `Post.control`."""
        plans = self._assembly.state.plans
        if message.kind == "plan_approval_response" and message.approve and plans.planning:
            plans.leave()

    def watch(self) -> None:
        """Publish the background tasks to other terminals and accept orders to stop them, if the session is kept."""
        assembly = self._assembly
        team = self._assembly.team
        runner = assembly.conversation.background
        mailbox = assembly.store.mailbox
        files = assembly.home.files
        if self._watching or runner is None or mailbox is None or files is None:
            return
        self._watching = True
        file = TaskFile(files, assembly.home.name, mailbox)
        conversation = assembly.conversation
        orders = self._orders = OrderTaker(
            file.box,
            {"stop": self._stop_task, "undo": self._undo},
            partial(conversation.events.aside, "orders"),
        )

        def beat() -> None:
            with self._beating:
                if not self._watching:
                    return
                self._take_orders(orders, "stop")
            if "undo" in orders.due:
                with conversation.lock:
                    if self._watching and not self.busy():
                        self._take_orders(orders, "undo")
            with self._beating:
                if self._watching:
                    file.update(conversation.tasks, conversation.events.tell, orders)
            if team is not None:
                team.write_progress()
            if team is not None and team.post is not None:
                team.mail.release_held()
                if team.post.waiting:
                    # The message may be from another process, which cannot wake this one.
                    team.wake_up()

        self._ends.callback(file.remove)
        self._ends.callback(runner.every(BEAT, beat))

    def between_requests(self) -> None:
        """Carry out orders that change the conversation; called where a working agent's may change."""
        if self._orders is not None and "undo" in self._orders.due:
            self._take_orders(self._orders, "undo")

    def _take_orders(self, orders: OrderTaker, action: Action) -> None:
        try:
            orders.take(action)
        except (SevenfoldError, OSError) as error:
            self._assembly.conversation.events.aside("orders", str(error), error=error)

    def _stop_task(self, task: str) -> str:
        self._assembly.conversation.tasks.kill(task)
        return f"{task} is stopped"

    def _undo(self, decision: str) -> str:
        return f"{edits.undo(self._assembly.conversation, decision)} is undone"

    def close(self) -> None:
        """Disconnect the agent: stop the updates, remove the task file and close the socket."""
        with self._beating:
            self._watching = False
        self._ends.close()
