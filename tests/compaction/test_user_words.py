"""Which of the user's words a summary shows: everything while it fits, and an order beyond that."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sevenfold.layers.compact.recogniser import by_word_lists, nothing
from sevenfold.layers.compact.statements import statements
from sevenfold.layers.compact.user_words import (
    UserMessage,
    line,
    listing,
    select,
)
from sevenfold.record.decisions import Lasting


def count(text: str) -> int:
    """A token for every four characters, as a stand-in for an estimator."""
    return len(text) // 4 + 1


def message(number: int, text: str, **fields: object) -> UserMessage:
    return UserMessage(f"record-{number}", text, f"r{number}", **fields)  # type: ignore[arg-type]


texts = st.text(
    st.sampled_from("abcdefg .?!\n-:0123456789 äé国家。規則「」"), min_size=1, max_size=400
).filter(str.strip)
marks = st.lists(st.builds(Lasting, st.just(0), st.integers(1, 30), number=st.integers(1, 9)), max_size=2)


@st.composite
def conversations(draw: st.DrawFn) -> list[UserMessage]:
    said = draw(st.lists(texts, max_size=25))
    return [
        message(
            number,
            text,
            kind=draw(st.sampled_from(["message", "answer"])),
            lasting=tuple(mark for mark in draw(marks) if mark.end <= len(text)),
            named=tuple(mark for mark in draw(marks) if mark.end <= len(text)),
        )
        for number, text in enumerate(said)
    ]


recognisers = st.sampled_from([by_word_lists, nothing, lambda statement: "a" in statement])


@pytest.mark.spec("S16.1")
@given(conversations(), st.integers(0, 2_000), recognisers)
def test_nothing_is_chosen_twice_or_lost_and_the_order_and_the_budget_hold(messages, budget, recognise):  # type: ignore[no-untyped-def]
    chosen = select(messages, budget, count, recognise)

    shown = [kept.message.record for kept in chosen.kept]
    gone = [message.record for message, _ in chosen.left_out]
    order = [message.record for message in messages]
    assert sorted([*shown, *gone]) == sorted(order)
    assert shown == sorted(shown, key=order.index)
    assert gone == sorted(gone, key=order.index)
    assert sum(count(line(kept.message, kept.text)) + 1 for kept in chosen.kept) <= budget
    assert sum(chosen.counts.values()) == len(gone)


@pytest.mark.spec("S16.1")
@given(conversations(), recognisers)
def test_everything_that_fits_is_kept_to_the_letter_whatever_it_says(messages, recognise):  # type: ignore[no-untyped-def]
    budget = sum(count(line(message, message.text)) + 1 for message in messages)

    chosen = select(messages, budget, count, recognise)

    assert [kept.text for kept in chosen.kept] == [message.text for message in messages]
    assert not chosen.left_out
    assert listing(messages, budget, count, 1_000) == ""


@pytest.mark.spec("S16.1")
@given(conversations(), st.integers(0, 2_000))
def test_what_is_shown_of_a_message_is_in_it(messages, budget):  # type: ignore[no-untyped-def]
    for kept in select(messages, budget, count, nothing).kept:
        parts = [part for piece in kept.text.split("[… ") for part in [piece.rpartition("…] ")[2]]]
        assert all(part.strip() in kept.message.text for part in parts)


@pytest.mark.spec("S16.1")
@given(texts)
def test_statements_hold_all_of_a_text(text):  # type: ignore[no-untyped-def]
    spans = [statement.span for statement in statements(text)]

    assert spans == sorted(spans)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    assert "".join("".join(text[start:end].split()) for start, end in spans) == "".join(text.split())


@pytest.mark.spec("S16.34")
@given(conversations(), st.integers(0, 2_000), recognisers)
def test_what_was_shown_stays_to_the_byte_while_the_user_says_nothing_new(messages, budget, recognise):
    first = select(messages, budget, count, recognise)
    everything = tuple(Lasting(0, 1, number=number) for number in range(3))
    again = [
        replace(kept.message, shown=kept.spans, named=everything if place % 2 else ())
        for place, kept in enumerate(first.kept)
    ]

    def sceptic(text: str) -> int:
        return 3 * count(text)

    second = select(again, budget, sceptic, by_word_lists)

    assert [kept.text for kept in second.kept] == [kept.text for kept in first.kept]
    assert not second.left_out
