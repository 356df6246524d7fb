"""The benchmarks of doors that act, on the smallest scale: what holds, and a control that does not."""

from __future__ import annotations

import pytest

from bench import door_kills, keeping_bill, policies


@pytest.mark.spec("S40.10")
def test_a_killed_gateway_has_the_request_on_record() -> None:
    figures = door_kills.measure(kills=2)
    assert len(figures.new) == 2
    assert figures.holds


@pytest.mark.spec("S40.10")
def test_what_was_deleted_is_recorded_again() -> None:
    assert not door_kills.measure(kills=3, forgetting=True).holds


@pytest.mark.spec("S40.9")
def test_a_session_is_billed_alone_and_below_a_follower_that_keeps() -> None:
    recording = policies.made(40, 8_000, 1_000)
    row = keeping_bill.compared(recording, "claude-opus-4-6", 100_000)
    assert row.alone.compactions > 0
    assert row.kept.changed > 0
    assert row.same_bytes
    assert row.problems == ()
    assert row.share <= keeping_bill.MOST_EACH
    assert [name for name, _, met in keeping_bill.bars([row]) if not met] == []
