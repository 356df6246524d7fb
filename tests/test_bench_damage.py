"""Damaged files of every kind, on a small scale; `./dev prove` does it thousands of times."""

from __future__ import annotations

import pytest

from bench import damage


@pytest.mark.spec("S21.11")
@pytest.mark.filterwarnings("ignore")
def test_whatever_file_is_damaged_the_session_opens_and_can_be_sent() -> None:
    found = damage.search(40, seed=7_000)
    assert found.problems == {}
    assert len(found.kinds) >= 12
