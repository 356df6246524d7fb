"""The tasks of an agent besides those of the engine, and how another terminal sees and stops them.

An agent that is kept writes its list to a file in its folder whenever that changes, and looks for orders to stop one of
them in the mailbox, where only the user's own commands put them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from sevenfold.agent.processes import GONE, LocalProcesses
from sevenfold.conversation.tasks import STATES, Task, TaskRegistry
from sevenfold.errors import SevenfoldError
from sevenfold.events import Event, SteppedAside
from sevenfold.ports import AgentMessage, Mailbox
from sevenfold.stores.files import private_folder, write_whole

if TYPE_CHECKING:
    from sevenfold.agent.team.team import Team

BEAT = 1.0
"""Seconds between two looks at the list and the mailbox."""
KILL = "kill"
USER = "user"
"""The sender of what the user's own commands put into the mailbox; no agent has this id."""


class CommandTasks:
    """Commands in the background, as tasks."""

    def __init__(self, processes: LocalProcesses) -> None:
        self._processes = processes

    def tasks(self) -> Iterator[Task]:
        """Those of the session; what ran when an earlier process ended has failed."""
        for one in self._processes.tasks():
            ended = "" if one.code is None else f"exit code {one.code}"
            progress = GONE if one.state == "gone" else ended
            yield Task(
                one.id, "command", one.command, STATES[one.state], progress=progress, output=one.path
            )

    def kill(self, task: str) -> None:
        """End a command with everything it started."""
        self._processes.stop(task)


class AgentTasks:
    """The agents that an agent has started, as tasks, and what runs for them: ``<agent>/<task>``."""

    def __init__(self, team: Team) -> None:
        self._team = team

    def tasks(self) -> Iterator[Task]:
        """Everyone on the roster."""
        team = self._team
        for entry in team.roster:
            started = entry.started
            name = f"{entry.label}: {started.description}"
            at = datetime.fromisoformat(started.timestamp).timestamp() if started.timestamp else None
            progress, usd, output = team.progress(entry), team.usd(entry), team.output(entry)
            yield Task(entry.id, "agent", name, team.status(entry), at, progress, usd, output)
            for below in team.tasks_of(entry.id) or ():
                yield replace(below, id=f"{entry.id}/{below.id}")

    def kill(self, task: str) -> None:
        """Stop an agent, or something that runs for one."""
        agent, _, below = task.partition("/")
        if not below:
            self._team.stop(agent)
        elif (tasks := self._team.tasks_of(agent)) is not None:
            tasks.kill(below)


class TaskList(Struct, frozen=True):
    """The tasks of a session, as another process reads them."""

    process: int
    tasks: tuple[Task, ...] = ()


class TaskFile:
    """The list of one session in its file, and the orders to stop something that wait in the mailbox."""

    def __init__(self, folder: Path, mailbox: Mailbox) -> None:
        """``folder`` is that of the session's agent."""
        self.path = folder / "tasks.json"
        self._mailbox = mailbox
        self._address = f"tasks:{folder.name}"
        self._written: TaskList | None = None

    # -- for the agent --------------------------------------------------------------------------

    def update(self, tasks: TaskRegistry, tell: Callable[[Event], object]) -> None:
        """Write the list if it has changed, and carry out orders; what goes wrong is reported, and never raised."""
        try:
            orders = self._mailbox.waiting(self._address)
            for order in orders:
                if (order.sender, order.kind) == (USER, KILL):
                    with suppress(SevenfoldError):  # it has ended, and is no longer listed
                        tasks.kill(order.text)
            if orders:
                self._mailbox.acknowledge(orders)
            now = TaskList(os.getpid(), tuple(tasks))
            if now != self._written and (now.tasks or self._written):
                private_folder(self.path.parent)
                write_whole(self.path, msgspec.json.encode(now))
                self._written = now
        except (SevenfoldError, OSError) as error:
            tell(SteppedAside(layer="tasks", reason=str(error), error=type(error).__name__))

    def remove(self) -> None:
        """The session is closed: nothing of it runs."""
        if self._written is not None:
            self.path.unlink(missing_ok=True)

    # -- for another process --------------------------------------------------------------------

    def read(self) -> TaskList | None:
        """The list; None if there is none."""
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=TaskList)
        except (OSError, msgspec.DecodeError):
            return None

    def order_kill(self, task: str, key: str) -> AgentMessage:
        """Have a task stopped; `carried_out` says when that was done."""
        order = AgentMessage(key, USER, self._address, task, kind=KILL)
        self._mailbox.send(order)
        return order

    def carried_out(self, order: AgentMessage) -> bool:
        """Whether the session has got an order."""
        return order not in self._mailbox.waiting(self._address)

    def withdraw(self, order: AgentMessage) -> None:
        """Take an order back."""
        self._mailbox.acknowledge([order])
