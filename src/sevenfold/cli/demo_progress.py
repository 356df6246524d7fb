"""What is shown of a demonstration while it goes on.

On a terminal one line stands for the turn at hand and is written over; what a layer does stays. Elsewhere a line is
printed for every few turns.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self, TextIO

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sevenfold.cli import chart
from sevenfold.cli.phrases import count, plural, shortened
from sevenfold.events import Acted, Answered
from sevenfold.lab.demo.figures import AgentStarted, Report, TaskEnded, ToolUsed, prompt_tokens

EVERY = 25
"""Where lines cannot be written over, one is printed for so many turns."""
GAUGE = 16
STYLES = {"offload": "cyan", "clear": "yellow", "notes": "blue", "compact": "magenta"}
NARROW, WIDE = 60, 108


def console_for(file: TextIO) -> Console:
    """A console on a stream, no wider than is good to read."""
    console = Console(file=file, highlight=False)
    return Console(file=file, highlight=False, width=min(WIDE, max(NARROW, console.width)))


class Progress:
    """Shows what is told, as it is told."""

    def __init__(self, console: Console, *, live: bool | None = None) -> None:
        self.console = console
        live = console.is_terminal if live is None else live
        self._live = Live(console=console, auto_refresh=False, transient=True) if live else None
        self._turns = self._size = self._threshold = self._notes = 0
        self._doing = ""

    def __enter__(self) -> Self:
        self.console.print(
            Text(
                "The model is simulated; the agent, its tools and the requests are real. Ctrl-C stops.",
                style="dim",
            )
        )
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.update(Text(""), refresh=True)
            self._live.stop()

    def told(self, told: Report) -> None:
        """Something happened."""
        match told:
            case AgentStarted(threshold=threshold, resumed=resumed):
                self._threshold = threshold
                self._ready(resumed=resumed)
            case Answered():
                self._turns += 1
                self._size = prompt_tokens(told)
                self._turned()
            case ToolUsed(tool=tool, about=about):
                self._doing = f"{tool} {about}"
                self._now()
            case Acted(layer="notes"):
                self._notes += 1
            case Acted():
                self._acted(told)
            case TaskEnded(text=text):
                self._line(Text.assemble(("said     ", "green"), text))
            case _:
                pass

    def _ready(self, *, resumed: bool) -> None:
        if resumed:
            words = "the agent's process was killed while it waited for an answer; another one goes on from the disk"
            self._line(Text.assemble(("killed   ", "bold red"), words))
        else:
            self._line(
                Text.assemble(("begun    ", "green"), f"compaction is due at {self._threshold:,} tokens")
            )

    def _acted(self, acted: Acted) -> None:
        sizes = f"{count(acted.tokens_before)} → {count(acted.tokens_after)} tokens"
        self._line(
            Text.assemble(
                (f"{acted.layer:<9}", STYLES.get(acted.layer, "")),
                f"{acted.what}, {sizes} ",
                (acted.why, "dim"),
            )
        )

    def _turned(self) -> None:
        if self._live is None and self._turns % EVERY == 0:
            self.console.print(self._state())
        self._now()

    def _now(self) -> None:
        if self._live is not None:
            self._live.update(self._state(), refresh=True)

    def _line(self, text: Text) -> None:
        turn = Text(f"turn {self._turns:<4} ", style="dim")
        if not self.console.is_terminal:
            self.console.print(turn + text, soft_wrap=True)
            return
        row = Table.grid()
        row.add_column(no_wrap=True)
        row.add_column(overflow="fold")
        row.add_row(turn, text)
        self.console.print(row)

    def _state(self) -> Text:
        filled = chart.bar(self._size, self._threshold, GAUGE)
        state = (
            f"turn {self._turns:<4} ▕{filled:<{GAUGE}}▏ {count(self._size)} of {count(self._threshold)}  "
            f"{plural(self._notes, 'note')}  "
        )
        room = self.console.width - len(state) - 1
        shown = Text(state + (shortened(self._doing, room) if room > 1 else ""), style="dim")
        shown.truncate(self.console.width - 1)
        return shown
