"""What a provider reports as used: one count for what is billed, another for what the window contained."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sevenfold.record.usage import Usage


def report(prompt: int, read: int, output: int, **more: Any) -> dict[str, Any]:
    return {"input_tokens": prompt, "cache_read_input_tokens": read, "output_tokens": output, **more}


def read(reported: dict[str, Any]) -> Usage:
    usage = Usage.read(json.dumps(reported).encode())
    assert usage is not None
    return usage


SUMMARISED = {"type": "compaction", **report(5_000, 0, 700)}
FIRST = {"type": "message", **report(200, 800, 10)}
LAST = {"type": "message", **report(100, 900, 20)}


def test_a_round_that_the_totals_leave_out_is_billed_too() -> None:
    usage = read(report(300, 1_700, 30, iterations=[SUMMARISED, FIRST, LAST]))
    assert (usage.billed.input_tokens, usage.billed.cache_read_input_tokens) == (5_300, 1_700)
    assert usage.billed.output_tokens == 730


def test_a_call_of_one_round_is_billed_as_reported() -> None:
    usage = read(report(100, 900, 20))
    assert usage.billed == usage
    assert usage.last_round == usage


def test_the_window_contained_what_the_last_answering_round_was_sent() -> None:
    usage = read(report(300, 1_700, 30, iterations=[FIRST, LAST, SUMMARISED]))
    assert (usage.last_round.prompt, usage.last_round.output_tokens) == (1_000, 20)


@pytest.mark.parametrize("split", [(0, 0), (0, 20), (20, 0), (7, 2), (5, 5), (30, 30), (0, 50)])
def test_what_was_written_to_the_cache_is_never_less_than_nothing_and_never_more_than_the_total(
    split: tuple[int, int],
) -> None:
    names = ("ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")
    written = {"cache_creation_input_tokens": 20, "cache_creation": dict(zip(names, split, strict=True))}
    usage = read(report(100, 900, 20, **written))
    assert usage == Usage.of(report(100, 900, 20, **written))
    assert usage.cache_creation_input_tokens == 20
    assert 0 <= usage.cache_creation_1h <= 20
