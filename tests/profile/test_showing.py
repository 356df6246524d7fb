"""Charts made of characters, and figures in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.archive.thinning import thinned
from sevenfold.cli import output as chart
from sevenfold.cli import text as wording
from sevenfold.cli.profile import span

sizes = st.lists(st.integers(0, 2_000_000), min_size=1, max_size=300)


@given(sizes, st.integers(1, 120), st.integers(1, 8))
def test_an_area_fills_its_room_and_shows_the_peak(values: list[int], width: int, height: int) -> None:
    rows = chart.area_chart(values, width, height)
    assert len(rows) == height
    assert {len(row) for row in rows} == {min(width, len(values))}
    assert ("█" in rows[0]) == (max(values) > 0)


@given(sizes, st.integers(1, 120))
def test_squeezing_keeps_the_largest_value_in_its_column(values: list[int], width: int) -> None:
    columns = thinned(values, width)
    assert max(columns) == max(values)
    if len(values) > width:
        place = chart.column_of(values.index(max(values)), len(values), width)
        assert max(columns[max(0, place - 1) : place + 2]) == max(values)


@given(st.floats(0, 1e9), st.floats(0, 1e9), st.integers(1, 60))
def test_a_bar_never_leaves_its_room_and_never_hides_something(
    part: float, whole: float, width: int
) -> None:
    bar = chart.bar(part, whole, width)
    assert len(bar) <= width
    assert bool(bar) == (part > 0)


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0"),
        (1_234, "1,234"),
        (999_949, "999,949"),
        (999_950, "1.00 M"),
        (123_456_789, "123.5 M"),
        (5e9, "5.00 G"),
    ],
)
def test_numbers_are_exact_while_they_are_short(number: float, shown: str) -> None:
    assert wording.count(number) == shown


@pytest.mark.parametrize(
    ("amount", "shown"), [(None, "unknown"), (0.0, "$0.00"), (0.0042, "$0.0042"), (1_234.5, "$1,234.50")]
)
def test_money_is_told_apart_from_nothing(amount: float | None, shown: str) -> None:
    assert wording.money(amount) == shown


def test_shares_never_round_something_to_nothing() -> None:
    assert wording.share(1, 100_000) == "<0.1%"
    assert wording.share(99_990, 100_000) == "100%"
    assert wording.share(0, 0) == "–"


@given(st.text(max_size=80), st.integers(2, 40))
def test_a_shortened_text_fits(words: str, room: int) -> None:
    assert len(wording.shorten(words, room)) <= room


def test_of_a_path_the_end_is_kept() -> None:
    assert wording.shorten("/a/long/way/to/file.py", 10) == "…o/file.py"
    assert wording.shorten("a long command line", 10) == "a long co…"


def test_a_span_without_times_is_not_shown() -> None:
    assert span(None, None) == ""
    assert span("yesterday", "2026-01-01T10:00:00Z") == ""
    assert span("2026-01-01T10:00:00Z", "2026-01-02T11:30:00Z") == "2026-01-01 10:00, 1 d 1 h"
