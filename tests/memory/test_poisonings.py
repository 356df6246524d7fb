"""A small form of `bench/poisonings.py`: the grid of ways in and disguises (S19.8)."""

from __future__ import annotations

import pytest

from bench.poisonings import DISGUISES, WAYS, attempt, control

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
