"""The tables of `sevenfold profile`: what filled the context and what shrank it; sessions; groups such as days."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath

from rich.console import Group, RenderableType
from rich.text import Text

from sevenfold.archive.profile.figures import (
    LargeItem,
    ProfileReport,
    ProfileTotal,
    SessionProfile,
    UsageGroup,
)
from sevenfold.archive.profile.labels import RESULT, TOOL_INPUTS
from sevenfold.archive.sessions import project_name
from sevenfold.cli.output import CUT, NAME, NUMBER, area_chart, bar, heading, number_table, plain_table
from sevenfold.cli.profile import SIGNS, UNRECORDED, main_sizes, shrunk
from sevenfold.cli.text import category, cause, count, fit, money, parse_time, share, shorten, tool_name

MOST_CATEGORIES = 14
MOST_EVENTS = 8
SHORTEST_NAME = 24
"""Cells that a name is given before a bar is."""


def categories(of: SessionProfile | ProfileTotal, width: int) -> RenderableType | None:
    """Tokens by category, counted once, and their share of all prompts."""
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
    largest_share = max(carried.values())
    for name in names[:shown]:
        tokens = carried.get(name, 0)
        drawn = (bar(tokens, largest_share, room),) if room >= 6 else ()
        shown_name = fit(category(name), width - 36 - (room + 2 if drawn else 0))
        table.add_row(shown_name, count(of.tokens_by_category[name]), share(tokens, whole), *drawn)
    if others := names[shown:]:
        once = sum(of.tokens_by_category[name] for name in others)
        again = sum(carried.get(name, 0) for name in others)
        table.add_row(f"{len(others)} others", count(once), share(again, whole))
    return Group(heading("Where the context went"), table)


def breaks(of: SessionProfile | ProfileTotal) -> RenderableType | None:
    """Cache breaks by cause."""
    if not of.cache_breaks:
        return None
    sums: dict[str, tuple[int, int, float]] = {}
    for broken in of.cache_breaks:
        number, tokens, cost = sums.get(broken.cause, (0, 0, 0.0))
        occurrences = getattr(broken, "count", 1)
        sums[broken.cause] = (number + occurrences, tokens + broken.tokens, cost + (broken.cost_usd or 0.0))
    table = number_table("", "times", "tokens", "extra cost")
    for name, (number, tokens, cost) in sorted(sums.items(), key=lambda item: -item[1][1]):
        cost_known = of.cost_usd is not None
        table.add_row(cause(name), count(number), count(tokens), money(cost if cost_known else None))
    return Group(heading("Cache lost", "tokens that were charged again"), table)


def shrinkings(session: SessionProfile) -> RenderableType | None:
    """Compactions, clearings, and unrecorded shrinking."""
    order = list(SIGNS)
    events = sorted(shrunk(session), key=lambda found: (found[2].call, order.index(found[0])))
    if not events:
        return None
    table = plain_table(("after request", NUMBER), ("", CUT), ("tokens before", NUMBER), ("after", NUMBER))
    for kind, description, event in events[:MOST_EVENTS]:
        detail = "unrecorded" if kind == UNRECORDED else description
        sizes = (event.tokens_before, event.tokens_after)
        table.add_row(
            count(event.request), detail, *("–" if size is None else count(size) for size in sizes)
        )
    hidden = len(events) - MOST_EVENTS
    return Group(
        heading("Compactions and clearings", f"{hidden} more not shown" if hidden > 0 else ""), table
    )


def largest(items: Sequence[LargeItem], width: int) -> RenderableType | None:
    """The largest items in the context."""
    if not items:
        return None
    names = [_kind(item) for item in items]
    name_width = min(max(map(len, names)), max(10, width // 4))
    # Two numbers, the space between columns, and the margin.
    room = max(10, width - name_width - 24)
    kinds = {**CUT, "max_width": name_width}
    texts = {**CUT, **NAME}
    table = plain_table(("tokens", NUMBER), ("in calls", NUMBER), ("", kinds), ("", texts))
    for item, name in zip(items, names, strict=True):
        table.add_row(count(item.tokens), count(item.calls), name, Text(shorten(item.what, room)))
    return Group(heading("Largest items in context"), table)


def _kind(item: LargeItem) -> str:
    if item.category.startswith(RESULT):
        return tool_name(item.tool)
    return f"{tool_name(item.tool)} input" if item.category == TOOL_INPUTS else category(item.category)


def groups(profile: ProfileReport, width: int, limit: int) -> RenderableType:
    """One row for each day, week, month, model or project."""
    groups = profile.groups
    note = ""
    if len(groups) > limit:
        # Groups by time are sorted with the newest last, all others with the most expensive first.
        groups = groups[-limit:] if profile.by in ("day", "week", "month") else groups[:limit]
        note = f"{limit} of {len(profile.groups)}; --limit N shows more"
    columns = ("sessions", "calls", "prompt tokens", "cached", "output") if width >= 90 else ("calls",)
    rows = [_group_figures(group, full=width >= 90) for group in groups]
    table = number_table("", *columns, "cost")
    # The figures and two blanks after each of them, and the margin.
    figure_columns = zip((*columns, "cost"), *rows, strict=True)
    figures_width = 1 + sum(max(map(len, column)) + 2 for column in figure_columns)
    room = max(0, min(30, width - figures_width - SHORTEST_NAME - 2))
    if room:
        table.add_column("", no_wrap=True, width=room, style="cyan")
    longest = max(SHORTEST_NAME, width - figures_width - room - (4 if room else 2))
    highest_cost = max((group.cost_usd or 0.0 for group in groups), default=0.0)
    for group, figures in zip(groups, rows, strict=True):
        name = group.group or "unknown"
        drawn = (bar(group.cost_usd or 0.0, highest_cost or 1.0, room),) if room else ()
        table.add_row(shorten(name, longest) if profile.by == "project" else name, *figures, *drawn)
    return Group(heading(f"By {profile.by}", note), table)


def _group_figures(group: UsageGroup, *, full: bool) -> list[str]:
    """The figures in the row of a group."""
    usage = group.usage
    figures = [count(group.api_calls)]
    if full:
        cached = share(usage.cache_read_input_tokens, usage.prompt)
        figures = [
            count(group.sessions),
            *figures,
            count(usage.prompt),
            cached,
            count(usage.output_tokens),
        ]
    return [*figures, money(group.cost_usd)]


def sessions(sessions: Sequence[SessionProfile], width: int, limit: int) -> RenderableType:
    """One row for each session, the most expensive first; the files of its sub-agents are included."""
    rows = families(sessions)
    rows.sort(
        key=lambda family: (-(_cost(family) or 0.0), -sum(session.usage.prompt for session in family))
    )
    figures = (*(("calls", "peak") if width >= 76 else ()), "cost", *(("shrunk",) if width >= 110 else ()))
    table = plain_table(
        ("session", {**CUT, "ratio": 1}),
        ("project", {**CUT, "max_width": 12 if width < 76 else 20}),
        ("date", {**NAME, "min_width": 10}),
        *((name, {**NUMBER, "min_width": len(name)}) for name in figures),
        *([("context", {"no_wrap": True, "style": "cyan", "width": 20})] if width >= 96 else []),
        rows=(_cells(family, width) for family in rows[:limit]),
        expand=True,
    )
    note = "most expensive first"
    if len(rows) > limit:
        note = f"the {limit} most expensive of {len(rows)}; --limit N shows more"
    return Group(heading("Sessions", note), table)


def families(sessions: Sequence[SessionProfile]) -> list[list[SessionProfile]]:
    """A list for each session: its own profile, then those of the sub-agents it started."""
    families_found = [[session] for session in sessions if session.agent_id is None]
    family_of = {family[0].session_id: family for family in reversed(families_found)}
    for session in sessions:
        if session.agent_id is not None:
            parent = session.parent or session.session_id
            if parent not in family_of:
                families_found.append(family_of.setdefault(parent, []))
            family_of[parent].append(session)
    return families_found


def _cost(family: Sequence[SessionProfile]) -> float | None:
    costs = [session.cost_usd for session in family if session.cost_usd is not None]
    return sum(costs) if costs else None


def _cells(family: Sequence[SessionProfile], width: int) -> Iterator[RenderableType]:
    """The cells of a session's row; the counts and cost include its sub-agents."""
    main = family[0]
    started = parse_time(family[0].started)
    yield Text(main.title or PurePath(main.file).stem)
    yield Text(project_name(main.project))
    yield f"{started.astimezone():%Y-%m-%d}" if started else ""
    if width >= 76:
        yield count(sum(session.api_calls for session in family))
        yield count(main.peak_context_tokens)
    yield money(_cost(family))
    if width >= 110:
        yield str(sum(session.compactions + session.clearings for session in family) or "")
    if width >= 96:
        yield area_chart(main_sizes(main), 20, 1)[0]
