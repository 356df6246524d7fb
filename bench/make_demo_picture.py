"""Draws docs/demo.svg: the start and the end of a real run of `sevenfold demo`, without a web font."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from bench.make_picture import FRAME
from sevenfold.cli.demo import DemoProgress, report
from sevenfold.events import Acted
from sevenfold.lab.demo.figures import AgentStarted, DemoOutcome, Report, TaskEnded
from sevenfold.lab.demo.run import FULL, run, scratch_folder

WIDTH = 96
FIRST_LINES = 12
"""The number of progress lines shown before the report."""
PICTURE = Path(__file__).parent.parent / "docs" / "demo.svg"


def held() -> tuple[DemoOutcome, list[Report]]:
    """Run a whole demonstration; return its outcome and all progress reports."""
    told: list[Report] = []
    with scratch_folder(keep=False) as folder:
        return run(FULL, folder, told.append), told


def draw(outcome: DemoOutcome, told: list[Report]) -> str:
    """Return the picture as SVG: the first lines of progress, and the final report."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False)
    console.print("$ ./dev demo", style="bold")
    progress = DemoProgress(console, live=False)
    with progress:
        lines = 0
        for one in told:
            lines += isinstance(one, Acted | TaskEnded | AgentStarted) and not (
                isinstance(one, Acted) and one.layer == "notes"
            )
            if lines > FIRST_LINES:
                break
            progress.show(one)
    console.print("          …", style="dim")
    console.print(report(outcome, WIDTH))
    return console.export_svg(title="sevenfold demo", code_format=FRAME, unique_id="demo")


if __name__ == "__main__":
    PICTURE.write_text(draw(*held()), encoding="utf-8")
