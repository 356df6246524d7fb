"""What a search finds, in which order, and when it stays silent."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sevenfold.errors import InputError
from sevenfold.recall.index import RecallIndex
from sevenfold.recall.passages import KINDS, NEEDLE, tidy
from sevenfold.recall.ranking import Query, folded, humps
from sevenfold.recall.tables import Tables
from tests.recall.making import harbour, indexed
from tests.support import Story, call, result

WORDS = st.text(
    st.characters(codec="utf-8", categories=["Lu", "Ll", "Lo", "Nd", "Po", "Sm", "Zs", "Cc"]),
    min_size=1,
    max_size=300,
)


@pytest.fixture(scope="module")
def index() -> RecallIndex:
    return indexed(harbour())


def found(index: RecallIndex, query: str, **how: object) -> list[str]:
    return [hit.uuid for hit in index.search(query, **how)]  # type: ignore[arg-type]  # options of any kind


@pytest.mark.spec("S10.2")
@pytest.mark.parametrize(
    ("query", "where"),
    [
        ("After midnight the harbour display shows yesterday's tide.", "ask"),
        ("src/tidemark/clock_face.py:41", "found"),
        ("clock_face", "found"),
        ("--local-zone", "found"),
        ("--maxfail=1", "run"),
        ("date.today()", "look"),
        ("TypeError: getLocalDay() missing 1 argument", "failed"),
        ("LocalDay", "failed"),
        ("calDay() miss", "failed"),
        ("build/", "rule"),
        ("station.zone", "fix"),
        ("表示", "cjk"),
        ("時刻", "cjk"),
    ],
)
def test_exact_text_is_found_whatever_its_punctuation_or_script(
    index: RecallIndex, query: str, where: str
) -> None:
    best = index.search(query)[0]
    assert (best.uuid, best.exact) == (where, True)


def test_words_are_found_in_any_order_and_inflection(index: RecallIndex) -> None:
    assert found(index, "tides shown after midnight on the displays")[0] == "ask"
    assert found(index, "missing local day argument")[0] == "failed"
    assert not index.search("touching generated file")[0].exact


@pytest.mark.parametrize(
    "query",
    ["quantum chromodynamics", "kubernetes deployment failed in the cluster", "", " ", "\0", "の料理"],
)
def test_where_nothing_fits_nothing_is_found(index: RecallIndex, query: str) -> None:
    assert index.search(query) == []


@pytest.mark.parametrize(
    "query",
    [
        *(
            '"',
            '" OR "',
            "NEAR(a b)",
            "tide*",
            "said:tide",
            "-tide",
            "^tide",
            "a AND",
            "(",
            "?1",
            "--",
            "%",
            "_",
        ),
        *("\\", "a\0b", "\ud800", "'; DROP TABLE piece; --", "x" * 100_000, "word " * 20_000),
    ],
)
def test_no_query_is_taken_for_anything_but_text(index: RecallIndex, query: str) -> None:
    index.search(query)
    assert found(index, "harbour display")[0] == "ask"


@given(st.text(max_size=400))
def test_no_query_fails(query: str) -> None:
    index = indexed(harbour())
    for hit in index.search(query):
        assert hit.uuid
        assert all(0 <= start < end <= len(hit.excerpt) for start, end in hit.marks)


@pytest.mark.spec("S10.3")
@given(st.lists(WORDS, min_size=1, max_size=6, unique=True))
@example(["ﬃ İstanbul ßtraße"])
def test_whatever_was_said_is_found_by_its_own_text(said: list[str]) -> None:
    story = Story()
    for number, words in enumerate(said):
        story.user(words, uuid=f"r{number}")
    index = indexed(story)
    for number, words in enumerate(said):
        if words.strip().strip("\0"):
            assert f"r{number}" in found(index, words)


@given(st.lists(WORDS, min_size=1, max_size=6, unique=True), st.data())
def test_any_part_of_what_was_said_leads_to_a_record_that_holds_it(
    said: list[str], data: st.DataObject
) -> None:
    story = Story()
    for number, words in enumerate(said):
        story.user(words, uuid=f"r{number}")
    index = indexed(story)
    words = data.draw(st.sampled_from(said))
    start = data.draw(st.integers(0, len(words) - 1))
    part = tidy(words[start : start + data.draw(st.integers(1, NEEDLE))])
    if folded(part).strip("\ufffd "):
        best = found(index, part)[0]
        assert folded(part) in folded(tidy(said[int(best.removeprefix("r"))]))


@given(st.lists(st.text("abcdefghij", min_size=2, max_size=8), min_size=2, max_size=40, unique=True))
def test_a_record_is_found_by_any_of_its_words(words: list[str]) -> None:
    story = Story()
    story.user(" ".join(words), uuid="it")
    index = indexed(story)
    assert all(found(index, word) == ["it"] for word in words)


def test_a_stretch_far_inside_a_long_result_is_found_with_the_text_around_it() -> None:
    story = Story()
    story.user(
        [result("t1", "\n".join(f"line {number} of the log" for number in range(9_000)))], uuid="long"
    )
    (hit,) = indexed(story).search("line 7311 of the log")
    assert (hit.uuid, hit.exact) == ("long", True)
    assert hit.excerpt[slice(*hit.marks[0])] == "line 7311 of the log"
    assert "line 7312" in hit.excerpt
    assert len(hit.excerpt) < 500


def test_a_query_longer_than_any_piece_finds_the_record_it_was_copied_from() -> None:
    story = Story()
    texts = [" ".join(f"{word}{number}" for number in range(2_000)) for word in ("alpha", "beta")]
    for number, words in enumerate(texts):
        story.user("Common beginning of both. " * 20 + words, uuid=f"r{number}")
    index = indexed(story)
    for number, words in enumerate(texts):
        assert found(index, "Common beginning of both. " * 20 + words)[0] == f"r{number}"


def test_the_record_that_says_just_that_comes_before_those_that_mention_it() -> None:
    story = Story()
    for number in range(30):
        story.assistant(f"Shall I continue with part {number}, or continue elsewhere?")
    story.user("continue", uuid="said")
    assert found(indexed(story), "continue")[0] == "said"


# Kinds and what is in view


def test_a_search_can_be_narrowed_to_kinds(index: RecallIndex) -> None:
    assert found(index, "zone", kind="edit") == ["fix"]
    assert found(index, "zone", kind="tool_use") == ["fix"]
    assert found(index, "getLocalDay", kind="error") == ["failed"]
    assert found(index, "getLocalDay", kind="tool_result") == ["failed"]
    assert found(index, "getLocalDay", kind=("user", "assistant")) == []
    with pytest.raises(InputError, match="choose user, assistant"):
        index.search("zone", kind="nonsense")


def test_every_kind_can_be_asked_for(index: RecallIndex) -> None:
    for kind in KINDS:
        assert all(hit.kind == kind or kind.startswith("tool") for hit in index.search("the", kind=kind))


@pytest.mark.spec("S10.2")
def test_what_the_model_still_sees_is_left_out_when_asked(index: RecallIndex) -> None:
    assert found(index, "zone", visible={"fix"}) == found(index, "zone")
    assert "fix" in found(index, "zone")
    assert found(index, "zone", visible={"fix"}, only_hidden=True) == ["found"]


def test_what_is_left_out_makes_room_for_what_is_not() -> None:
    story = Story()
    for number in range(60):
        story.user("the same words", uuid=f"r{number}")
    seen = {f"r{number}" for number in range(57)}
    hits = found(indexed(story), "the same words", k=2, visible=seen, only_hidden=True)
    assert set(hits) < {"r57", "r58", "r59"}
    assert len(hits) == 2


@pytest.mark.parametrize("wrong", [{"k": 0}, {"k": -1}, {"around": -1}])
def test_impossible_numbers_are_refused(index: RecallIndex, wrong: dict[str, int]) -> None:
    with pytest.raises(InputError):
        index.search("zone", **wrong)  # type: ignore[arg-type]  # wrong on purpose


# Neighbours


@pytest.mark.spec("S10.2")
def test_hits_come_with_the_turns_around_them(index: RecallIndex) -> None:
    (hit,) = index.search("getLocalDay", around=2)
    assert [near.uuid for near in hit.before] == ["rule", "run"]
    assert [near.uuid for near in hit.after] == ["fix", "fixed"]
    assert hit.before[1].text.startswith("Bash pytest -q")
    assert (hit.tool, hit.kind) == ("Bash", "error")
    assert index.search("getLocalDay", around=0)[0].before == ()


def test_a_record_is_helped_by_what_its_neighbours_say() -> None:
    story = Story()
    filler = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
    story.user("the pump", uuid="alone")
    for word in filler:
        story.assistant(f"nothing about {word}")
    story.user("which valve leaks")
    story.assistant("the pump", uuid="helped")
    ranked = found(indexed(story), "pump valve leaks")
    assert ranked.index("helped") < (ranked.index("alone") if "alone" in ranked else 99)


@pytest.mark.spec("S10.10")
def test_an_answer_is_found_by_the_words_of_the_question_before_it() -> None:
    story = Story()
    story.user("Which station did the surveyors pick for the tide gauge?")
    story.assistant("They agreed on the northern pier station.", uuid="answer")
    for place in range(8):
        story.user(f"The station clock {place} is right.", uuid=f"clock{place}")
        story.assistant("Good.")
    ranked = found(indexed(story), "Where do the surveyors want a tide gauge station?", k=2)
    assert "answer" in ranked


@pytest.mark.spec("S10.10")
def test_turns_of_the_speaker_whom_a_question_names_come_first() -> None:
    story = Story()
    for place, (speaker, plan) in enumerate(
        [("Ada", "sail"), ("Ben", "row"), ("Ada", "rest"), ("Ben", "rest")]
    ):
        story.user(f"{speaker}: my plan for the holiday is to {plan}.", uuid=f"{speaker}{place}")
        story.assistant("Noted, thank you.")
    index = indexed(story)
    assert found(index, "What is Ben's plan for the holiday?", k=2) == ["Ben1", "Ben3"]
    assert sorted(found(index, "what plan for the holiday does ada have", k=2)) == ["Ada0", "Ada2"]


@pytest.mark.spec("S10.10")
@pytest.mark.parametrize(
    "when",
    ["on 8 May 2026", "on May 8th, 2026", "in May", "in May 2026", "on 2026-05-08", "the 8th of May"],
)
def test_what_was_said_on_the_day_that_a_question_names_comes_first(when: str) -> None:
    story = Story()
    for month, day in ((3, 1), (4, 8), (5, 8), (6, 1)):
        story.user(
            "The harbour was closed.", uuid=f"{month}", timestamp=f"2026-{month:02}-{day:02}T10:00:00Z"
        )
    assert found(indexed(story), f"Was the harbour closed {when}?", k=1) == ["5"]


@pytest.mark.spec("S10.10")
def test_a_statement_whose_words_are_scattered_over_several_records_was_not_made() -> None:
    story = Story()
    for word in ("pelicans", "mackerel", "lanterns", "ropes", "varnish", "gulls"):
        story.user(f"Here is something short about {word}.")
        story.assistant("Good.")
    index = indexed(story)
    assert found(index, "pelicans mackerel lanterns ropes varnish gulls") == []
    assert found(index, "Where did pelicans, mackerel, lanterns and ropes come up?")


@pytest.mark.spec("S10.10")
def test_silence_is_decided_for_the_query_and_not_for_each_record() -> None:
    story = Story()
    story.user("The tide gauge at the northern pier drifts in winter.", uuid="all")
    for place in range(20):
        story.assistant(f"Nothing about {place}.")
    story.user("The northern pier.", uuid="little")
    index = indexed(story)
    assert found(index, "Why does the tide gauge at the northern pier drift?") == ["all", "little"]
    assert found(index, "Why do the pelicans at the pier quarrel with cormorants over mackerel?") == []


@pytest.mark.spec("S10.10")
def test_of_records_that_fit_equally_well_the_earlier_comes_first() -> None:
    story = Story()
    for place in range(300):
        story.user("The pelicans sleep." if place % 30 == 7 else f"Nothing {place}.", uuid=f"r{place}")
    wanted = [f"r{place}" for place in range(7, 300, 30)]
    assert found(indexed(story), "Where do pelicans sleep?", k=10) == wanted


@pytest.mark.spec("S10.10")
def test_one_of_three_words_of_a_question_is_not_enough() -> None:
    story = Story()
    story.user("The pelicans sleep on the northern pier.", uuid="pelicans")
    for place in range(20):
        story.assistant(f"Nothing about {place}.")
    index = indexed(story)
    assert found(index, "Do pelicans sleep elsewhere?") == ["pelicans"]
    assert found(index, "Do pelicans dislike cormorants?") == []


def test_a_sub_agent_in_the_same_file_is_no_neighbour_of_the_conversation() -> None:
    story = Story()
    story.user("before the errand", uuid="a")
    story.user("count the boats", isSidechain=True, uuid="aside")
    story.assistant("after the errand", uuid="b", parent="a")
    index = indexed(story)
    assert [near.uuid for near in index.search("before the errand")[0].after] == ["b"]
    (hit,) = index.search("count the boats")
    assert (hit.before, hit.after) == ((), ())


# Other opinions


class Opinion:
    """Somebody who knows which records are meant, and that the match is at their beginning."""

    name = "hearsay"
    weight = 2.0

    def __init__(self, **scores: float) -> None:
        self._scores = scores

    enough = 0.0

    def scores(self, pieces: Tables, query: str) -> Mapping[int, float]:
        rows = pieces.among(range(pieces.count() + 1))
        return {row.piece: self._scores[row.uuid] for row in rows if row.uuid in self._scores}

    def place(self, query: str, text: str) -> int:
        return 0

    def prepare(self, pieces: Tables) -> bool:
        return False


def test_another_scorer_brings_in_what_no_word_leads_to(index: RecallIndex) -> None:
    (hit,) = index.search("watch hands", scorers=[Opinion(cause=0.7)])
    assert (hit.uuid, hit.matched, hit.exact) == ("cause", ("hearsay",), False)
    assert found(index, "clock hands", scorers=[Opinion(cause=0.7)], kind="user") == []


def test_scores_of_several_are_added_on_one_scale(index: RecallIndex) -> None:
    query = "tides shown after midnight on displays"
    ranked = index.search(query, scorers=[Opinion(ask=50.0, rule=100.0)])
    assert [(hit.uuid, round(hit.score, 6)) for hit in ranked] == [("ask", 2.0), ("rule", 2.0)]
    assert [hit.matched for hit in ranked] == [("words", "hearsay"), ("hearsay",)]


def test_another_scorer_may_stand_in_for_the_words_but_not_for_the_exact_text(index: RecallIndex) -> None:
    assert found(index, "tides shown after midnight", scorers=[Opinion(rule=1.0)], words=False) == ["rule"]
    ranked = index.search("generated files", scorers=[Opinion(ask=9.0)], words=False)
    assert [(hit.uuid, hit.matched) for hit in ranked] == [("rule", ("exact",)), ("ask", ("hearsay",))]


# Tools


def test_the_names_of_tools_come_with_their_results(index: RecallIndex) -> None:
    assert index.search("clock_face")[0].tool == "Grep"


def test_numbers_and_ids_in_calls_are_found() -> None:
    story = Story()
    story.assistant(call("t1", "Bash", command="kill 48213", timeout=120000), uuid="kill")
    index = indexed(story)
    assert found(index, "48213") == ["kill"]
    assert found(index, "120000") == ["kill"]


@pytest.mark.parametrize(
    ("query", "features"),
    [
        ("src/harbour/lights.py", ("src harbour lights py", "src", "harbour", "lights", "py")),
        ("the harbour lights", ("harbour", "lights")),
    ],
)
def test_a_compound_term_counts_as_a_phrase_beside_its_words(query: str, features: tuple[str, ...]) -> None:
    assert Query.of(query).features == features


def test_a_record_that_words_and_another_scorer_lead_to_is_shown_where_its_words_are() -> None:
    story = Story()
    record = story.user("we talked of many things " * 60 + "and of the lighthouse keeper by the sea")
    (hit,) = indexed(story).search("keeper lighthouse", scorers=[Opinion(**{record: 0.9})])
    assert (hit.uuid, hit.matched) == (record, ("words", "hearsay"))
    assert "lighthouse keeper" in hit.excerpt
    (other,) = indexed(story).search("beacon", scorers=[Opinion(**{record: 0.9})])
    assert other.excerpt.startswith("we talked of many things")


def test_the_parts_of_a_word_in_camel_case_are_told_apart_wherever_it_stands() -> None:
    assert humps("iPhone") == "i Phone"
    assert (
        humps("an XMLHttpRequest, then getLocalDay15 and plain words")
        == "XML Http Request get Local Day 15"
    )
