"""The benchmarks of the user's words, on the smallest scale: that they run, count right and judge right."""

from __future__ import annotations

import pytest

from bench import eviction, growth, user_words
from bench.chats.models import Naming, offered
from bench.chats.session import Growth, Held, Kept, hold
from bench.chats.statements import BLIND, COMPARED, Statement, by_language, read_statements
from bench.chats.talk import Line, crowded_chat, padded, small_chat


@pytest.fixture(scope="module")
def english() -> list[Statement]:
    return by_language(read_statements(COMPARED))["en"]


def kept(statement: Statement, *, in_request: bool, compactions: int = 3, by_question: bool = True) -> Kept:
    return Kept(statement, compactions, in_request, by_question, by_other_words=False, by_own_words=True)


def held(*kept: Kept, says_left_out: bool = True, growth: tuple[Growth, ...] = ()) -> Held:
    return Held(
        name="a chat",
        window=32_768,
        kept=kept,
        compactions=growth,
        not_made=0,
        user_tokens=10,
        user_messages=1,
        summary_tokens=10,
        sent=True,
        context="",
        says_left_out=says_left_out,
    )


def test_there_are_statements_in_four_languages_most_of_them_without_a_signal_word() -> None:
    statements = read_statements(COMPARED)
    assert len(statements) >= 60
    assert len(by_language(statements)) >= 4
    assert sum(statement.signal for statement in statements) < len(statements) / 3
    assert not {one.text for one in statements} & {one.text for one in read_statements(BLIND)}


def test_the_same_seed_gives_the_same_chat_with_every_statement_and_what_it_replaces_before_it(
    english: list[Statement],
) -> None:
    chat = small_chat("en", english, 40, seed=1)
    assert chat == small_chat("en", english, 40, seed=1)
    assert chat != small_chat("en", english, 40, seed=2)
    for placed in chat.placed:
        assert placed.statement.text in chat.lines[placed.message].text
        before = [line.text for line in chat.lines[: placed.message]]
        assert any(placed.statement.earlier in text for text in before) or not placed.statement.earlier


def test_padding_keeps_the_turns_in_order_and_is_half_the_users() -> None:
    turns = (Line("user", "First."), Line("assistant", "Yes."), Line("user", "Second."))
    lines = padded(turns, 3_000, seed=1)
    assert [line for line in lines if line in turns] == list(turns)
    users = sum(len(line.text) for line in lines if line.role == "user")
    assert 0.4 < users / sum(len(line.text) for line in lines) < 0.6


def test_what_is_said_in_passing_is_looked_for_after_the_compactions(english: list[Statement]) -> None:
    result = hold(small_chat("en", english[:5], 120, seed=1), 8_192, recogniser=False)
    assert len(result.kept) == 5
    assert all(each.by_own_words for each in result.kept)
    assert len(result.compactions) + result.not_made >= 3
    assert result.user_messages > 120


def test_a_model_names_what_it_is_offered_by_its_id(english: list[Statement]) -> None:
    model = Naming([statement.text for statement in english], seed=1)
    chat = crowded_chat("en", english[:5], 4_000, seed=1)
    result = hold(chat, 8_192, engine="fork", client=model)
    assert 0 < model.named <= model.offered
    assert result.says_left_out


def test_the_ids_in_an_instruction_are_read_with_their_lines() -> None:
    asked = "Summarise.\n\n[1a2b3c4d] Never push.\n[5e6f7a8b.2] Use tabs. … Thanks.\n\nName them."
    request = {"messages": [{"role": "user", "content": asked}]}
    assert offered(request) == [("1a2b3c4d", "Never push."), ("5e6f7a8b.2", "Use tabs. … Thanks.")]


def test_a_statement_that_went_through_no_compaction_is_no_merit(english: list[Statement]) -> None:
    lost = kept(english[0], in_request=False)
    untouched = kept(english[1], in_request=True, compactions=0)
    (first, *_) = user_words.fitting_bars([held(lost, untouched)])
    assert first[1].startswith("0/1 ")
    assert not first[3]


def test_what_is_left_out_must_be_said_and_found(english: list[Statement]) -> None:
    lost = kept(english[0], in_request=False, by_question=False)
    bars = user_words.crowded_bars("a sort", [held(lost, says_left_out=False)], 0.95)
    assert [met for *_, met in bars] == [False, False, False, True, True]


def test_a_compaction_that_leaves_too_much_misses_its_bar() -> None:
    tally = growth.Tally(made=[("a chat", Growth(100, 81)), ("another", Growth(100, 80))])
    ((_, figure, _, met),) = growth.bars(tally)
    assert not met
    assert figure.startswith("1 of 2")


def test_hostile_pages_take_nothing_out_of_the_block() -> None:
    course = eviction.attack("fork", exceeds=True, compactions=1)
    assert course.made == course.unchanged == 1
    assert not course.evicted
    assert course.lines > 20
    ((*_, met),) = eviction.bars([course], 1)
    assert met


def test_an_evicted_line_misses_the_bar_and_only_a_rule_does_if_the_user_spoke() -> None:
    silent = eviction.Course("fork", "a case", made=1, evicted=["[1a2b3c4d] Hello."], lines=9)
    spoke = eviction.Course("fork", "a case", made=1, evicted=["[1a2b3c4d] Hello."], lines=9, speaks=True)
    ruled = eviction.Course("fork", "a case", made=1, rules=1, lines=9, speaks=True)
    assert [met for *_, met in eviction.bars([silent, spoke, ruled], 1)] == [False, True, False]
