"""What the list of sessions shows."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from sevenfold.archive.sessions import project_name
from sevenfold.archive.summaries import SessionSummary, by_day
from sevenfold.doors.inspector import wording
from sevenfold.doors.inspector.shelf import InspectorShelf, ShelvedSession
from sevenfold.doors.inspector.wording import plural

shown = lru_cache(maxsize=20_000)(wording.shown)
"""The list is sent again and again, and searching the same titles for secrets took most of its time."""
SICK = 0.25
UNWELL = 0.10
"""Shares of the bill lost to broken caches from which a session is marked."""
NEARLY_FULL = 0.8


def sessions_view(shelf: InspectorShelf) -> dict[str, Any]:
    """All sessions with their sums."""
    rows = []
    summaries = []
    children: dict[str, int] = {}
    listed = shelf.listed()
    for session in listed:
        if session.parent:
            children[session.parent] = children.get(session.parent, 0) + 1
    for session in listed:
        summary = shelf.summaries.known(session.stored.path)
        if summary is not None:
            summaries.append(summary)
        rows.append(session_row(session, summary, children.get(session.key, 0)))
    return {
        "sessions": rows,
        "changes": shelf.state,
        "reading": shelf.reading,
        "days": [{"day": day, "usd": round(usd, 6)} for day, usd in by_day(summaries).items()],
        "totals": _totals(rows, summaries),
    }


def session_row(session: ShelvedSession, summary: SessionSummary | None, children: int) -> dict[str, Any]:
    """One line of the list."""
    row: dict[str, Any] = {
        "key": session.key,
        "name": shown(session.stored.name, 80),
        "tool": session.stored.tool or "File",
        "modified": session.stored.modified,
        "size": session.stored.size,
        "running": session.running,
        "parent": session.parent,
    }
    if summary is None:
        return {**row, "title": shown(session.stored.name, 80), "known": False, "health": []}
    models = [shown(model, 60) for model in summary.models if not model.startswith("<")]
    return {
        **row,
        "known": True,
        "title": shown(summary.title, 160) or shown(session.stored.name, 80),
        "project": shown(project_name(summary.project), 60) if summary.project else "",
        "model": models[0] if models else "",
        "models": len(models),
        "started": summary.started,
        "ended": summary.ended,
        "requests": summary.requests,
        "usd": summary.usd,
        "lostUsd": summary.lost_usd,
        "peak": summary.peak,
        "window": summary.window,
        "sparks": summary.sparks,
        "error": shown(summary.error, 300),
        "health": _health(summary, children),
    }


def _health(summary: SessionSummary, children: int) -> list[dict[str, str]]:
    """What is worth knowing about a session, each with how bad it is."""
    if summary.error:
        return [{"level": "bad", "text": "cannot be read"}]
    marks = []
    share = summary.lost_usd / summary.usd if summary.usd else 0.0
    if share >= UNWELL:
        marks.append({"level": "bad" if share >= SICK else "warn", "text": f"cache lost {share:.0%}"})
    if summary.compactions:
        marks.append({"level": "note", "text": plural(summary.compactions, "compaction")})
    if summary.clearings:
        marks.append({"level": "note", "text": plural(summary.clearings, "clearing")})
    if summary.window and summary.peak / summary.window >= NEARLY_FULL:
        marks.append({"level": "warn", "text": f"{summary.peak / summary.window:.0%} full"})
    if summary.unexplained:
        marks.append({"level": "bad", "text": f"{summary.unexplained} unexplained"})
    if children:
        marks.append({"level": "note", "text": plural(children, "agent")})
    if not marks and summary.requests:
        marks.append({"level": "good", "text": "healthy"})
    return marks


def _totals(rows: list[dict[str, Any]], summaries: list[SessionSummary]) -> dict[str, Any]:
    paid = sum(summary.usd or 0.0 for summary in summaries)
    uncached = sum(summary.uncached_usd or 0.0 for summary in summaries)
    return {
        "sessions": sum(not row["parent"] for row in rows),
        "agents": sum(bool(row["parent"]) for row in rows),
        "requests": sum(summary.requests for summary in summaries),
        "usd": paid,
        "lostUsd": sum(summary.lost_usd for summary in summaries),
        "savedUsd": uncached - paid,
        "compactions": sum(summary.compactions for summary in summaries),
        "breaks": sum(summary.breaks for summary in summaries),
        "unexplained": sum(summary.unexplained for summary in summaries),
    }
