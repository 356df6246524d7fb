"""The benchmark of recall by meaning on the smallest scale: that it reads its questions and counts right."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import meaning
from sevenfold.recall.vectors import Meaning, StaticVectors
from tests.recall import weights
from tests.recall.making import indexed
from tests.support import Story


def test_there_are_questions_with_answers_and_some_about_nothing() -> None:
    asked = list(meaning.questions("6113e919"))
    assert {question.sort for question in asked if question.answers} == {"paraphrases"}
    assert {question.sort for question in asked if not question.answers} == {
        "about nothing",
        "about nothing, held out",
    }
    assert len({question.words for question in asked}) == len(asked) > 60


def test_hits_are_counted_by_the_way_they_were_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story = Story()
    story.user("The vessel shows an incorrect hour.", uuid="ship-1")
    scorer = Meaning(StaticVectors(weights.write(tmp_path, weights.by_topic(*weights.TOPICS))))
    tallies: meaning.Tallies = {}
    index = indexed(story)
    for sort, words, answers in [
        ("paraphrases, held out", "ferry late because of a mistake", ("ship",)),
        ("about nothing, held out", "soufflé collapsed in the oven", ()),
    ]:
        meaning.ask(index, meaning.Question(sort, words, answers), scorer, tallies)
    assert {way: tallies["paraphrases, held out", way].among for way in meaning.WAYS} == {
        "words": 0,
        "meaning": 1,
        "both": 1,
    }
    assert meaning.show(tallies)
    tallies["about nothing, held out", "both"].answered = 1
    assert not meaning.show(tallies)
    assert "100%" in capsys.readouterr().out
