"""The report of `sevenfold profile` in a terminal.

A single session gets a page of its own; several get their totals and a table. Everything fits the width of the
terminal, from 60 columns up, and reads the same without colour.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from sevenfold.cli.output import (
    CUT,
    NAME,
    NUMBER,
    area_chart,
    bar,
    column_of,
    grid,
    heading,
    number_table,
    plain_table,
    sections,
)
from sevenfold.cli.profile import (
    CLEARING,
    COMPACTION,
    LOST,
    UNRECORDED,
    cache_loss,
    chart_marks,
    main_sizes,
    remarks,
    shrinkings,
    span,
)
from sevenfold.cli.profile_tables import families, group_table, session_table
from sevenfold.cli.text import category, cause, count, fit, money, plural, share, shorten, times, tool_name
from sevenfold.lab.profile.figures import LargeItem, ProfileReport, ProfileTotal, SessionProfile
from sevenfold.lab.profile.labels import RESULT, TOOL_INPUTS

HEIGHT = 5
"""Rows of the chart of the context."""
_SIGNS = {COMPACTION: "C", CLEARING: "c", UNRECORDED: "u", LOST: "!"}
_WINDOWS = {"inferred": " (by its compactions)", "model": " (the model's window)"}
MOST_CATEGORIES = 14
MOST_EVENTS = 8
MOST_ERRORS = 10


def show(profile: ProfileReport, console: Console, *, limit: int, each: bool) -> None:
    """Print the profile."""
    one = len(profile.sessions) == 1 and not profile.by
    for session in profile.sessions if one or each else ():
        console.print(session_page(session, console.width))
    if profile.sessions and not one:
        console.print(_total_page(profile, console.width, limit))
    if profile.errors:
        console.print(_errors(profile))
    console.print()


def session_page(session: SessionProfile, width: int) -> RenderableType:
    """Everything about one session."""
    calls = plural(session.api_calls, "API call")
    if session.side_calls:
        calls += f" ({count(session.side_calls)} by sub-agents)"
    about = [", ".join(session.models), calls, span(session.started, session.ended)]
    return sections(
        [
            _title(session.title or session.file, " · ".join(filter(None, about)), _origin(session)),
            _headline(session),
            _context(session, width),
            _categories(session, width),
            _shrinkings(session),
            _breaks(session),
            _largest(session.largest_items, width),
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
            None if profile.by else _categories(total, width),
            group_table(profile, width, limit) if profile.by else _breaks(total),
            None if profile.by else _largest(total.largest_items, width),
            _remarks(total),
            None if profile.by else session_table(profile.sessions, width, limit),
        ]
    )


def _how_many(profile: ProfileReport) -> str:
    """How many sessions there are; the file of a sub-agent belongs to the session that started it."""
    number = len(families(profile.sessions))
    agents = sum(one.agent_id is not None for one in profile.sessions)
    also = f", with {plural(agents, 'file')} of sub-agents" if agents else ""
    since = f", since {profile.since[:16].replace('T', ' ')}" if profile.since else ""
    return f"{plural(number, 'session')}{also}{since}"


def _title(name: str, *about: str) -> RenderableType:
    lines = (Text(line, style="dim", overflow="fold") for line in about if line)
    return Group(Text(), Text(name, style="bold", overflow="fold"), *lines)


def _origin(session: SessionProfile) -> str:
    """Where a session took place and where it is kept, unless its title says so already."""
    return f"{session.project or 'no project'} · {session.file}" if session.title else session.project


def _headline(of: SessionProfile | ProfileTotal) -> RenderableType:
    """What it cost, and what the prompts consisted of."""
    usage, table = of.usage, grid(NAME, NUMBER, {"style": "dim"})
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
    read, written = usage.cache_read_input_tokens, usage.cache_creation_input_tokens
    mix = f"{share(read, usage.prompt)} read from cache, {share(written, usage.prompt)} written"
    fresh = f"{share(usage.input_tokens, usage.prompt)} uncached"
    table.add_row("prompt tokens", count(usage.prompt), f"{mix}, {fresh}")
    low = "too low, see below" if of.partial_outputs else ""
    table.add_row("output tokens", count(usage.output_tokens), low)
    return table


def _context(session: SessionProfile, width: int) -> RenderableType | None:
    """The size of the prompts from call to call, with signs where something happened to them."""
    sizes = main_sizes(session)
    if not sizes:
        return None
    room = max(10, min(len(sizes), width - 14))
    table = grid({**NUMBER, "style": "dim", "width": 9}, {"no_wrap": True}, gap=1)
    for number, row in enumerate(area_chart(sizes, room, HEIGHT)):
        table.add_row(count(max(sizes)) if number == 0 else "", Text(row, style="cyan"))
    signs = {column_of(mark.place, len(sizes), room): mark.kind for mark in chart_marks(session)}
    if signs:
        row = "".join(_SIGNS[signs[place]] if place in signs else " " for place in range(room)).rstrip()
        legend = "   ".join(f"{sign} {kind}" for kind, sign in _SIGNS.items() if kind in signs.values())
        table.add_row("", Text.assemble((f"{row}\n", "yellow"), (legend, "dim")))
    peak = session.peak_context_tokens
    filled = f"peak {count(peak)}"
    if session.window_tokens:
        filled += f", {share(peak, session.window_tokens)} of {count(session.window_tokens)}"
        filled += _WINDOWS.get(session.window_source or "", "")
    return Group(heading("Context, call by call", filled), table)


def _categories(of: SessionProfile | ProfileTotal, width: int) -> RenderableType | None:
    """Tokens by category, and their share of all prompts."""
    carried = {name: tokens for name, tokens in of.carried_by_category.items() if tokens > 0}
    whole = sum(carried.values())
    if not whole:
        return None
    names = [name for name, tokens in of.tokens_by_category.items() if tokens or carried.get(name)]
    names.sort(key=lambda name: -carried.get(name, 0))
    shown = MOST_CATEGORIES if len(names) > MOST_CATEGORIES + 1 else len(names)
    table = number_table("", "tokens, once", "of all prompts")
    room = max(0, min(40, width - 64))
    if room >= 6:
        table.add_column("", no_wrap=True, width=room, style="cyan")
    most = max(carried.values())
    for name in names[:shown]:
        tokens = carried.get(name, 0)
        drawn = (bar(tokens, most, room),) if room >= 6 else ()
        shown_name = fit(category(name), width - 36 - (room + 2 if drawn else 0))
        table.add_row(shown_name, count(of.tokens_by_category[name]), share(tokens, whole), *drawn)
    if rest := names[shown:]:
        once = sum(of.tokens_by_category[name] for name in rest)
        again = sum(carried.get(name, 0) for name in rest)
        table.add_row(f"{len(rest)} others", count(once), share(again, whole))
    return Group(heading("Where the context went"), table)


def _shrinkings(session: SessionProfile) -> RenderableType | None:
    """Compactions, clearings, and unrecorded shrinking."""
    order = list(_SIGNS)
    events = sorted(shrinkings(session), key=lambda found: (found[2].call, order.index(found[0])))
    if not events:
        return None
    table = plain_table(("after call", NUMBER), ("", CUT), ("tokens before", NUMBER), ("after", NUMBER))
    for kind, words, event in events[:MOST_EVENTS]:
        detail = "unrecorded" if kind == UNRECORDED else words
        sizes = (event.tokens_before, event.tokens_after)
        table.add_row(count(event.call), detail, *("–" if one is None else count(one) for one in sizes))
    more = len(events) - MOST_EVENTS
    return Group(heading("Compactions and clearings", f"{more} more not shown" if more > 0 else ""), table)


def _breaks(of: SessionProfile | ProfileTotal) -> RenderableType | None:
    """Cache breaks by cause."""
    if not of.cache_breaks:
        return None
    sums: dict[str, tuple[int, int, float]] = {}
    for one in of.cache_breaks:
        number, tokens, cost = sums.get(one.cause, (0, 0, 0.0))
        found = getattr(one, "count", 1)
        sums[one.cause] = (number + found, tokens + one.tokens, cost + (one.cost_usd or 0.0))
    table = number_table("", "times", "tokens", "extra cost")
    for name, (number, tokens, cost) in sorted(sums.items(), key=lambda item: -item[1][1]):
        known = of.cost_usd is not None
        table.add_row(cause(name), count(number), count(tokens), money(cost if known else None))
    return Group(heading("Cache lost", "tokens that were charged again"), table)


def _largest(items: Sequence[LargeItem], width: int) -> RenderableType | None:
    if not items:
        return None
    names = [_kind(item) for item in items]
    most = min(max(map(len, names)), max(10, width // 4))
    # Two numbers, the space between columns, and the margin.
    room = max(10, width - most - 24)
    kinds, texts = {**CUT, "max_width": most}, {**CUT, **NAME}
    table = plain_table(("tokens", NUMBER), ("in calls", NUMBER), ("", kinds), ("", texts))
    for item, name in zip(items, names, strict=True):
        table.add_row(count(item.tokens), count(item.calls), name, Text(shorten(item.what, room)))
    return Group(heading("Largest items in context"), table)


def _kind(item: LargeItem) -> str:
    if item.category.startswith(RESULT):
        return tool_name(item.tool)
    return f"{tool_name(item.tool)} input" if item.category == TOOL_INPUTS else category(item.category)


def _remarks(of: SessionProfile | ProfileTotal) -> RenderableType | None:
    noticed = list(remarks(of))
    return Group(heading("Also noticed"), _bullets(noticed)) if noticed else None


def _bullets(lines: Sequence[str]) -> RenderableType:
    return grid(rows=(("•", Text(line)) for line in lines), gap=1)


def _errors(profile: ProfileReport) -> RenderableType:
    lines = [error.error for error in profile.errors[:MOST_ERRORS]]
    if (more := len(profile.errors) - MOST_ERRORS) > 0:
        lines.append(f"and {more} more")
    title = f"{plural(len(profile.errors), 'file was', 'files were')} not profiled"
    return Padding(Group(Text(title, style="bold yellow"), _bullets(lines)), (0, 0, 0, 1), expand=False)
