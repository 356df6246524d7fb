"""Putting back what was lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.lab.fidelity import judge, probes, repair
from sevenfold.lab.fidelity.repair import estimated
from sevenfold.record.layout import Item
from tests.fidelity.making import harbour, histories


def nowhere(_: object) -> bool:
    return False


@pytest.mark.spec("S4.12")
def test_after_the_repair_nothing_is_lost() -> None:
    facts = probes(harbour().view().items)
    lost = judge(facts, ["nothing of it"], nowhere).lost
    assert len(lost) == len(facts)
    block = repair(lost)
    assert judge(facts, ["nothing of it", block], nowhere).lost == ()
    assert "- correction by the user [correct]: No, that's wrong: the keeper's clock runs on UTC." in block


@given(histories())
def test_whatever_was_lost_can_be_put_back(items: list[Item]) -> None:
    facts = probes(items)
    assert judge(facts, [repair(facts, 1_000_000)], nowhere).lost == ()


@given(histories(), st.integers(60, 500))
def test_the_block_keeps_to_its_budget_but_for_the_line_that_counts_the_rest(
    items: list[Item], most: int
) -> None:
    facts = probes(items)
    block = repair(facts, most)
    assert estimated(block) <= most + 30
    assert bool(block) == bool(facts)


def test_what_matters_most_comes_first_and_what_does_not_fit_is_counted() -> None:
    facts = probes(harbour().view().items)
    block = repair(facts, 120)
    lines = block.splitlines()
    assert lines[1].startswith("- message of the user [ask]: The harbour display")
    assert lines[-1] == f"- and {len(facts) - len(lines) + 2} more, for which there is no room"


def test_nothing_lost_needs_no_block() -> None:
    assert repair(()) == ""
