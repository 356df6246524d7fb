"""The long run with failures, on a small scale; and how the benchmarks about the agent judge."""

from __future__ import annotations

import math

from msgspec.structs import replace

from bench import soak, startup

FEW = 60


def test_a_run_with_failures_ends_well_and_can_be_continued() -> None:
    soaked = soak.measure(FEW, seed=3)
    judged = {name: met for name, _, met in soak.bars(soaked, FEW) if not name.startswith("memory")}
    assert all(judged.values()), (judged, soaked)
    assert soaked.layers["offload"] > 0


GOOD = soak.Soaked(
    turns=1_001,
    end="done",
    statuses={200: 1_000, 529: 30},
    failures=30,
    layers={},
    memory=tuple((turn, 100.0) for turn in range(25, 1_001, 25)),
    same_after=True,
    remade=soak.LOOKED_AT,
    seconds=1.0,
)


def test_a_run_is_judged_by_its_end_its_requests_its_memory_and_what_it_left() -> None:
    def missed(soaked: soak.Soaked) -> list[str]:
        return [name for name, _, met in soak.bars(soaked, 1_000) if not met]

    assert missed(GOOD) == []
    growing = tuple((turn, 100 + 0.05 * turn) for turn, _ in GOOD.memory)
    assert math.isclose(replace(GOOD, memory=growing).growth, 51.2)
    assert missed(replace(GOOD, memory=growing)) == ["memory, KB a turn"]
    assert missed(replace(GOOD, statuses={200: 9, 400: 1})) == ["no request breaks a rule"]
    assert missed(replace(GOOD, end="budget")) == ["the run comes to its end"]
    assert len(missed(replace(GOOD, same_after=False, remade=3, failures=0))) == 3


def test_a_busy_machine_gives_no_verdict_about_the_start() -> None:
    found = {"bare": 0.02, "imports": 0.3, "chat": 0.3, startup.WORKED: 0.2}
    assert startup.verdict(found) is True
    assert startup.verdict({**found, "chat": 0.6, startup.WORKED: 0.5}) is False
    assert startup.verdict({**found, "chat": 0.6}) is None


def test_modules_are_listed_by_what_their_import_takes() -> None:
    listed = startup.slowest_imports(5)
    assert len(listed) == 5
    assert listed == sorted(listed, reverse=True)
