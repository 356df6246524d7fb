"""Workers that are killed and frozen in the middle of their work lose nothing and double nothing."""

from __future__ import annotations

import pytest

from bench import fire


@pytest.mark.spec("S34.6")
def test_killed_and_frozen_workers_lose_nothing_and_double_nothing():
    verdict = fire.run(sessions=6, questions=2, workers=2, kills=1, freezes=1, surprises=0)
    assert verdict.faults == []
    assert (verdict.acknowledged, verdict.kills, verdict.freezes) == (12, 1, 1)
    assert verdict.overtaken > 0
    assert verdict.repeated <= verdict.in_hand


@pytest.mark.spec("S34.11")
def test_with_a_broker_no_call_is_paid_for_twice():
    verdict = fire.run(sessions=6, questions=2, workers=2, kills=2, freezes=0, broker=True)
    assert verdict.faults == []
    assert (verdict.acknowledged, verdict.kills, verdict.repeated) == (12, 2, 0)


@pytest.mark.spec("S34.6")
def test_the_same_without_the_fencing_number_is_found_to_double_answers():
    verdict = fire.run(sessions=4, questions=2, workers=2, kills=0, freezes=1, surprises=0, unfenced=True)
    assert verdict.freezes == 1
    assert any("acknowledged twice" in fault for fault in verdict.faults)
