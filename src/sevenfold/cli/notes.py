"""`sevenfold notes`: shows the running notes of a session, and brings them up to date on request.

Notes are a file of their own. For a transcript of ours it is also recorded how far they cover it, so that they can
serve as a summary later; another tool's transcript is only read.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from contextlib import closing, nullcontext
from pathlib import Path

from sevenfold.cli import recorded_session as recorded_sessions
from sevenfold.cli import transcripts
from sevenfold.cli.output import ReportConsole, spinner
from sevenfold.cli.recorded_session import RecordedSession, is_offline
from sevenfold.cli.text import print_json
from sevenfold.conversation.flow import drive
from sevenfold.errors import Refused
from sevenfold.layers.compact.summary.draft import Failure
from sevenfold.layers.notes.layer import keeper_of
from sevenfold.layers.notes.policy import read
from sevenfold.ports import Client
from sevenfold.providers.registry import quick_client_for
from sevenfold.session.factory import OFFLINE_JOBS
from sevenfold.session.session import Session
from sevenfold.stores.jsonl.log import JsonlLog
from sevenfold.stores.jsonl.store import FileText

NO_NOTES = 1
"""The exit code if there are none."""


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = command.add_argument
    add("file", metavar="SESSION")
    add("--update", action="store_true")
    add("--model", default="", metavar="NAME")
    add("--json", action="store_true")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    recorded = recorded_sessions.inspect(transcripts.find(options.file), options.model)
    done = _update(recorded) if options.update else ""
    text = FileText(recorded.notes).read()
    sections = {name: words for name, words in read(text or "").sections.items() if words.strip()}
    if options.json:
        print_json(
            {
                "file": str(recorded.path),
                "session": recorded.session,
                "notes": str(recorded.notes),
                "exists": text is not None,
                "updated": done,
                "sections": sections,
            }
        )
    else:
        _print(recorded.notes, sections, text is not None, done)
    return 0 if text is not None else NO_NOTES


def bring_up_to_date(session: Session, client: Client) -> None:
    """Update the notes and write them down; raises `Refused`, with nothing written, if that fails."""
    keeper = keeper_of(session.conversation)
    if keeper is None:
        raise Refused("notes are switched off")
    # The offline model cannot tell the user's words in a request from what a program added; the record can.
    update = keeper.extract() if is_offline(client) else drive(keeper.update(), client)
    if isinstance(update, Failure):
        raise Refused(f"the notes could not be updated and are unchanged: {update.detail}")
    keeper.store(update)


def _update(recorded: RecordedSession) -> str:
    """Bring the notes up to date; returns a sentence about what was done."""
    client = quick_client_for(recorded.model, OFFLINE_JOBS)
    try:
        with (
            closing(JsonlLog.open(recorded.path)) if recorded.own else nullcontext() as log,
            recorded_sessions.open_draft(recorded, client, recorded.path) as (session, draft),
            spinner("taking notes"),
        ):
            keeper, newest = keeper_of(session.conversation), session.conversation.transcript.view.tip
            if keeper is not None and session.notes() is not None and keeper.covered() == newest:
                return "The notes already cover the whole session, so no model was asked."
            bring_up_to_date(session, client)
            if log is not None:
                recorded_sessions.append_draft(log, draft)
    finally:
        client.close()
    if is_offline(client):
        return (
            f"Updated offline: there is no key and no address for {recorded.model} in the environment, so the notes "
            "were extracted by code, without judgement and without cost."
        )
    return f"Updated by {recorded.model}."


def _print(path: Path, sections: Mapping[str, str], exists: bool, done: str) -> None:
    console = ReportConsole()
    for name, words in sections.items():
        console.print(name, style="bold cyan")
        console.print(words + "\n")
    if done:
        console.print(done, style="yellow")
    if exists:
        console.line(f"The notes are in {path}")
    else:
        console.print("This session has no notes yet; --update writes them.")
        console.line(f"They will be in {path}")
