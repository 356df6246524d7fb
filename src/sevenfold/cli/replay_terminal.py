"""The report of `sevenfold replay` in a terminal: a table of policies and, for several sessions, one of sessions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath

from rich.console import Console, RenderableType
from rich.text import Text

from sevenfold.cli.output import CUT, NAME, NUMBER, heading, plain_table, sections
from sevenfold.cli.replay import NOTES
from sevenfold.cli.text import count, money, plural, share, short_count
from sevenfold.lab.replay.figures import PolicyTotal, Replayed
from sevenfold.lab.replay.files import ReplayReport

DOES_NOT_FIT = "does not fit"


def show(report: ReplayReport, console: Console, *, limit: int) -> None:
    """Print the report."""
    sessions = list(dict.fromkeys(replayed.figures.file for replayed in report.replays))
    first = report.replays[0]
    models = sorted({replayed.model for replayed in report.replays})
    windows = sorted({replayed.window for replayed in report.replays})
    about = f"{', '.join(models)} in {', '.join(map(count, windows))} tokens"
    title = PurePath(first.figures.file).name if len(sessions) == 1 else plural(len(sessions), "session")
    console.print(
        sections(
            [
                heading(title, about),
                _costs(report.totals),
                _knowledge(report.totals),
                _sessions(report, sessions, limit) if len(sessions) > 1 else None,
                Text("\n".join(NOTES), style="dim"),
            ]
        )
    )


def _costs(totals: Sequence[PolicyTotal]) -> RenderableType:
    names = ("cost", "ideal", "cached", "peak", "summaries", "waits", "breaks")
    columns = [("policy", NAME), *((name, NUMBER) for name in names)]
    return plain_table(*columns, rows=map(_cost_row, totals))


def _cost_row(total: PolicyTotal) -> Iterator[str]:
    yield total.policy
    yield cost_of(total)
    if total.failed == total.sessions:
        return
    yield money(total.ideal_cost_usd)
    yield share(total.cache_read_share or 0.0, 1.0)
    yield short_count(total.peak_context_tokens)
    yield from map(count, (total.compactions, total.foreground_waits, total.unexpected_breaks))


def _knowledge(totals: Sequence[PolicyTotal]) -> RenderableType:
    names = ("facts seen", "looked up", "lost", "rules seen", "lost")
    columns = [("at the end", NAME), *((name, NUMBER) for name in names)]
    return plain_table(*columns, rows=map(_knowledge_row, totals))


def _knowledge_row(total: PolicyTotal) -> Iterator[str]:
    yield total.policy
    if total.failed < total.sessions:
        facts = total.facts
        rules = total.rules
        yield from map(count, (facts.in_context, facts.reachable, facts.lost, rules.in_context, rules.lost))


def cost_of(total: PolicyTotal) -> str:
    """The cost of a policy; if it did not hold all sessions, of those that it held."""
    if not total.failed:
        return money(total.cost_usd)
    if total.failed == total.sessions:
        return DOES_NOT_FIT
    return f"{money(total.cost_usd)} for {total.sessions - total.failed} of {total.sessions}"


def _sessions(report: ReplayReport, sessions: Sequence[str], limit: int) -> RenderableType:
    policies = [total.policy for total in report.totals]
    by_key = {(replayed.figures.file, replayed.figures.policy): replayed for replayed in report.replays}
    # The costs are what the table is for: names give way.
    cost = {**NUMBER, "min_width": 6}
    columns = [("session", {**CUT, "max_width": 14}), ("steps", NUMBER)]
    columns += [(policy.replace("-", "\n"), cost) for policy in policies]
    rows = []
    for session in sessions[:limit]:
        replays = [by_key[session, policy] for policy in policies]
        rows.append([PurePath(session).name, count(replays[0].requests), *map(_cost, replays)])
    if len(sessions) > limit:
        rows.append([f"and {len(sessions) - limit} more (--limit)"])
    return plain_table(*columns, rows=rows)


def _cost(replayed: Replayed) -> str:
    return money(replayed.figures.cost_usd) if replayed.completed else "–"
