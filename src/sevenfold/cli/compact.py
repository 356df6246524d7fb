"""`sevenfold compact`: summarises a recorded session, ours or another tool's, and shows what became of it.

Everything is done on a draft. Only a finished compaction is written: as a new file, which is the old one's bytes and
the boundary behind them, or to the end of the file itself. Hooks are not run: nobody is at work in the session.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from sevenfold.cli import transcripts
from sevenfold.errors import InputError, Refused

if TYPE_CHECKING:
    from sevenfold.cli.compact_report import About, Done, Planned
    from sevenfold.cli.recorded_session import Recorded
    from sevenfold.ports import Client
    from sevenfold.session.session import Session
    from sevenfold.stores.jsonl.draft import DraftLog

SOMETHING_LOST = 1
"""The exit code when a fact is neither in the context nor found by recall."""
JUST_NOW = 60
"""Seconds since the last change within which somebody may still be writing."""
ENGINES = ("provider", "fork", "plain", "extractive", "notes")

SUMMARY = "summarise a recorded session into a new file, and show what that kept"
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


def arguments(command: argparse.ArgumentParser) -> None:
    """What the command takes."""
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
    from sevenfold.cli import compact_report as report
    from sevenfold.cli.output import Report
    from sevenfold.cli.recorded_session import look
    from sevenfold.providers.registry import client_for

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
        report.print_planned(Report(), shown)
    else:
        report.print_done(Report(), shown, summary=options.show)
    lost = isinstance(shown, report.Done) and shown.did.score.total.lost
    return SOMETHING_LOST if lost else 0


def _planned(recorded: Recorded, client: Client, options: argparse.Namespace) -> Planned:
    from sevenfold.cli.compact_choices import places, wished
    from sevenfold.cli.compact_report import Planned
    from sevenfold.cli.recorded_session import engaged

    with engaged(recorded, client, recorded.path) as (session, _):
        asks = wished(session, recorded, client, options)
        seen = session.compact_preview(options.instructions, **asks.wish)
        return Planned(
            about=_about(recorded, client, session),
            preview=seen,
            left=asks.left,
            places=tuple(places(session)),
        )


def _done(recorded: Recorded, client: Client, options: argparse.Namespace) -> Done:
    """Compact, and write it down."""
    from sevenfold.cli import recorded_session as files

    if options.in_place:
        _warn_if_fresh(recorded.path)
        with files.held(recorded.path) as log:
            done, draft = _compacted(recorded, client, recorded.path, options)
            files.append(log, draft)
        return done
    target = options.output or recorded.path.with_name(f"{recorded.path.stem}-compacted.jsonl")
    if target.exists():
        raise files.exists(target)
    if not target.absolute().parent.is_dir():
        raise InputError(
            f"{target}: there is no such folder to write to; make it first, or name another file"
        )
    done, draft = _compacted(recorded, client, target, options)
    files.write_new(target, draft)
    return done


def _compacted(
    recorded: Recorded, client: Client, target: Path, options: argparse.Namespace
) -> tuple[Done, DraftLog]:
    from sevenfold.cli.compact_choices import wished
    from sevenfold.cli.compact_report import Done, tokens_by_category
    from sevenfold.cli.recorded_session import engaged, waiting

    with engaged(recorded, client, target, recall=True) as (session, draft), waiting("summarising"):
        about = _about(recorded, client, session)
        paid = session.gauge.usd
        asks = wished(session, recorded, client, options)
        before = tokens_by_category(session, own=recorded.own)
        did = session.compact(options.instructions, **asks.wish)
        if did is None:
            raise Refused(f"{recorded.path}: the compaction was refused, so nothing was written")
        done = Done(
            about=about,
            output=str(target),
            in_place=options.in_place,
            did=did,
            left=(*asks.left, *did.left),
            before=before,
            after=tokens_by_category(session, own=recorded.own),
            usd=0.0 if about.offline else _between(paid, session.gauge.usd),
            noted=asks.noted,
        )
        return done, draft


def _between(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def _about(recorded: Recorded, client: Client, session: Session) -> About:
    from sevenfold.cli.compact_report import About
    from sevenfold.cli.recorded_session import is_offline

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


def _print_json(fields: dict[str, object]) -> None:
    import msgspec

    text = msgspec.json.format(msgspec.json.encode(fields), indent=2)
    sys.stdout.write(text.decode() + "\n")
