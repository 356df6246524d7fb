"""The simulated day of many sessions adds up."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from bench.million import WARM_MINUTES, Costs, Habits, need, report, simulate

HABITS = Habits()


def test_the_means_are_those_that_were_assumed():
    sample = 3_000
    day = simulate(sample, HABITS)
    calls = sample * HABITS.active * HABITS.visits * HABITS.turns * HABITS.calls
    assert day.calls.total() == pytest.approx(calls, rel=0.1)
    assert day.bytes == pytest.approx(day.calls.total() * HABITS.call_bytes, rel=0.1)
    turns = sample * HABITS.active * HABITS.visits * HABITS.turns
    assert day.resumes[0].total() == pytest.approx(turns, rel=0.1)


def test_whoever_keeps_sessions_open_for_longer_opens_them_less_often():
    day = simulate(1_000, HABITS)
    resumes = [day.resumes[warm].total() for warm in WARM_MINUTES]
    opened = [sum(day.open[warm].values()) for warm in WARM_MINUTES]
    assert resumes == sorted(resumes, reverse=True)
    assert opened == sorted(opened)
    assert resumes[0] > resumes[-1]
    visits = 1_000 * HABITS.active * HABITS.visits
    assert resumes[-1] >= visits * 0.9


def test_twice_as_many_sessions_need_twice_as_much():
    day = simulate(1_000, HABITS)
    one, two = (need(day, sessions, 1_000, HABITS, Costs()) for sessions in (10_000, 20_000))
    assert two.calls_per_second == pytest.approx(2 * one.calls_per_second)
    assert two.terabytes == pytest.approx(2 * one.terabytes)
    assert two.worker_cores[0] == pytest.approx(2 * one.worker_cores[0])
    assert two.servers(Costs()) == pytest.approx(2 * one.servers(Costs()))
    assert one.servers(replace(Costs(), appends_per_second=10.0)) > 1
    assert "10,000 sessions" in report(one, Costs(), 10_000)
