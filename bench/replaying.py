"""Recorded sessions under every policy, summed over a folder: the table of docs/replay.md.

    python bench/replaying.py [FOLDER]      default: ../shared/corpus next to the project

Prints the totals for windows of 200,000 and of 100,000 tokens as Markdown. The exit status is 1 if our policy loses a
rule, or if another policy that loses none is cheaper.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from sevenfold.archive.profile.files import FoundFiles, find
from sevenfold.lab import replay
from sevenfold.lab.replay import PolicyTotal, ReplayReport

CORPUS = Path(__file__).resolve().parent.parent.parent / "shared" / "corpus"
MODEL = "claude-opus-4-6"
WINDOWS = (200_000, 100_000)
JOBS: int | None = None
"""The number of processes; by default one per processor."""
OURS = "ours"
HEAD = (
    "| policy | sessions held | cost | ours on the same sessions | read from the cache | summaries | waits "
    "| facts in context, looked up, lost | rules lost |\n|---|---|---|---|---|---|---|---|---|"
)


def measure(
    folder: Path, window: int, policies: Sequence[str] = replay.STANDARD, jobs: int | None = None
) -> ReplayReport:
    """Replay every session in a folder under each policy."""
    found = FoundFiles(find([folder]).files, [])
    named = [replay.policy(name) for name in policies]
    return replay.replay_files(found, named, model=MODEL, window=window, jobs=jobs or JOBS)


def without_loss(report: ReplayReport) -> list[str]:
    """The other policies that held every session and lost no rule, with their costs."""
    return [
        f"{total.policy} ${total.cost_usd:.2f}"
        for total in report.totals
        if total.policy != OURS and _is_without_loss(total) and total.cost_usd is not None
    ]


def is_cheapest(report: ReplayReport) -> bool:
    """Whether our policy held every session, lost no rule, and cost least of the policies of which that is true."""
    costs = {
        total.policy: total.cost_usd
        for total in report.totals
        if _is_without_loss(total) and total.cost_usd is not None
    }
    return OURS in costs and costs[OURS] <= min(costs.values())


def _is_without_loss(total: PolicyTotal) -> bool:
    return total.failed == 0 and total.rules.lost == 0


def rows(report: ReplayReport) -> Iterator[str]:
    """The rows of the table."""
    ours = {
        replayed.figures.file: replayed.figures.cost_usd
        for replayed in report.replays
        if replayed.figures.policy == OURS
    }
    for total in report.totals:
        held = [
            replayed.figures.file
            for replayed in report.replays
            if replayed.figures.policy == total.policy and replayed.completed
        ]
        beside = sum(ours[file] or 0.0 for file in held)
        facts = total.facts
        rules = total.rules
        yield (
            f"| `{total.policy}` | {len(held)} of {total.sessions} | ${total.cost_usd or 0.0:,.2f} | ${beside:,.2f} "
            f"| {total.cache_read_share or 0.0:.1%} | {total.compactions} | {total.foreground_waits} "
            f"| {facts.in_context}, {facts.reachable}, {facts.lost} | {rules.lost} of {rules.lost + rules.in_context} |"
        )


def main(arguments: Sequence[str]) -> int:
    """Print the tables; returns exit status 0 if ours is the cheapest policy that loses no rule, else 1."""
    folder = Path(arguments[0]) if arguments else CORPUS
    if not folder.is_dir():
        print(f"no transcripts in {folder}: nothing was replayed")
        return 0
    is_met = True
    for window in WINDOWS:
        report = measure(folder, window)
        print(f"\n{MODEL}, {window:,} tokens\n\n{HEAD}")
        print("\n".join(rows(report)), flush=True)
        is_met = is_met and is_cheapest(report)
    return 0 if is_met else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
