"""What the engine tells, as lines: each layer that acts gets one, with all there is to know behind it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from sevenfold import events
from sevenfold.cli.chat.words import one_line, tokens
from sevenfold.cli.phrases import cause, money, plural
from sevenfold.events import Event

Level = Literal["layer", "note", "warning", "error"]
STYLES = {"layer": "magenta", "note": "dim", "warning": "yellow", "error": "red"}


COMPACTED = "compact"
"""Why an epoch opens with a compaction, which has a line of its own."""


class Told(Struct, frozen=True):
    """A line, and what is behind it."""

    level: Level
    line: str
    detail: tuple[tuple[str, str], ...] = ()
    """Names and values."""


def told(event: Event) -> Told | None:
    """What to show of an event; None if it is of no concern to the user."""
    match event:
        case events.Acted():
            return _acted(event)
        case events.Compacted() if event.lost or event.invented or event.fires_again:
            return _compacted(event)
        case events.Vetoed():
            return Told("note", f"{event.layer} was kept from acting: {event.what} ({event.reason})")
        case events.SteppedAside(layer="breaker"):
            return Told("warning", event.reason)
        case events.SteppedAside(layer="notes", error=""):
            # They will be brought up to date another time, and nobody has to do anything about it.
            return None
        case events.SteppedAside(layer="rules"):
            return Told("warning", event.reason)
        case events.SteppedAside():
            level: Level = "warning" if event.error else "note"
            return Told(level, f"{event.layer} could not help: {event.reason}")
        case events.Failed() if event.again:
            return Told("warning", f"{event.reason} Trying again, changed.", (("error", event.error),))
        case events.CacheBroke() if not event.expected:
            return _broke(event)
        case events.EpochOpened() if event.drops_thinking and event.reason != COMPACTED:
            return Told(
                "note",
                f"earlier reasoning is left out from here on: {event.reason}",
                _pairs(epoch=event.epoch, cost=money(event.usd)),
            )
        case events.Repaired():
            return Told("note", f"sent mended: {event.what}", (("where", event.where),))
        case events.Masked():
            return Told("warning", f"{plural(event.count, 'secret')} masked ({', '.join(event.kinds)})")
        case events.Compacting(stage="compact_start"):
            return Told("note", "compacting…")
        case _:
            return None


def _acted(event: events.Acted) -> Told:
    freed = event.tokens_before - event.tokens_after
    figures = [f"{tokens(freed)} tokens freed"] if freed > 0 else []
    if event.usd and event.usd >= 0.005:
        figures.append(money(event.usd))
    undo = ["/undo takes it back"] if event.undoable and event.reference else []
    line = event.what if event.what.startswith(event.layer) else f"{event.layer}: {event.what}"
    if tail := ", ".join(figures + undo):
        line += f" ({tail})"
    return Told(
        "layer",
        one_line(line),
        _pairs(
            layer=f"{event.layer} ({event.mechanism})",
            what=event.what,
            why=event.why,
            items=str(event.items or ""),
            tokens=f"{event.tokens_before:,} → {event.tokens_after:,}" if event.tokens_before else "",
            cost=money(event.usd),
            decision=event.reference,
            undo=f"/undo {event.reference}" if undo else "cannot be undone",
        ),
    )


def _compacted(event: events.Compacted) -> Told:
    """Only what went wrong; that it happened was told already."""
    wrong = []
    if event.lost:
        wrong.append(f"{plural(event.lost, 'fact')} lost")
    if event.invented:
        wrong.append(f"{plural(event.invented, 'invented statement')} taken out of the summary")
    if event.fires_again:
        wrong.append("it is full again at once")
    return Told(
        "warning",
        f"compact: {', '.join(wrong)}",
        _pairs(
            engine=event.engine,
            not_used="; ".join(event.left),
            facts=f"{event.in_context} in context, {event.reachable} reachable, {event.lost} lost",
            restored=", ".join(event.restored),
            missed=", ".join(event.missed),
        ),
    )


def _broke(event: events.CacheBroke) -> Told:
    cost = "" if event.usd is None else f", {money(event.usd)}"
    return Told(
        "warning",
        f"cache lost: {cause(event.cause)} ({event.part}), {tokens(event.tokens)} tokens paid again{cost}",
        _pairs(cause=event.cause, part=event.part, diff=event.diff),
    )


def _pairs(**values: str) -> tuple[tuple[str, str], ...]:
    return tuple((name.replace("_", " "), value) for name, value in values.items() if value)
