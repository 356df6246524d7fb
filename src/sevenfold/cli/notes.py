"""`sevenfold notes`: shows the running notes of a session, and brings them up to date on request.

Notes are a file of their own. A transcript of ours also records how much of it they cover, so that they can serve as a
summary later; another tool's transcript is only read.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from sevenfold.archive import rewrite, stores
from sevenfold.archive.rewrite import RecordedSession
from sevenfold.cli import transcripts
from sevenfold.cli.output import ReportConsole, spinner
from sevenfold.cli.text import print_json
from sevenfold.conversation.flow import drive
from sevenfold.errors import Refused
from sevenfold.layers.compact.summary.draft import Failure
from sevenfold.layers.notes.layer import keeper_of
from sevenfold.layers.notes.policy import read
from sevenfold.ports import Client
from sevenfold.session.session import Session
from sevenfold.stores.jsonl.store import FileText

NO_NOTES = 1
"""The exit code if there are no notes."""


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = command.add_argument
    add("file", metavar="SESSION")
    add("--update", action="store_true")
    add("--model", default="", metavar="NAME")
    transcripts.add_store(command)
    add("--json", action="store_true")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    in_store = bool(options.store) or stores.by_url(options.file) is not None
    if in_store and options.update:
        raise Refused("the notes of a session in a store are updated by the program that keeps it there")
    path = transcripts.find(options.file, options.store)
    recorded = rewrite.inspect(path, options.model)
    file = stores.notes_of_copy(path) if in_store else recorded.notes
    done = _update(recorded) if options.update else ""
    text = FileText(file).read()
    sections = {
        name: section_text
        for name, section_text in read(text or "").sections.items()
        if section_text.strip()
    }
    if options.json:
        print_json(
            {
                "file": str(recorded.path),
                "session": recorded.session,
                "notes": str(file),
                "exists": text is not None,
                "updated": done,
                "sections": sections,
            }
        )
    else:
        _print(file, sections, text is not None, done)
    return 0 if text is not None else NO_NOTES


def bring_up_to_date(session: Session, client: Client, *, offline: bool) -> None:
    """Update the notes and store them; raises `Refused`, with nothing written, if that fails."""
    keeper = keeper_of(session.conversation)
    if keeper is None:
        raise Refused("notes are switched off")
    # The offline model cannot tell the user's words from text that a program added to a request; the log can.
    update = keeper.extract() if offline else drive(keeper.update(), client)
    if isinstance(update, Failure):
        raise Refused(f"the notes could not be updated and are unchanged: {update.detail}")
    keeper.store(update)


def _update(recorded: RecordedSession) -> str:
    """Bring the notes up to date; returns a sentence about what was done."""
    target = recorded.path if recorded.own else None
    with rewrite.edit(recorded, target) as (session, client), spinner("taking notes"):
        keeper = keeper_of(session.conversation)
        newest = session.conversation.transcript.view.tip
        if keeper is not None and session.notes() is not None and keeper.covered() == newest:
            return "The notes already cover the whole session, so no model was asked."
        bring_up_to_date(session, client, offline=recorded.offline)
    if recorded.offline:
        return (
            f"Updated offline: there is no key and no address for {recorded.model} in the environment, so the notes "
            "were extracted by code, without judgement and without cost."
        )
    return f"Updated by {recorded.model}."


def _print(path: Path, sections: Mapping[str, str], exists: bool, done: str) -> None:
    console = ReportConsole()
    for name, section_text in sections.items():
        console.print(name, style="bold cyan")
        console.print(section_text + "\n")
    if done:
        console.print(done, style="yellow")
    if exists:
        console.say(f"The notes are in {path}")
    else:
        console.print("This session has no notes yet; --update writes them.")
        console.say(f"They will be in {path}")
