"""Figures and names as people read them."""

from __future__ import annotations

from datetime import datetime

from sevenfold.lab.profile.books import seconds
from sevenfold.lab.profile.context import RESULT

CATEGORIES = {
    "user_text": "what the user said",
    "assistant_text": "what the model said",
    "thinking": "thinking",
    "tool_inputs": "tool inputs",
    "attachments": "attachments, reminders",
    "summaries": "summaries",
    "images": "images, documents",
    "system_and_tools": "system prompt, tools",
    "unlogged": "not in the transcript",
    "other": "other blocks",
}
CAUSES = {
    "idle_gap": "idle past the cache lifetime",
    "compaction": "compaction",
    "clearing": "results cleared",
    "rewind": "rewind or branch",
    "model_changed": "model changed",
    "system_changed": "system prompt changed",
    "tools_changed": "tools changed",
    "messages_changed": "earlier messages changed",
    "unexplained": "unexplained (the server?)",
}


def count(number: float) -> str:
    """A number of tokens or calls: exact while it is short, rounded when it is long."""
    if abs(number) < 999_950:
        return f"{number:,.0f}"
    if abs(number) < 999_950_000:
        return f"{number / 1e6:,.2f} M" if abs(number) < 99_995_000 else f"{number / 1e6:,.1f} M"
    return f"{number / 1e9:,.2f} G"


def money(amount: float | None) -> str:
    """An amount in dollars."""
    if amount is None:
        return "unknown"
    if amount and abs(amount) < 0.01:
        return f"${amount:.4f}"
    return f"${amount:,.2f}"


def share(part: float, whole: float) -> str:
    """A percentage that never rounds something down to nothing."""
    if not whole:
        return "–"
    percent = 100 * part / whole
    if 0 < percent < 0.1:
        return "<0.1%"
    return f"{percent:.1f}%" if percent < 99.95 or percent > 100 else "100%"


def times(amount: float | None, reference: float | None) -> str:
    """How many times the reference; empty where that says nothing."""
    if amount is None or not reference:
        return ""
    return f"{amount / reference:.1f}×"


def plural(number: int, noun: str, many: str = "") -> str:
    """A number with its noun."""
    return f"{count(number)} {noun if number == 1 else many or noun + 's'}"


def category(name: str) -> str:
    """What a category holds."""
    if name.startswith(RESULT):
        return f"results of {tool(name.removeprefix(RESULT))}"
    return CATEGORIES.get(name, name)


def tool(name: str) -> str:
    """A tool's name; of those that come from a server, server and name."""
    return name.removeprefix("mcp__").replace("__", " ") if name.startswith("mcp__") else name


def cause(name: str) -> str:
    """Why a cache was lost."""
    return CAUSES.get(name, name.replace("_", " "))


def duration(elapsed: float) -> str:
    """A span of time in its two largest units."""
    minutes, hours, days = int(elapsed // 60), int(elapsed // 3600), int(elapsed // 86400)
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min" if minutes else f"{int(elapsed)} s"


def moment(timestamp: str | None) -> datetime | None:
    """The time a record carries."""
    try:
        return datetime.fromisoformat(timestamp or "")
    except ValueError:
        return None


def span(started: str | None, ended: str | None) -> str:
    """When a session ran and how long; empty where that is not known."""
    first, begun, over = moment(started), seconds(started or ""), seconds(ended or "")
    if first is None or begun is None or over is None:
        return ""
    return f"{first:%Y-%m-%d %H:%M}, {duration(max(0.0, over - begun))}"


def shortened(text: str, room: int) -> str:
    """A text that fits; of a path the end is kept, of all else the beginning."""
    if len(text) <= room:
        return text
    if " " not in text and ("/" in text or "\\" in text):
        return "…" + text[len(text) - room + 1 :]
    return text[: room - 1] + "…"
