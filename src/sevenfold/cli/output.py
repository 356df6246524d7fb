"""How reports are printed: the console, small charts made of characters, progress bars."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from sevenfold.cli.text import printable

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

    from sevenfold.recall.search import Hit


class ReportConsole(Console):
    """A console that prints text without markup; control characters in it are replaced."""

    def __init__(self) -> None:
        super().__init__(highlight=False, markup=False, emoji=False)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The segments of what is printed. What rich adds to steer the terminal is no text of theirs."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)

    def say(self, text: str | Text, style: str = "") -> None:
        """Print text whose lines are not broken at the width of the terminal."""
        self.print(text, style=style, soft_wrap=True)

    def on_broken_pipe(self) -> None:
        """Raise the error again: `main` handles it for all commands."""
        raise


def heading(text: str, note: str = "") -> Text:
    """The heading of a part of a report."""
    return Text.assemble((text, "bold cyan"), (f"  {note}" if note else "", "dim"))


def sections(parts: Sequence[RenderableType | None]) -> Group:
    """The parts of a report below each other; those that are None are left out."""
    return Group(*(Padding(part, (0, 0, 1, 1), expand=False) for part in parts if part is not None))


Column = Mapping[str, Any]
"""The arguments of `Table.add_column`."""
FOLDED: Column = {"overflow": "fold"}
NAME: Column = {"style": "dim", "no_wrap": True}
REMARK: Column = {"style": "dim", "overflow": "fold"}
NUMBER: Column = {"justify": "right", "no_wrap": True}
CUT: Column = {"no_wrap": True, "overflow": "ellipsis"}


Rows = Iterable[Iterable[RenderableType]]


def plain_table(*columns: tuple[str, Column], rows: Rows = (), expand: bool = False) -> Table:
    """Rows in columns with headings, without lines; with ``expand`` a column with a ratio gets what others leave."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False, expand=expand)
    return _filled(table, columns, rows)


def number_table(*columns: str) -> Table:
    """A table whose first column is text and whose others are numbers."""
    first, *others = columns
    # A long name in the first column must not cut the headings of the others.
    return plain_table((first, CUT), *((name, {**NUMBER, "min_width": len(name)}) for name in others))


def grid(*columns: Column, rows: Rows = (), gap: int = 2) -> Table:
    """Rows in columns without lines or headings."""
    return _filled(Table.grid(padding=(0, gap)), [("", column) for column in columns], rows)


def _filled(table: Table, columns: Iterable[tuple[str, Column]], rows: Rows) -> Table:
    for heading, column in columns:
        table.add_column(heading, **column)
    for row in rows:
        table.add_row(*row)
    return table


def mark_matches(hit: Hit, clean: Callable[[str], str] = str, *, quoted: bool) -> Text:
    """The excerpt of a hit with its matches in bold, and in quotation marks where bold may not show."""
    shown, place = Text(overflow="fold"), 0
    opening, closing = ("«", "»") if quoted else ("", "")
    for start, end in hit.marks:
        shown.append(clean(hit.excerpt[place:start]))
        shown.append(f"{opening}{clean(hit.excerpt[start:end])}{closing}", style="bold yellow")
        place = end
    return shown.append(clean(hit.excerpt[place:]))


@contextmanager
def progress_bar(
    doing: str, total: float | None, *columns: ProgressColumn
) -> Iterator[Callable[..., None]]:
    """A bar on the error stream; yields the function that moves it, with the arguments of `Progress.update`."""
    from rich.progress import BarColumn, Progress, TextColumn

    shown = (TextColumn(doing), BarColumn(), *columns)
    with Progress(*shown, console=Console(stderr=True, markup=False), transient=True) as bar:
        yield partial(bar.update, bar.add_task("", total=total))


def spinner(doing: str) -> AbstractContextManager[object]:
    """Something that moves on the error stream while the user waits; nothing if that is not a terminal."""
    return Console(stderr=True).status(doing) if sys.stderr.isatty() else nullcontext()


# -- charts ----------------------------------------------------------------------------------

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_PARTS = " ▏▎▍▌▋▊▉█"


def buckets(values: Sequence[int], width: int) -> list[int]:
    """The values in at most ``width`` columns, the largest of each column."""
    if len(values) <= width:
        return list(values)
    edges = [round(column * len(values) / width) for column in range(width + 1)]
    return [max(values[low:high]) for low, high in pairwise(edges)]


def column_of(index: int, length: int, width: int) -> int:
    """The column of a value after `buckets`."""
    return index if length <= width else min(width - 1, int(index * width / length))


def area_chart(values: Sequence[int], width: int, height: int) -> list[str]:
    """The rows of an area chart, the top row first."""
    columns = buckets(values, width)
    top = max(columns, default=0) or 1
    levels = [max(1, round(value / top * height * 8)) if value else 0 for value in columns]
    rows = reversed(range(height))
    return ["".join(_EIGHTHS[min(8, max(0, level - 8 * row))] for level in levels) for row in rows]


def bar(part: float, whole: float, width: int) -> str:
    """A bar that is full at ``whole``."""
    eighths = round(max(0.0, min(1.0, part / whole if whole else 0.0)) * width * 8)
    if part > 0:
        eighths = max(1, eighths)
    return "█" * (eighths // 8) + _PARTS[eighths % 8].strip()
