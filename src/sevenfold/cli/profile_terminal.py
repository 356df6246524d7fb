"""The report of `sevenfold profile` in a terminal.

A single session gets a page of its own; several get their totals and a table. Everything fits the width of the
terminal, from 60 columns up, and reads the same without colour.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from sevenfold.archive.profile.figures import ProfileReport, ProfileTotal, SessionProfile
from sevenfold.cli import profile_tables as tables
from sevenfold.cli.output import NAME, NUMBER, area_chart, column_of, grid, heading, sections
from sevenfold.cli.profile import SIGNS, cache_loss, chart_marks, main_sizes, remarks, span
from sevenfold.cli.text import count, money, plural, share, times

HEIGHT = 5
"""Rows of the chart of the context."""
_WINDOWS = {"inferred": " (by its compactions)", "model": " (the model's window)"}
MOST_ERRORS = 10


def show(profile: ProfileReport, console: Console, *, limit: int, details: bool) -> None:
    """Print the profile."""
    single_session = len(profile.sessions) == 1 and not profile.by
    for session in profile.sessions if single_session or details else ():
        console.print(session_page(session, console.width))
    if profile.sessions and not single_session:
        console.print(_total_page(profile, console.width, limit))
    if profile.errors:
        console.print(_errors(profile))
    console.print()


def session_page(session: SessionProfile, width: int) -> RenderableType:
    """The full report on one session."""
    calls = plural(session.api_calls, "API call")
    if session.side_calls:
        calls += f" ({count(session.side_calls)} by sub-agents)"
    about = [", ".join(session.models), calls, span(session.started, session.ended)]
    return sections(
        [
            _title(session.title or session.file, " · ".join(filter(None, about)), _origin(session)),
            _headline(session),
            _context(session, width),
            tables.categories(session, width),
            tables.shrinkings(session),
            tables.breaks(session),
            tables.largest(session.largest_items, width),
            _remarks(session),
        ]
    )


def _total_page(profile: ProfileReport, width: int, limit: int) -> RenderableType:
    total = profile.total
    models = ", ".join(list(total.models)[:4]) + (" …" if len(total.models) > 4 else "")
    return sections(
        [
            _title(_how_many(profile), f"{models} · {plural(total.api_calls, 'API call')}"),
            _headline(total),
            None if profile.by else tables.categories(total, width),
            tables.groups(profile, width, limit) if profile.by else tables.breaks(total),
            None if profile.by else tables.largest(total.largest_items, width),
            _remarks(total),
            None if profile.by else tables.sessions(profile.sessions, width, limit),
        ]
    )


def _how_many(profile: ProfileReport) -> str:
    """How many sessions there are, in words; the file of a sub-agent belongs to the session that started it."""
    number = len(tables.families(profile.sessions))
    agents = sum(session.agent_id is not None for session in profile.sessions)
    also = f", with {plural(agents, 'file')} of sub-agents" if agents else ""
    since = f", since {profile.since[:16].replace('T', ' ')}" if profile.since else ""
    return f"{plural(number, 'session')}{also}{since}"


def _title(name: str, *about: str) -> RenderableType:
    lines = (Text(line, style="dim", overflow="fold") for line in about if line)
    return Group(Text(), Text(name, style="bold", overflow="fold"), *lines)


def _origin(session: SessionProfile) -> str:
    """The project and file of a session; without a title, only the project, because the file is the heading."""
    return f"{session.project or 'no project'} · {session.file}" if session.title else session.project


def _headline(of: SessionProfile | ProfileTotal) -> RenderableType:
    """The cost, and how the prompt tokens divide into cached and uncached."""
    usage = of.usage
    table = grid(NAME, NUMBER, {"style": "dim"})
    paid = "" if of.cost_usd is not None else "the price of this model is unknown"
    if of.cost_usd is not None and of.unpriced_calls:
        paid = f"plus {plural(of.unpriced_calls, 'call')} of unknown price"
    table.add_row("paid", Text(money(of.cost_usd), style="bold green"), paid)
    if of.cost_usd is not None:
        uncached = of.uncached_cost_usd
        table.add_row("without cache", money(uncached), times(uncached, of.cost_usd))
        if of.cache_breaks:
            lost = cache_loss(of)
            table.add_row("cache lost", money(lost), f"{share(lost or 0.0, of.cost_usd)} of what was paid")
    read = usage.cache_read_input_tokens
    written = usage.cache_creation_input_tokens
    mix = f"{share(read, usage.prompt)} read from cache, {share(written, usage.prompt)} written"
    fresh = f"{share(usage.input_tokens, usage.prompt)} uncached"
    table.add_row("prompt tokens", count(usage.prompt), f"{mix}, {fresh}")
    low = "too low, see below" if of.partial_outputs else ""
    table.add_row("output tokens", count(usage.output_tokens), low)
    return table


def _context(session: SessionProfile, width: int) -> RenderableType | None:
    """A chart of prompt sizes from call to call, with signs where the context shrank or the cache was lost."""
    sizes = main_sizes(session)
    if not sizes:
        return None
    room = max(10, min(len(sizes), width - 14))
    table = grid({**NUMBER, "style": "dim", "width": 9}, {"no_wrap": True}, gap=1)
    for number, row in enumerate(area_chart(sizes, room, HEIGHT)):
        table.add_row(count(max(sizes)) if number == 0 else "", Text(row, style="cyan"))
    signs = {column_of(mark.place, len(sizes), room): mark.kind for mark in chart_marks(session)}
    if signs:
        row = "".join(SIGNS[signs[column]] if column in signs else " " for column in range(room)).rstrip()
        legend = "   ".join(f"{sign} {kind}" for kind, sign in SIGNS.items() if kind in signs.values())
        table.add_row("", Text.assemble((f"{row}\n", "yellow"), (legend, "dim")))
    peak = session.peak_context_tokens
    filled = f"peak {count(peak)}"
    if session.window_tokens:
        filled += f", {share(peak, session.window_tokens)} of {count(session.window_tokens)}"
        filled += _WINDOWS.get(session.window_source or "", "")
    return Group(heading("Context, call by call", filled), table)


def _remarks(of: SessionProfile | ProfileTotal) -> RenderableType | None:
    noticed = list(remarks(of))
    return Group(heading("Also noticed"), _bullets(noticed)) if noticed else None


def _bullets(lines: Sequence[str]) -> RenderableType:
    return grid(rows=(("•", Text(line)) for line in lines), gap=1)


def _errors(profile: ProfileReport) -> RenderableType:
    lines = [error.error for error in profile.errors[:MOST_ERRORS]]
    if (hidden := len(profile.errors) - MOST_ERRORS) > 0:
        lines.append(f"and {hidden} more")
    title = f"{plural(len(profile.errors), 'file was', 'files were')} not profiled"
    return Padding(Group(Text(title, style="bold yellow"), _bullets(lines)), (0, 0, 0, 1), expand=False)
