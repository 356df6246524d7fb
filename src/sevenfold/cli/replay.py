"""`sevenfold replay`: what recorded sessions would have cost, and kept, under other policies; a table, JSON or a page.

The page is `replay.html` with the figures inserted as JSON. It loads nothing, and its content security policy forbids
it to; names of files are inserted as data and shown as text.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from sevenfold import __version__
from sevenfold.archive.profile.files import FoundFiles, find
from sevenfold.cli import text, transcripts
from sevenfold.cli.text import plural
from sevenfold.errors import InputError, UserError
from sevenfold.lab import replay
from sevenfold.lab.examples import coding_session
from sevenfold.lab.replay.figures import Replayed, ReplayLimits
from sevenfold.lab.replay.files import ReplayReport
from sevenfold.lab.replay.provider import served
from sevenfold.stores.files import write_whole

EXCEEDED = 1
"""The exit code if a limit was exceeded."""
FAILED = 2
"""The exit code if no session could be replayed to its end."""
LEAST_WINDOW = 8_000
_PLACEHOLDER = "/*FIGURES*/"
STAND_IN = (
    "Summaries have the text that was recorded or, where none was, 4,000 tokens of text that says nothing: what a "
    "model might have kept is counted for nobody."
)
NOTES = (
    STAND_IN,
    "Looked up: Sevenfold's recall finds it; Claude Code's summary names the file with the whole conversation; the "
    "other policies leave nothing to look up.",
    "A rule is a sentence in which the user corrects something or says how something is to be done; it counts only "
    "in the context.",
)


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    command.add_argument("paths", nargs="*", metavar="SESSION")
    transcripts.add_store(command)
    command.add_argument("--policy", action="append", metavar="POLICY")
    command.add_argument("--model", default="", metavar="NAME")
    window = text.number(int, LEAST_WINDOW, f"a number of tokens from {LEAST_WINDOW:,} on")
    command.add_argument("--window", type=window, metavar="TOKENS")
    command.add_argument("--jobs", type=text.positive, metavar="N")
    command.add_argument("--example", action="store_true")
    add = command.add_argument_group("output").add_argument
    add("--json", action="store_true")
    add("--html", type=Path, metavar="FILE")
    add("--limit", type=text.positive, default=20, metavar="N")
    limit = command.add_argument_group("limits").add_argument
    limit("--max-cost", type=text.number(float, 0, "a number of dollars"), metavar="USD")
    share = text.number(float, 0, "a share from 0 to 1", math.nextafter(1.0, 2.0))
    limit("--min-retention", type=share, metavar="SHARE")
    limit("--no-unexpected-breaks", action="store_true")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    names = list(dict.fromkeys(options.policy or replay.STANDARD))
    policies = [replay.policy(name) for name in names]
    if options.model or options.window:
        check_model(options.model, options.window)
    found_files = _found(options)
    description = (
        f"{plural(len(found_files.files), 'session')}, {plural(len(policies), 'policy', 'policies')}"
    )
    with transcripts.watch("replaying", len(found_files.files) * len(policies), description) as step:
        report = replay.replay_files(
            found_files,
            policies,
            model=options.model,
            window=options.window,
            jobs=options.jobs,
            progress=lambda done, _: step(done),
        )
    for failure in report.errors:
        text.complain(failure.error)
    if options.html and report.replays:
        write_page(options.html, report)
    if options.json:
        text.print_json([replayed.figures for replayed in report.replays])
    elif report.replays:
        _print_report(report, options)
    for replayed in report.replays:
        if not replayed.completed:
            text.complain(failure_of(replayed))
    if not any(replayed.completed for replayed in report.replays):
        return FAILED
    limits = ReplayLimits(
        max_cost=options.max_cost,
        min_retention=options.min_retention,
        no_unexpected_breaks=options.no_unexpected_breaks,
    )
    exceeded: list[str] = []
    for total in report.totals:
        exceeded += [f"{total.policy}: {problem}" for problem in limits.exceeded(total)]
    if limits.any and report.errors:
        unread = plural(len(report.errors), "file")
        exceeded.append(f"{unread} could not be replayed, so no limit was checked there")
    for problem in exceeded:
        text.complain(f"limit exceeded: {problem}")
    return EXCEEDED if exceeded else 0


def check_model(model: str, window: int | None) -> None:
    """Raise `InputError` if a model cannot have this window."""
    if model:
        served(model, window)


def failure_of(replayed: Replayed) -> str:
    """In a sentence, how far a policy held a session."""
    return f"{replayed.figures.file}: {replayed.figures.policy} fails at {replayed.failure}"


def _found(options: argparse.Namespace) -> FoundFiles:
    """The files to replay; raises `InputError` if none is named."""
    if options.store:
        names = options.paths
        stored = [transcripts.find(name, options.store) for name in names] or transcripts.copies(
            options.store
        )
        return find(stored)
    named = [Path(name) if Path(name).is_dir() else transcripts.find(name) for name in options.paths]
    if options.example:
        named.append(coding_session())
    if not named:
        raise InputError("name a session or a folder of sessions, or try sevenfold replay --example")
    return find(named)


def _print_report(report: ReplayReport, options: argparse.Namespace) -> None:
    # Scripts that want JSON should not wait for rich.
    from sevenfold.cli.output import ReportConsole
    from sevenfold.cli.replay_terminal import show

    console = ReportConsole()
    show(report, console, limit=options.limit)
    if options.html:
        console.say(f" The page is in {options.html}")


def write_page(path: Path, report: ReplayReport) -> None:
    """Write the page in one step: an interrupt leaves the old file or the new one; raises `UserError`."""
    try:
        write_whole(path, page(report).encode())
    except OSError as error:
        raise UserError(f"{path}: cannot write the page: {error.strerror or error}") from error


MOST_POINTS = 300


def page(report: ReplayReport) -> str:
    """The HTML page of a report."""
    content = {
        "version": __version__,
        "totals": report.totals,
        "sessions": [thinned(replayed) for replayed in report.replays],
        "errors": [failure.error for failure in report.errors],
        "notes": NOTES,
    }
    # Inside a script element, only its end tag and the start of a comment could do harm; both begin with "<".
    figures = msgspec.json.encode(content).decode().replace("<", "\\u003c")
    template = Path(__file__).with_name("replay.html").read_text("utf-8")
    return template.replace(_PLACEHOLDER, figures)


def thinned(replayed: Replayed) -> Replayed:
    """The replay with as many points of its course as a chart can show, the last among them."""
    series = replayed.series
    step = max(1, math.ceil(len(series.request) / MOST_POINTS))

    def thin(values: Sequence[float | None]) -> tuple[float | None, ...]:
        return tuple(reversed(values[::-1][::step]))

    thinned = replace(
        series,
        request=thin(series.request),
        context_tokens=thin(series.context_tokens),
        cost_usd=thin(series.cost_usd),
    )
    return replace(replayed, series=thinned)
