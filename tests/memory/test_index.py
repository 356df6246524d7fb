"""MEMORY.md: how statements are shortened, and what is said about those that are not listed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.memory.entry import MemoryEntry, new_entry, quoted
from sevenfold.memory.generation import Provenance
from sevenfold.memory.index import DATES_KEY, GONE_KEY, LINE_CHARS, SHORT_KEY, render_index
from sevenfold.memory.memory import KnownEntry

TODAY = "2025-03-07"


def known(entry: MemoryEntry) -> KnownEntry:
    return KnownEntry(entry, Provenance("", "user", created=1_741_262_400.0))


def stated(statement: str, name: str = "fact", **head: str) -> KnownEntry:
    """An entry with a statement of the user's, and what a dream added to its head."""
    entry = new_entry(name, "project", statement, quoted([statement]))
    page = entry.page
    for key, value in head.items():
        page = page.with_value(key, value)
    return known(MemoryEntry(entry.file, page))


def lines(*entries: KnownEntry) -> list[str]:
    return [line for line in render_index(entries, TODAY).splitlines() if line.startswith("- ")]


@pytest.mark.spec("S5.18")
@pytest.mark.parametrize("excess", [0, 1, 2, 3])
def test_a_statement_that_is_a_little_too_long_is_shown_in_its_short_form(excess: int) -> None:
    about = " (2025-03-06)"
    start, end = "The report is written", "by the team in Rome"
    filler = "s" * (LINE_CHARS - len("- ") - len(about) - len(f"{start}  {end}") + excess)
    short = f"{start} … {end}"
    [line] = lines(stated(f"{start} {filler} {end}", **{SHORT_KEY: short}))
    assert line == f"- {short if excess else f'{start} {filler} {end}'}{about}"


@pytest.mark.spec("S5.18")
@given(
    statement=st.lists(st.text("abcé", min_size=1, max_size=20), min_size=1, max_size=40).map(" ".join),
    phrases=st.lists(st.integers(1, 40), max_size=6),
    gone=st.lists(st.text("xyz/", min_size=1, max_size=90), max_size=4),
)
def test_no_line_exceeds_its_width(statement: str, phrases: list[int], gone: list[str]) -> None:
    dates = ", ".join(f"{statement[:length].strip()} is 2025-03-14" for length in phrases)
    text = f"{statement} {' '.join(gone)}"
    entry = stated(text, **{DATES_KEY: dates, GONE_KEY: ", ".join(gone), "valid_until": "2025-04-01"})
    for line in lines(entry):
        assert len(line) <= LINE_CHARS
        assert "until 2025-04-01" in line


@pytest.mark.spec("S5.18")
def test_an_annotation_that_fits_is_shown() -> None:
    [line] = lines(
        stated("Deploy next Friday with run.sh", dates="next Friday is 2025-03-14", gone="run.sh")
    )
    assert line == "- Deploy next Friday with run.sh (2025-03-06, next Friday is 2025-03-14, gone: run.sh)"


@pytest.mark.spec("S5.1")
@pytest.mark.parametrize(("left_out", "notice"), [(1, "1 more entry is"), (2, "2 more entries are")])
def test_the_index_counts_what_it_leaves_out(left_out: int, notice: str) -> None:
    entries = [stated(f"Fact number {number}", name=f"fact-{number}") for number in range(194 + left_out)]
    assert f"\n{notice} not listed: the index is full" in render_index(entries, TODAY)


@pytest.mark.spec("S5.1")
@pytest.mark.parametrize(
    ("statement", "is_rule"),
    [
        ("Die Messe ist im Mai in Rom", False),
        ("Non usare mai i tab", True),
        ("Niemals am Freitag ausliefern", True),
        ("Jamais de tabulations", True),
        ("Use tabs from now on", True),
    ],
)
def test_rules_are_listed_before_facts_in_any_language(statement: str, is_rule: bool) -> None:
    fact = stated("The office is in Rome", name="a-fact")
    first = lines(fact, stated(statement, name="b-entry"))[0]
    assert (statement in first) == is_rule
