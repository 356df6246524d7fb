"""`sevenfold notes`: shows the running notes of a session, and brings them up to date on request.

Notes are a file of their own. A transcript of ours is also told how far they cover it, so that they can serve as a
summary later; another tool's transcript is only read.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from sevenfold.cli import transcripts
from sevenfold.errors import Refused
from sevenfold.layers.notes.layer import keeper_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sevenfold.cli.recorded_session import Recorded
    from sevenfold.ports import Client
    from sevenfold.session.session import Session

NO_NOTES = 1
"""The exit code when there are none."""

SUMMARY = "show the running notes of a session, or bring them up to date"
HELP = """\
Show the notes of a recorded session: ten sections that say what it is about, where the work stands and what was
learnt. --update writes or completes them, with one request to the session's model.

Reads Claude Code transcripts and Sevenfold's own. Without a key for the model in the environment, everything runs
offline: the notes are then extracted by code."""

EXAMPLES = """\
examples:
  sevenfold notes session.jsonl               the notes, and where they are
  sevenfold notes session.jsonl --update      bring them up to date first
  sevenfold notes SESSION-ID --json           for scripts

exit code: 0 if there are notes, 1 if not, 2 after an error"""


def arguments(command: argparse.ArgumentParser) -> None:
    """What the command takes."""
    command.add_argument("file", metavar="FILE", help="a transcript, or the id of a session")
    command.add_argument("--update", action="store_true", help="bring the notes up to date first")
    command.add_argument(
        "--model", default="", metavar="NAME", help="who updates them (default: who answered last)"
    )
    command.add_argument("--json", action="store_true", help="print the notes as JSON")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    from sevenfold.cli.recorded_session import look
    from sevenfold.layers.notes.policy import read
    from sevenfold.stores.jsonl.notes import FileNotes

    recorded = look(transcripts.find(options.file), options.model)
    said = _updated(recorded) if options.update else ""
    text = FileNotes(recorded.notes).read()
    sections = {name: words for name, words in read(text or "").sections.items() if words.strip()}
    if options.json:
        _print_json(recorded, sections, text is not None, said)
    else:
        _print(recorded.notes, sections, text is not None, said)
    return 0 if text is not None else NO_NOTES


def bring_up_to_date(session: Session, client: Client) -> None:
    """Ask for an update of the notes and write them down; raises, with nothing written, if that fails."""
    from sevenfold.cli.recorded_session import is_offline
    from sevenfold.conversation.flow import drive
    from sevenfold.layers.compact.summary import Failure

    keeper = keeper_of(session.conversation)
    if keeper is None:
        raise Refused("notes are switched off")
    # A request does not tell the user's words from what a program put beside them; the record does.
    came = keeper.extract() if is_offline(client) else drive(keeper.update(), client)
    if isinstance(came, Failure):
        raise Refused(f"the notes could not be brought up to date, and are as they were: {came.detail}")
    keeper.store(came)


def _updated(recorded: Recorded) -> str:
    """Bring the notes up to date; returns what was done, in a sentence."""
    from contextlib import nullcontext

    from sevenfold.cli import recorded_session as files
    from sevenfold.providers.registry import client_for

    client = client_for(recorded.model)
    try:
        with (
            files.held(recorded.path) if recorded.own else nullcontext() as log,
            files.engaged(recorded, client, recorded.path) as (session, draft),
            files.waiting("taking notes"),
        ):
            if _current(session):
                return "They cover everything that was said, so nobody was asked."
            bring_up_to_date(session, client)
            if log is not None:
                files.append(log, draft)
    finally:
        client.close()
    if files.is_offline(client):
        return (
            f"Brought up to date offline: there is no key and no address for {recorded.model} in the environment, "
            "so they were extracted by code, without judgement, and nothing was paid."
        )
    return f"Brought up to date by {recorded.model}."


def _current(session: Session) -> bool:
    """Do the notes cover the newest record?"""
    keeper = keeper_of(session.conversation)
    newest = session.conversation.transcript.view.tip
    return keeper is not None and session.notes() is not None and keeper.covered() == newest


def _print_json(recorded: Recorded, sections: Mapping[str, str], there: bool, said: str) -> None:
    import msgspec

    fields = {
        "file": str(recorded.path),
        "session": recorded.session,
        "notes": str(recorded.notes),
        "exists": there,
        "updated": said,
        "sections": sections,
    }
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(fields), indent=2).decode() + "\n")


def _print(path: Path, sections: Mapping[str, str], there: bool, said: str) -> None:
    from sevenfold.cli.output import Report

    console = Report()
    for name, words in sections.items():
        console.print(name, style="bold cyan")
        console.print(transcripts.harmless(words) + "\n")
    if said:
        console.print(said, style="yellow")
    if there:
        console.print(f"The notes are in {path}", soft_wrap=True)
    else:
        console.print("There are no notes of this session yet; --update writes them.")
        console.print(f"They would be in {path}", soft_wrap=True)
