"""`sevenfold demo`: an agent works for hundreds of turns, offline, and a report shows what the layers did for it.

On a terminal, the line for the current turn is redrawn, and each action of a layer is printed permanently. Elsewhere, a
line is printed every few turns. At the end come a chart of the context, the figures, and whether each goal was met.
"""

from __future__ import annotations

import argparse
import sys
from typing import Self, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sevenfold.cli.output import FOLDED, area_chart, bar, column_of, grid
from sevenfold.cli.text import complain, count, money, not_installed, plural, print_json, shorten
from sevenfold.events import Acted, Answered
from sevenfold.lab.demo import figures as demo
from sevenfold.lab.demo.figures import AgentStarted, DemoOutcome

EVERY = 25
"""Without a terminal, a line is printed every so many turns."""
GAUGE = 16
STYLES = {"offload": "cyan", "clear": "yellow", "notes": "blue", "compact": "magenta", "remember": "green"}
NARROW = 60
WIDE = 108


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    command.add_argument("--fast", action="store_true")
    command.add_argument("--json", action="store_true")
    command.add_argument("--keep", action="store_true")


def run(options: argparse.Namespace) -> int:
    """Run the demonstration and show the result; returns the exit code."""
    try:
        # The SDK and the server come with extras that only the demo needs.
        from sevenfold.lab.demo.run import FAST, FULL, scratch_folder
        from sevenfold.lab.demo.run import run as run_demo
    except ModuleNotFoundError as error:
        raise not_installed("demo", "anthropic,simulator", error) from error
    progress = DemoProgress(console_for(sys.stderr if options.json else sys.stdout))
    with progress, scratch_folder(keep=options.keep) as folder:
        if options.keep:
            complain(f"the scratch folder {folder} will be kept")
        outcome = run_demo(FAST if options.fast else FULL, folder, progress.show)
    if options.json:
        print_json(outcome.figures)
    else:
        progress.console.print(report(outcome, progress.console.width))
    return 0 if all(demo.bars(outcome).values()) else 1


def console_for(file: TextIO) -> Console:
    """A console on a stream, no wider than is readable."""
    console = Console(file=file, highlight=False)
    return Console(file=file, highlight=False, width=min(WIDE, max(NARROW, console.width)))


class DemoProgress:
    """Shows the events of the demonstration as they happen."""

    def __init__(self, console: Console, *, live: bool | None = None) -> None:
        self.console = console
        live = console.is_terminal if live is None else live
        self._live = Live(console=console, auto_refresh=False, transient=True) if live else None
        self._turns = self._size = self._threshold = self._notes = 0
        self._doing = ""

    def __enter__(self) -> Self:
        note = "The model is simulated; the agent, its tools and the requests are real. Ctrl-C stops."
        self.console.print(Text(note, style="dim"))
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.update(Text(""), refresh=True)
            self._live.stop()

    def show(self, event: demo.Report) -> None:
        """Show an event of the demonstration."""
        match event:
            case AgentStarted(resumed=False) if self._threshold:
                self._line("next day", "green", "a new session, which has nothing but memory")
            case AgentStarted(threshold=threshold, resumed=False):
                self._threshold = threshold
                self._line("started", "green", f"compaction is due at {threshold:,} tokens")
            case AgentStarted(threshold=threshold):
                self._threshold = threshold
                event_text = (
                    "the agent's process was killed while it waited for an answer; a new one resumes"
                )
                self._line("killed", "bold red", f"{event_text} from disk")
            case Answered():
                self._turns += 1
                self._size = demo.prompt_tokens(event)
                if self._live is None and self._turns % EVERY == 0:
                    self.console.print(self._state())
                self._refresh()
            case demo.ToolUsed(tool=tool, about=about):
                self._doing = f"{tool} {about}"
                self._refresh()
            case Acted(layer="notes"):
                self._notes += 1
            case Acted(layer=name, what=what, why=why, tokens_before=before, tokens_after=after):
                sizes = f", {count(before)} → {count(after)} tokens" if before else ""
                self._line(name, STYLES.get(name, ""), f"{what}{sizes} ", why)
            case demo.HandedOver(agents=agents, at_work=at_work):
                killed = f"killed while {at_work} were at it, and resumed"
                self._line("relay", "green", f"work handed to {', '.join(agents)}; {killed}")
            case demo.TaskEnded(text=text):
                self._line("said", "green", text)
            case _:
                pass

    def _refresh(self) -> None:
        if self._live is not None:
            self._live.update(self._state(), refresh=True)

    def _line(self, label: str, style: str, message: str, reason: str = "") -> None:
        text = Text.assemble((f"{label:<9}", style), message, (reason, "dim"))
        turn = Text(f"turn {self._turns:<4} ", style="dim")
        if not self.console.is_terminal:
            self.console.print(turn + text, soft_wrap=True)
            return
        self.console.print(grid({"no_wrap": True}, FOLDED, rows=[(turn, text)]))

    def _state(self) -> Text:
        filled = bar(self._size, self._threshold, GAUGE)
        sizes = f"{count(self._size)} of {count(self._threshold)}"
        state = f"turn {self._turns:<4} ▕{filled:<{GAUGE}}▏ {sizes}  {plural(self._notes, 'note')}  "
        room = self.console.width - len(state) - 1
        shown = Text(state + (shorten(self._doing, room) if room > 1 else ""), style="dim")
        shown.truncate(self.console.width - 1)
        return shown


# -- the report ------------------------------------------------------------------------------

HEIGHT = 8
SIGNS = {"offload": "o", "clear": "c", "compact": "C"}
KILLED = "†"
_MARGIN = 10


def report(outcome: DemoOutcome, width: int) -> RenderableType:
    """The whole report, for a terminal of this width."""
    simulated = (
        "Simulated: the assistant's words are a script; tokens and dollars are the simulator's, by the price list of "
        f"{demo.MODEL}."
    )
    return Group(
        "",
        Text(f"The context, turn by turn ({plural(outcome.figures.turns, 'turn')})", style="bold"),
        _chart(outcome, width - _MARGIN),
        "",
        _figures(outcome),
        "",
        *(_goal_line(goal, met=met) for goal, met in demo.bars(outcome).items()),
        *(Text(f"  lost: {fact}", style="red") for fact in outcome.lost),
        "",
        Text(simulated, style="dim"),
    )


def _goal_line(goal: str, *, met: bool) -> Text:
    return Text.assemble(("✓ ", "green") if met else ("✗ ", "bold red"), goal)


def _chart(outcome: DemoOutcome, width: int) -> RenderableType:
    """A chart of the context size over time, with the layers' actions below it."""
    lines = []
    for number, row in enumerate(area_chart(outcome.sizes, width, HEIGHT)):
        label = "" if number else count(max(outcome.sizes))
        lines.append(Text.assemble((f"{label:>9} ", "dim"), (row, "cyan")))
    legend = f"o offloaded   c cleared   C compacted   {KILLED} killed and resumed"
    return Group(*lines, _signs(outcome, width), Padding(Text(legend, style="dim"), (0, 0, 0, _MARGIN)))


def _signs(outcome: DemoOutcome, width: int) -> Text:
    """A sign for each action of a layer, below its column; more important signs overwrite others."""
    turns = len(outcome.sizes)
    places: list[tuple[str, str]] = [(" ", "")] * min(width, turns)

    def put(turn: int, sign: str, style: str) -> None:
        places[column_of(min(turn, turns - 1), turns, width)] = sign, style

    for layer, sign in SIGNS.items():
        for turn, acted in outcome.acted:
            if acted == layer:
                put(turn, sign, STYLES[layer])
    put(outcome.killed, KILLED, "bold red")
    return Text.assemble(" " * _MARGIN, *places)


def _figures(outcome: DemoOutcome) -> Table:
    figures = outcome.figures
    facts = figures.facts
    fired = figures.layers
    rows = {
        "context": f"at most {count(figures.peak_context_tokens)} tokens; the whole conversation has "
        f"{count(outcome.needed_tokens)}",
        "layers": f"offloaded {fired['offload']}, cleared {fired['clear']}, compacted {fired['compact']} times; "
        f"notes updated {fired['notes']} times, in the background",
        "cost": f"{money(figures.cost_usd)} for {plural(figures.turns, 'turn')} and "
        f"{plural(outcome.side_requests, 'request')} of the layers; ideal {money(figures.ideal_cost_usd)}, "
        f"naive {money(figures.naive_cost_usd)}",
        "cache": f"{figures.cache_read_share:.1%} of all prompt tokens were read from it",
        "facts": f"{facts['in_context']} in the context, {facts['reachable']} reachable by recall, "
        f"{facts['lost']} lost",
        "last answer": f"“{outcome.answer}”",
    }
    return grid({"style": "bold"}, {}, rows=rows.items())
