"""The table of recorded sessions under every policy, on the smallest scale: that it adds up and judges right."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from bench import replaying
from bench.points import replays as points
from sevenfold.lab.replay import ReplayReport
from sevenfold.lab.replay.figures import RuleCounts
from tests.replay.telling import session

WINDOW = 30_000


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> ReplayReport:
    folder = tmp_path_factory.mktemp("sessions")
    session(folder / "short.jsonl", 3)
    session(folder / "long.jsonl", 20)
    (folder / "other.jsonl").write_text('{"answer": 42}\n')
    return replaying.measure(folder, WINDOW, ("nothing", "sliding-window", "ours"), jobs=1)


def test_a_row_has_our_cost_on_the_sessions_that_the_policy_held(report: ReplayReport) -> None:
    nothing, sliding, ours = replaying.rows(report)
    costs = {
        (Path(each.figures.file).stem, each.figures.policy): each.figures.cost_usd
        for each in report.replays
    }
    assert nothing.startswith(
        f"| `nothing` | 1 of 2 | ${costs['short', 'nothing']:.2f} | ${costs['short', 'ours']:.2f} |"
    )
    assert sliding.startswith("| `sliding-window` | 2 of 2 |")
    assert sliding.endswith("| 2 of 3 |")
    assert ours.endswith("| 0 of 3 |")
    assert len(report.errors) == 1


def test_ours_is_judged_by_its_rules_and_beside_those_that_lose_none(report: ReplayReport) -> None:
    assert replaying.is_cheapest(report)
    assert replaying.without_loss(report) == []
    nothing, sliding, ours = report.totals
    lossless = replace(sliding, rules=RuleCounts(3, 0), cost_usd=0.01)
    assert not replaying.is_cheapest(replace(report, totals=[nothing, lossless, ours]))
    forgetful = replace(ours, rules=RuleCounts(2, 1))
    assert not replaying.is_cheapest(replace(report, totals=[nothing, sliding, forgetful]))
    unfinished = replace(ours, failed=1)
    assert not replaying.is_cheapest(replace(report, totals=[nothing, sliding, unfinished]))


def test_without_transcripts_the_point_is_skipped() -> None:
    assert [outcome.met for outcome in points.policies(None)] == [None, None]


def test_the_point_names_what_ours_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session(tmp_path / "short.jsonl", 2)
    monkeypatch.setattr(replaying, "WINDOWS", (WINDOW,))
    monkeypatch.setattr(replaying, "JOBS", 1)
    outcomes = points.policies(tmp_path)
    assert [outcome.met for outcome in outcomes] == [True, True, False, True]
    # Without any compaction, notes make it dearer than sending everything.
    assert "nothing $" in outcomes[2].figure
