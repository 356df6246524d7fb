"""`sevenfold profile`: where the context and the money of recorded sessions went, as a report, JSON or an HTML page.

The page is `page.html` with the figures inserted as JSON. It loads nothing, and its content security policy forbids it
to; text from transcripts is inserted as data and shown as text.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct, structs

from sevenfold import __version__
from sevenfold.archive import sessions as archived
from sevenfold.archive.profile import cache, figures, files
from sevenfold.archive.profile.advice import advice, advice_in_total
from sevenfold.archive.profile.books import seconds
from sevenfold.archive.profile.figures import Point, ProfileReport, ProfileTotal, SessionProfile, Shrinking
from sevenfold.archive.thinning import thinned
from sevenfold.cli import text, transcripts
from sevenfold.cli.text import category, cause, count, money, plural, wording
from sevenfold.errors import InputError, UserError
from sevenfold.lab.examples import coding_session

FAILED = 2
"""The exit code if there is nothing to show."""
F = TypeVar("F", SessionProfile, ProfileTotal)


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    command.add_argument("paths", nargs="*", metavar="SESSION")
    transcripts.add_store(command)
    command.add_argument("--by", choices=tuple(figures.GROUPS))
    command.add_argument("--since", type=_since, metavar="WHEN")
    command.add_argument("--example", action="store_true")
    add = command.add_argument_group("output").add_argument
    add("--json", action="store_true")
    add("--html", type=Path, metavar="FILE")
    add("--top", type=text.positive, default=10, metavar="N")
    add("--limit", type=text.positive, default=20, metavar="N")
    add("--each", action="store_true")
    command.add_argument("--jobs", type=text.positive, metavar="N")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    found_files = files.find(_named(options))
    since = options.since and options.since.timestamp()
    size = sum(file.stat().st_size for file in found_files.files if file.is_file())
    description = f"{plural(len(found_files.files), 'file')}, {size / 1e6:,.0f} MB"
    with transcripts.watch("profiling", size, description) as step:
        profile = files.profile(
            found_files, since=since, jobs=options.jobs, progress=lambda done, _: step(done)
        )
    profile = structs.replace(
        keep_largest(profile, options.top),
        by=options.by,
        groups=figures.groups(profile.sessions, options.by) if options.by else [],
        since=options.since and options.since.isoformat(),
    )
    if options.html and profile.sessions:
        try:
            options.html.write_text(page(profile), encoding="utf-8")
        except OSError as error:
            reason = error.strerror or error
            raise UserError(f"{options.html}: cannot write the page: {reason}") from error
    if options.json:
        text.print_json(profile)
    elif profile.sessions:
        _print_report(profile, options)
    if profile.sessions:
        return 0
    for failure in profile.errors:
        text.complain(f"{failure.error}")
    if since and not profile.errors:
        text.complain(f"no calls since {options.since:%Y-%m-%d %H:%M}; choose an earlier --since")
    return FAILED


def _named(options: argparse.Namespace) -> list[Path]:
    """The files and folders to profile: those named, or all there are; raises `InputError` if there are none."""
    if options.store:
        if not options.paths:
            return transcripts.copies(options.store)
        return [transcripts.find(name, options.store) for name in options.paths]
    named = [Path(name) if Path(name).is_dir() else transcripts.find(name) for name in options.paths]
    if options.example:
        named.append(coding_session())
    if named or (there := archived.everything()):
        return named or there
    advice = "name a transcript or a folder, or try sevenfold profile --example"
    raise InputError(f"no sessions in {archived.places()}; {advice}")


def _since(text_given: str) -> datetime:
    """The time given by an option: a date, a date and time, or a number of days before now."""
    if re.fullmatch(r"\d{1,5}d", text_given):
        return datetime.now().astimezone() - timedelta(days=int(text_given[:-1]))
    try:
        return datetime.fromisoformat(text_given).astimezone()
    except (ValueError, OverflowError, OSError):
        raise argparse.ArgumentTypeError(
            f"{text_given!r} is not a date such as 2026-11-01, or days such as 7d"
        ) from None


def keep_largest(profile: ProfileReport, top: int) -> ProfileReport:
    """The profile with only the ``top`` largest items of each session and of the total."""

    def cut(of: F) -> F:
        return structs.replace(of, largest_items=of.largest_items[:top])

    return structs.replace(profile, sessions=[*map(cut, profile.sessions)], total=cut(profile.total))


def _print_report(profile: ProfileReport, options: argparse.Namespace) -> None:
    # Scripts that want JSON should not wait for rich.
    from sevenfold.cli.output import ReportConsole
    from sevenfold.cli.profile_terminal import show

    console = ReportConsole()
    show(profile, console, limit=options.limit, details=options.each)
    if options.html:
        console.say(f" The page is in {options.html}")


# -- what the report and the page both show ---------------------------------------------------

COMPACTION = "compaction"
CLEARING = "clearing"
UNRECORDED = "shrank unrecorded"
LOST = "cache lost"
SIGNS = {COMPACTION: "C", CLEARING: "c", UNRECORDED: "u", LOST: "!"}
"""The signs for chart marks in a terminal, by kind."""


class ChartMark(Struct, frozen=True, array_like=True):
    """A mark in the chart of a session's context; in the page's JSON, a list of the three fields."""

    kind: str
    place: int
    """The index of the prompt in the main conversation, from 0."""
    text: str


def main_sizes(session: SessionProfile) -> list[int]:
    """The sizes in tokens of the main conversation's prompts."""
    return [point.tokens for point in session.context_over_time if not point.lane]


def chart_marks(session: SessionProfile) -> Iterator[ChartMark]:
    """Marks where the context shrank and where the cache was lost; the most important come last.

    Charts show only the main conversation, so its requests are counted, not all calls of the session.
    """
    last = len(main_sizes(session)) - 1
    for broken in session.cache_breaks:
        if broken.lane == 0 and broken.cause not in (cache.COMPACTION, cache.CLEARING):
            cost = "" if broken.cost_usd is None else f", {money(broken.cost_usd)}"
            description = f"{cause(broken.cause)}: {count(broken.tokens)} tokens charged again{cost}"
            yield ChartMark(LOST, min(last, broken.request - 1), description)
    for kind, description, event in shrunk(session):
        if event.lane == 0:
            sizes = map(_count_or_unknown, (event.tokens_before, event.tokens_after))
            yield ChartMark(kind, min(last, event.request), f"{description}: {' → '.join(sizes)} tokens")


def _count_or_unknown(tokens: int | None) -> str:
    return "?" if tokens is None else count(tokens)


def shrunk(session: SessionProfile) -> Iterator[tuple[str, str, Shrinking]]:
    """Each time the context shrank: the kind, a description, and the event."""
    for event in session.unrecorded_events:
        yield UNRECORDED, "shrank without a record", event
    for event in session.clearing_events:
        yield CLEARING, f"{plural(event.results, 'result')} cleared", event
    for event in session.compaction_events:
        yield COMPACTION, f"compaction ({event.trigger})", event


def cache_loss(of: SessionProfile | ProfileTotal) -> float | None:
    """What all cache breaks together cost; None if the session's cost is unknown."""
    costs = [broken.cost_usd for broken in of.cache_breaks if broken.cost_usd is not None]
    return None if of.cost_usd is None else sum(costs)


def span(started: str | None, ended: str | None) -> str:
    """When a session started and how long it lasted; empty if that is unknown."""
    first = text.parse_time(started)
    begun = seconds(started or "")
    over = seconds(ended or "")
    if first is None or begun is None or over is None:
        return ""
    return f"{first:%Y-%m-%d %H:%M}, {text.duration(max(0.0, over - begun))}"


def remarks(of: SessionProfile | ProfileTotal) -> Iterator[str]:
    """Sentences about what cost money without need, repeated reads, estimates, and problems in the files."""
    if isinstance(of, SessionProfile):
        yield from advice(of, money)
    else:
        yield from advice_in_total(of.cache_breaks, money)
    reads = of.repeated_reads
    growth = of.growth
    if reads.reads:
        again = plural(reads.reads, "file was", "files were")
        yield f"{again} read again, unchanged, while still in context: {count(reads.tokens)} tokens wasted."
    if reads.after_loss:
        again = plural(reads.after_loss, "unchanged file")
        yield f"{again} had to be read again after the first copy had left the context."
    if growth.chars4_share is not None and growth.estimate_share is not None:
        yield (
            f"Four characters per token would have counted {growth.chars4_share:.0%} of the prompts' real "
            f"growth; Sevenfold's estimate counts {growth.estimate_share:.0%}."
        )
    if of.partial_outputs:
        calls = plural(of.partial_outputs, "call was", "calls were")
        yield f"{calls} recorded before the answer was complete, so output and cost are too low."
    if isinstance(of, ProfileTotal) and of.copied_calls:
        copies = plural(of.copied_calls, "call is", "calls are")
        yield f"{copies} in more than one file (resumed or forked sessions) and counted once."
    for kind, number in of.repairs.items():
        singular, plural_form, ending = wording("repairs").get(kind, (kind, kind, ""))
        yield f"{plural(number, singular, plural_form)} {ending}; a server refuses this unless it is repaired."
    if of.damaged_lines:
        yield f"{plural(of.damaged_lines, 'damaged line')} could not be read."
    if unknown := sum(of.unknown_lines.values()):
        names = ", ".join(list(of.unknown_lines)[:6])
        yield f"{plural(unknown, 'record')} of unknown type left out: {names}."


# -- the page --------------------------------------------------------------------------------

MOST_POINTS = 600
"""Points in a chart, at most; no chart is wide enough to show more."""
FEW_POINTS = 120
"""Points in a chart, at most, if there are many sessions."""
MANY_SESSIONS = 50
_PLACEHOLDER = "/*FIGURES*/"


def page(profile: ProfileReport) -> str:
    """The HTML page for a profile."""
    points = MOST_POINTS if len(profile.sessions) <= MANY_SESSIONS else FEW_POINTS
    sessions = [
        structs.replace(session, context_over_time=_thin(session.context_over_time, points))
        for session in profile.sessions
    ]
    content = {
        "profile": structs.replace(profile, sessions=sessions),
        "version": __version__,
        "categories": {name: category(name) for name in profile.total.tokens_by_category},
        "causes": {broken.cause: cause(broken.cause) for broken in profile.total.cache_breaks},
        "spans": [span(session.started, session.ended) for session in profile.sessions],
        "calls": [len(main_sizes(session)) for session in profile.sessions],
        "noticed": [list(remarks(session)) for session in profile.sessions],
        "noticed_in_total": list(remarks(profile.total)),
        "marks": [list(chart_marks(session)) for session in profile.sessions],
    }
    # Inside a script element, only its end tag and the start of a comment could do harm; both begin with "<".
    figures = msgspec.json.encode(content).decode().replace("<", "\\u003c")
    template = Path(__file__).with_name("page.html").read_text("utf-8")
    return template.replace(_PLACEHOLDER, figures)


def _thin(points: list[Point], limit: int) -> list[Point]:
    """The main conversation's points; if there are more than ``limit``, the largest of each stretch."""
    main = [point for point in points if not point.lane]
    return thinned(main, limit, key=lambda point: point.tokens)
