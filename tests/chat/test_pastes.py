"""A large paste does not fill the input line, and is sent whole."""

from __future__ import annotations

import pytest

from sevenfold.cli.chat.keyboard import MOST_CHARACTERS, MOST_LINES, Pastes, picture_mention


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


@pytest.mark.spec("S13.5")
@pytest.mark.parametrize("pasted", ["{}", "'{}'", "file://{}", "{} "])
def test_the_pasted_path_of_a_picture_becomes_a_mention(tmp_path, pasted):
    picture = tmp_path / "a view.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n")
    path = str(picture).replace(" ", "%20") if pasted.startswith("file") else str(picture)
    assert picture_mention(pasted.format(path)) == f'@"{picture}" '
    assert picture_mention(str(picture).replace(" ", "\\ ")) == f'@"{picture}" '


def test_no_other_paste_becomes_a_mention(tmp_path):
    (tmp_path / "a.txt").write_text("words")
    for pasted in (
        str(tmp_path / "a.txt"),
        str(tmp_path / "none.png"),
        "one.png\ntwo.png",
        "it's",
        "x" * 9_000,
    ):
        assert picture_mention(pasted) == ""
