"""What the page can have done: undo a decision, decide a proposal, stop a task, forget what is remembered.

A session has one writer. If a process has it open, the page's wish goes to that process as an order of the user's,
which is sealed; see `sevenfold.agent.team.orders`. If nobody has, this process takes the session's lease, acts, and
lets go of it. Memory has a lease of its own, which everybody takes for each change. An inspector that an agent started
changes nothing.
"""

from __future__ import annotations

from contextlib import closing
from datetime import date
from pathlib import Path

from msgspec import Struct

from sevenfold.agent.team.orders import PATIENCE, Action
from sevenfold.agent.team.presence import TaskFile
from sevenfold.archive import rewrite
from sevenfold.clock import SystemClock
from sevenfold.doors.inspector.memory_view import memory_folders
from sevenfold.errors import Refused, TranscriptLocked
from sevenfold.memory.memory import Memory
from sevenfold.stores.folder import FileFolder
from sevenfold.stores.home import Project, SessionFiles, branch_of
from sevenfold.stores.jsonl.lock import is_held
from sevenfold.stores.jsonl.mailbox import SqliteMailbox
from sevenfold.stores.lineage import must_be_user


class Ordered(Struct, frozen=True):
    """What became of a wish."""

    done: bool
    text: str


class SessionOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """What a session is to do: the task to stop, the decision to undo, or the proposal to decide."""

    target: str


class MemoryOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """What memory is to do: the entry to forget, or the number of the change to undo."""

    scope: str
    name: str = ""
    number: int = 0


def why_not(path: Path, tool: str) -> str:
    """Why nothing of a session can be changed from here; empty if it can."""
    if tool == "Sevenfold":
        if branch_of(path) is None:
            return ""
        return "This is the log of a sub-agent. Only the session that started it writes to it."
    if not tool:
        return "This file is not among Sevenfold's own sessions, so the inspector only reads it."
    return (
        f"{tool} writes this session, and Sevenfold only reads it: nothing can be undone, stopped or put back from "
        "here. What left the context can be searched above, and sevenfold compact makes a new file from it."
    )


def undo(path: Path, decision: str) -> Ordered:
    """Undo a decision about the context of a session of our own."""
    if not is_held(path):
        try:
            return _undo_here(path, decision)
        except TranscriptLocked:
            pass  # another process opened it at this moment
    return _order(path, "undo", decision)


def _undo_here(path: Path, decision: str) -> Ordered:
    must_be_user("to undo something in a session")
    with rewrite.edit(rewrite.inspect(path), path) as (session, _):
        undone = session.undo(decision)
    return Ordered(True, f"{undone} is undone")


def stop(path: Path, task: str) -> Ordered:
    """Stop a background task of a session of our own."""
    if not is_held(path):
        raise Refused("no process has this session open, so nothing of it runs any more")
    return _order(path, "stop", task)


def agree(path: Path, proposal: str) -> Ordered:
    """Agree to what a gateway proposes for a session that it has open."""
    return _decided(path, "agree", proposal)


def decline(path: Path, proposal: str) -> Ordered:
    """Decline what a gateway proposes for a session that it has open."""
    return _decided(path, "decline", proposal)


def _decided(path: Path, action: Action, proposal: str) -> Ordered:
    if not is_held(path):
        raise Refused("no gateway has this session open any more, so nothing of it waits for a decision")
    return _order(path, action, proposal)


def _order(path: Path, action: Action, target: str) -> Ordered:
    files = SessionFiles(path.parent, path.stem)
    with closing(SqliteMailbox(Project(path.parent).mailbox)) as mailbox:
        outcome = TaskFile(FileFolder(files.agent), files.name, mailbox).order(action, target, PATIENCE)
    if outcome is None:
        return Ordered(
            False,
            f"The session did not get to it within {PATIENCE:.0f} s, and the order was taken back: it is in the middle "
            "of a request or a tool, or its process hangs. Try again when it waits for you.",
        )
    return Ordered(outcome.done, outcome.text)


def forget(order: MemoryOrder) -> Ordered:
    """Forget an entry of memory; it can be undone."""
    must_be_user("to forget what is remembered")
    number = _memory(order.scope).forget(order.name).number
    return Ordered(True, f"{order.name} is forgotten; undo change {number} to bring it back")


def undo_change(order: MemoryOrder) -> Ordered:
    """Undo a change of memory."""
    must_be_user("to undo a change of memory")
    memory = _memory(order.scope)
    number = memory.undo(order.number).number
    return Ordered(True, f"{memory.change(number).reason}")


def _memory(scope: str) -> Memory:
    for folder in memory_folders():
        if folder.key == scope:
            return Memory(FileFolder(folder.path), SystemClock(), date.today().isoformat)
    raise Refused("there is no such memory on this machine any more")
