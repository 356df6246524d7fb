"""How reports are printed: the console, tables, progress bars, and small charts made of characters."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from sevenfold.archive.thinning import thinned
from sevenfold.cli.text import printable

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

    from sevenfold.recall.search import Hit


class ReportConsole(Console):
    """A console that prints text without markup, with control characters replaced."""

    def __init__(self) -> None:
        super().__init__(highlight=False, markup=False, emoji=False)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The segments to print, their text made printable; rich's own control segments pass unchanged."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)

    def say(self, text: str | Text, style: str = "") -> None:
        """Print text without breaking its lines at the width of the terminal."""
        self.print(text, style=style, soft_wrap=True)

    def on_broken_pipe(self) -> None:
        """Re-raise the error: `main` handles it for all commands."""
        raise


def heading(text: str, note: str = "") -> Text:
    """The heading of a section of a report, with an optional note."""
    return Text.assemble((text, "bold cyan"), (f"  {note}" if note else "", "dim"))


def sections(blocks: Sequence[RenderableType | None]) -> Group:
    """The sections of a report, one below the other; None is skipped."""
    return Group(*(Padding(block, (0, 0, 1, 1), expand=False) for block in blocks if block is not None))


Column = Mapping[str, Any]
"""The arguments of `Table.add_column`."""
FOLDED: Column = {"overflow": "fold"}
NAME: Column = {"style": "dim", "no_wrap": True}
REMARK: Column = {"style": "dim", "overflow": "fold"}
NUMBER: Column = {"justify": "right", "no_wrap": True}
CUT: Column = {"no_wrap": True, "overflow": "ellipsis"}


_PLAIN: Mapping[str, Any] = {"box": None, "padding": (0, 2, 0, 0), "header_style": "dim", "pad_edge": False}


Rows = Iterable[Iterable[RenderableType]]


def plain_table(*columns: tuple[str, Column], rows: Rows = (), expand: bool = False) -> Table:
    """A table with headings and no lines; with ``expand``, columns with a ratio take the remaining width."""
    return _filled(Table(**_PLAIN, expand=expand), columns, rows)


class NumberTable(Table):
    """A table whose first column is text and whose others are numbers: a long text is cut, a number never."""

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        """Add a row; see `Table.add_row`."""
        first_cell, *further_cells = cells
        if isinstance(first_cell, str | Text):
            # Only columns that may wrap give way to others, so the column may, and the text in it does not.
            first_cell = Text(str(first_cell), no_wrap=True, overflow="ellipsis")
        super().add_row(first_cell, *further_cells, **options)


def number_table(*columns: str) -> Table:
    """An empty table whose first column is text and whose others are numbers."""
    first_column, *further_columns = columns
    table = NumberTable(**_PLAIN)
    return _filled(table, ((first_column, {}), *((name, NUMBER) for name in further_columns)))


def grid(*columns: Column, rows: Rows = (), gap: int = 2) -> Table:
    """A table without headings or lines."""
    return _filled(Table.grid(padding=(0, gap)), [("", column) for column in columns], rows)


def _filled(table: Table, columns: Iterable[tuple[str, Column]], rows: Rows = ()) -> Table:
    for heading, column in columns:
        table.add_column(heading, **column)
    for row in rows:
        table.add_row(*row)
    return table


def mark_matches(hit: Hit, clean: Callable[[str], str] = str, *, quoted: bool) -> Text:
    """The excerpt of a hit with its matches in bold; ``quoted``, also in quotation marks, as bold may not show."""
    shown = Text(overflow="fold")
    position = 0
    opening, closing = ("«", "»") if quoted else ("", "")
    for start, end in hit.marks:
        shown.append(clean(hit.excerpt[position:start]))
        shown.append(f"{opening}{clean(hit.excerpt[start:end])}{closing}", style="bold yellow")
        position = end
    return shown.append(clean(hit.excerpt[position:]))


@contextmanager
def progress_bar(
    doing: str, total: float | None, *columns: ProgressColumn
) -> Iterator[Callable[..., None]]:
    """Show a progress bar on the error stream; yields a function that takes the arguments of `Progress.update`."""
    from rich.progress import BarColumn, Progress, TextColumn

    shown = (TextColumn(doing), BarColumn(), *columns)
    with Progress(*shown, console=Console(stderr=True, markup=False), transient=True) as bar:
        yield partial(bar.update, bar.add_task("", total=total))


def spinner(doing: str) -> AbstractContextManager[object]:
    """Show a spinner on the error stream while the user waits, if it is a terminal."""
    return Console(stderr=True).status(doing) if sys.stderr.isatty() else nullcontext()


# -- charts ----------------------------------------------------------------------------------

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_PARTS = " ▏▎▍▌▋▊▉█"


def column_of(index: int, length: int, width: int) -> int:
    """The column in which `thinned` puts the value at an index."""
    return index if length <= width else min(width - 1, int(index * width / length))


def area_chart(values: Sequence[int], width: int, height: int) -> list[str]:
    """The rows of an area chart, the top row first."""
    columns = thinned(values, width)
    top = max(columns, default=0) or 1
    levels = [max(1, round(value / top * height * 8)) if value else 0 for value in columns]
    rows = reversed(range(height))
    return ["".join(_EIGHTHS[min(8, max(0, level - 8 * row))] for level in levels) for row in rows]


def bar(amount: float, whole: float, width: int) -> str:
    """A horizontal bar of at most ``width`` cells, full when ``amount`` reaches ``whole``."""
    eighths = round(max(0.0, min(1.0, amount / whole if whole else 0.0)) * width * 8)
    if amount > 0:
        eighths = max(1, eighths)
    return "█" * (eighths // 8) + _PARTS[eighths % 8].strip()
