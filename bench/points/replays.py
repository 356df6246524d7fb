"""Recorded sessions replayed under every policy: ours must lose no rule, and cost least of those that lose none."""

from __future__ import annotations

from pathlib import Path

from bench import replaying
from bench.points import Outcome, Point, all_of, without_corpus

RULES = "rules that ours loses in recorded sessions"
CHEAPEST = "ours is the cheapest policy that loses no rule"


def policies(corpus: Path | None) -> list[Outcome]:
    """The sessions of the corpus in windows of 200,000 and of 100,000 tokens."""
    if corpus is None:
        return without_corpus(RULES, CHEAPEST)
    outcomes: list[Outcome] = []
    for window in replaying.WINDOWS:
        report = replaying.measure(corpus, window)
        by_name = {total.policy: total for total in report.totals}
        ours = by_name["ours"]
        where = f"{window:,} tokens"
        rules = ours.rules.in_context + ours.rules.lost
        others = replaying.without_loss(report)
        cost = "unknown" if ours.cost_usd is None else f"${ours.cost_usd:.2f}"
        figure = f"{cost}; others that lose none and hold every session: {', '.join(others) or 'no other'}"
        outcomes += [
            all_of(
                f"{where}: sessions that ours holds to their end",
                ours.sessions - ours.failed,
                ours.sessions,
            ),
            Outcome(
                f"{where}: {RULES}", ours.rules.lost == 0 < rules, f"{ours.rules.lost} of {rules}", "none"
            ),
            Outcome(f"{where}: {CHEAPEST}", replaying.is_cheapest(report), figure, "the least cost"),
            Outcome(
                f"{where}: losses of the cache that nothing explains",
                ours.unexpected_breaks == 0,
                str(ours.unexpected_breaks),
                "none",
            ),
        ]
    return outcomes


POINTS: list[Point] = [("recorded sessions under other policies", policies)]
