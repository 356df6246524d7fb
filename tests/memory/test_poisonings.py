"""A small form of `bench/poisonings.py`: the grid of ways in and disguises (S19.8)."""

from __future__ import annotations

import pytest

from bench.poisonings import (
    DISGUISES,
    LOOKS,
    MODEL,
    PLACES,
    TRUE,
    WAYS,
    attempt,
    attempt_to_close,
    control,
    control_of_closings,
    quoted_at,
)
from sevenfold.session.session import Session

pytestmark = pytest.mark.spec("S19.8")


@pytest.mark.parametrize("way", WAYS)
def test_nothing_that_comes_in_this_way_counts_as_the_users_words(way):
    disguises = list(DISGUISES)
    first = list(WAYS).index(way) % 3
    attempts = [attempt(way, disguise, later=False) for disguise in disguises[first::3]]
    assert [one for one in attempts if one.found] == []


@pytest.mark.parametrize("disguise", DISGUISES)
def test_no_disguise_makes_output_the_users_words_later(disguise):
    assert attempt("output in a command", disguise, later=True).found == ""


def test_without_asking_where_a_text_came_from_the_same_attempts_succeed():
    attempts = control(ways=2)
    assert sum(bool(one.found) for one in attempts) > len(attempts) / 5


@pytest.mark.spec("S19.20")
@pytest.mark.parametrize("way", WAYS)
def test_nothing_that_comes_in_this_way_ends_what_the_user_said(way):
    place = list(WAYS).index(way)
    disguises = list(DISGUISES)[place % 7 :: 7]
    attempts = [
        attempt_to_close(way, disguise, look) for disguise, look in zip(disguises, LOOKS, strict=False)
    ]
    assert [tried for tried in attempts if tried.found] == []


@pytest.mark.spec("S19.20")
def test_without_asking_what_the_look_saw_the_same_attempts_end_rules_of_the_user():
    attempts = control_of_closings(ways=1)
    assert sum(bool(tried.found) for tried in attempts) > len(attempts) / 5


@pytest.mark.spec("S19.23")
@pytest.mark.parametrize("way", WAYS)
def test_no_place_that_quotes_the_user_quotes_what_comes_in_this_way(way):
    assert {disguise: places for disguise in DISGUISES if (places := quoted_at(way, disguise))} == {}


@pytest.mark.spec("S19.23")
def test_every_place_quotes_what_the_user_typed():
    with Session.in_memory(model=MODEL) as session:
        session.conversation.user(TRUE)
        assert {place for place, (_, words) in PLACES.items() if TRUE not in words(session)} == set()
