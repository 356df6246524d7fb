"""`sevenfold profile`: finds the files, has them profiled, and shows the result in the form asked for."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import structs

from sevenfold.errors import InputError, UserError
from sevenfold.evals.profile import gather
from sevenfold.evals.profile.figures import Profile
from sevenfold.evals.profile.gather import Progress
from sevenfold.examples import coding_session

FAILED = 2
"""The exit code when there is nothing to show."""


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    if not options.paths and not options.example:
        raise InputError(
            "there is nothing to profile: name a transcript or a folder, or try sevenfold profile --example"
        )
    found = gather.find([*options.paths, *([coding_session()] if options.example else [])])
    with _progress(len(found.files)) as progress:
        profile = gather.profile(found, jobs=options.jobs, progress=progress)
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


def _cut(profile: Profile, top: int) -> Profile:
    """Leave the largest items that were asked for."""
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


def _print_json(profile: Profile) -> None:
    text = msgspec.json.format(msgspec.json.encode(profile), indent=2)
    sys.stdout.write(text.decode() + "\n")


def _print_report(profile: Profile, options: argparse.Namespace) -> None:
    from rich.console import Console

    from sevenfold.surfaces import terminal

    console = Console(highlight=False, markup=False, emoji=False)
    terminal.show(profile, console, top=options.top, limit=options.limit, each=options.each)
    if options.html:
        console.print(f" The page is in {options.html}", soft_wrap=True)


def _write_page(profile: Profile, target: Path) -> None:
    from sevenfold.surfaces import page

    try:
        target.write_text(page.render(profile), encoding="utf-8")
    except OSError as error:
        raise UserError(f"{target}: the page could not be written: {error.strerror or error}") from error
