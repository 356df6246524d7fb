"""The table of query sources."""

from __future__ import annotations

import pytest

from sevenfold.request.sources import source


@pytest.mark.spec("S7.10")
def test_forks_do_not_compact_and_do_not_write_their_tail():
    for name in ("compact", "session_memory", "prompt_suggestion", "collapse"):
        assert not source(name).compacts
        assert not source(name).writes_tail


@pytest.mark.spec("S7.10", "S17.11")
def test_what_is_answered_ahead_does_not_compact_and_writes_its_tail_for_the_turn_that_may_follow():
    assert not source("speculation").compacts
    assert source("speculation").writes_tail


@pytest.mark.spec("S7.10")
def test_the_main_thread_and_agents_compact_their_own_context():
    for name in ("main", "sdk", "agent:reviewer"):
        assert source(name).compacts
        assert source(name).writes_tail
        assert source(name).name == name
