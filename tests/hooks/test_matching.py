"""Which hooks a matcher means."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sevenfold.agent.hooks.settings import Matcher
from sevenfold.errors import SettingError

NAMES = st.text("abcXYZ019_-", min_size=1, max_size=8)


@pytest.mark.spec("S8.1")
@pytest.mark.parametrize(
    ("text", "value", "fits"),
    [
        ("", "Bash", True),
        ("  ", "Bash", True),
        ("*", "anything at all", True),
        ("Bash", "Bash", True),
        ("Bash", "BashOutput", False),
        ("bash", "Bash", False),
        ("Edit|Write", "Write", True),
        ("Edit|Write", "MultiEdit", False),
        ("Edit, Write", "Write", True),
        ("Edit | Write |", "Edit", True),
        ("manual", "auto", False),
        ("mcp__memory__.*", "mcp__memory__create", True),
        ("mcp__memory", "mcp__memory__create", False),
        ("mcp__.*__write.*", "mcp__files__write_all", True),
        ("Notebook.*", "MyNotebookEdit", True),
        ("^Notebook", "MyNotebookEdit", False),
        ("^(Edit|Write)$", "MultiEdit", False),
        ("mcp__git-hub__list", "mcp__git-hub__list", True),
    ],
)
def test_a_matcher_means_all_a_list_of_names_or_a_regular_expression(text, value, fits):
    assert Matcher.parse(text, "here").matches(value) is fits


def test_an_event_with_nothing_to_match_means_all_of_its_hooks():
    assert Matcher.parse("Bash", "here").matches(None)


@pytest.mark.spec("S8.1")
@given(st.lists(NAMES, min_size=1, max_size=5), NAMES, st.sampled_from(["|", ",", " | ", ", ", "||"]))
def test_a_list_means_exactly_its_names(names, other, between):
    which = Matcher.parse(between.join(names), "here")
    assert all(which.matches(name) for name in names)
    assert which.matches(other) == (other in names)


@given(st.from_regex(r"\A[ab.*+?^$()|]{1,8}\Z"), st.text("ab", max_size=6))
def test_anything_else_is_searched_for_like_a_regular_expression_or_refused(text, value):
    assume(re.search(r"[^ab |]", text) and text.strip() != "*")
    try:
        found = bool(re.search(text, value))
    except re.error:
        with pytest.raises(SettingError, match="here"):
            Matcher.parse(text, "here")
    else:
        assert Matcher.parse(text, "here").matches(value) is found


@pytest.mark.parametrize("text", ["mcp__(", "[", "(?<name>x)", "a{99999999999999999999}", "|", " , "])
def test_a_matcher_that_can_never_be_right_is_an_error_with_its_place(text):
    with pytest.raises(SettingError, match=r"mine\.json: hooks\.PreToolUse"):
        Matcher.parse(text, "mine.json: hooks.PreToolUse[0]")
