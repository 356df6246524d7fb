"""The end of a demonstration: a chart of the context, the figures, and what had to hold."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sevenfold.cli import chart
from sevenfold.cli.demo_progress import STYLES
from sevenfold.cli.phrases import count, money, plural
from sevenfold.lab.demo.figures import MODEL, Figures, Outcome, bars

HEIGHT = 8
SIGNS = {"offload": "o", "clear": "c", "compact": "C"}
KILLED = "†"
_MARGIN = 10


def shown(outcome: Outcome, width: int) -> RenderableType:
    """All of it, for a terminal of that width."""
    return Group(
        "",
        Text(f"The context, turn by turn ({plural(outcome.figures.turns, 'turn')})", style="bold"),
        _chart(outcome, width - _MARGIN),
        "",
        _figures(outcome),
        "",
        *(_bar(says, met=met) for says, met in bars(outcome).items()),
        *(Text(f"  lost: {fact}", style="red") for fact in outcome.lost),
        "",
        Text(
            f"Simulated: the assistant's words are a script, tokens and dollars are the simulator's, by the price list "
            f"of {MODEL}.",
            style="dim",
        ),
    )


def _chart(outcome: Outcome, width: int) -> RenderableType:
    """The size of the context over time, with what the layers did beneath it."""
    rows = chart.area(outcome.sizes, width, HEIGHT)
    top = max(outcome.sizes)
    lines = [
        Text.assemble((f"{label:>9} ", "dim"), (row, "cyan"))
        for label, row in zip([count(top), *[""] * (HEIGHT - 1)], rows, strict=True)
    ]
    return Group(*lines, _signs(outcome, width), Padding(Text(_legend(), style="dim"), (0, 0, 0, _MARGIN)))


def _signs(outcome: Outcome, width: int) -> Text:
    """What layers did, beneath the column in which they did it; what matters most is written last."""
    turns = len(outcome.sizes)
    columns = min(width, turns)
    places: list[tuple[str, str]] = [(" ", "")] * columns
    for layer, sign in SIGNS.items():
        for turn, acted in outcome.acted:
            if acted == layer:
                places[chart.column(min(turn, turns - 1), turns, width)] = sign, STYLES[layer]
    places[chart.column(min(outcome.killed, turns - 1), turns, width)] = KILLED, "bold red"
    return Text.assemble(" " * _MARGIN, *places)


def _legend() -> str:
    return f"o offloaded   c cleared   C compacted   {KILLED} killed and resumed"


def _figures(outcome: Outcome) -> Table:
    figures = outcome.figures
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column()
    for name, value in _rows(outcome, figures):
        table.add_row(name, value)
    return table


def _rows(outcome: Outcome, figures: Figures) -> list[tuple[str, str]]:
    facts, fired = figures.facts, figures.layers
    return [
        (
            "context",
            f"at most {count(figures.peak_context_tokens)} tokens; the whole conversation has "
            f"{count(outcome.needed_tokens)}",
        ),
        (
            "layers",
            f"offloaded {fired['offload']}, cleared {fired['clear']}, compacted {fired['compact']} times; "
            f"notes brought up to date {fired['notes']} times, beside the work",
        ),
        (
            "cost",
            f"{money(figures.cost_usd)} for {plural(figures.turns, 'turn')} and "
            f"{plural(outcome.side_requests, 'request')} of the layers; ideal {money(figures.ideal_cost_usd)}, "
            f"naive {money(figures.naive_cost_usd)}",
        ),
        ("cache", f"{figures.cache_read_share:.1%} of all prompt tokens were read from it"),
        (
            "facts",
            f"{facts['in_context']} in the context, {facts['reachable']} within reach of recall, {facts['lost']} lost",
        ),
        ("at last", f"“{outcome.answer}”"),
    ]


def _bar(says: str, *, met: bool) -> Text:
    return Text.assemble(("✓ ", "green") if met else ("✗ ", "bold red"), says)
