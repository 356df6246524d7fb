"""Recall by meaning: what is found without its words, when there is silence, and what becomes of the vectors."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sevenfold
from sevenfold.agent.standard_tools import StoreRecall
from sevenfold.cli.main import main
from sevenfold.errors import InputError
from sevenfold.recall import meaning
from sevenfold.recall.index import Follower, RecallIndex
from sevenfold.recall.meaning import ByMeaning, Likeness, installed
from sevenfold.recall.vectors import WEIGHTS, WORDS, Floats, Meaning, StaticVectors, WordParts, table
from sevenfold.session import factory as opened
from sevenfold.stores.home import side_file
from sevenfold.stores.jsonl.log import JsonlLog
from tests.recall import weights
from tests.recall.making import indexed
from tests.session.talking import FREE
from tests.support import Story, call, result

PARAPHRASE = "the ferry is late because of a mistake"


class Counting:
    """Vectors made by hand, and how many texts were asked for."""

    def __init__(self, inner: StaticVectors, fingerprint: str = "", at_once: int = 1_000) -> None:
        self._inner = inner
        self.fingerprint = fingerprint or inner.fingerprint
        self.dimensions = inner.dimensions
        self.trust = inner.trust
        self.at_once = at_once
        self.asked = 0

    def vectors(self, texts: Sequence[str]) -> Floats:
        self.asked += len(texts)
        return self._inner.vectors(texts)

    def query(self, text: str) -> Floats:
        return self._inner.query(text)


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> StaticVectors:
    return StaticVectors(
        weights.write(tmp_path_factory.mktemp("package"), weights.by_topic(*weights.TOPICS))
    )


@pytest.fixture
def scorer(vectors: StaticVectors) -> Meaning:
    return Meaning(vectors)


def harbour() -> Story:
    story = Story()
    story.user("The vessel shows an incorrect hour.", uuid="ship")
    story.assistant("Harbour sea level and tide.", uuid="tide")
    story.user("Never alter generated artefacts.", uuid="rule")
    story.assistant(call("t1", "Bash", command="echo boat late error"), uuid="run")
    story.user([result("t1", "boat late error")], uuid="ran")
    return story


def by_meaning(index: RecallIndex, scorer: Meaning, query: str) -> list[str]:
    return [hit.uuid for hit in index.search(query, scorers=[scorer], words=False)]


# What is found


@pytest.mark.spec("S10.2")
def test_what_was_said_in_other_words_is_found_and_marked(scorer: Meaning) -> None:
    index = indexed(harbour())
    assert "ship" not in [hit.uuid for hit in index.search(PARAPHRASE)]
    (hit,) = index.search(PARAPHRASE, scorers=[scorer], kind="user")
    assert (hit.uuid, hit.matched, hit.exact) == ("ship", ("meaning",), False)
    assert hit.excerpt == "The vessel shows an incorrect hour."
    assert [near.uuid for near in hit.after] == ["tide"]


@pytest.mark.spec("S10.2")
def test_the_exact_text_stays_first_whatever_is_alike(scorer: Meaning) -> None:
    story = harbour()
    story.assistant("The steamer clock: broken, midnight mistake, ship hour wrong.", uuid="alike")
    index = indexed(story)
    best = index.search("an incorrect hour", scorers=[scorer])
    assert [(hit.uuid, hit.matched[-1]) for hit in best[:2]] == [("ship", "exact"), ("alike", "meaning")]


def test_calls_and_results_are_left_to_their_words(scorer: Meaning) -> None:
    assert by_meaning(indexed(harbour()), scorer, "steamer delayed at noon, error") == ["ship"]


@pytest.mark.spec("S10.2")
@pytest.mark.parametrize(
    "query", ["the soufflé collapsed again", "ferry", "src/ferry/late_error.py", "12 34 56", "", "\0 \0"]
)
def test_about_nothing_that_was_said_and_about_a_bare_name_there_is_silence(
    scorer: Meaning, query: str
) -> None:
    assert by_meaning(indexed(harbour()), scorer, query) == []


def test_an_empty_session_has_nothing_to_say(scorer: Meaning) -> None:
    assert by_meaning(indexed(Story()), scorer, PARAPHRASE) == []


def test_words_and_meaning_together_put_first_what_both_find(scorer: Meaning) -> None:
    story = harbour()
    story.user("The ferry is late because of snow.", uuid="words")
    story.user("Steamer clock broken.", uuid="alike")
    story.user("The ferry is late, a mistake of ours.", uuid="both")
    hits = indexed(story).search("ferry late mistake", scorers=[scorer])
    assert (hits[0].uuid, hits[0].matched) == ("both", ("words", "meaning"))
    assert {"alike", "ship"} <= {hit.uuid for hit in hits if hit.matched == ("meaning",)}


def test_of_a_long_passage_the_part_that_is_alike_is_shown(scorer: Meaning) -> None:
    story = Story()
    story.user(
        "sea water level tide. " * 40 + "The ship clock was broken." + " harbour tide level." * 40,
        uuid="long",
    )
    (hit,) = indexed(story).search("ferry and sea port: midnight error", scorers=[scorer], words=False)
    assert "The ship clock was broken." in hit.excerpt


def test_of_a_long_passage_that_holds_the_query_the_exact_place_is_shown(scorer: Meaning) -> None:
    story = Story()
    story.user(
        "The ferry clock, the ship hour. " * 20 + "A boat at noon, remember." + " Sea level." * 60,
        uuid="long",
    )
    (hit,) = indexed(story).search("boat at noon", scorers=[scorer])
    assert hit.matched == ("exact",)
    assert [hit.excerpt[start:end] for start, end in hit.marks] == ["boat at noon"]


def test_a_filter_holds_for_meaning_too(scorer: Meaning) -> None:
    index = indexed(harbour())
    assert index.search(PARAPHRASE, scorers=[scorer], words=False, kind="assistant") == []
    assert index.search(PARAPHRASE, scorers=[scorer], words=False, visible={"ship"}, only_hidden=True) == []


# When likeness is trusted

LIKENESSES = st.lists(
    st.builds(Likeness, st.integers(1, 10**6), st.floats(-1, 1), st.floats(-1, 1)),
    unique_by=lambda one: one.piece,
)


@pytest.mark.spec("S10.2")
def test_what_is_like_the_question_only_as_everything_is_vouches_for_nothing(scorer: Meaning) -> None:
    index = indexed(harbour())
    assert by_meaning(index, scorer, PARAPHRASE)
    scorer.enough = 2.0  # more than anything can be alike
    assert by_meaning(index, scorer, PARAPHRASE) == []
    # Where the words vouch for an answer, meaning still has its say in the order.
    hits = index.search("the vessel shows a mistake", scorers=[scorer])
    assert "meaning" in {way for hit in hits for way in hit.matched}


@given(LIKENESSES, st.floats(0.1, 1))
def test_nothing_is_trusted_unless_the_best_is_alike_enough(found: list[Likeness], least: float) -> None:
    shown = meaning.trusted(found, least, 0.5)
    assert bool(shown) <= any(one.near >= least for one in found)
    assert all(score > 0 for score in shown.values())
    if shown:
        assert min(shown.values()) >= 0.5 * max(one.apart for one in found)


def test_the_longer_a_query_the_more_alike_a_passage_must_be() -> None:
    asked = [
        "tide clock",
        "tide clock bug rule boat file",
        " ".join(f"word{chr(97 + n)}" for n in range(20)),
    ]
    few, some, many = (meaning.required_similarity(query, StaticVectors.trust) or 0 for query in asked)
    assert few == some == StaticVectors.trust.required < many


# What becomes of the vectors


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    path = tmp_path / "talk.jsonl"
    path.write_bytes(b"".join(harbour().lines))
    return path


def index_of(transcript: Path) -> RecallIndex:
    index = RecallIndex(JsonlLog(transcript), side_file(transcript))
    index.catch_up()
    return index


def test_passages_are_turned_into_vectors_once_and_new_ones_when_they_come(
    transcript: Path, vectors: StaticVectors
) -> None:
    first, second = Counting(vectors), Counting(vectors)
    index = index_of(transcript)
    scorer = Meaning(first)
    assert by_meaning(index, scorer, PARAPHRASE) == ["ship"]
    index.close()
    again = index_of(transcript)
    scorer = Meaning(second)
    asked = first.asked
    assert by_meaning(again, scorer, PARAPHRASE) == ["ship"]
    assert second.asked == asked - 3
    story = Story()
    story.user("Steamer: noon, not correct, mistake.", uuid="new")
    transcript.write_bytes(transcript.read_bytes() + b"".join(story.lines))
    again.catch_up()
    assert set(by_meaning(again, scorer, PARAPHRASE)) == {"ship", "new"}
    again.close()


@pytest.mark.spec("S10.11")
def test_vectors_are_made_a_few_at_a_time_and_from_where_it_was_left(
    transcript: Path, vectors: StaticVectors, capsys: pytest.CaptureFixture[str]
) -> None:
    index = index_of(transcript)
    assert index.prepare(Meaning(Counting(vectors, at_once=2)))
    assert (index.status().passages, index.status().vectors) == (3, 2)
    index.close()
    assert main(["recall", str(transcript), "--status"]) == 0
    assert "3 passages can be compared by meaning; 2 have their vectors" in capsys.readouterr().out
    again, counting = index_of(transcript), Counting(vectors, at_once=2)
    assert not again.prepare(Meaning(counting))
    assert (counting.asked, again.status().vectors) == (1, 3)
    again.close()


@pytest.mark.spec("S10.11")
def test_no_more_passages_than_the_setting_allows_get_a_vector(vectors: StaticVectors) -> None:
    index, counting = indexed(harbour()), Counting(vectors, at_once=1)
    scorer = Meaning(counting, max_passages=2)
    while index.prepare(scorer):
        pass
    assert counting.asked == index.status().vectors == 2
    assert by_meaning(index, scorer, PARAPHRASE) == ["ship"]
    assert by_meaning(indexed(harbour()), Meaning(vectors, max_passages=0), PARAPHRASE) == []


@pytest.mark.spec("S10.11")
def test_what_is_under_way_can_be_begun_without_anything_being_written(vectors: StaticVectors) -> None:
    index, scorer = indexed(harbour()), Meaning(Counting(vectors, at_once=1))
    follower = Follower(lambda: index.prepare(scorer))
    assert follower.begin()
    follower.settle(60)
    assert index.status().vectors == 3
    follower.close()
    assert not follower.begin()


@pytest.mark.parametrize(
    "harm",
    [
        "DROP TABLE vector",
        "DROP TABLE vectors_by",
        "DELETE FROM vectors_by",
        "UPDATE vectors_by SET weights = 'others'",
        "UPDATE vector SET numbers = x'00ff'",
        "UPDATE vector SET numbers = 'words'",
        "DROP TABLE vector; CREATE TABLE vector (something)",
        "DROP TABLE vectors_by; CREATE TABLE vectors_by (something, weights); INSERT INTO vectors_by VALUES (1, 2)",
    ],
)
def test_vectors_that_are_not_as_they_should_be_are_made_again(
    transcript: Path, vectors: StaticVectors, harm: str
) -> None:
    index = index_of(transcript)
    by_meaning(index, Meaning(vectors), PARAPHRASE)
    index.close()
    with sqlite3.connect(side_file(transcript)) as db:
        db.executescript(harm)
    db.close()
    again, kept = Counting(vectors), Counting(vectors)
    for counting in (again, kept):
        index = index_of(transcript)
        assert by_meaning(index, Meaning(counting), PARAPHRASE) == ["ship"]
        index.close()
    assert kept.asked == again.asked - 3


def test_vectors_of_other_weights_are_made_again(transcript: Path, vectors: StaticVectors) -> None:
    index = index_of(transcript)
    by_meaning(index, Meaning(vectors), PARAPHRASE)
    counting = Counting(vectors, "others")
    assert by_meaning(index, Meaning(counting), PARAPHRASE) == ["ship"]
    assert counting.asked == 3
    index.close()


def test_where_the_index_takes_no_writing_the_vectors_live_in_memory(
    transcript: Path, vectors: StaticVectors
) -> None:
    index_of(transcript).close()
    index = index_of(transcript)
    with sqlite3.connect(side_file(transcript), isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        index._tables._db.execute("PRAGMA busy_timeout = 1")
        scorer = Meaning(vectors)
        assert by_meaning(index, scorer, PARAPHRASE) == ["ship"]
        assert by_meaning(index, scorer, PARAPHRASE) == ["ship"]
        other.execute("ROLLBACK")
    other.close()
    index.close()


def test_who_only_reads_leaves_the_side_file_as_it_is(transcript: Path, scorer: Meaning) -> None:
    index_of(transcript).close()
    before = side_file(transcript).read_bytes()
    index = RecallIndex.for_reading(JsonlLog(transcript), side_file(transcript))
    assert by_meaning(index, scorer, PARAPHRASE) == ["ship"]
    index.close()
    assert side_file(transcript).read_bytes() == before


def test_the_scorer_goes_along_when_the_index_is_made_anew(transcript: Path, scorer: Meaning) -> None:
    one, other = index_of(transcript), indexed(Story())
    assert by_meaning(one, scorer, PARAPHRASE) == ["ship"]
    assert by_meaning(other, scorer, PARAPHRASE) == []
    assert by_meaning(one, scorer, PARAPHRASE) == ["ship"]
    one.close()


# The weights


@pytest.mark.parametrize("dtype", ["F16", "F32"])
def test_a_table_is_read_as_it_was_written(tmp_path: Path, dtype: str) -> None:
    rows = [[0.5, -1.0], [2.0, 0.25], [0.0, 4.0]]
    weights.write_table(tmp_path / "t.safetensors", rows, dtype)
    assert table(tmp_path / "t.safetensors").tolist() == rows


@given(st.text(max_size=400))
def test_any_text_has_a_direction_or_none(vectors: StaticVectors, text: str) -> None:
    (row,) = vectors.vectors([text])
    assert np.isclose(np.linalg.norm(row), 1, atol=1e-5) or not row.any()
    assert np.array_equal(vectors.vectors([text.upper(), text])[1], row)


def test_a_word_nobody_knows_falls_into_its_parts(tmp_path: Path) -> None:
    numbers = {"▁": 0, "a": 1, "b": 2, "ab": 3, "▁ab": 4, "<0xC3>": 5}
    path = tmp_path / WORDS
    path.write_text(json.dumps({"model": {"vocab": numbers, "merges": ["a b", "▁ ab"]}}), encoding="utf-8")
    parts = WordParts(path)
    assert parts.of("ab") == [4]
    assert parts.of("abab") == [4, 3]
    assert parts.of("baé") == [0, 2, 1, 5]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (WEIGHTS, b""),
        (WEIGHTS, b"\xff" * 40),
        (WEIGHTS, (2).to_bytes(8, "little") + b"{}"),
        (WEIGHTS, (2).to_bytes(8, "little") + b"[]"),
        (WEIGHTS, (9).to_bytes(8, "little") + b'{"a":"b"}'),
        (WORDS, b""),
        (WORDS, b"{}"),
        (WORDS, b'{"model": {"vocab": {}, "merges": [1]}}'),
    ],
)
def test_weights_in_another_form_are_refused(
    tmp_path: Path, vectors: StaticVectors, name: str, content: bytes
) -> None:
    folder = weights.write(tmp_path / "package", weights.by_topic(*weights.TOPICS))
    for path in folder.glob(f"*/{name}"):
        path.write_bytes(content)
    with pytest.raises(ValueError):
        StaticVectors(folder)


def test_weights_that_are_not_there_are_missed_by_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=WEIGHTS):
        StaticVectors(tmp_path)


# Where it is installed


def package(folder: Path) -> Path:
    """A package of the name under which weights are looked for."""
    (folder / "wordllama").mkdir()
    (folder / "wordllama" / "__init__.py").write_text("raise SystemExit('nobody imports this')")
    return weights.write(folder / "wordllama", weights.by_topic(*weights.TOPICS))


def test_weights_are_found_in_their_package_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    scorer = installed()
    assert scorer is not None
    assert indexed(harbour()).search(PARAPHRASE, scorers=[scorer], words=False)[0].uuid == "ship"
    assert "wordllama" not in sys.modules


def test_a_package_that_cannot_be_used_counts_as_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(package(tmp_path) / "weights")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert installed() is None


def test_without_the_extra_recall_looks_for_words_and_says_so_to_who_asks_for_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "wordllama", None)
    ways = ByMeaning()
    assert ways.scorers(None) == ways.scorers("words") == ()
    for way in ("meaning", "both"):
        with pytest.raises(InputError, match=r"pip install 'sevenfold\[meaning\]'"):
            ways.scorers(meaning.way(way))
    with pytest.raises(InputError, match="words, meaning, both"):
        meaning.way("smell")


def test_nothing_is_loaded_for_who_looks_by_words_or_has_switched_it_off(scorer: Meaning) -> None:
    asked: list[Meaning] = []

    def find() -> Meaning:
        asked.append(scorer)
        return scorer

    ways = ByMeaning(find)
    assert ways.scorers("words") == ways.scorers(None, switched_on=False) == ()
    assert asked == []
    assert (
        ways.scorers(None)
        == ways.scorers("both")
        == ways.scorers("meaning", switched_on=False)
        == (scorer,)
    )
    assert asked == [scorer]


@pytest.mark.spec("S10.2")
def test_a_session_and_its_agent_look_by_meaning_unless_that_is_switched_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for on in (True, False):
        store = opened.in_memory("s", {"recall_meaning": on})
        with sevenfold.Session(opened.conversation(store, FREE, {}), store) as session:
            session.user("The vessel shows an incorrect hour.")
            agent = StoreRecall(store, session.conversation.fetch)
            assert len(session.recall(PARAPHRASE)) == on
            assert len(agent.search(PARAPHRASE)) == on
            assert session.recall(PARAPHRASE, by="words") == []
            assert [hit.matched for hit in session.recall(PARAPHRASE, by="meaning")] == [("meaning",)]
            with pytest.raises(InputError, match="has no method 'smell'"):
                session.recall(PARAPHRASE, by="smell")


@pytest.mark.spec("S10.2")
def test_the_command_looks_as_it_is_told_and_says_what_matched(
    transcript: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    package(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    asked = ["recall", str(transcript), PARAPHRASE, "--all", "--kind", "user"]
    assert main(asked) == 0
    assert "user  ship  meaning" in capsys.readouterr().out
    assert main([*asked, "--by", "words"]) == 1
    monkeypatch.setenv("SEVENFOLD_RECALL_MEANING", "off")
    assert main(asked) == 1
    assert main([*asked, "--by", "meaning", "--json"]) == 0
    assert '"matched": [' in capsys.readouterr().out
    monkeypatch.setitem(sys.modules, "wordllama", None)
    assert main([*asked, "--by", "meaning"]) == 2
    assert "pip install 'sevenfold[meaning]'" in capsys.readouterr().err
    assert main([*asked, "--by", "smell"]) == 2


def test_a_session_loads_no_numbers_before_something_is_looked_for() -> None:
    script = (
        "import sys, sevenfold\n"
        "from sevenfold.session import factory as opened\n"
        "store = opened.in_memory('s', None)\n"
        "store.search('how about a harbour', by='words')\n"
        "print([name for name in ('numpy', 'wordllama', 'tokenizers') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


@pytest.mark.skipif(find_spec("wordllama") is None, reason="the extra sevenfold[meaning] is not installed")
def test_with_the_real_weights_a_question_in_other_words_is_answered_and_one_about_nothing_is_not() -> None:
    scorer = installed()
    assert scorer is not None
    story = Story()
    story.user("Never commit anything to the main branch without asking me.", uuid="rule")
    story.assistant("The invoice totals were rounded twice; I fixed the currency conversion.", uuid="money")
    story.user("Make the login page load faster on slow phones.", uuid="speed")
    index = indexed(story)
    for query, uuid in [
        ("the price calculation had a rounding problem", "money"),
        ("improve performance of signing in on mobile devices", "speed"),
    ]:
        assert index.search(query, scorers=[scorer], words=False, weak=True)[0].uuid == uuid
    assert index.search("recipe for bread with walnuts and honey", scorers=[scorer]) == []
