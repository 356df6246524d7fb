"""The tables of `sevenfold profile`: the sessions, and sums by day, week, month, model or project."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath

from rich.console import Group, RenderableType
from rich.text import Text

from sevenfold.cli.output import CUT, NAME, NUMBER, area_chart, bar, heading, number_table, plain_table
from sevenfold.cli.profile import main_sizes
from sevenfold.cli.text import count, money, parse_time, share, shorten
from sevenfold.cli.transcripts import project_name
from sevenfold.lab.profile.figures import ProfileReport, SessionProfile


def group_table(profile: ProfileReport, width: int, limit: int) -> RenderableType:
    """One row for each day, week, month, model or project."""
    groups, note = profile.groups, ""
    if len(groups) > limit:
        # Times are in their order, the newest last; everything else begins with the most expensive.
        groups = groups[-limit:] if profile.by in ("day", "week", "month") else groups[:limit]
        note = f"{limit} of {len(profile.groups)}; --limit N shows more"
    columns = ("sessions", "calls", "prompt tokens", "cached", "output") if width >= 90 else ("calls",)
    table = number_table("", *columns, "cost")
    names = [one.group or "unknown" for one in groups]
    if profile.by == "project":
        names = [shorten(name, max(16, width - (70 if width >= 90 else 30))) for name in names]
    most = max((one.cost_usd or 0.0 for one in groups), default=0.0)
    if room := max(0, min(30, width - 82 if width >= 90 else width - 50)):
        table.add_column("", no_wrap=True, width=room, style="cyan")
    for name, one in zip(names, groups, strict=True):
        usage = one.usage
        wide = (
            count(one.sessions),
            count(one.api_calls),
            count(usage.prompt),
            share(usage.cache_read_input_tokens, usage.prompt),
            count(usage.output_tokens),
        )
        figures = wide if width >= 90 else (count(one.api_calls),)
        drawn = (bar(one.cost_usd or 0.0, most or 1.0, room),) if room else ()
        table.add_row(Text(name), *figures, money(one.cost_usd), *drawn)
    return Group(heading(f"By {profile.by}", note), table)


def session_table(sessions: Sequence[SessionProfile], width: int, limit: int) -> RenderableType:
    """One row for each session, the most expensive first; the files of its sub-agents are part of it."""
    rows = families(sessions)
    rows.sort(key=lambda family: (-(_cost(family) or 0.0), -sum(one.usage.prompt for one in family)))
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
    """The sessions, each followed by the files of the sub-agents that it started."""
    found = [[one] for one in sessions if one.agent_id is None]
    of = {family[0].session_id: family for family in reversed(found)}
    for one in sessions:
        if one.agent_id is not None:
            if one.session_id not in of:
                found.append(of.setdefault(one.session_id, []))
            of[one.session_id].append(one)
    return found


def _cost(family: Sequence[SessionProfile]) -> float | None:
    costs = [one.cost_usd for one in family if one.cost_usd is not None]
    return sum(costs) if costs else None


def _cells(family: Sequence[SessionProfile], width: int) -> Iterator[RenderableType]:
    """A session in the table, with the files of its sub-agents."""
    main, started = family[0], parse_time(family[0].started)
    yield Text(main.title or PurePath(main.file).stem)
    yield Text(project_name(main.project))
    yield f"{started.astimezone():%Y-%m-%d}" if started else ""
    if width >= 76:
        yield count(sum(one.api_calls for one in family))
        yield count(main.peak_context_tokens)
    yield money(_cost(family))
    if width >= 110:
        yield str(sum(one.compactions + one.clearings for one in family) or "")
    if width >= 96:
        yield area_chart(main_sizes(main), 20, 1)[0]
