"""Sessions edited at random: every request is accepted, and undo, redo and reopening give the bytes back."""

from __future__ import annotations

import pytest

from bench.edits import search

FOUND = (
    12,
    43,
    112,
    147,
    1191,
    1447,
    1490,
    20_003,
    20_135,
    20_154,
    20_391,
    20_498,
    20_543,
    20_708,
    20_723,
    21_564,
    700_110,
    700_124,
    700_192,
    710_284,
    731_259,
    8_000_221,
    9_100_210,
    397_886_432,
    397_887_162,
    515_151_554,
    515_151_621,
)
"""Seeds of sessions that went wrong once, each in another way."""


@pytest.mark.spec("S8.6", "S9.2", "S10.1")
def test_whatever_is_decided_undone_or_reopened_the_next_request_is_right() -> None:
    found = search(20, seed=20_261_118)
    assert found.problems == {}
    assert found.requests > 200


@pytest.mark.spec("S8.6")
def test_a_log_that_loses_its_end_reads_the_same_from_either_side_and_goes_on() -> None:
    found = search(8, seed=20_261_119, cuts=True)
    assert found.problems == {}
    assert found.requests > 80


@pytest.mark.parametrize("seed", FOUND)
def test_what_went_wrong_once_does_not_again(seed: int) -> None:
    found = search(1, seed)
    assert found.problems == {}
    assert found.sessions == 1
