"""A question about nothing: nothing by default, and on request the nearest records, marked as weak."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import sevenfold
from sevenfold.agent.standard_tools import StoreRecall
from sevenfold.agent.tools.session_tools import _hits
from sevenfold.cli.main import main
from sevenfold.recall.closer import CloserLook
from sevenfold.recall.ranking import Query
from sevenfold.recall.similar import SimilarWords
from sevenfold.recall.vectors import Floats, StaticVectors
from sevenfold.session import factory as opened
from tests.recall import weights
from tests.recall.making import indexed
from tests.session.talking import FREE
from tests.support import Story

ABOUT_NOTHING = "Do pelicans dislike cormorants and herons?"


def pier() -> Story:
    story = Story()
    story.user("The pelicans sleep on the northern pier.", uuid="pelicans")
    for place in range(20):
        story.assistant(f"Nothing about {place}.")
    return story


@pytest.mark.spec("S20.1")
def test_a_question_about_nothing_gets_nothing_and_on_request_the_nearest_record_marked_as_weak() -> None:
    index = indexed(pier())
    assert index.search(ABOUT_NOTHING) == []
    (hit,) = index.search(ABOUT_NOTHING, weak=True)
    assert (hit.uuid, hit.weak) == ("pelicans", True)


@pytest.mark.spec("S20.1")
def test_what_matches_well_is_not_marked_as_weak_and_neither_is_an_exact_quotation() -> None:
    index = indexed(pier())
    (asked,) = index.search("Where do the pelicans sleep?", weak=True)
    (quoted,) = index.search("northern pier", weak=True)
    assert (asked.weak, quoted.weak) == (False, False)


@pytest.mark.spec("S20.1")
def test_the_agent_is_told_that_nothing_matches_well_and_a_program_gets_nothing() -> None:
    store = opened.in_memory("s", None)
    with sevenfold.Session(opened.conversation(store, FREE, {}), store) as session:
        session.user("The pelicans sleep on the northern pier.")
        question = "Did the pelicans ever visit Lisbon, Porto, Madrid or Rome?"
        assert session.recall(question) == []
        assert [hit.weak for hit in session.recall(question, weak=True)] == [True]
        text = _hits(StoreRecall(store, session.conversation.fetch).search(question), 4_000)
    assert text.startswith("Nothing matches well")
    assert "northern pier" in text


@pytest.mark.spec("S20.1")
def test_the_command_shows_weak_hits_as_such_and_exits_as_if_nothing_were_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(b"".join(pier().lines))
    asked = ["recall", str(path), ABOUT_NOTHING, "--all", "--by", "words"]
    assert main(asked) == 1
    assert "Nothing matches well" in capsys.readouterr().out
    assert main([*asked, "--json"]) == 1
    assert [hit["weak"] for hit in json.loads(capsys.readouterr().out)["hits"]] == [True]


@pytest.mark.spec("S20.2")
def test_the_more_there_is_to_search_the_more_of_a_question_must_match() -> None:
    question = Query.of("Where do the pelicans sleep?")
    required = [question.enough(pieces) for pieces in (10, 230, 920, 100_000)]
    assert required == sorted(required)
    assert required[0] < required[1] < required[2] < required[3] < 0.6
    statement = Query.of("The pelicans sleep on the northern pier")
    assert statement.enough(10) == statement.enough(100_000)


# Word by word


@pytest.fixture(scope="module")
def similar(tmp_path_factory: pytest.TempPathFactory) -> SimilarWords:
    folder = weights.write(tmp_path_factory.mktemp("package"), weights.by_topic(*weights.TOPICS))
    return SimilarWords(StaticVectors(folder))


@pytest.mark.spec("S20.3")
def test_a_similar_word_counts_less_than_the_word_itself_and_more_than_none(similar: SimilarWords) -> None:
    story = Story()
    story.user("The steamer was wrong about the tide.", uuid="other words")
    for place in range(7):
        story.assistant(f"Nothing about {place}.")
    story.user("The ferry was wrong about the sea.", uuid="one word")
    index = indexed(story)
    found = index.search("ferry wrong sea level", scorers=[similar], weak=True)
    assert [hit.uuid for hit in found[:2]] == ["one word", "other words"]
    assert [hit.uuid for hit in index.search("ship mistake water", scorers=[similar], weak=True)][:2] != []


@pytest.mark.spec("S20.3")
def test_words_said_after_the_first_search_are_compared_too(similar: SimilarWords) -> None:
    story = Story()
    story.user("The clock is broken.", uuid="clock")
    index = indexed(story)
    assert index.search("vessel harbour tide", scorers=[similar], words=False, weak=True) == []
    story.user("A steamer left the port at sea level.", uuid="steamer")
    again = indexed(story)
    (hit,) = again.search("vessel harbour tide", scorers=[similar], words=False)
    assert (hit.uuid, hit.matched, hit.weak) == ("steamer", ("meaning",), False)


class Letters:
    """Gives each word a vector by its first letter: words with the same initial mean the same."""

    def passage_words(self, text: str) -> Floats:
        rows = np.zeros((len(text.split()), 26), np.float32)
        for row, word in zip(rows, text.casefold().split(), strict=True):
            row[(ord(word[0]) - ord("a")) % 26] = 1.0
        return rows

    def query_words(self, text: str) -> Floats:
        return self.passage_words(text)


@pytest.mark.spec("S20.4")
def test_a_passage_that_has_all_that_is_asked_is_above_one_that_has_the_half_of_it() -> None:
    story = Story()
    story.user("xylophone zither", uuid="all")
    story.user("xylophone xylophone", uuid="half")
    tables = indexed(story)._tables
    scores = CloserLook(Letters()).scores(tables, "xerox zebra", [1, 2], [])
    assert scores[1] > scores[2] > 0


@pytest.mark.spec("S20.4")
def test_what_every_passage_of_the_session_has_counts_for_nothing() -> None:
    story = Story()
    for place in range(30):
        story.user("xylophone zither", uuid=f"same {place}")
    tables = indexed(story)._tables
    assert CloserLook(Letters()).scores(tables, "xerox zebra", [1, 2], list(range(1, 31))) == {}
