"""What fills the window: every piece in view with its tokens, by category, and drawn to scale.

Servers report sizes of whole prompts only, so each piece is estimated and all are scaled to the size the gauge
reads; the picture is as right as that.
"""

from __future__ import annotations

from collections import defaultdict

from msgspec import Struct
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sevenfold.cli.chat.signs import Signs
from sevenfold.cli.chat.words import one_line, tokens
from sevenfold.cli.phrases import CATEGORIES, category, share
from sevenfold.conversation.session import Reading, Session
from sevenfold.lab.profile.context import CallLabel, label_of_block, piece_of
from sevenfold.record import weight
from sevenfold.request.frame import tool_name

SYSTEM, TOOLS = "system", "tools"
_NAMES = {SYSTEM: "system prompt", TOOLS: "tools, described"}
_LETTERS = "STUARIHCPMDO"
"""Given to categories whose own first letter is taken."""
_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "red", "bright_cyan", "bright_green")
_ROWS = 5
_MOST_ITEMS = 8


class Item(Struct, frozen=True):
    """Something in the window."""

    category: str
    tokens: int
    what: str = ""


class Contents(Struct, frozen=True):
    """All that is in the window."""

    items: tuple[Item, ...]
    gauge: Reading

    def by_category(self) -> list[tuple[str, int]]:
        """Categories with their tokens, the largest first."""
        sums: defaultdict[str, int] = defaultdict(int)
        for item in self.items:
            sums[item.category] += item.tokens
        return sorted(sums.items(), key=lambda pair: (-pair[1], pair[0]))


def contents(session: Session) -> Contents:
    """What is in a session's window now."""
    with session.lock:
        gauge, frame = session.gauge, session.exchange.frame
        estimate = session.exchange.gauge.estimator.tokens
        found = [(SYSTEM, "", estimate(weight.opening(part))) for part in frame.system]
        found += [(TOOLS, tool_name(part), estimate(weight.opening(part))) for part in frame.tools]
        calls: dict[str, CallLabel] = {}
        for item in session.transcript.view.items:
            for block in item.shown:
                if block.kind == "tool_use":
                    calls[block.id] = label_of_block(block)
                piece = piece_of(item.said, block, weight.total([block]), calls.get(block.id))
                found.append((piece.category, piece.what or piece.tool, estimate(piece.weight)))
    whole = sum(size for _, _, size in found)
    scale = gauge.seen / whole if whole > 0 else 1.0
    items = tuple(Item(kind, round(max(0.0, size) * scale), what) for kind, what, size in found)
    return Contents(items, gauge)


def picture(held: Contents, signs: Signs, width: int) -> RenderableType:
    """The window drawn to scale, its categories, and its largest items."""
    sums = [(name, size) for name, size in held.by_category() if size]
    letters = _letters([name for name, _ in sums])
    parts: list[RenderableType] = [
        _headline(held.gauge),
        _drawn(sums, letters, held.gauge, signs, max(20, min(72, width - 4))),
        Text(),
        _table(sums, letters, held.gauge),
    ]
    largest = sorted((item for item in held.items if item.category not in (SYSTEM, TOOLS)), key=_size)
    if largest:
        parts += [Text(), Text("largest items", style="bold"), _items(largest[:_MOST_ITEMS], width)]
    return Group(*parts)


def _size(item: Item) -> int:
    return -item.tokens


def _headline(gauge: Reading) -> Text:
    band = f" (at most {tokens(gauge.high)})" if gauge.high > gauge.seen else ""
    left = gauge.threshold - gauge.high
    far = f"compaction in {tokens(left)}" if left > 0 else "compaction is due"
    return Text.assemble(
        (f"{gauge.seen:,} of {gauge.effective:,} tokens", "bold"),
        (f"{band}, {share(gauge.seen, gauge.effective)} full; {far}, at {gauge.threshold:,}", ""),
    )


def _letters(names: list[str]) -> dict[str, str]:
    """A letter for each category, none twice."""
    taken: dict[str, str] = {}
    for name in names:
        spoken = _name(name).upper().removeprefix("RESULTS OF ").removeprefix("WHAT THE ")
        wanted = [sign for sign in spoken if sign.isalpha()] + list(_LETTERS)
        free = (sign for sign in wanted if sign not in taken.values())
        taken[name] = next(free, "?")
    return taken


def _drawn(
    sums: list[tuple[str, int]], letters: dict[str, str], gauge: Reading, signs: Signs, room: int
) -> Text:
    """Rows of cells, each worth the same number of tokens; the mark is where compaction begins."""
    cells, each = room * _ROWS, max(1.0, gauge.effective / (room * _ROWS))
    drawn: list[tuple[str, str]] = []
    for number, (name, size) in enumerate(sums):
        drawn += [(letters[name], _COLOURS[number % len(_COLOURS)])] * max(1, round(size / each))
    drawn = drawn[:cells] + [(signs.free, "dim")] * max(0, cells - len(drawn))
    threshold = min(cells - 1, int(gauge.threshold / each))
    drawn[threshold] = (signs.mark, "bold yellow")
    picture = Text()
    for place, (sign, style) in enumerate(drawn):
        picture.append(sign, style=style)
        if place % room == room - 1 and place + 1 < cells:
            picture.append("\n")
    return picture


def _table(sums: list[tuple[str, int]], letters: dict[str, str], gauge: Reading) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis")
    table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True, justify="right")
    for number, (name, size) in enumerate(sums):
        sign = Text(letters[name], style=_COLOURS[number % len(_COLOURS)])
        table.add_row(sign, Text(_name(name)), f"{size:,}", share(size, gauge.effective))
    free = max(0, gauge.effective - gauge.seen)
    table.add_row("", Text("free", style="dim"), f"{free:,}", share(free, gauge.effective))
    return table


def _items(items: list[Item], width: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, pad_edge=False)
    table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True, overflow="ellipsis", max_width=max(12, width // 3))
    table.add_column(no_wrap=True, overflow="ellipsis", style="dim")
    for item in items:
        table.add_row(
            f"{item.tokens:,}", Text(_name(item.category)), Text(one_line(item.what, max(12, width // 2)))
        )
    return table


def _name(name: str) -> str:
    return _NAMES.get(name) or (category(name) if name in CATEGORIES or ":" in name else name)
