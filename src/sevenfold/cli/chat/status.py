"""The status line: the model, how full the window is, the cost, background tasks."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from rich.cells import cell_len
from rich.text import Text

from sevenfold.cli.chat.screen import Signs
from sevenfold.cli.text import fit, money, short_count
from sevenfold.conversation.status import Reading

_BAR = 12


class StatusLine(Struct, frozen=True, kw_only=True):
    """What the status line shows."""

    model: str
    mode: str = "ask"
    offline: bool = False
    sandbox: str = ""
    """What commands are confined by; empty if there is nothing to say."""
    sandbox_weak: bool = False
    gauge: Reading | None = None
    compacts: bool = True
    """Whether auto-compaction is on."""
    compaction_undone: bool = False
    """Whether a compaction was undone, so the next one waits until the window is full."""
    lasting_left_out: int = 0
    """How many of the user's lasting messages found no room behind the newest summary."""
    cached: float | None = None
    """The share of this run's prompt tokens that came from the cache; None while nothing is cached."""
    background: Sequence[str] = ()
    """The running background tasks."""
    queued: int = 0


def draw_status(status: StatusLine, signs: Signs, width: int) -> Text:
    """The status line in fewer than ``width`` cells; the least important parts are dropped first."""
    parts = _parts(status, signs)
    shown = Text()
    for number in sorted({part[0] for part in parts}, reverse=True):
        kept = [(words, style) for rank, words, style in parts if rank <= number]
        shown = Text()
        for index, part in enumerate(kept):
            shown.append(signs.dot if index else "", style="dim").append(*part)
        if shown.cell_len <= width - 1:
            return shown
    return Text(fit(shown.plain, max(1, width - 1), signs.cut))


def _parts(status: StatusLine, signs: Signs) -> list[tuple[int, str, str]]:
    """The rank, words and style of each part, from left to right; parts of rank 1 are dropped last."""
    name = status.model.removeprefix("claude-")
    parts = [(2, name if cell_len(name) <= 28 else fit(name, 28), "bold")]
    if status.offline:
        parts.append((1, "offline model", "yellow"))
    style = {"autonomous": "yellow", "plan": "cyan"}.get(status.mode, "")
    parts.append((1 if status.mode == "plan" else 3, status.mode.replace("_", " "), style))
    if status.sandbox:
        parts.append((3, status.sandbox, "yellow" if status.sandbox_weak else "green"))
    if status.gauge is not None:
        parts += _gauge_parts(status, status.gauge, signs)
    if status.lasting_left_out:
        parts.append((2, f"{status.lasting_left_out} of your lasting messages left out", "yellow"))
    if status.cached is not None:
        parts.append((5, f"cache {status.cached:.0%}", "" if status.cached >= 0.5 else "yellow"))
    if status.gauge is not None and status.gauge.requests and not status.offline:
        parts.append((4, money(status.gauge.usd) if status.gauge.usd is not None else "cost unknown", ""))
    if status.queued:
        parts.append((3, f"{status.queued} queued", "cyan"))
    if status.background:
        first = fit(status.background[0], 24, signs.cut)
        more = f" +{len(status.background) - 1}" if len(status.background) > 1 else ""
        parts.append((4, f"running: {first}{more}", "cyan"))
    return parts


def _gauge_parts(status: StatusLine, gauge: Reading, signs: Signs) -> list[tuple[int, str, str]]:
    share = gauge.seen / gauge.effective if gauge.effective else 1.0
    style = "red" if gauge.above_error else "yellow" if gauge.above_warning else "green"
    parts = [
        (6, _bar(gauge, signs), style),
        (1, f"{share:.0%} of {short_count(gauge.effective)}", style),
        *((2, _budget(gauge, budget), "yellow") for budget in gauge.heavy),
    ]
    left = gauge.threshold - gauge.high
    if gauge.at_blocking and not status.compacts:
        parts.append((1, "FULL: /compact or /clear", "bold red"))
    elif not status.compacts:
        parts.append((3, "no auto-compaction", "yellow"))
    elif status.compaction_undone and not gauge.at_blocking:
        parts.append((3, "compaction undone", "yellow"))
    elif left <= 0:
        parts.append((2, "compacts next", "yellow"))
    else:
        parts.append((3, f"compacts in {short_count(left)}", style if gauge.above_warning else "dim"))
    return parts


def _budget(gauge: Reading, budget: str) -> str:
    """How close a request is to the provider's limit on images or bytes."""
    if budget == "images":
        return f"{gauge.images} of {gauge.images_limit} images"
    return f"{gauge.wire / 1e6:.1f} of {(gauge.wire_limit or 0) / 1e6:.1f} MB"


def _bar(gauge: Reading, signs: Signs) -> str:
    """A bar that shows how full the window is, with a mark at the compaction threshold."""
    whole = gauge.effective or 1
    filled = min(_BAR, round(gauge.seen / whole * _BAR))
    threshold = min(_BAR - 1, int(gauge.threshold / whole * _BAR))
    cells = [signs.full] * filled + [signs.free] * (_BAR - filled)
    if threshold >= filled:
        cells[threshold] = signs.mark
    return "".join(cells)
