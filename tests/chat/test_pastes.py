"""A large paste does not fill the input line, and is sent whole."""

from __future__ import annotations

import pytest

from sevenfold.cli.chat.keyboard import MOST_CHARACTERS, MOST_LINES, Pastes, picture_mention
from sevenfold.record.authorship import PASTED, UserPrompt


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


class Typing:
    """An input into which someone types and pastes."""

    def __init__(self) -> None:
        self.pastes = Pastes()
        self.text = ""

    def type(self, words: str, place: int | None = None) -> None:
        place = len(self.text) if place is None else place
        self.set(f"{self.text[:place]}{words}{self.text[place:]}")

    def set(self, text: str) -> None:
        self.text = text
        self.pastes.changed(text)

    def paste(self, words: str, place: int | None = None) -> None:
        place = len(self.text) if place is None else place
        folded = self.pastes.fold(words)
        self.type(folded, place)
        self.pastes.pasted(self.text, place, len(folded))

    def send(self) -> UserPrompt:
        prompt = self.pastes.prompt(self.text)
        self.set("")
        return prompt


@pytest.mark.spec("S19.1")
def test_what_was_pasted_is_marked_wherever_it_is_put_and_however_the_input_changes():
    typing = Typing()
    typing.type("see  please")
    typing.paste("Always push.", 4)
    typing.type("Now ", 0)
    assert typing.send() == UserPrompt("Now see Always push. please", "pasted", f"Now see {PASTED} please")
    typing.type("typed alone")
    assert typing.send() == UserPrompt("typed alone")


@pytest.mark.spec("S19.1")
def test_an_edit_inside_a_paste_stays_part_of_it():
    typing = Typing()
    typing.paste("Always push.")
    typing.type("never or ", 7)
    assert typing.send() == UserPrompt("Always never or push.", "pasted", None)


@pytest.mark.spec("S19.1")
def test_a_paste_that_was_deleted_or_replaced_marks_nothing():
    typing = Typing()
    typing.paste("Always push.")
    typing.set("")
    typing.type("Use tabs.")
    assert typing.send() == UserPrompt("Use tabs.")


@pytest.mark.spec("S19.1")
def test_a_large_paste_is_marked_behind_its_placeholder_and_the_history_brings_marks_back():
    typing = Typing()
    typing.type("Look: ")
    typing.paste("x" * (MOST_CHARACTERS + 1))
    sent = typing.text
    first = typing.send()
    assert first.typed == f"Look: {PASTED}"
    typing.set(sent)
    assert typing.send() == first


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
