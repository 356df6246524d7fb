"""`sevenfold compact`: summarises a recorded session, ours or another tool's, and shows what became of it.

Everything is done on a draft. Only a finished compaction is written: as a new file, which is the old one's bytes and
the boundary behind them, or to the end of the file itself. Hooks are not run: nobody is at work in the session.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sevenfold.errors import InputError, Refused
from sevenfold.surfaces import transcripts

if TYPE_CHECKING:
    from sevenfold.adapters.drafted import DraftedLog
    from sevenfold.ports import Client
    from sevenfold.runtime.compaction.wish import Engine, Left
    from sevenfold.surfaces.compact_report import About, Done, Place, Planned
    from sevenfold.surfaces.recorded import Recorded
    from sevenfold.wiring.session import Session, Wishes

SOMETHING_LOST = 1
"""The exit code when a fact is neither in the context nor found by recall."""
JUST_NOW = 60
"""Seconds since the last change within which somebody may still be writing."""
MOST_PLACES = 8
SHOWN_OF_ID = 8
ENGINES = ("provider", "fork", "plain", "extractive", "notes")

HELP = """\
Summarise a recorded session, and show what that kept. The result is a new file: all the old one's bytes, and behind
them a boundary, the summary and what goes with it, in the shape other tools also read. Everything before stays in it,
and recall finds it there.

Reads Claude Code transcripts and Sevenfold's own. Without a key for the model in the environment, everything runs
offline: the summary is then extracted by code."""

EXAMPLES = """\
examples:
  sevenfold compact session.jsonl --dry-run               what would be done, its cost, and where it could be cut
  sevenfold compact session.jsonl                         writes session-compacted.jsonl
  sevenfold compact session.jsonl --up-to 1f2e --show     only what is before a record; ids may be cut short
  sevenfold compact session.jsonl --in-place --instructions "keep the SQL"

exit code: 0 if nothing is lost, 1 if a fact is neither in the context nor found by recall, 2 after an error"""


def add(commands: Any) -> None:
    """Describe the command to the command line."""
    command = commands.add_parser(
        "compact",
        help="summarise a recorded session into a new file, and show what that kept",
        description=HELP,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("file", metavar="FILE", help="a transcript, or the id of a session")
    part = command.add_mutually_exclusive_group()
    part.add_argument(
        "--from", dest="start", metavar="ID", help="summarise this record and what follows it"
    )
    part.add_argument("--up-to", metavar="ID", help="summarise what is before this record")
    command.add_argument(
        "--instructions", default="", metavar="TEXT", help="what the summary is to look after"
    )
    command.add_argument("--engine", choices=ENGINES, help="only this way to a summary")
    command.add_argument(
        "--model", default="", metavar="NAME", help="who goes on (default: who answered last)"
    )
    where = command.add_mutually_exclusive_group()
    where.add_argument(
        "--output", type=Path, metavar="FILE", help="where to (default: FILE-compacted.jsonl)"
    )
    where.add_argument(
        "--in-place", action="store_true", help="append to FILE, if nobody else is writing it"
    )
    where.add_argument("--dry-run", action="store_true", help="show what would be done, and do nothing")
    command.add_argument("--show", action="store_true", help="show the summary as well")
    command.add_argument("--json", action="store_true", help="print everything as JSON")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    from sevenfold.surfaces import compact_report as report
    from sevenfold.surfaces.recorded import look
    from sevenfold.wiring.clients import client_for

    path = transcripts.find(options.file)
    recorded = look(path, options.model)
    client = client_for(recorded.model)
    try:
        shown = _planned(recorded, client, options) if options.dry_run else _done(recorded, client, options)
    finally:
        client.close()
    if options.json:
        _print_json(report.as_json(shown))
    elif isinstance(shown, report.Planned):
        report.print_planned(_console(), shown)
    else:
        report.print_done(_console(), shown, summary=options.show)
    lost = isinstance(shown, report.Done) and shown.did.score.total.lost
    return SOMETHING_LOST if lost else 0


def _planned(recorded: Recorded, client: Client, options: argparse.Namespace) -> Planned:
    from sevenfold.surfaces.compact_report import Planned
    from sevenfold.surfaces.recorded import engaged

    with engaged(recorded, client, recorded.path) as (session, _):
        wish, left = _wish(session, recorded, client, options)
        seen = session.preview(options.instructions, **wish)
        return Planned(
            about=_about(recorded, client, session), preview=seen, left=left, places=tuple(_places(session))
        )


def _done(recorded: Recorded, client: Client, options: argparse.Namespace) -> Done:
    """Compact, and write it down."""
    from sevenfold.surfaces import recorded as files

    if options.in_place:
        _warn_if_fresh(recorded.path)
        with files.held(recorded.path) as log:
            done, draft = _compacted(recorded, client, recorded.path, options)
            files.append(log, draft)
        return done
    target = options.output or recorded.path.with_name(f"{recorded.path.stem}-compacted.jsonl")
    if target.exists():
        raise files.exists(target)
    done, draft = _compacted(recorded, client, target, options)
    files.write_new(target, draft)
    return done


def _compacted(
    recorded: Recorded, client: Client, target: Path, options: argparse.Namespace
) -> tuple[Done, DraftedLog]:
    from sevenfold.surfaces.compact_report import Done, tokens_by_category
    from sevenfold.surfaces.recorded import engaged, waiting

    with engaged(recorded, client, target) as (session, draft), waiting("summarising"):
        about = _about(recorded, client, session)
        wish, left = _wish(session, recorded, client, options)
        before = tokens_by_category(session, own=recorded.own)
        did = session.compact(options.instructions, **wish)
        if did is None:
            raise Refused(f"{recorded.path}: the compaction was refused, so nothing was written")
        done = Done(
            about=about,
            output=str(target),
            in_place=options.in_place,
            did=did,
            left=(*left, *did.left),
            before=before,
            after=tokens_by_category(session, own=recorded.own),
            usd=0.0 if about.offline else did.usd,
        )
        return done, draft


def _wish(
    session: Session, recorded: Recorded, client: Client, options: argparse.Namespace
) -> tuple[Wishes, tuple[Left, ...]]:
    """What is asked of the engine, and which ways to a summary are left out here already."""
    from sevenfold.wiring.session import Wishes

    wish = Wishes()
    if given := options.start or options.up_to:
        wish["span"] = "from" if options.start else "up_to"
        wish["record"] = _record(session, given)
    if options.engine is not None:
        wish["engine"] = options.engine
        if options.engine == "notes":
            _notes_must_serve(session, client, options)
        return wish, ()
    chosen, left = _first_choice(session, recorded, client, options)
    if chosen is not None:
        wish["engine"] = chosen
    return wish, left


def _first_choice(
    session: Session, recorded: Recorded, client: Client, options: argparse.Namespace
) -> tuple[Engine | None, tuple[Left, ...]]:
    """The engine for a session nobody is at work in; None leaves it to the session, which knows what is cached."""
    from sevenfold.runtime.compaction.wish import Left
    from sevenfold.surfaces.recorded import is_offline

    if not is_offline(client):
        if recorded.own:
            return None, ()
        reason = "system prompt and tools are not in the file, so no cache would be read"
        return "plain", (Left("provider", reason), Left("fork", reason))
    keeper = session.engine.notes
    partly = options.start or options.up_to or options.instructions
    if (
        keeper is not None
        and not partly
        and not isinstance(keeper.serve(session.core.window.threshold), str)
    ):
        return "notes", ()
    names: tuple[Engine, ...] = ("provider", "fork", "plain")
    return "extractive", tuple(Left(name, "there is no model to ask") for name in names)


def _notes_must_serve(session: Session, client: Client, options: argparse.Namespace) -> None:
    """Notes are used as they are; where nobody knows what they cover, they are brought up to date first."""
    from sevenfold.surfaces.notes_command import bring_up_to_date

    if options.start or options.up_to or options.instructions:
        raise InputError(
            "notes stand for the whole conversation and take no instructions; use another engine"
        )
    keeper = session.engine.notes
    if keeper is None:
        raise Refused("notes are switched off")
    if keeper.covered() is None and not options.dry_run:
        bring_up_to_date(session, client)
    served = keeper.serve(session.core.window.threshold)
    if isinstance(served, str):
        raise Refused(f"the notes cannot be the summary: {served}; use another engine")


def _record(session: Session, given: str) -> str:
    """The record in view whose id begins so."""
    ids = [item.said.uuid for item in session.core.transcript.view.items]
    found = [given] if given in ids else [uuid for uuid in ids if uuid.startswith(given)]
    if not found:
        raise InputError(
            f"{given}: no record in view has an id that begins so; --dry-run lists places, sevenfold recall finds more"
        )
    if len(found) > 1:
        raise InputError(
            f"{given}: {len(found)} records have an id that begins so, among them {found[0]} and {found[1]}; "
            "give more of it"
        )
    return found[0]


def _places(session: Session) -> list[Place]:
    """The newest messages of the user, each of which can be cut at."""
    from sevenfold.record import blocks
    from sevenfold.surfaces.compact_report import Place

    view, found = session.core.transcript.view, list[Place]()
    ids = [item.said.uuid for item in view.items]
    for item in reversed(view.items[1:]):
        said = item.said
        plain = said.role == "user" and not (said.answers or said.meta or said.summary or said.attachment)
        if not plain or not view.begins_round(said.uuid):
            continue
        words = " ".join(" ".join(filter(None, map(blocks.words_of, said.blocks))).split())
        short = next(
            said.uuid[:size]
            for size in range(SHOWN_OF_ID, len(said.uuid) + SHOWN_OF_ID + 1)
            if sum(uuid.startswith(said.uuid[:size]) for uuid in ids) == 1
        )
        found.append(Place(short, words[:200]))
        if len(found) == MOST_PLACES:
            break
    return found[::-1]


def _about(recorded: Recorded, client: Client, session: Session) -> About:
    from sevenfold.surfaces.compact_report import About
    from sevenfold.surfaces.recorded import is_offline

    return About(
        file=str(recorded.path),
        model=recorded.model,
        note=session.core.profile.note,
        own=recorded.own,
        offline=is_offline(client),
        records=recorded.records,
    )


def _warn_if_fresh(path: Path) -> None:
    ago = time.time() - path.stat().st_mtime
    if ago < JUST_NOW:
        sys.stderr.write(
            f"sevenfold: {path} changed {max(0, ago):.0f} s ago. If another program has this session open, end it "
            "first: it does not know of the compaction and would go on beside it.\n"
        )


def _console() -> Any:
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def _print_json(fields: dict[str, object]) -> None:
    import msgspec

    text = msgspec.json.format(msgspec.json.encode(fields), indent=2)
    sys.stdout.write(text.decode() + "\n")
