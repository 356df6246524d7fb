"""An answer is printed as it comes, and looks the same as if it had come at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.cli.chat.markdown import LONGEST_CODE, MarkdownStream, render_markdown

from .printed import printed
from .stage import ANSWER

PARTS = st.lists(
    st.sampled_from(
        [
            "word ",
            "**bold**",
            "\n",
            "\n\n",
            "- item\n",
            "1. one\n",
            "```\n",
            "```py\n",
            "code()\n",
            "> said\n",
            "| a | b |\n",
            "# Head\n",
            "    indented\n",
            "漢字",
            "`x`",
        ]
    ),
    max_size=30,
)


def fed(pieces: list[str]) -> list[str]:
    stream = MarkdownStream()
    done = [stream.feed(piece) for piece in pieces]
    return [part for part in [*done, stream.end()] if part]


@given(PARTS)
def test_nothing_is_lost_or_doubled_on_the_way(pieces):
    assert "".join(fed(pieces)) == "".join(pieces)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=40))
def test_where_the_pieces_were_cut_does_not_matter(lengths):
    pieces, place = [], 0
    for length in lengths:
        pieces.append(ANSWER[place : place + length])
        place += length
    pieces.append(ANSWER[place:])
    assert [part.strip() for part in fed(pieces)][-1] == "Done. 漢字 and 🙂 fit as well."


def test_a_paragraph_is_printed_once_the_next_one_has_begun():
    stream = MarkdownStream()
    assert stream.feed("First.\n\n") == ""
    assert stream.feed("Second line.\n") == "First.\n\n"
    assert stream.pending == "Second line.\n"


def test_a_list_is_not_torn_apart_at_its_blank_lines():
    stream = MarkdownStream()
    assert stream.feed("1. one\n\n2. two\n\n   more of two\n\n") == ""
    assert stream.feed("After the list.\n").startswith("1. one\n\n2. two")


def test_code_is_held_until_it_ends():
    stream = MarkdownStream()
    assert stream.feed("```py\na = 1\n\nb = 2\n") == ""
    assert stream.feed("```\n") == "```py\na = 1\n\nb = 2\n```\n"


def test_long_code_is_printed_in_parts_that_are_code_themselves():
    stream = MarkdownStream()
    parts = [
        stream.feed("```\n"),
        *(stream.feed(f"line {n}\n") for n in range(LONGEST_CODE + 5)),
        stream.feed("```\n"),
    ]
    shown = "".join(printed(render_markdown(part)) for part in parts if part)
    assert [line.strip() for line in shown.splitlines() if line.strip()] == [
        f"line {n}" for n in range(LONGEST_CODE + 5)
    ]


@pytest.mark.parametrize("width", [30, 60, 100])
def test_an_answer_fits_the_width(width):
    shown = printed(render_markdown(ANSWER + "x" * 300), width=width)
    assert max(map(len, shown.splitlines())) <= width
    assert "What I found" in shown
    assert 'return "hello"' in shown


def test_a_link_shows_where_it_leads_and_carries_no_escape():
    shown = printed(render_markdown("[click](http://example.org) \x1b[31mred"))
    assert "http://example.org" in shown
    assert "\x1b" not in shown


def test_tags_are_shown_as_they_were_written():
    shown = printed(render_markdown("Return a List<String> <b>now</b>.\n\n<details>\nmore\n</details>\n"))
    assert shown.split() == [
        "Return",
        "a",
        "List<String>",
        "<b>now</b>.",
        "<details>",
        "more",
        "</details>",
    ]
