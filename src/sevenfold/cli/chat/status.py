"""The status line: who answers, how full the window is and how far it is to compaction, what it costs, what runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from rich.cells import cell_len
from rich.text import Text

from sevenfold.cli.chat.signs import Signs
from sevenfold.cli.chat.words import fitted, tokens
from sevenfold.cli.phrases import money

if TYPE_CHECKING:
    from sevenfold.conversation.status import Reading

_BAR = 12


class Status(Struct, frozen=True, kw_only=True):
    """What the line is made of."""

    model: str
    mode: str = "ask"
    offline: bool = False
    gauge: Reading | None = None
    compacts: bool = True
    """Does it compact by itself?"""
    taken_back: bool = False
    """Was a compaction undone, so that the next waits until the window is full?"""
    cached: float | None = None
    """The share of all prompts of this run that came from the cache; None before the first answer."""
    background: Sequence[str] = ()
    """What runs beside the conversation."""
    queued: int = 0


def line(status: Status, signs: Signs, width: int) -> Text:
    """The line in no more than ``width`` cells; what matters least is left out first."""
    parts = _parts(status, signs)
    shown = Text()
    for number in sorted({part[0] for part in parts}, reverse=True):
        kept = [(words, style) for rank, words, style in parts if rank <= number]
        shown = Text()
        for place, part in enumerate(kept):
            shown.append(signs.dot if place else "", style="dim").append(*part)
        if shown.cell_len <= width - 1:
            return shown
    return Text(fitted(shown.plain, max(1, width - 1), signs.cut))


def _parts(status: Status, signs: Signs) -> list[tuple[int, str, str]]:
    """Rank (1 stays longest), words and style of each part, from left to right."""
    parts = [(2, short_name(status.model), "bold")]
    if status.offline:
        parts.append((1, "offline model", "yellow"))
    parts.append(
        (1 if status.mode == "plan" else 3, status.mode.replace("_", " "), _mode_style(status.mode))
    )
    if status.gauge is not None:
        parts += _filled(status, status.gauge, signs)
    if status.cached is not None:
        parts.append((5, f"cache {status.cached:.0%}", "" if status.cached >= 0.5 else "yellow"))
    if status.gauge is not None and status.gauge.requests and not status.offline:
        parts.append((4, money(status.gauge.usd) if status.gauge.usd is not None else "cost unknown", ""))
    if status.queued:
        parts.append((3, f"{status.queued} queued", "cyan"))
    if status.background:
        first = fitted(status.background[0], 24, signs.cut)
        more = f" +{len(status.background) - 1}" if len(status.background) > 1 else ""
        parts.append((4, f"runs: {first}{more}", "cyan"))
    return parts


def _mode_style(mode: str) -> str:
    return {"autonomous": "yellow", "plan": "cyan"}.get(mode, "")


def _filled(status: Status, gauge: Reading, signs: Signs) -> list[tuple[int, str, str]]:
    share = gauge.seen / gauge.effective if gauge.effective else 1.0
    style = "red" if gauge.at_blocking else "yellow" if gauge.above_warning else "green"
    parts = [
        (6, bar(gauge, signs), style),
        (1, f"{share:.0%} of {tokens(gauge.effective)}", style),
        *((2, _how_much(gauge, budget), "yellow") for budget in gauge.heavy),
    ]
    left = gauge.threshold - gauge.high
    if gauge.at_blocking and not status.compacts:
        parts.append((1, "FULL: /compact or /clear", "bold red"))
    elif not status.compacts:
        parts.append((3, "no auto-compaction", "yellow"))
    elif status.taken_back and not gauge.at_blocking:
        parts.append((3, "compaction undone", "yellow"))
    elif left <= 0:
        parts.append((2, "compacts next", "yellow"))
    else:
        parts.append((3, f"compacts in {tokens(left)}", "yellow" if gauge.above_warning else "dim"))
    return parts


def _how_much(gauge: Reading, budget: str) -> str:
    """What a request has nearly too much of."""
    if budget == "images":
        return f"{gauge.images} of {gauge.images_limit} pictures"
    return f"{gauge.wire / 1e6:.1f} of {(gauge.wire_limit or 0) / 1e6:.1f} MB"


def bar(gauge: Reading, signs: Signs, room: int = _BAR) -> str:
    """How full the window is, with a mark where compaction begins."""
    whole = gauge.effective or 1
    filled = min(room, round(gauge.seen / whole * room))
    threshold = min(room - 1, int(gauge.threshold / whole * room))
    cells = [signs.full] * filled + [signs.free] * (room - filled)
    if threshold >= filled:
        cells[threshold] = signs.mark
    return "".join(cells)


def short_name(model: str) -> str:
    """A model's name without its maker's."""
    name = model.removeprefix("claude-")
    return name if cell_len(name) <= 28 else fitted(name, 28)
