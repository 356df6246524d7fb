"""When a fact counts as being in the context, reachable or lost."""

from __future__ import annotations

from typing import Any

import pytest

from sevenfold.archive.fidelity import Count, Probe, judge
from sevenfold.ports import FoundRecord


def hit(record: str) -> FoundRecord:
    return FoundRecord(record, exact=False)


def probe(text: str, match: Any = "words", kind: str = "correction", **more: Any) -> Probe:
    return Probe(kind, text, "r1", ("user",), match, **more)


def seen(fact: Probe, *context: str) -> bool:
    return judge([fact], context, lambda _: False).total.in_context == 1


@pytest.mark.spec("S10.3")
def test_a_fact_is_in_the_context_or_reachable_or_lost() -> None:
    facts = [probe("mend the red lamp"), probe("fill the oil tank"), probe("paint the north door")]
    score = judge(facts, ["- Mend the  RED lamp."], lambda fact: "oil" in fact.text)
    assert [state for _, state in score.states] == ["in_context", "reachable", "lost"]
    assert score.lost == (facts[2],)
    assert score.total == Count(1, 1, 1)
    assert score.by_kind == {"correction": Count(1, 1, 1)}


def test_recall_is_asked_only_for_what_the_context_does_not_hold() -> None:
    asked: list[str] = []

    def reachable(fact: Probe) -> bool:
        asked.append(fact.text)
        return False

    judge([probe("mend the lamp"), probe("fill the tank")], ["mend the lamp"], reachable)
    assert asked == ["fill the tank"]


def test_a_sentence_may_be_reworded_but_its_words_must_stand_together() -> None:
    fact = probe("Never touch the generated files under build/panels.")
    assert seen(fact, "The user forbade touching: never touch generated files in build/panels")
    apart = ["touch", "generated", "files", "build", "never", "panels"]
    assert not seen(fact, "\n\n\n\n".join(apart))


def test_leaving_out_the_negation_of_a_short_rule_is_a_loss() -> None:
    assert not seen(probe("never delete logs"), "delete logs")


def test_a_message_must_be_there_word_for_word() -> None:
    fact = probe("please mend the red lamp at dusk", "verbatim", "user_message")
    assert seen(fact, 'user: "Please mend the\n   red lamp at dusk"')
    assert not seen(fact, "mend the red lamp at dusk, please")


def test_a_word_or_two_must_be_quoted_or_have_a_line_of_their_own() -> None:
    fact = probe("go on", "verbatim", "user_message")
    assert seen(fact, "before\n- [r1] go on\nafter")
    assert seen(fact, 'the user said "go on" then')
    assert not seen(fact, "the lamps go on at dusk")


def test_a_long_message_may_be_cut_if_both_ends_are_shown_and_recall_has_the_rest() -> None:
    words = " ".join(f"word{number}" for number in range(200))
    fact = probe(words, "verbatim", "user_message")
    context = [words[:120] + " […] " + words[-120:]]
    assert judge([fact], context, lambda _: True).total == Count(in_context=1)
    assert judge([fact], context, lambda _: False).total == Count(lost=1)
    assert judge([fact], [words[:120]], lambda _: True).total == Count(reachable=1)


def test_a_name_must_be_there_to_the_letter() -> None:
    fact = probe("lamp.py", "exact", "identifier")
    assert seen(fact, "see `src/lamp.py`, please")
    assert not seen(fact, "see redlamp.py and lamp.pyc and Lamp.py")


def test_another_way_to_write_it_counts_where_it_is_no_other_thing() -> None:
    fact = probe("/home/pia/tide/lamp.py", "exact", "edited_file", accepts=("tide/lamp.py", "lamp.py"))
    assert seen(fact, "changed: lamp.py")


def test_what_recall_gives_back_must_be_the_record_of_the_fact_itself() -> None:
    sentence = probe("mend the red lamp at dusk")
    assert sentence.found_among([hit("r9"), hit("r1")])
    assert not sentence.found_among([hit("r9")])
    assert not probe("lamp.py", "exact").found_among([hit("r9")])
