"""`sevenfold tasks`: lists or stops background tasks of the sessions in a folder, from any terminal."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from sevenfold.agent.team.presence import TaskFile
from sevenfold.cli.text import add_folder, clean, duration, money, one_line
from sevenfold.conversation.tasks import Task
from sevenfold.errors import Refused, TranscriptLocked
from sevenfold.stores.folder import FileFolder
from sevenfold.stores.home import Project, SessionFiles, user_home
from sevenfold.stores.jsonl.lock import FileLock
from sevenfold.stores.jsonl.mailbox import SqliteMailbox

PATIENCE = 10.0
"""Seconds a session has to carry out an order."""


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    command.add_argument("action", nargs="?", choices=("list", "kill"), default="list")
    command.add_argument("task", nargs="?", metavar="ID")
    add_folder(command, exists=True)


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns 1 if the session did not respond to a kill, else 0."""
    project = user_home().project(options.folder)
    with closing(SqliteMailbox(project.mailbox)) as mailbox:
        found_tasks = list(_tasks(project, mailbox))
        if options.action == "kill":
            return _kill(options.task, found_tasks)
    lines = [f"{session.name}:{task_line(task, time.time())}" for session, _, task in found_tasks]
    sys.stdout.write("".join(f"{clean(line)}\n" for line in lines) or "Nothing runs in the background.\n")
    return 0


FoundTask = tuple[SessionFiles, TaskFile, Task]
"""A session, the file in which it keeps its tasks, and one of the tasks."""


def _tasks(project: Project, mailbox: SqliteMailbox) -> Iterator[FoundTask]:
    """The tasks of the sessions that are open in some process."""
    for session in project.all_sessions():
        file = TaskFile(FileFolder(session.agent), session.name, mailbox)
        task_list = file.read()
        if task_list is None or not _is_open(session.transcript):
            continue
        for task in task_list.tasks:
            yield session, file, task


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


def _kill(wanted: str | None, found_tasks: list[FoundTask]) -> int:
    """Stop the running task of this id, with or without its session's name."""
    if not wanted:
        raise Refused("say which task to stop: sevenfold tasks kill ID")
    running = {
        f"{session.name}:{task.id}": (file, task) for session, file, task in found_tasks if not task.over
    }
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
