"""`sevenfold tasks`: lists or stops background tasks of the sessions in a folder, from any terminal."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

from sevenfold.agent.team.presence import TaskFile
from sevenfold.cli.text import add_folder, clean, duration, money, one_line
from sevenfold.cli.transcripts import add_store, opened_store
from sevenfold.conversation.tasks import Task
from sevenfold.errors import Refused, TranscriptLocked
from sevenfold.ports import Store
from sevenfold.stores.files import safe_name
from sevenfold.stores.folder import FileFolder
from sevenfold.stores.home import Project, user_home
from sevenfold.stores.jsonl.lock import FileLock
from sevenfold.stores.jsonl.mailbox import SqliteMailbox

MOST_LOOKED_AT = 200
"""How many sessions of a store, the newest first, are looked at."""
PATIENCE = 10.0
"""Seconds a session has to carry out an order."""


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    command.add_argument("action", nargs="?", choices=("list", "kill"), default="list")
    command.add_argument("task", nargs="?", metavar="ID")
    add_folder(command, exists=True)
    add_store(command)


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns 1 if the session did not respond to a kill, else 0."""
    with ExitStack() as opened:
        store = opened.enter_context(opened_store(options.store))
        if store is not None:
            open_tasks = list(_tasks_in(store))
        else:
            project = user_home().project(options.folder)
            mailbox = opened.enter_context(closing(SqliteMailbox(project.mailbox)))
            open_tasks = list(_tasks(project, mailbox))
        if options.action == "kill":
            return _kill(options.task, open_tasks)
    lines = [f"{one_line(session, 80)}:{task_line(task, time.time())}" for session, _, task in open_tasks]
    sys.stdout.write("".join(f"{clean(line)}\n" for line in lines) or "Nothing runs in the background.\n")
    return 0


OpenTask = tuple[str, TaskFile, Task]
"""The name of a session, the file in which it keeps its tasks, and one of the tasks."""


def _tasks(project: Project, mailbox: SqliteMailbox) -> Iterator[OpenTask]:
    """The tasks of the sessions that are open in some process."""
    for session in project.all_sessions():
        file = TaskFile(FileFolder(session.agent), session.name, mailbox)
        task_list = file.read()
        if task_list is None or not _is_open(session.transcript):
            continue
        for task in task_list.tasks:
            yield session.name, file, task


def _tasks_in(store: Store) -> Iterator[OpenTask]:
    """The tasks of the newest sessions of a store that are open in some process."""
    mailbox = store.mailbox()
    for info in store.sessions(limit=MOST_LOOKED_AT):
        file = TaskFile(store.agent_files(info.name), safe_name(info.name), mailbox)
        task_list = file.read()
        if task_list is None or not _is_open_in(store, info.name):
            continue
        for task in task_list.tasks:
            yield info.name, file, task


def _is_open_in(store: Store, session: str) -> bool:
    try:
        store.open(session).close()
    except TranscriptLocked:
        return True
    return False


def _is_open(transcript: Path) -> bool:
    try:
        FileLock(transcript).release()
    except TranscriptLocked:
        return True
    return False


def task_line(task: Task, now: float) -> str:
    """A task in one line."""
    states: list[str] = [task.state]
    if task.started is not None:
        states.append(f"started {duration(max(0.0, now - task.started))} ago")
    if task.usd is not None:
        states.append(money(task.usd))
    name = one_line(task.name, 80)
    description = f"{task.kind}: {name}" if name != task.kind else name
    return f"{task.id}  {', '.join(states)}  {description}{f' ({task.progress})' if task.progress else ''}"


def _kill(wanted: str | None, open_tasks: list[OpenTask]) -> int:
    """Stop the running task of this id, with or without its session's name."""
    if not wanted:
        raise Refused("say which task to stop: sevenfold tasks kill ID")
    running = {f"{session}:{task.id}": (file, task) for session, file, task in open_tasks if not task.over}
    fitting = {name: owned for name, owned in running.items() if wanted in (name, owned[1].id)}
    if len(fitting) != 1:
        names = ", ".join(fitting or running)
        problem = "several tasks are" if fitting else "no running task is"
        hint = f"; there are: {names}" if names else "; nothing runs in the background"
        raise Refused(f"{problem} called {wanted!r}{hint}")
    ((file, task),) = fitting.values()
    outcome = file.order("stop", task.id, PATIENCE)
    if outcome is None:
        wait = f"within {PATIENCE:.0f} s"
        sys.stderr.write(f"The session did not answer {wait}; {task.id} was not stopped.\n")
        return 1
    if not outcome.done:
        raise Refused(f"{task.id} was not stopped: {outcome.text}")
    sys.stdout.write(f"{outcome.text}.\n")
    return 0
