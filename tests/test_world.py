"""Ids and clocks."""

from __future__ import annotations

import os
import uuid

import pytest

from sevenfold.clock import CountedIds, ManualClock, RandomIds, SystemClock


def test_random_ids_are_uuids_of_version_4_and_never_the_same():
    source = RandomIds()
    ids = [source.new() for _ in range(500)]
    assert len(set(ids)) == 500
    for name in ids:
        assert str(uuid.UUID(name)) == name
        assert uuid.UUID(name).version == 4
        assert uuid.UUID(name).variant == uuid.RFC_4122


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_process_gets_ids_of_its_own():
    source = RandomIds()
    source.new()
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writing, source.new().encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 100).decode() != source.new()
    os.close(reading)
    os.close(writing)


def test_counted_ids_are_the_same_in_every_run():
    first, second = CountedIds(), CountedIds()
    assert [first.new() for _ in range(3)] == [second.new() for _ in range(3)]


def test_a_manual_clock_moves_when_told():
    clock = ManualClock(10.0)
    clock.advance(2.5)
    assert clock.now() == 12.5
    assert SystemClock().now() > 1_700_000_000
