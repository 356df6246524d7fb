"""`sevenfold profile`: finds the files, has them profiled, and shows the result in the form asked for."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sevenfold.cli import transcripts
from sevenfold.cli.options import positive
from sevenfold.errors import InputError, UserError

if TYPE_CHECKING:
    from sevenfold.lab.profile.figures import ProfileReport
    from sevenfold.lab.profile.files import Progress

FAILED = 2
"""The exit code when there is nothing to show."""


SUMMARY = "show where the context and the money of recorded sessions went"
HELP = """\
Show where the context and the money of recorded agent sessions went: tokens by category, the size of the
context from call to call, compactions and clearings, where the prompt cache was lost and why, what it cost
and what it might have cost, the largest items, and reads that were repeated for nothing.

Reads Claude Code transcripts, Sevenfold's own, and Codex rollouts. Nothing leaves this machine."""

EXAMPLES = """\
examples:
  sevenfold profile --example                          a small session that comes with Sevenfold
  sevenfold profile session.jsonl                      one session
  sevenfold profile ~/.claude/projects                 every session of every project, with totals
  sevenfold profile ~/.codex/sessions --html page.html the same as a page with charts
  sevenfold profile session.jsonl --json | jq .total   for scripts

exit code: 0 if at least one file was profiled, else 2"""


def arguments(command: argparse.ArgumentParser) -> None:
    """What the command takes."""
    command.add_argument(
        "paths",
        nargs="*",
        type=Path,
        metavar="PATH",
        help="a transcript, the id of a session, or a folder: then every *.jsonl file in it and below",
    )
    command.add_argument(
        "--example", action="store_true", help="profile the session that comes with Sevenfold"
    )
    output = command.add_argument_group("output")
    output.add_argument(
        "--json", action="store_true", help="print the figures as JSON instead of the report"
    )
    output.add_argument(
        "--html", type=Path, metavar="FILE", help="also write one self-contained page with charts"
    )
    output.add_argument(
        "--top", type=positive, default=10, metavar="N", help="how many of the largest items (default: 10)"
    )
    output.add_argument(
        "--limit",
        type=positive,
        default=20,
        metavar="N",
        help="how many sessions in the table (default: 20)",
    )
    output.add_argument("--each", action="store_true", help="of several sessions, show each in full")
    command.add_argument(
        "--jobs", type=positive, metavar="N", help="how many processes (default: one for each processor)"
    )


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    from sevenfold.lab.examples import coding_session
    from sevenfold.lab.profile import files

    if not options.paths and not options.example:
        raise InputError(
            "there is nothing to profile: name a transcript or a folder, or try sevenfold profile --example"
        )
    named = [transcripts.find(str(path)) for path in options.paths]
    found = files.find([*named, *([coding_session()] if options.example else [])])
    with _progress(len(found.files)) as progress:
        profile = files.profile(found, jobs=options.jobs, progress=progress)
    profile = _cut(profile, options.top)
    if options.html and profile.sessions:
        _write_page(profile, options.html)
    if options.json:
        _print_json(profile)
    elif profile.sessions:
        _print_report(profile, options)
    if profile.sessions:
        return 0
    for failure in profile.errors:
        sys.stderr.write(f"sevenfold: {failure.error}\n")
    return FAILED


def _cut(profile: ProfileReport, top: int) -> ProfileReport:
    """Leave the largest items that were asked for."""
    from msgspec import structs

    return structs.replace(
        profile,
        sessions=[
            structs.replace(session, largest_items=session.largest_items[:top])
            for session in profile.sessions
        ],
        total=structs.replace(profile.total, largest_items=profile.total.largest_items[:top]),
    )


@contextmanager
def _progress(files: int) -> Iterator[Progress | None]:
    """A bar on the error stream, if somebody is there to see it."""
    if files < 2 or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("profiling"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, work: bar.update(task, completed=done, total=work)


def _print_json(profile: ProfileReport) -> None:
    import msgspec

    text = msgspec.json.format(msgspec.json.encode(profile), indent=2)
    sys.stdout.write(text.decode() + "\n")


def _print_report(profile: ProfileReport, options: argparse.Namespace) -> None:
    from sevenfold.cli import profile_terminal as terminal
    from sevenfold.cli.output import Report

    console = Report()
    terminal.show(profile, console, top=options.top, limit=options.limit, each=options.each)
    if options.html:
        console.print(f" The page is in {options.html}", soft_wrap=True)


def _write_page(profile: ProfileReport, target: Path) -> None:
    from sevenfold.cli import profile_page as page

    try:
        target.write_text(page.render(profile), encoding="utf-8")
    except OSError as error:
        raise UserError(f"{target}: the page could not be written: {error.strerror or error}") from error
