"""A small version of the hour with fifty sub-agents that `./dev prove` measures: real processes, really killed."""

from __future__ import annotations

import pytest

from bench import team_hour


@pytest.mark.spec("S7.11")
def test_a_parent_killed_at_a_random_place_of_its_logs_loses_no_agent_and_starts_none_twice() -> None:
    hour = team_hour.measure(rounds=2, kills=2, seed=7)
    assert hour.compactions > 0
    missed = [(name, figure) for name, figure, met in team_hour.bars(hour) if not met]
    assert not missed
