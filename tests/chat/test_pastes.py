"""A large paste does not fill the input line, and is sent whole."""

from __future__ import annotations

import pytest

from sevenfold.cli.chat.keyboard import MOST_CHARACTERS, MOST_LINES, Pastes


def test_a_small_paste_is_put_in_as_it_is():
    assert Pastes().fold("two\r\nlines") == "two\nlines"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("line\n" * 1_200, "[paste 1: 1,200 lines]"),
        ("x" * 1_000_000, "[paste 1: 1,000,000 characters]"),
        ("line\n" * (MOST_LINES + 1), f"[paste 1: {MOST_LINES + 1} lines]"),
    ],
)
def test_of_a_large_one_a_few_words_are_shown_and_all_of_it_is_sent(text, shown):
    pastes = Pastes()
    assert pastes.fold(text) == shown
    assert pastes.expand(f"see {shown}, please") == f"see {text}, please"


def test_pastes_are_kept_apart_and_their_words_are_nothing_special_by_themselves():
    pastes = Pastes()
    one, two = "a" * (MOST_CHARACTERS + 1), "b" * (MOST_CHARACTERS + 1)
    shown = f"{pastes.fold(one)} {pastes.fold(two)}"
    assert pastes.expand(shown) == f"{one} {two}"
    assert pastes.expand("[paste 9: 5 lines]") == "[paste 9: 5 lines]"
