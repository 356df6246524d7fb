"""`sevenfold tasks`: what runs in the background of the sessions in a folder, from any terminal."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from uuid import uuid4

from sevenfold.agent.team.presence import TaskFile
from sevenfold.cli.text import add_folder, clean, duration, money, one_line
from sevenfold.conversation.tasks import Task
from sevenfold.errors import Refused, TranscriptLocked
from sevenfold.stores.home import Project, SessionFiles, user_home
from sevenfold.stores.jsonl.lock import FileLock
from sevenfold.stores.jsonl.mailbox import SqliteMailbox

PATIENCE = 10.0
"""Seconds a session gets to carry out an order."""


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    command.add_argument("action", nargs="?", choices=("list", "kill"), default="list")
    command.add_argument("task", nargs="?", metavar="ID")
    add_folder(command, exists=True)


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns 1 if a session did not answer."""
    project = user_home().project(options.folder)
    with closing(SqliteMailbox(project.mailbox)) as mailbox:
        found = [
            (session, file, task) for session, file in _live(project, mailbox) for task in _tasks(file)
        ]
        if options.action == "kill":
            return _kill(options.task, found)
    lines = [f"{session.name}:{task_line(task, time.time())}" for session, _, task in found]
    sys.stdout.write("".join(f"{clean(line)}\n" for line in lines) or "Nothing runs in the background.\n")
    return 0


def _live(project: Project, mailbox: SqliteMailbox) -> Iterator[tuple[SessionFiles, TaskFile]]:
    """The sessions that a process has open and that have tasks."""
    for session in project.all_sessions():
        file = TaskFile(session.agent, mailbox)
        if file.path.exists() and _is_open(session.transcript):
            yield session, file


def _is_open(transcript: Path) -> bool:
    try:
        FileLock(transcript).release()
    except TranscriptLocked:
        return True
    return False


def _tasks(file: TaskFile) -> tuple[Task, ...]:
    found = file.read()
    return found.tasks if found is not None else ()


def task_line(task: Task, now: float) -> str:
    """A task in one line."""
    parts: list[str] = [task.state]
    if task.started is not None:
        parts.append(f"started {duration(max(0.0, now - task.started))} ago")
    if task.usd is not None:
        parts.append(money(task.usd))
    name = one_line(task.name, 80)
    what = f"{task.kind}: {name}" if name != task.kind else name
    return f"{task.id}  {', '.join(parts)}  {what}{f' ({task.progress})' if task.progress else ''}"


def _kill(wanted: str | None, found: list[tuple[SessionFiles, TaskFile, Task]]) -> int:
    if not wanted:
        raise Refused("say which task to stop: sevenfold tasks kill ID")
    fitting = [
        one for one in found if wanted in (one[2].id, f"{one[0].name}:{one[2].id}") and not one[2].over
    ]
    if len(fitting) != 1:
        running = fitting or [one for one in found if not one[2].over]
        names = ", ".join(f"{session.name}:{task.id}" for session, _, task in running)
        how = "several tasks are" if fitting else "no running task is"
        others = f"; there are: {names}" if names else "; nothing runs in the background"
        raise Refused(f"{how} called {wanted!r}{others}")
    _, file, task = fitting[0]
    order = file.order_kill(task.id, uuid4().hex)
    until = time.monotonic() + PATIENCE
    while not file.carried_out(order):
        if time.monotonic() > until:
            file.withdraw(order)
            sys.stderr.write(
                f"The session did not answer within {PATIENCE:.0f} s; {task.id} was not stopped.\n"
            )
            return 1
        time.sleep(0.05)
    sys.stdout.write(f"{task.id} is stopped.\n")
    return 0
