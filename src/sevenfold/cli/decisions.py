"""`sevenfold decisions`: shows what a gateway in the mode ask proposes, and takes the user's decisions."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import msgspec
from msgspec import Struct

from sevenfold.agent.team.orders import Action
from sevenfold.agent.team.presence import TaskFile, TaskList
from sevenfold.agent.team.proposals import described
from sevenfold.cli.text import clean, one_line
from sevenfold.errors import InputError, Refused
from sevenfold.stores.folder import FileFolder
from sevenfold.stores.home import Project, SessionFiles, user_home
from sevenfold.stores.jsonl.lock import is_held
from sevenfold.stores.jsonl.mailbox import SqliteMailbox

PATIENCE = 20.0
"""Seconds a gateway has to carry out an order."""
ANSWERS: dict[str, Action] = {"y": "agree", "yes": "agree", "n": "decline", "no": "decline"}


class GatewaySession(Struct, frozen=True):
    """A session that a gateway has open, and what it shows of it."""

    files: SessionFiles
    listed: TaskList


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    command.add_argument("action", nargs="?", choices=("list", "agree", "decline", "undo"), default="list")
    command.add_argument("id", nargs="?", metavar="ID")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns 1 if the gateway did not respond, else 0."""
    sessions = list(_open_sessions())
    if options.action == "list":
        return _list(sessions)
    if not options.id:
        raise InputError(f"say which one: sevenfold decisions {options.action} ID")
    name = str(options.id)
    with_it = [session for session in sessions if name in _ids(session, options.action)]
    if not with_it:
        raise Refused(
            f"no session that a gateway has open has {one_line(name, 60)!r} to {options.action}; `sevenfold decisions` "
            "lists what waits, and `sevenfold inspect` undoes what a gateway did that has ended"
        )
    return _order(with_it[0], options.action, name)


def _open_sessions() -> Iterator[GatewaySession]:
    """The sessions that gateways have open and in which something waits or was done."""
    projects = user_home().root / "projects"
    for path in sorted(projects.glob(f"*/agents/*/{TaskFile.NAME}")):
        files = SessionFiles(path.parent.parent.parent, path.parent.name)
        try:
            listed = msgspec.json.decode(path.read_bytes(), type=TaskList)
        except (OSError, msgspec.DecodeError):
            continue
        if (listed.proposals or listed.done) and is_held(files.transcript):
            yield GatewaySession(files, listed)


def _ids(session: GatewaySession, action: str) -> Sequence[str]:
    if action == "undo":
        return [done.id for done in session.listed.done if done.id]
    return [proposal.id for proposal in session.listed.proposals]


def _list(sessions: Sequence[GatewaySession]) -> int:
    """Print what waits and what was done; in a terminal, ask about each proposal."""
    if not sessions:
        sys.stdout.write("Nothing waits for a decision.\n")
        return 0
    asks = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    code = 0
    for session in sessions:
        sys.stdout.write(f"{clean(session.files.name)}\n")
        for done in session.listed.done:
            undo = f"; undo: sevenfold decisions undo {done.id}" if done.id else ""
            sys.stdout.write(
                f"  done      {clean(one_line(done.what, 100))}, {done.tokens:,} tokens{clean(undo)}\n"
            )
        for proposal in session.listed.proposals:
            sys.stdout.write(f"  proposal  {clean(proposal.id)}  {clean(described(proposal))}\n")
            if asks:
                sys.stdout.write("            agree? [y/n, Enter for later] ")
                sys.stdout.flush()
                action = ANSWERS.get(sys.stdin.readline().strip().lower())
                code = max(code, _order(session, action, proposal.id) if action else 0)
    return code


def _order(session: GatewaySession, action: Action, name: str) -> int:
    """Order the gateway to do something, and print what became of it."""
    files = session.files
    with ExitStack() as opened:
        mailbox = SqliteMailbox(Project(files.folder).mailbox)
        opened.callback(mailbox.close)
        outcome = TaskFile(FileFolder(files.agent), files.name, mailbox).order(action, name, PATIENCE)
    if outcome is None:
        sys.stderr.write(f"The gateway did not answer within {PATIENCE:.0f} s; nothing was decided.\n")
        return 1
    if not outcome.done:
        raise Refused(outcome.text)
    sys.stdout.write(f"{clean(outcome.text)}\n")
    return 0
