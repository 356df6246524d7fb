"""The benchmark of recall on the smallest scale: that it draws facts, counts right, and what it says is so."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from bench import recall
from tests.recall.making import harbour


@pytest.mark.spec("S10.3")
def test_every_fact_of_a_made_up_session_is_reached(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = recall.measure(recall.made_up(300), ["How do kubernetes clusters schedule sidecars?"], tmp_path)
    assert recall.show("made up", found)
    tallies = found["tallies"]
    assert {sort: tally.reached for sort, tally in tallies.items() if sort in recall.KIND} == {
        sort: tally.asked for sort, tally in tallies.items() if sort in recall.KIND
    }
    assert min(tallies[sort].asked for sort in recall.KIND) > 20
    assert tallies["strangers"].answered == 0


def test_a_fact_that_is_not_reached_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = recall.measure(recall.made_up(20), [], tmp_path)
    found["misses"] = [recall.Fact("user", "never said", "r1")]
    assert not recall.show("made up", found)
    assert "NOT REACHED (user, r1): 'never said'" in capsys.readouterr().out


def test_facts_are_drawn_from_what_user_and_tools_said() -> None:
    drawn = {
        (fact.sort, fact.words)
        for fact in recall.facts(list(recall.texts(harbour().lines)), random.Random(1))
    }
    assert ("user", "Never touch generated files under build/, please.") in drawn
    assert ("error", "E   TypeError: getLocalDay() missing 1 argument") in drawn
    assert ("identifier", "src/tidemark/clock_face.py:41") in drawn


@pytest.mark.spec("S10.3")
def test_facts_of_real_sessions_are_reached(corpus: Path, tmp_path: Path) -> None:
    for _, lines in list(recall.real(corpus))[::6]:
        assert recall.measure(lines, [], tmp_path)["misses"] == []
