"""An app at the bottom of a terminal that may break its lines anew when the window becomes narrower.

Most terminals then turn a row that no longer fits into several. The rows that are redrawn take more room than was
drawn, and whoever erases only what was drawn leaves their beginning behind: it would be read twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from math import ceil
from time import monotonic
from typing import Literal

from prompt_toolkit.application import Application
from prompt_toolkit.layout.screen import Screen
from prompt_toolkit.output.vt100 import Vt100_Output

SETTLED_SECONDS = 0.3
"""How long nothing is drawn after the window has changed: a window that is being dragged changes again."""
_CUTTING = ("linux", "vt", "screen")
"""Beginnings of the names of terminals that cut lines and do not break them."""
Reflow = Literal["cuts", "breaks", "breaks erased cells"]
"""What a terminal does with rows that no longer fit; in the last case, cells that were erased count as used."""


def reflow_of(environ: Mapping[str, str]) -> Reflow:
    """What the terminal does with rows that no longer fit; the few that cut them are known by their names."""
    if environ.get("TMUX"):
        return "breaks erased cells"
    cuts = environ.get("XTERM_VERSION") or environ.get("TERM", "").startswith(_CUTTING)
    return "cuts" if cuts else "breaks"


def row_widths(screen: Screen) -> list[int]:
    """The width of each row that was drawn, without blanks at its end."""
    widths = []
    for row in range(screen.height):
        cells = screen.data_buffer[row].items()
        widths.append(max((place + cell.width for place, cell in cells if cell.char.strip()), default=0))
    return widths


def rows_above(widths: Sequence[int], column: int, row: int, columns: int) -> int:
    """How many rows lie above the cursor, which was at this place, once every row fits into so many columns."""
    return column // columns + sum(max(1, ceil(width / columns)) for width in widths[:row])


class InlineOutput(Vt100_Output):
    """A terminal that keeps nothing of what was erased."""

    def erase_down(self) -> None:
        """Erase from the cursor, which is at the beginning of a row, to the end of the screen."""
        # From the very first cell on, tmux moves the screen into the history instead, and it would be read twice.
        self.write_raw("\x1b[K\x1b[C\x1b[J\x1b[D")


class ReflowingApplication(Application[None]):
    """An application that erases all it has drawn even after the terminal has broken it into more rows.

    While the window keeps changing it draws nothing, so that there is nothing for the terminal to break.
    """

    reflow: Reflow = "cuts"
    _columns = 0
    """The width for which the rows on the screen were drawn."""
    _widths: Sequence[int] = ()
    """How much of each row is used."""
    _settles_at = 0.0

    def _on_resize(self) -> None:
        self.erase()
        self._settles_at = monotonic() + SETTLED_SECONDS
        if self.loop is not None:
            self.loop.call_later(SETTLED_SECONDS, self._redraw)

    def _redraw(self, render_as_done: bool = False) -> None:
        columns = self.output.get_size().columns
        if self._is_running and not render_as_done and 0 < columns < self._columns:
            self._on_resize()  # the signal is still on its way
        elif render_as_done or monotonic() >= self._settles_at:
            super()._redraw(render_as_done)
            self._columns = columns
            self._measure()

    def _measure(self) -> None:
        screen = self.renderer.last_rendered_screen
        widths = [] if screen is None else row_widths(screen)
        if self.reflow == "breaks erased cells":
            pairs = zip_longest(widths, self._widths, fillvalue=0)
            widths = [max(width, before) for width, before in pairs]
        self._widths = widths

    def erase(self) -> None:
        """Erase what was drawn, in as many rows as it takes now."""
        columns = self.output.get_size().columns
        screen = self.renderer.last_rendered_screen
        if self.reflow != "cuts" and screen is not None and 0 < columns < self._columns:
            cursor = screen.get_cursor_position(self.layout.current_window)
            self.output.cursor_up(rows_above(self._widths, cursor.x, cursor.y, columns) - cursor.y)
        self._columns = columns
        self._widths = ()
        self.renderer.erase(leave_alternate_screen=False)
