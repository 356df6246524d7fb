"""`sevenfold eval`: measures recall on conversations with questions whose answers are known."""

from __future__ import annotations

import argparse
from pathlib import Path

from sevenfold.cli.output import NAME, NUMBER, ReportConsole, grid, spinner
from sevenfold.cli.text import add_switches, print_json
from sevenfold.lab import locomo
from sevenfold.recall import meaning


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = command.add_argument
    add("benchmark", choices=("locomo",), metavar="BENCHMARK")
    add("--data", type=Path, required=True, metavar="FILE")
    add("--key", type=Path, metavar="FILE")
    add("--by", metavar="WAY")
    add_switches(command, "--only-hidden", "--strangers", "--json")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    by = meaning.way(options.by)
    dialogues = locomo.read(options.data, options.key)
    with spinner("asking"):
        report = locomo.measure(dialogues, by, only_hidden=options.only_hidden, strangers=options.strangers)
    if options.json:
        print_json(report)
        return 0
    whole = locomo.RecallScore(report.questions, report.recall, report.interval)
    console = ReportConsole()
    rows = [["", "questions", *(f"R@{k}" for k in locomo.DEPTHS), "R@10, 95%"]]
    for name, score in {"all": whole, **report.by_category}.items():
        figures = (f"{figure:.1f}" for figure in score.recall.values())
        interval = score.interval["10"]
        rows.append([name, str(score.questions), *figures, "{:.1f} to {:.1f}".format(*interval)])
    console.print(grid(NAME, *[NUMBER] * 5, rows=rows))
    sure = " · ".join(f"R@{depth} {figure:.1f}" for depth, figure in report.sure_recall.items())
    console.print(f"\nOf this, recall is sure of: {sure}")
    if (wrong := report.answered_without_evidence) is not None:
        console.print(
            f"{wrong:.1f}% of questions about other conversations got an answer; for {100 - wrong:.1f}%, recall said"
            " that nothing matches well."
        )
    return 0
